"""Faults of a real OpenVINO model with its cache inside: its attention mask, its positions, its keys and values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import numpy.typing as npt

from surefoot.core.blocks import Block
from surefoot.targets.openvino.session import OpenvinoSession
from surefoot.targets.openvino.slots import Slots
from surefoot.testing.faults.patching import all_of, replaced

_KEPT = 8
"""chosen: rows that a mask which loses the early ones still shows; fewer than any prompt of a gate has."""


def future_row_leak() -> AbstractContextManager[None]:
    """The attention mask lets each row of a block see the row behind it, as a mask built one off does.

    Needs an export with trees: without, the graph itself keeps rows from seeing what is behind them.
    """

    def square(self: Block) -> npt.NDArray[np.bool_]:
        return np.tri(self.width, k=1, dtype=np.bool_)

    return _in_extend(lambda session: replaced(Block, "square", square))


def lost_early_rows() -> AbstractContextManager[None]:
    """The mask shows a block the last rows of the cache only, as an undeclared sliding window does."""
    good = Slots.line

    def line(self: Slots) -> npt.NDArray[np.int64]:
        shown = good(self).copy()
        shown[:, : max(0, self.used - len(self.tail) - _KEPT)] = 0
        return shown

    return _in_extend(lambda session: replaced(Slots, "line", line))


def anchor_off_by_one() -> AbstractContextManager[None]:
    """A block stands one position behind its place, as if its root were cached already."""
    return _moved(lambda session: 1)


def window_shifted() -> AbstractContextManager[None]:
    """Positions count turned-down tokens too: each one shifts everything behind it by one."""
    shifts: dict[int, int] = {}
    good = OpenvinoSession.commit

    def commit(self: OpenvinoSession, keep: int | Sequence[int]) -> None:
        dropped = len(self._slots.tail) - (keep if isinstance(keep, int) else len(keep))
        shifts[id(self._slots)] = shifts.get(id(self._slots), 0) + dropped
        good(self, keep)

    moved = _moved(lambda session: shifts.get(id(session._slots), 0))
    return all_of(replaced(OpenvinoSession, "commit", commit), moved)


def hole_after_full_acceptance() -> AbstractContextManager[None]:
    """After a block was kept whole, the keys and values of its last token are never written."""
    return _zeroed(lambda tail, kept: range(kept - 1, kept) if tail == kept > 1 else range(0))


def zero_filled_slots() -> AbstractContextManager[None]:
    """Accepted drafts are committed, and their keys and values are zeros: copied before they were written."""
    return _zeroed(lambda tail, kept: range(1, kept))


def _in_extend(fault: Callable[[OpenvinoSession], AbstractContextManager[None]]) -> AbstractContextManager[None]:
    """The fault is there while a block is scored, and not while a prompt is read."""
    good = OpenvinoSession._forward

    def forward(self: OpenvinoSession, operation: str, block: Block, scored: int) -> Any:
        with fault(self) if operation == "extend" else nullcontext():
            return good(self, operation, block, scored)

    return replaced(OpenvinoSession, "_forward", forward)


def _moved(shift: Callable[[OpenvinoSession], int]) -> AbstractContextManager[None]:
    good = OpenvinoSession._forward

    def forward(self: OpenvinoSession, operation: str, block: Block, scored: int) -> Any:
        moved = block._replace(start=block.start + shift(self)) if operation == "extend" else block
        return good(self, operation, moved, scored)

    return replaced(OpenvinoSession, "_forward", forward)


def _zeroed(which: Callable[[int, int], range]) -> AbstractContextManager[None]:
    """Rows of a commit become zeros: `which(tail, kept)` names them among the kept ones."""
    good = OpenvinoSession.commit

    def commit(self: OpenvinoSession, keep: int | Sequence[int]) -> None:
        before, tail = self._length, len(self._slots.tail)
        good(self, keep)
        places = which(tail, self._length - before)
        if len(places):
            _zero(self._runner, self._slots.live()[before + places.start : before + places.stop])

    return replaced(OpenvinoSession, "commit", commit)


def _zero(runner: Any, slots: npt.NDArray[np.intp]) -> None:
    import openvino as ov

    axis = runner._layout.slot_axis
    for state in runner._request.query_state():
        rows = np.array(state.state.data)
        np.moveaxis(rows, axis, 0)[slots] = 0
        state.state = ov.Tensor(rows)
