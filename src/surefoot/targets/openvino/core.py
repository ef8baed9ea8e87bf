"""The OpenVINO that compiles for every target of this process."""

from __future__ import annotations

import threading
from functools import cache
from typing import Any

_MAKING = threading.Lock()


def compiling(mmap: bool) -> Any:
    """An `openvino.Core` that is never freed. mmap: whether compiled weights may stay in the file that caches them.

    Source: measured 2026-12-01, OpenVINO 2026.4.1, Linux. Its CPU plugin gives the thread that loads it another stack
    for signals, and takes it away when its core is freed. Of two cores, the one that is freed last puts back the stack
    of the first, which is gone: the next Ctrl-C ends the process with SIGSEGV. To go when the plugin forgets a stack
    that was freed; test_ctrl_c_still_ends_well_when_models_are_gone then passes with a core for each model.
    """
    with _MAKING:  # a cache alone would let two threads make two, of which one is dropped, and freed
        return _once(mmap)


@cache
def _once(mmap: bool) -> Any:
    import openvino as ov

    core = ov.Core()
    if not mmap:
        core.set_property({"ENABLE_MMAP": False})
    return core
