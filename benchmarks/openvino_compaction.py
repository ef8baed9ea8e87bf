"""What removing stale rows costs against carrying them: python benchmarks/openvino_compaction.py FOLDER

Processor time of one thread, so that a busy machine matters little; FOLDER is an OpenVINO model with 4,096 tokens of
context. Gives the constant that decides when stale rows are removed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common import RECORDS, cell, median, summary, write_record

from surefoot.targets.openvino import Options, build

DEPTHS = (200, 850, 4000)


def spent(action: Callable[[], Any], repeats: int) -> list[float]:
    """Processor seconds of each call."""
    samples = []
    for _ in range(repeats):
        start = time.process_time()
        action()
        samples.append(time.process_time() - start)
    return samples


def main(folder: Path) -> None:
    target = build(Options(threads=1, ctx_size=4096), folder)
    rng = np.random.default_rng(0)
    rows: list[dict[str, Any]] = []
    for depth in DEPTHS:
        session = target.open()
        session.prefill(rng.integers(0, target.caps.vocab_size, depth).astype(np.int32))
        runner = session._runner
        row: dict[str, Any] = {"depth": depth}
        for n in (1, 8):
            block = rng.integers(0, target.caps.vocab_size, n).astype(np.int32)
            mask, place = np.ones((1, depth + n), np.int64), np.arange(depth, depth + n)
            samples = []
            for _ in range(7):
                samples += spent(partial(runner.forward, block, place, mask, n), 1)
                runner.keep_slots(np.arange(depth))
            row[f"forward_{n}"] = summary(samples)
        row["removal"] = summary(spent(partial(runner.keep_slots, np.arange(depth)), 7))
        rows.append(row)
        print(depth, *(cell(row[k], 1e-3) for k in ("forward_1", "forward_8", "removal")), "ms: 1 row, 8 rows, removal")
    first, last = rows[0], rows[-1]
    span = last["depth"] - first["depth"]
    per_slot = median([row["removal"]["median_s"] / row["depth"] for row in rows])
    for n in (1, 8):
        carry = (last[f"forward_{n}"]["median_s"] - first[f"forward_{n}"]["median_s"]) / span / n
        print(f"{n} rows: {carry * 1e6:.2f} us a cached row and scored row; removal {per_slot / carry:.0f} times that")
    write_record(RECORDS / "openvino_compaction.json", "removal of stale rows", rows, ("openvino", "numpy"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
