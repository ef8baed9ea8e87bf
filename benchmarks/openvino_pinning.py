"""What OpenVINO's pinning of threads to cores costs: python benchmarks/openvino_pinning.py FOLDER

Forwards of one row, pinned and not, in turn, with one thread and with all cores; first on the machine as it is, then
beside one process for each core that counts at the lowest priority (nice 19).
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from common import RECORDS, cell, median, summary, write_record

from surefoot.targets.openvino import Options
from surefoot.targets.openvino.core import compiling
from surefoot.targets.openvino.layout import prepare, read_layout
from surefoot.targets.openvino.load import runtime_settings
from surefoot.targets.openvino.names import MODEL_FILE
from surefoot.targets.openvino.runner import Runner

DEPTH, FORWARDS, TURNS = 100, 8, 10
BUSY = [sys.executable, "-c", "import os\nos.nice(19)\nwhile True: pass"]


def runner(folder: Path, threads: int, pinned: bool) -> Any:
    core = compiling(mmap=True)
    graph = core.read_model(folder / MODEL_FILE)
    layout = read_layout(graph, folder, False)
    settings = runtime_settings(Options(threads=threads)) | {"ENABLE_CPU_PINNING": pinned}
    made = Runner(core.compile_model(prepare(graph, layout, ()), "CPU", settings), layout, ())
    made.forward(np.arange(DEPTH), np.arange(DEPTH), np.ones((1, DEPTH), np.int64), 1)
    return made


def turn(made: Any, past: int) -> list[float]:
    """Seconds of each forward of one row."""
    samples = []
    for at in range(past, past + FORWARDS):
        start = time.perf_counter()
        made.forward(np.array([5]), np.array([at]), np.ones((1, at + 1), np.int64), 1)
        samples.append(time.perf_counter() - start)
    return samples


def compare(folder: Path, threads: int, beside: bool, cores: set[int]) -> dict[str, Any]:
    samples: dict[bool, list[float]] = {True: [], False: []}
    made = {pinned: runner(folder, threads, pinned) for pinned in samples}
    others = [subprocess.Popen(BUSY) for _ in cores] if beside else []
    try:
        for number in range(TURNS):
            for pinned in sorted(samples, reverse=bool(number % 2)):
                os.sched_setaffinity(0, cores)  # pinning ties the calling thread to a core and leaves it there
                samples[pinned] += turn(made[pinned], DEPTH + number * FORWARDS)
    finally:
        for process in others:
            process.kill()
            process.wait()
    row = {"threads": threads, "beside_busy_processes": beside} | {
        name: summary(samples[pinned]) for name, pinned in (("pinned", True), ("free", False))
    }
    print(
        f"{threads} threads, {'busy' if beside else 'quiet'}: pinned {cell(row['pinned'], 1e-3)} ms, "
        f"free {cell(row['free'], 1e-3)} ms, ratio {median(samples[True]) / median(samples[False]):.2f}"
    )
    return row


def main(folder: Path) -> None:
    cores = os.sched_getaffinity(0)
    rows = [compare(folder, n, beside, cores) for beside in (False, True) for n in (1, len(cores))]
    write_record(RECORDS / "openvino_pinning.json", "seconds of a forward of one row", rows, ("openvino", "numpy"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
