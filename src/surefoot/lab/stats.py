"""How sure a figure is: intervals of paired ratios, and the words for what they allow to say."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its 95 % interval, from n values."""

    estimate: float
    low: float
    high: float
    n: int
