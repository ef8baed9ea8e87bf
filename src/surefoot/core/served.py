"""Rounds of real use override the sweep: the curve that both together tell."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from surefoot.core.cost import CostCurve, RowCost, median_error

ENOUGH = 6
"""Source: W. R. Thompson, 1936: fewer than six values have no 95 % interval of their median."""

DOUBT = 3.0
"""chosen: a single round moves a price by a quarter of its surprise (as a power), so that a row count that was
mismeasured is not chosen six times before anybody notices."""

FOR_A_SLOPE = 24
"""chosen: eight in each third, so that the median of a third survives three stalls."""

WIDE = 2.0
FAR = 256
"""chosen: the deepest third has to lie at twice the depth of the shallowest and this many tokens further, or the noise
of a per cent would decide a slope that is used at ten times the depth."""


@dataclass(frozen=True, slots=True)
class Served:
    """One round of real use. width: rows computed; extend_s: of the forward, until the host has the result and the
    cache is rolled back; host_s: what lay between the round before and this one, 0 where nobody knows."""

    width: int
    depth: int
    extend_s: float
    host_s: float


def reestimated(curve: CostCurve, served: Sequence[Served]) -> CostCurve:
    """`curve` corrected by these rounds: where they disagree, they win.

    A row count that was served often enough gets its level, and from a wide range of depths its slope too, from them
    alone; one that was served less often is believed in part. The others keep their shape and are scaled by the pace of
    the nearest that were served, between two of them by what lies between theirs: a hot or a loaded machine slows all,
    and a sweep that was wrong about some rows was probably wrong about their neighbours. A hole of the sweep that was
    served often enough is no hole any more.
    """
    by_width: dict[int, list[Served]] = {}
    for each in served:
        if curve.lines[0].rows <= each.width <= curve.max_rows and each.extend_s > 0:
            by_width.setdefault(each.width, []).append(each)
    known = {width: each for width, each in by_width.items() if len(each) >= ENOUGH}
    hosts = [each.host_s for each in served if each.host_s > 0]
    host_s = _middle(hosts) if len(hosts) >= ENOUGH else curve.host_s
    if not by_width:
        return replace(curve, host_s=host_s)
    widths = sorted(by_width)
    ratios = {width: _ratios(curve, width, by_width[width]) for width in widths}
    logs = {width: math.log(_middle(ratios[width])) for width in widths}
    usual = _middle([logs[width] for width in known]) if known else 0.0
    paces = [usual + (logs[width] - usual) * _belief(len(by_width[width])) for width in widths]
    lines: dict[int, RowCost] = {}
    for line, log in zip(curve.lines, np.interp(curve.rows, widths, paces).tolist(), strict=True):
        pace = math.exp(log)
        lines[line.rows] = RowCost(line.rows, line.base_s * pace, line.slope_s * pace, line.error)
    lines |= {width: _served_line(curve, width, each, ratios[width]) for width, each in known.items()}
    n_served = curve.served + sum(map(len, known.values()))
    return replace(curve, lines=tuple(lines[rows] for rows in sorted(lines)), host_s=host_s, served=n_served)


def _ratios(curve: CostCurve, width: int, served: Sequence[Served]) -> list[float]:
    """How many times slower than the curve each of these rounds was, all of one row count."""
    below, above = curve.around(width)
    return [each.extend_s / max(below.at(each.depth), above.at(each.depth)) for each in served]


def _middle(values: Sequence[float]) -> float:
    """The median of a few numbers: this runs behind a forward, where each call of a library costs some microseconds."""
    ordered, half = sorted(values), len(values) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def _belief(n: int) -> float:
    """How much of what n rounds say is believed: one may have been a stall."""
    return 1.0 if n >= ENOUGH else n / (n + DOUBT)


def _served_line(curve: CostCurve, width: int, served: Sequence[Served], ratios: Sequence[float]) -> RowCost:
    """The line of one row count, from its own rounds. ratios: how many times slower than the curve they were."""
    old = curve.around(width)[1]
    pace = _middle(ratios)
    error = median_error(ratios)
    own = _resistant_line(served)
    if own is not None:
        return RowCost(width, own[0], own[1], error)
    depth = int(_middle([each.depth for each in served]))
    level, slope = curve.direct_s(width, depth) * pace, old.slope_s * pace
    return RowCost(width, level - slope * depth, slope, error)


def _resistant_line(served: Sequence[Served]) -> tuple[float, float] | None:
    """Base and slope over depth through the medians of the outer thirds, or None where the depths lie too close.

    Source: J. W. Tukey, Exploratory Data Analysis, 1977, the resistant line. A falling one is taken as level.
    """
    ordered = sorted(served, key=lambda each: each.depth)
    third = len(ordered) // 3
    if len(ordered) < FOR_A_SLOPE:
        return None
    left, right = ordered[:third], ordered[-third:]
    x_left, x_right = (_middle([each.depth for each in part]) for part in (left, right))
    y_left, y_right = (_middle([each.extend_s for each in part]) for part in (left, right))
    if x_right < max(WIDE * x_left, x_left + FAR):
        return None
    slope = max(0.0, (y_right - y_left) / (x_right - x_left))
    base = _middle([each.extend_s - slope * each.depth for each in ordered])
    return (base, slope) if base >= 0 and math.isfinite(slope) else None
