"""Memory that an export to OpenVINO takes: python benchmarks/openvino_export_memory.py MODEL

Linux only. Every export runs in a process of its own, whose own memory (RssAnon) is looked at all the while; resident
memory (VmHWM) also counts mapped pages of source and result, which the system takes back when it needs them.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

from common import RECORDS, write_record

from surefoot.targets.openvino.export import export

PAUSE_S = 0.002
"""chosen: between two looks; a piece of a tensor takes tens of milliseconds."""


def status(key: str) -> int:
    """Bytes of a line of /proc/self/status."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(f"{key}:")).split()[1])


@contextmanager
def watched(peaks: list[int]) -> Iterator[None]:
    """Meanwhile the last of `peaks` becomes the most bytes of its own that this process has had since it was added."""
    over = Event()

    def watch() -> None:
        while not over.wait(PAUSE_S):
            peaks[-1] = max(peaks[-1], status("RssAnon"))

    thread = Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def measure(model: Path, weights: Any) -> dict[str, Any]:
    """What one export took.

    Units: bytes. own_peaks: the largest while each matrix was made, and last while the result was written.
    """
    import openvino  # noqa: F401  # so that the runtime's own memory is not counted as the export's

    before = status("RssAnon")
    peaks = [before]

    def progress(done: int, total: int) -> None:
        peaks.append(status("RssAnon"))

    with tempfile.TemporaryDirectory() as folder, watched(peaks):
        report = export(model, Path(folder) / "model", weights, progress=progress)
    return {
        "weights": weights,
        "parameters": report.parameters,
        "result_bytes": report.model_bytes,
        "own_before": before,
        "own_peak": max(peaks),
        "resident_peak": status("VmHWM"),
        "own_peaks": peaks,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="a GGUF file, or a folder of safetensors")
    parser.add_argument("--weights", nargs="+", default=["fp16", "int8", "int4"])
    parser.add_argument("--runs", type=int, default=3, help="exports in each format, in turn")
    parser.add_argument("--out", type=Path, default=RECORDS / "openvino_export_memory.json")
    asked = parser.parse_args()
    rows = []
    for weights in asked.weights * asked.runs:
        # A new process for each, so that none starts with the memory of another.
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
            rows.append(process.submit(measure, asked.model, weights).result())
        sizes = {key: round(rows[-1][key] / 1e6) for key in ("result_bytes", "own_before", "own_peak", "resident_peak")}
        print(f"{weights}, MB: {sizes}", flush=True)
    write_record(asked.out, "memory of an export to OpenVINO", rows, ("openvino", "numpy"), model=asked.model.name)


if __name__ == "__main__":
    main()
