"""How many rows to compute for those that are to be scored, where a wider forward is cheaper."""

from __future__ import annotations

from collections.abc import Callable

from surefoot.core.cost import CostCurve
from surefoot.core.types import Caps

Width = Callable[[int, int], int]
"""width(rows, depth) -> rows to compute, at least `rows`."""


def padding(curve: CostCurve | None, caps: Caps) -> Width | None:
    """The cheapest width by this curve; None where it is always the rows themselves, so that no round has to ask.

    A curve says nothing of more rows than were swept, and no block is padded past the end of the context.
    """
    if curve is None or not caps.can_pad or not curve.can_pad or not _ever_pays(curve, caps.max_length):
        return None
    known = curve

    def width(rows: int, depth: int) -> int:
        if rows > known.max_rows:
            return rows
        wide = known.price(rows, depth).width
        return wide if wide <= caps.max_rows and depth + wide <= caps.max_length else rows

    return width


def _ever_pays(curve: CostCurve, longest: int) -> bool:
    """Whether any row count is padded at any depth. Costs are lines over the depth, so both ends tell."""
    return any(
        curve.price(rows, depth).padded for depth in (1, longest) for rows in range(1, curve.max_rows)
    )  # fmt: skip
