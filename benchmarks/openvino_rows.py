"""Which rows of a block differ from single rows: python benchmarks/openvino_rows.py [FOLDER...] [--cache f16]

The committed text is the model's own after a prompt; each position is scored alone and inside a block of S rows.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from common import RECORDS, write_record

import surefoot
from surefoot.targets.openvino import Options, build

ROWS = (2, 3, 4, 5, 6, 8, 12, 17)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path, help="models in OpenVINO's format; else SmolLM2 in fp16")
    parser.add_argument("--cache", nargs="+", default=["f16"])
    parser.add_argument("--positions", type=int, default=204)
    parser.add_argument("--ids", type=Path, help="a text file of ids; by default random ones start the text")
    asked = parser.parse_args()
    rows: list[dict[str, Any]] = []
    folders = asked.folders or [surefoot.load("smollm2-135m", runtime="openvino", weights="fp16").path]
    for folder in folders:
        for cache in asked.cache:
            rows.append(compare(folder, cache, asked.positions, asked.ids))
            print(rows[-1])
    write_record(RECORDS / "openvino_rows.json", "rows of a block against single rows", rows, ("openvino", "numpy"))


def compare(folder: Path, cache: str, positions: int, ids: Path | None) -> dict[str, Any]:
    target = build(Options(cache_precision=cache, ctx_size=2048), folder)
    start = np.random.default_rng(0).integers(3, target.caps.vocab_size, 16)
    prompt = (np.loadtxt(ids, dtype=np.int32) if ids else start).astype(np.int32)
    single = target.open()
    scores = single.prefill(prompt)
    text, singles = [int(scores.argmax()[0])], []
    for _ in range(positions):
        scores = single.extend(np.array(text[-1:], np.int32))
        singles.append(scores.logits(0).copy())
        single.commit(1)
        text.append(int(scores.argmax()[0]))
    differ, worst, gap = {}, 0.0, np.inf
    for s in ROWS:
        block = target.open()
        block.prefill(prompt)
        differ[s] = 0
        for at in range(0, positions - s + 1, s):
            scores = block.extend(np.array(text[at : at + s], np.int32))
            for row in range(s):
                found, due = scores.logits(row), singles[at + row]
                worst = max(worst, float(np.abs(found - due).max()))
                if found.argmax() != due.argmax():
                    differ[s] += 1
            # Half of each block is thrown away and scored again, so that stale rows lie in between.
            block.commit(s // 2)
            block.extend(np.array(text[at + s // 2 : at + s], np.int32))
            block.commit(s - s // 2)
    for due in singles:
        top = np.partition(due, -2)[-2:]
        gap = min(gap, float(top[1] - top[0]))
    return {
        "folder": folder.name,
        "cache": cache,
        "positions": positions,
        "argmax_differs": differ,
        "largest_delta": worst,
        "smallest_top_two_gap": gap,
        "settings": dict(target.caps.settings),
    }


if __name__ == "__main__":
    main()
