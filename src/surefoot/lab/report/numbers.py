"""Numbers as people read them: no digit finer than what is known."""

from __future__ import annotations

import math

from surefoot.lab.analysis import Spread
from surefoot.lab.stats import Interval

MOST_DECIMALS = 3
"""chosen: a third decimal of a ratio is a tenth of a percent, finer than any machine here holds still."""
ABSENT = "\u2013"
"""An en dash."""
TIMES = "\u00d7"
"""The sign of multiplication."""


def decimals(interval: Interval) -> int:
    """The decimals that the interval allows: one digit of its half width, two where that digit is small.

    Source: the rounding rule of the Particle Data Group (Review of Particle Physics, introduction, 5.3): two
    digits of the uncertainty where they read 10 to 35, one where they read more.
    """
    half = max(interval.high - interval.estimate, interval.estimate - interval.low)
    if half <= 0 or not math.isfinite(half):
        return MOST_DECIMALS
    place = math.floor(math.log10(half))
    two_digits = half < 3.55 * 10.0**place
    return min(max(-place + two_digits, 0), MOST_DECIMALS)


def estimate(interval: Interval | None) -> str:
    """The estimate; a dash where there is none."""
    return ABSENT if interval is None else f"{interval.estimate:.{decimals(interval)}f}"


def limits(interval: Interval | None) -> str:
    """The 95 % interval, "2.92 to 3.21"."""
    if interval is None:
        return ABSENT
    places = decimals(interval)
    return f"{interval.low:.{places}f} to {interval.high:.{places}f}"


def share(value: float | None) -> str:
    """A share in percent, one decimal under 10 %."""
    if value is None:
        return ABSENT
    percent = 100 * value
    return f"{percent:.1f}" if abs(percent) < 9.95 and percent else f"{percent:.0f}"


def count(value: float | None) -> str:
    """A count with thin spaces between thousands."""
    return ABSENT if value is None else f"{value:,.0f}".replace(",", "\u202f")


def fixed(value: float | None, places: int = 2) -> str:
    return ABSENT if value is None else f"{value:.{places}f}"


def measure(value: float) -> str:
    """A figure of which nothing but its size is known: four digits at most."""
    return f"{value:.4g}" if abs(value) < 10_000 else count(value)


def some(n: int, thing: str) -> str:
    """ "1 pair", "2 pairs"."""
    return f"{count(n)} {thing}" if n == 1 else f"{count(n)} {thing}s"


def spread(value: Spread) -> str:
    """ "250", or "160 to 430" where it varies."""
    if value.low == value.high:
        return count(value.median)
    return f"{count(value.low)} to {count(value.high)}"
