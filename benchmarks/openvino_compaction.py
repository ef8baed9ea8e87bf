"""What removing stale rows costs against carrying them: python benchmarks/openvino_compaction.py FOLDER

Processor time of one thread, so that a busy machine matters little; FOLDER is an OpenVINO model with 4,096 tokens of
context. Gives the constant that decides when stale rows are removed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from common import RECORDS, cell, median, summary, write_record

from surefoot.targets.openvino import Options, build

DEPTHS = (200, 850, 4000)


def spent(action: Callable[[], Any]) -> float:
    """Processor seconds of the call."""
    start = time.process_time()
    action()
    return time.process_time() - start


def measured(runner: Any, depth: int, block: npt.NDArray[np.int32]) -> dict[str, Any]:
    """Forwards of 1 and 8 rows behind `depth` cached ones, the removal, and the forward of 1 row right after it.

    That one is dearer: what was written back has no room behind it, so the runtime moves it to memory twice as large.
    """

    def forward(n: int, behind: int) -> None:
        runner.forward(block[:n], np.arange(behind, behind + n), np.ones((1, behind + n), np.int64), n)

    samples: dict[str, list[float]] = {"forward_1": [], "forward_8": [], "removal": [], "after_removal": []}
    for _ in range(7):
        for n in (1, 8):
            samples["removal"].append(spent(partial(runner.keep_slots, np.arange(depth))))
            samples["after_removal"].append(spent(partial(forward, 1, depth)))
            samples[f"forward_{n}"].append(spent(partial(forward, n, depth + 1)))
    return {name: summary(taken) for name, taken in samples.items()}


def removed(row: Mapping[str, Any]) -> float:
    """Seconds that a removal takes, with what it adds to the next forward."""
    removal, after, usual = (row[name]["median_s"] for name in ("removal", "after_removal", "forward_1"))
    return float(removal + after - usual)


def main(folder: Path) -> None:
    target = build(Options(threads=1, ctx_size=4096), folder)
    rng = np.random.default_rng(0)
    rows: list[dict[str, Any]] = []
    for depth in DEPTHS:
        session = target.open()
        session.prefill(rng.integers(0, target.caps.vocab_size, depth).astype(np.int32))
        row = measured(session._runner, depth, rng.integers(0, target.caps.vocab_size, 8).astype(np.int32))
        rows.append({"depth": depth, **row})
        print(depth, *(cell(row[k], 1e-3) for k in row), "ms:", ", ".join(row))
    first, last = rows[0], rows[-1]
    span = last["depth"] - first["depth"]
    per_slot = median([removed(row) / row["depth"] for row in rows])
    for n in (1, 8):
        carry = (last[f"forward_{n}"]["median_s"] - first[f"forward_{n}"]["median_s"]) / span / n
        print(f"{n} rows: {carry * 1e6:.2f} us a cached row and scored row; removal {per_slot / carry:.0f} times that")
    write_record(RECORDS / "openvino_compaction.json", "removal of stale rows", rows, ("openvino", "numpy"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
