"""Faults of a real transformers model: its attention mask, its positions, its keys and values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from surefoot.targets.hf.runner import Runner
from surefoot.targets.hf.session import HfSession
from surefoot.testing.faults.patching import all_of, replaced

_KEPT = 8
"""chosen: rows that a mask which loses the early ones still shows; fewer than any prompt of a gate has."""


def future_row_leak() -> AbstractContextManager[None]:
    """The attention mask lets each row of a block see the row behind it, as a mask built one off does."""

    def leak(seen: Any, start: int, rows: int) -> None:
        for row in range(rows - 1):
            seen[..., row, start + row + 1] = True

    return _masked(leak)


def lost_early_rows() -> AbstractContextManager[None]:
    """The mask shows a block the last committed tokens only, as an undeclared sliding window does."""

    def lose(seen: Any, start: int, rows: int) -> None:
        seen[..., : max(0, start - _KEPT)] = False

    return _masked(lose)


def anchor_off_by_one() -> AbstractContextManager[None]:
    """A block stands one position behind its place, as if its root were cached already."""
    return _moved(lambda cache: 1)


def window_shifted() -> AbstractContextManager[None]:
    """Positions count turned-down tokens too: each one shifts everything behind it by one."""
    shifts: dict[int, int] = {}
    good = HfSession.commit

    def commit(self: HfSession, keep: int | Sequence[int]) -> None:
        dropped = self._kept.tail - (keep if isinstance(keep, int) else len(keep))
        shifts[id(self._cache)] = shifts.get(id(self._cache), 0) + dropped
        good(self, keep)

    return all_of(replaced(HfSession, "commit", commit), _moved(lambda cache: shifts.get(id(cache), 0)))


def hole_after_full_acceptance() -> AbstractContextManager[None]:
    """After a block was kept whole, the keys and values of its last token are never written."""
    return _zeroed(lambda tail, kept: range(kept - 1, kept) if tail == kept > 1 else range(0))


def zero_filled_slots() -> AbstractContextManager[None]:
    """Accepted drafts are committed, and their keys and values are zeros: copied before they were written."""
    return _zeroed(lambda tail, kept: range(1, kept))


def _masked(fault: Callable[[Any, int, int], None]) -> AbstractContextManager[None]:
    good = Runner.forward

    def forward(
        self: Runner, tokens: Any, positions: Any, cache: Any, mask: Any = None, last_only: bool = False
    ) -> Any:
        if mask is None and not last_only:
            rows = tokens.shape[1]
            start = int(cache.layers[0].keys.shape[-2])
            mask = self.tree_mask(start, range(-1, rows - 1))
            for each in mask.values() if isinstance(mask, dict) else [mask]:
                _refill(each, fault, start, rows)
        return good(self, tokens, positions, cache, mask, last_only)

    return replaced(Runner, "forward", forward)


def _refill(mask: Any, fault: Callable[[Any, int, int], None], start: int, rows: int) -> None:
    """The mask with what the fault makes of it: boolean, or what is added to the scores."""
    additive = mask.dtype.is_floating_point
    hidden, seen = mask.min().item(), mask >= 0 if additive else mask
    fault(seen, start, rows)
    if additive:
        mask.masked_fill_(seen, 0.0).masked_fill_(~seen, hidden)


def _moved(shift: Callable[[Any], int]) -> AbstractContextManager[None]:
    good = Runner.forward

    def forward(
        self: Runner, tokens: Any, positions: Any, cache: Any, mask: Any = None, last_only: bool = False
    ) -> Any:
        moved = positions if last_only else positions + shift(cache)
        return good(self, tokens, moved, cache, mask, last_only)

    return replaced(Runner, "forward", forward)


def _zeroed(which: Callable[[int, int], range]) -> AbstractContextManager[None]:
    """Rows of a commit become zeros: `which(tail, kept)` names them among the kept ones."""
    good = HfSession.commit

    def commit(self: HfSession, keep: int | Sequence[int]) -> None:
        import torch

        before, tail = self._kept.length, self._kept.tail
        good(self, keep)
        places = which(tail, self._kept.length - before)
        with torch.inference_mode():
            for layer in self._cache.layers if len(places) else ():
                rows = slice(before + places.start, before + places.stop)
                layer.keys[:, :, rows] = 0
                layer.values[:, :, rows] = 0

    return replaced(HfSession, "commit", commit)
