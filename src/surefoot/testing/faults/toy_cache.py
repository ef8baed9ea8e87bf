"""Faults of the toy's attention cache: its slots, its positions and its mask. `CACHE_FAULTS` lists them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import numpy.typing as npt

from surefoot.targets.toy.caches import Places, Slots, Tail
from surefoot.testing.faults.patching import Plant, all_of, replaced

Mask = npt.NDArray[np.bool_]


def hole_after_full_acceptance() -> AbstractContextManager[None]:
    """After a block was kept whole, the cache slot of its last token is never filled."""
    good = Slots.keep

    def keep(self: Slots, tail: Tail, path: Places) -> None:
        whole = len(path) == len(tail) > 1 and self.length > 0
        good(self, tail, path)
        if whole:
            self.tokens[self.base - 1] = 0
            self.positions[self.base - 1] = 0

    return replaced(Slots, "keep", keep)


def future_row_leak() -> AbstractContextManager[None]:
    """The attention mask lets each row of a block see the row behind it, as a mask built one off does."""

    def fault(cache: Slots, tail: Tail, mask: Mask) -> None:
        for row in range(len(tail) - 1):
            mask[row, cache.base + row + 1] = True

    return _masked(fault, tails_only=True)


def lost_early_rows() -> AbstractContextManager[None]:
    """The mask shows a block the last four committed tokens only, as an undeclared sliding window does."""

    def fault(cache: Slots, tail: Tail, mask: Mask) -> None:
        mask[:, cache.committed()[:-4]] = False

    return _masked(fault)


def stale_visible_rows() -> AbstractContextManager[None]:
    """The mask shows every slot ever written: turned-down rows stay visible."""

    def fault(cache: Slots, tail: Tail, mask: Mask) -> None:
        mask[:, : cache.base] = True
        mask[:, cache.base + len(tail) :] = True

    return _masked(fault)


def _masked(fault: Callable[[Slots, Tail, Mask], None], tails_only: bool = False) -> AbstractContextManager[None]:
    good = Slots.visible

    def visible(self: Slots, tail: Tail, n_slots: int) -> Mask:
        mask = good(self, tail, n_slots)
        if not tails_only or self.base:
            fault(self, tail, mask)
        return mask

    return replaced(Slots, "visible", visible)


def position_shift() -> AbstractContextManager[None]:
    """Positions of a block count turned-down tokens too: each one shifts everything behind it by one."""
    good_see, good_keep = Slots.see, Slots.keep
    shifts: dict[int, int] = {}

    def keep(self: Slots, tail: Tail, path: Places) -> None:
        if self.length:
            shifts[id(self)] = shifts.get(id(self), 0) + len(tail) - len(path)
        else:
            shifts.pop(id(self), None)
        good_keep(self, tail, path)

    def see(self: Slots, tail: Tail, start: int, width: int) -> Any:
        shift = shifts.get(id(self), 0) if self.length else 0
        return good_see(self, Tail(tail.tokens, tail.parents, tail.depths + shift), start, width)

    return all_of(replaced(Slots, "see", see), replaced(Slots, "keep", keep))


def anchor_off_by_one() -> AbstractContextManager[None]:
    """A block stands one position behind its place, as if its root were cached already."""
    good = Slots.see

    def see(self: Slots, tail: Tail, start: int, width: int) -> Any:
        return good(self, Tail(tail.tokens, tail.parents, tail.depths + bool(self.length)), start, width)

    return replaced(Slots, "see", see)


def zero_filled_slots() -> AbstractContextManager[None]:
    """Accepted drafts are committed, and their slots hold zeros: copied from a buffer before it was written."""
    good = Slots.keep

    def keep(self: Slots, tail: Tail, path: Places) -> None:
        grown = self.length > 0
        good(self, tail, path)
        if grown and len(path) > 1:
            slots = self.committed()[1 - len(path) :]
            self.tokens[slots] = 0
            self.positions[slots] = 0

    return replaced(Slots, "keep", keep)


CACHE_FAULTS: Mapping[str, Plant] = {
    fault.__name__: fault
    for fault in (
        hole_after_full_acceptance,
        future_row_leak,
        lost_early_rows,
        stale_visible_rows,
        position_shift,
        anchor_off_by_one,
        zero_filled_slots,
    )
}
"""The faults of the toy's attention cache by name; its recurrent discipline has no slots to get wrong."""
