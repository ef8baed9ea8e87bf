"""The OpenVINO that compiles for every target of this process."""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def compiling(mmap: bool) -> Any:
    """An `openvino.Core` that is never freed. mmap: whether compiled weights may stay in the file that caches them.

    Measured with OpenVINO 2026.4: its CPU plugin gives the thread that loads it another stack for signals, and takes it
    away when its core is freed. Of two cores, the one that is freed last puts back the stack of the first, which is
    gone: the next Ctrl-C ends the process with SIGSEGV.
    """
    import openvino as ov

    core = ov.Core()
    if not mmap:
        core.set_property({"ENABLE_MMAP": False})
    return core
