"""Memory of its own that an export takes: python benchmarks/openvino_export_memory.py MODEL OUT fp16|int8|int4

Linux only. Mapped file pages, which the system takes back when it needs them, are counted apart.
"""

from __future__ import annotations

import sys
from pathlib import Path

from surefoot.targets.openvino.export import export


def status(key: str) -> int:
    """Bytes of a line of /proc/self/status."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(key)).split()[1])


def main(model: Path, out: Path, weights: str) -> None:
    peak = 0

    def progress(done: int, total: int) -> None:
        nonlocal peak
        peak = max(peak, status("RssAnon:"))

    import openvino  # noqa: F401  # so that the runtime's own memory is not counted as the export's

    before = status("RssAnon:")
    report = export(model, out, weights, progress=progress)  # type: ignore[arg-type]
    print(f"{weights}: {report.model_bytes / 1e6:.0f} MB written in {report.seconds:.1f} s")
    print(f"own memory: {before / 1e6:.0f} MB before, {peak / 1e6:.0f} MB at most between two tensors")
    print(f"peak resident, mapped pages included: {(report.peak_bytes or 0) / 1e6:.0f} MB")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
