"""Faults of a real llama.cpp model: its attention mask, the positions of its rows, the rows in its cache.

llama.cpp refuses a block that does not stand right behind the last cached row, so positions go wrong by moving the
rows before that one (llama_memory_seq_add turns their keys).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

import numpy as np

from surefoot.core.types import Floats, Ids
from surefoot.targets.llamacpp.runtime import Context
from surefoot.targets.llamacpp.session import LlamacppSession
from surefoot.testing.faults.patching import replaced

_KEPT = 8
"""chosen: rows that are left where the early ones are lost; fewer than any prompt of a gate has."""


def future_row_leak() -> AbstractContextManager[None]:
    """The attention mask lets the rows of a block see those behind them: it is not causal."""
    good = Context.forward

    def forward(self: Context, ids: Ids, start: int, scored: int) -> Floats:
        causal = self._fn.llama_set_causal_attn
        causal.argtypes, causal.restype = (ctypes.c_void_p, ctypes.c_bool), None
        causal(self.address, not _is_block(ids, scored))
        try:
            return good(self, ids, start, scored)
        finally:
            causal(self.address, True)

    return replaced(Context, "forward", forward)


def lost_early_rows() -> AbstractContextManager[None]:
    """A block sees the last committed tokens only, as with an undeclared sliding window."""
    return _before_blocks(lambda context, start: _remove(context, 0, start - _KEPT))


def anchor_off_by_one() -> AbstractContextManager[None]:
    """A block stands one position further from what it sees than it should, but for its root."""
    return _before_blocks(lambda context, start: _move(context, 1, start - 1, -1))


def window_shifted() -> AbstractContextManager[None]:
    """Positions count turned-down tokens too: each one takes everything behind it one further from what was before."""
    good = LlamacppSession.commit

    def commit(self: LlamacppSession, keep: int | Sequence[int]) -> None:
        before, tail = self._held
        good(self, keep)
        dropped = tail - (self.length - before)
        if dropped:
            _move(self._context, dropped, self.length - 1, -dropped)

    return replaced(LlamacppSession, "commit", commit)


def hole_after_full_acceptance() -> AbstractContextManager[None]:
    """After a block was kept whole, one of its rows is missing from the cache."""

    def hole(session: LlamacppSession, before: int, kept: int) -> None:
        last = before + kept - 1
        _remove(session._context, last, last + 1)
        _move(session._context, last - 1, last, 1)

    return _after_commits(lambda tail, kept: tail == kept > 1, hole)


def foreign_slots() -> AbstractContextManager[None]:
    """Accepted drafts are committed, and their rows are those of other tokens: written before these came."""

    def fill(session: LlamacppSession, before: int, kept: int) -> None:
        session._context.cut(before + 1)
        session._context.forward(np.zeros(kept - 1, np.int32), before + 1, 1)
        session._written = before + kept

    return _after_commits(lambda tail, kept: kept > 1, fill)


def _before_blocks(fault: Callable[[Context, int], None]) -> AbstractContextManager[None]:
    good = Context.forward

    def forward(self: Context, ids: Ids, start: int, scored: int) -> Floats:
        if _is_block(ids, scored):
            fault(self, start)
        return good(self, ids, start, scored)

    return replaced(Context, "forward", forward)


def _after_commits(
    when: Callable[[int, int], bool], fault: Callable[[LlamacppSession, int, int], None]
) -> AbstractContextManager[None]:
    """The fault gets the session, the tokens committed before, and those that were kept."""
    good = LlamacppSession.commit

    def commit(self: LlamacppSession, keep: int | Sequence[int]) -> None:
        before, tail = self._held
        good(self, keep)
        kept = self.length - before
        if when(tail, kept):
            # What was turned down goes first, as the next forward would have it.
            self._context.cut(self.length)
            fault(self, before, kept)
            # Faults that decode move on what scores are valid for; a loop reads the root's row no more.

    return replaced(LlamacppSession, "commit", commit)


def _is_block(ids: Ids, scored: int) -> bool:
    """Whether a forward scores all its rows, and more than one."""
    return len(ids) == scored > 1


def _remove(context: Context, first: int, stop: int) -> None:
    """Take rows at these positions out of the cache."""
    if stop > first:
        context._fn.llama_memory_seq_rm(context._memory, 0, first, stop)


def _move(context: Context, first: int, stop: int, by: int) -> None:
    """Let rows at these positions stand elsewhere."""
    add = context._fn.llama_memory_seq_add
    add.argtypes, add.restype = (ctypes.c_void_p, *[ctypes.c_int32] * 4), None
    if stop > first:
        add(context._memory, 0, first, stop, by)
