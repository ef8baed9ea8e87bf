"""Weights on large pages: Linux gives memory in pages of 4 kB unless it is asked, and finding those takes time.

What it brings is in studies/openvino-baseline.md: about 4 % for the first model of a process.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

_LARGE = 2 << 20  # bytes; the large page of x86-64, and of arm64 with small pages of 4 kB
_SMALLEST = 4 << 20  # chosen: bytes of a region below which nothing is gained
_FILLED = 0.9  # chosen: of a region; others would take up memory that was never written
_HUGEPAGE, _COLLAPSE = 14, 25  # source: Linux, include/uapi/asm-generic/mman-common.h; the second since 6.1
_SETTING = Path("/sys/kernel/mm/transparent_hugepage/enabled")


@contextmanager
def for_new_memory() -> Iterator[None]:
    """Put what is allocated in this block on large pages afterwards, beside whatever runs next.

    It takes 1 to 2 s for each GB of one core. Nothing else can tell: the contents and addresses stay, and memory
    that was given back by then is passed over.
    """
    before = _regions()
    yield
    new = {start: end for start, end in _regions().items() if before.get(start) != end}
    if new:
        threading.Thread(target=_move, args=(new,), name="surefoot-large-pages", daemon=True).start()


def available() -> bool:
    """Whether this system gives large pages to a process that asks for them."""
    try:
        return sys.platform == "linux" and "[never]" not in _SETTING.read_text("ascii")
    except OSError:
        return False


def _regions() -> Mapping[int, int]:
    """Start and end of every region of the process's own filled memory, in bytes of address."""
    try:
        lines = Path("/proc/self/smaps").read_text("utf-8", "replace").splitlines()
    except OSError:
        return {}
    return {
        start: end
        for start, end, resident in _mappings(lines)
        if end - start >= _SMALLEST and resident >= _FILLED * (end - start)
    }


def _move(areas: Mapping[int, int]) -> None:
    """Put what lies in these areas on large pages. What cannot be moved stays as it is."""
    madvise = ctypes.CDLL(None, use_errno=True).madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    for begin, end in areas.items():
        start = -(-begin // _LARGE) * _LARGE
        size = end // _LARGE * _LARGE - start
        if size > 0:
            madvise(start, size, _HUGEPAGE)
            madvise(start, size, _COLLAPSE)


def _mappings(lines: list[str]) -> Iterator[tuple[int, int, int]]:
    """(start, end, resident bytes) of private writable memory without a file behind it."""
    span: tuple[int, int] | None = None
    for line in lines:
        words = line.split()
        if words[0].endswith(":"):
            if span is not None and words[0] == "Rss:":
                yield (*span, int(words[1]) * 1024)
                span = None
        else:
            anonymous = len(words) == 5 or words[5] == "[heap]"
            ends = [int(part, 16) for part in words[0].split("-")]
            span = (ends[0], ends[1]) if anonymous and words[1].startswith("rw") else None
