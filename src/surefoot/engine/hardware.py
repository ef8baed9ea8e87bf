"""The machine that timings belong to: what it is, and whether two are the same one."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Hardware:
    """What decides how fast this machine is. `cores` are those that this process may use.

    virtual: whether a hypervisor runs below the system. None where the system does not tell.
    """

    cpu: str
    cores: int
    memory_bytes: int | None
    virtual: bool | None


def look() -> Hardware:
    """This machine."""
    return Hardware(_cpu(), _cores(), _memory_bytes(), _virtual())


def fingerprint(hardware: Hardware) -> str:
    """16 hexadecimal digits that are the same where timings can be compared: processor, cores, memory, system.

    Memory counts in whole GiB, because a kernel keeps back a little more or less of it.
    """
    gib = None if hardware.memory_bytes is None else round(hardware.memory_bytes / 2**30)
    what = (hardware.cpu, hardware.cores, platform.system(), platform.machine(), gib, hardware.virtual)
    return hashlib.sha256(repr(what).encode()).hexdigest()[:16]


def _cpu() -> str:
    """The model name of the processor, or its architecture where the system does not tell."""
    if sys.platform == "linux":
        lines = read_text("/proc/cpuinfo").splitlines()
        named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        return named[0] if named else platform.machine()
    if sys.platform == "darwin":
        return _sysctl("machdep.cpu.brand_string") or platform.machine()
    return platform.processor() or platform.machine()


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def read_text(path: str) -> str:
    """The file, or nothing where there is none."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _sysctl(name: str) -> str:
    return subprocess.run(["sysctl", "-n", name], capture_output=True, text=True, check=False).stdout.strip()


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        pass
    try:
        import psutil
    except ImportError:
        return None
    return int(psutil.virtual_memory().total)


def _virtual() -> bool | None:
    if sys.platform == "linux":
        flags = [line for line in read_text("/proc/cpuinfo").splitlines() if line.startswith("flags")]
        return "hypervisor" in flags[0].split() if flags else None
    if sys.platform == "darwin":
        told = _sysctl("kern.hv_vmm_present")
        return told == "1" if told else None
    return None
