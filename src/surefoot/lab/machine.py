"""What a figure was measured on: it belongs beside every figure."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Machine:
    """The processor, the system and the versions. `cores` are those that this process may use."""

    cpu: str
    cores: int
    os: str
    python: str
    numpy: str
    packages: dict[str, str | None]


def look(packages: Sequence[str] = ()) -> Machine:
    """This machine, and the versions of the named packages; None for one that is not installed."""
    return Machine(
        cpu=_cpu(),
        cores=_cores(),
        os=platform.platform(),
        python=platform.python_version(),
        numpy=metadata.version("numpy"),
        packages={name: _version(name) for name in packages},
    )


def describe(packages: Sequence[str] = ()) -> dict[str, Any]:
    """The same as a plain dictionary, for a record."""
    return asdict(look(packages))


def _cpu() -> str:
    """The model name of the processor, or its architecture where the system does not tell."""
    if sys.platform == "linux":
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        return named[0] if named else platform.machine()
    if sys.platform == "darwin":
        told = subprocess.run(["sysctl", "-n", "machdep.cpu.brand_string"], capture_output=True, text=True, check=False)
        return told.stdout.strip() or platform.machine()
    return platform.processor() or platform.machine()


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
