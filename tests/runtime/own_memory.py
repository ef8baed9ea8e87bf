"""How much of this process's memory is its own: not a file that is mapped, which the system can drop and read again."""

from __future__ import annotations

from pathlib import Path

import pytest

_SMAPS = Path("/proc/self/smaps_rollup")
needs_smaps = pytest.mark.skipif(not _SMAPS.exists(), reason="only Linux says what memory is made of")


def own_bytes() -> int:
    """Anonymous memory of this process, in bytes."""
    lines = _SMAPS.read_text("ascii").splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Anonymous:"))
