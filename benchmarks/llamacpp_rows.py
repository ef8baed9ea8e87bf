"""What makes rows of a block differ from single rows on llama.cpp, and what each setting costs.

    python benchmarks/llamacpp_rows.py [FILE.gguf...] [--arms NAME...] [--rows 17] [--texts 6] [--no-times]

Each file is tried under every arm: its rows as the gate `rows` compares them, and the seconds of a block by its rows.
Formats that are not at hand are made with tests/runtime/requantised.py.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from common import RECORDS, median, shipped_gguf, summary, timed, write_record

from surefoot.core.errors import SurefootError
from surefoot.core.types import as_ids
from surefoot.engine.config import load_config
from surefoot.engine.generator import Model, load
from surefoot.lab.gates import rows as gate

_F32 = {"cache_type_k": "f32", "cache_type_v": "f32"}
_F16 = {"cache_type_k": "f16", "cache_type_v": "f16"}
_Q8 = {"cache_type_k": "q8_0", "cache_type_v": "q8_0"}
ARMS: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    "flash, f16 cache": {"flash_attn": "on", **_F16},
    "flash, f16 cache, one thread": {"flash_attn": "on", "threads": 1, **_F16},
    "flash, q8_0 cache": {"flash_attn": "on", **_Q8},
    "no flash, f16 cache": {"flash_attn": "off", **_F16},
    "no flash, f32 cache": {"flash_attn": "off", **_F32},
    "two rows at least": {"min_rows": 2},
    "48 rows, rearranged": {"max_rows": 48, "repack": "on"},
    "48 rows, as stored": {"max_rows": 48, "repack": "off"},
}
"""The defaults, then each setting that could decide the class or the price alone. llama.cpp's own defaults are those of
"flash, f16 cache"."""
REPEATS = 15
"""chosen: enough for an interval of the median."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, help="GGUF files; else SmolLM2 as it is shipped")
    parser.add_argument("--arms", nargs="+", choices=list(ARMS), default=list(ARMS))
    parser.add_argument("--rows", type=int, default=17, help="rows of the widest block")
    parser.add_argument("--texts", type=int, default=6)
    parser.add_argument(
        "--depths", type=int, nargs="+", default=[200, 850], help="cached tokens where blocks are timed"
    )
    parser.add_argument("--binding", default="auto")
    parser.add_argument("--no-times", action="store_true")
    parser.add_argument("--out", type=Path, default=RECORDS / "llamacpp_rows.json")
    asked = parser.parse_args()
    found = []
    for file in asked.files or shipped_gguf().weights:
        for arm in asked.arms:
            try:
                found.append(try_arm(file, arm, asked))
            except SurefootError as error:
                found.append({"file": file.name, "arm": arm, "refused": str(error)})
            print({key: value for key, value in found[-1].items() if key not in ("by_rows", "seconds", "settings")})
    packages = ("xllamacpp", "llama-cpp-python", "llama-cpp-py-sync", "numpy")
    write_record(asked.out, "rows of a block against single rows on llama.cpp", found, packages)


def try_arm(file: Path, arm: str, asked: argparse.Namespace) -> dict[str, Any]:
    """One file under one arm."""
    runtime = {"name": "llamacpp", "binding": asked.binding, "ctx_size": 2048, **ARMS[arm]}
    model = load(str(file), load_config(overrides={"runtime": runtime}), cache_dir=Path("never used"))
    most = min(asked.rows, model.target.caps.max_rows)
    rows = gate.gather(model, False, lambda done, of: None, n_inputs=asked.texts, most=most)
    counts = np.unique(rows.counts).tolist()
    at = {count: rows.counts == count for count in counts}
    return {
        "file": file.name,
        "arm": arm,
        "row_class": gate.class_of(rows),
        "rows": len(rows.moved),
        "moved": int(rows.moved.sum()),
        "beyond_near_tie": rows.beyond,
        "delta_p99": rows.p99,
        "delta_max": float(rows.deltas.max()),
        "smallest_gap": float(rows.gaps.min()),
        # A row whose top logit and norm are those of the single row is the same row, bit for bit, or so good as.
        "same_bits": {
            count: float(np.mean((rows.deltas[at[count]] == 0) & (rows.norms[at[count]] == 0))) for count in counts
        },
        "by_rows": {
            count: {"moved": int(rows.moved[at[count]].sum()), "delta_max": float(rows.deltas[at[count]].max())}
            for count in counts
        },
        "seconds": {} if asked.no_times else {depth: seconds(model, depth, most) for depth in asked.depths},
        "settings": dict(model.target.caps.settings),
    }


def seconds(model: Model, depth: int, most: int) -> dict[int, dict[str, Any]]:
    """Seconds of a block and its commit behind `depth` tokens, by its rows, in an order drawn anew each time."""
    line = "Write down everything that you know about stairs, one fact a line."
    text = np.resize(model.encode(line, raw=True), depth + most)
    session = model.target.open()
    session.prefill(as_ids(text[:depth]))
    samples: dict[int, list[float]] = {count: [] for count in range(1, most + 1)}

    def block(count: int) -> None:
        session.extend(as_ids(text[depth : depth + count])).argmax()
        session.commit(0)

    order = list(samples)
    for repeat in range(REPEATS + 2):
        random.Random(repeat).shuffle(order)
        for count in order:
            taken, _ = timed(lambda count=count: block(count))
            if repeat > 1:  # the first two warm up
                samples[count].append(taken)
    session.close()
    base = median(samples[1])
    print(
        {count: round(median(taken) / base, 2) for count, taken in samples.items()},
        f"behind {depth}: {base * 1e3:.2f} ms",
    )
    return {count: summary(taken) for count, taken in samples.items()}


if __name__ == "__main__":
    main()
