"""Rows of a block that is a tree: where they stand, what they see, and which of them may be kept."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from surefoot.core.errors import LawError


def check_parents(parents: Sequence[int], rows: int) -> tuple[int, ...]:
    """The parents as a tuple. Raises: LawError unless there is one per row and each comes before its child."""
    checked = tuple(int(parent) for parent in parents)
    if len(checked) != rows:
        raise LawError(f"a tree of {rows} rows came with {len(checked)} parents")
    if any(not -1 <= parent < row for row, parent in enumerate(checked)):
        raise LawError("a tree came with a parent that does not stand before its child")
    return checked


def depths(parents: Sequence[int]) -> npt.NDArray[np.int64]:
    """(R,) how many ancestors each row has in the block."""
    depth = np.zeros(len(parents), np.int64)
    for row, parent in enumerate(parents):
        depth[row] = 0 if parent < 0 else depth[parent] + 1
    return depth


def visible(parents: Sequence[int]) -> npt.NDArray[np.bool_]:
    """(R, R) which rows of the block each row sees: its ancestors and itself."""
    seen = np.eye(len(parents), dtype=np.bool_)
    for row, parent in enumerate(parents):
        if parent >= 0:
            seen[row] |= seen[parent]
    return seen


def kept_path(keep: int | Sequence[int], tail: int, parents: Sequence[int] | None) -> tuple[int, ...]:
    """The tail rows to keep. Raises: LawError unless they are a chain that starts right after the last commit."""
    if isinstance(keep, int):
        if not 0 <= keep <= tail:
            raise LawError(f"commit of {keep} rows with a tail of {tail}")
        if parents is None:
            return tuple(range(keep))
        keep = range(keep)
    path = tuple(int(row) for row in keep)
    before = -1
    for row in path:
        if not 0 <= row < tail:
            raise LawError(f"commit of tail row {row} with a tail of {tail}")
        if (row - 1 if parents is None else parents[row]) != before:
            raise LawError(f"commit of rows {list(path)}: row {row} does not follow row {before} in the tail")
        before = row
    return path
