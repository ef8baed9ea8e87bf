"""Whether two sweeps of one configuration say the same, and if not, what differs: the pace or the shape."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median
from typing import Literal

from surefoot.core.cost import CostCurve, Point
from surefoot.core.errors import ConfigError

SURE = 3.0
"""chosen: three standard deviations of a difference; among forty points one in ten sweeps shows one by chance."""

INTERVAL = 1.96
"""Source: two-sided 95 % of a normal law."""

SAME = 1.05
"""measured: 2-core x86: differences under 5 % between sweeps are noise."""

ANOTHER_MODE = 1.5
"""chosen: a process that is this much slower throughout did not drift there; one runtime has a mode twice as slow."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A row count at a depth whose cost changed against the others: ratio, the pace taken out, and its error."""

    rows: int
    depth: int
    ratio: float
    error: float


@dataclass(frozen=True, slots=True)
class Agreement:
    """pace: how many times slower the second was. differences: what is not explained by that, largest first.

    outside: points whose 95 % interval of the difference does not hold that pace, one in twenty by chance alone. shows:
    the change, as a share, that half of the points would have shown as a difference; what is smaller may be there.
    """

    kind: Literal["agree", "another pace", "another shape"]
    pace: float
    differences: tuple[Difference, ...]
    n_points: int
    outside: int
    shows: float
    text: str


def compare(first: CostCurve, second: CostCurve) -> Agreement:
    """What two sweeps have in common, over the points that both have.

    Raises: ConfigError where they share no point.
    """
    pairs = _pairs(first, second)
    if not pairs:
        raise ConfigError("the two sweeps share no row count at the same depth; sweep the same ones")
    logs = [math.log(b.median_s / a.median_s) for a, b in pairs]
    usual = median(logs)
    found = [
        Difference(a.rows, a.depth, math.exp(log - usual), math.hypot(a.error, b.error))
        for (a, b), log in zip(pairs, logs, strict=True)
    ]
    different = [each for each in found if _deviations(each) > SURE]
    different.sort(key=lambda each: -abs(math.log(each.ratio)))
    outside = sum(_deviations(each) > INTERVAL for each in found)
    shows = math.expm1(SURE * median(each.error for each in found))
    pace = math.exp(usual)
    away = max(pace, 1 / pace)
    if different:
        worst = different[0]
        kind: Literal["agree", "another pace", "another shape"] = "another shape"
        text = (
            f"{len(different)} of {len(pairs)} points changed against the others, most of all {worst.rows} rows at "
            f"{worst.depth} tokens ({worst.ratio:.2f} times); another runtime version, setting or load would do that"
        )
    elif away > SAME:
        kind = "another pace"
        slower = "slower" if pace > 1 else "faster"
        why = "a mode of the process or another clock rate" if away > ANOTHER_MODE else "heat, power or load"
        text = f"the second sweep is {away:.2f} times {slower} throughout ({why}); relative costs agree at every point"
    else:
        kind, text = "agree", f"the sweeps agree at all {len(pairs)} points"
    text += f"; outside of 95 %: {outside}; a change of {100 * shows:.0f} % would have shown at half of them"
    return Agreement(kind, pace, tuple(different), len(pairs), outside, shows, text)


def _deviations(found: Difference) -> float:
    """Standard deviations by which the point changed against the others."""
    return abs(math.log(found.ratio)) / found.error


def _pairs(first: CostCurve, second: CostCurve) -> list[tuple[Point, Point]]:
    """Points of the same rows and depth."""
    other = {(point.rows, point.depth): point for point in second.points}
    places = ((point, other.get((point.rows, point.depth))) for point in first.points)
    return [(one, two) for one, two in places if two is not None]
