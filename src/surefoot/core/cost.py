"""What a round costs by its row count and context depth: samples to points, points to a curve, a curve to prices.

Two conventions, never mixed: `rows` (S) are what a forward scores, the root included; `draft_len` (K) is S - 1.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from surefoot.core.errors import ConfigError

LEVEL = 0.95
"""chosen: what the field prints."""

MOST_ROWS = 4096
"""chosen: no sweep has as many, and a table of prices has an entry for each."""

NOISE = 0.02
"""measured: 2-core x86, repeated sweeps: medians of the same rows differ by less than 5 % from sweep to sweep, which
is 1.96 standard deviations of a difference of two medians of 2 % (one standard deviation) each. No interval within one
sweep says more than that about the next."""


@dataclass(frozen=True, slots=True)
class Point:
    """One row count at one depth. samples_s: as measured, in order; empty where only the median was published.

    low_s, high_s: the 95 % interval of the median; the whole range where six samples are not there.
    error: one standard deviation of the logarithm of the median, at least `NOISE`: while it is small, that is a share
    of the median, and a round that stood still for minutes does not make it a thousand.
    """

    rows: int
    depth: int
    median_s: float
    low_s: float
    high_s: float
    error: float = NOISE
    samples_s: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class RowCost:
    """A forward of `rows` rows takes base_s + slope_s * depth seconds; error: one standard deviation, as a share."""

    rows: int
    base_s: float
    slope_s: float
    error: float = NOISE

    def at(self, depth: int) -> float:
        """Seconds at this depth."""
        return self.base_s + self.slope_s * depth


@dataclass(frozen=True, slots=True)
class Price:
    """The cheapest way to score `rows` rows: compute `width` of them, in `seconds` (host cost not in it)."""

    rows: int
    width: int
    seconds: float

    @property
    def padded(self) -> bool:
        return self.width > self.rows


@dataclass(frozen=True, slots=True)
class CostCurve:
    """What forwards cost. `points` are facts; `lines`, by ascending rows, are what they say about any depth.

    host_s: seconds of a round outside forward, judge and commit (the text, the policy, the loop), without the drafter's
    own.
    can_pad: whether the target computes more rows than it scores, unseen from outside.
    served: rounds of real use that `lines` and `host_s` have been corrected by.
    """

    points: tuple[Point, ...]
    lines: tuple[RowCost, ...]
    host_s: float = 0.0
    can_pad: bool = False
    served: int = 0

    @property
    def rows(self) -> tuple[int, ...]:
        """The row counts that were measured, ascending; the first is 1."""
        return tuple(line.rows for line in self.lines)

    @property
    def depths(self) -> tuple[int, ...]:
        """The depths that were measured, ascending."""
        return tuple(sorted({point.depth for point in self.points}))

    @property
    def max_rows(self) -> int:
        return self.lines[-1].rows

    @property
    def holes(self) -> tuple[int, ...]:
        """Row counts inside the sweep that were not measured: nobody knows what happens there."""
        return tuple(sorted(set(range(self.lines[0].rows, self.max_rows)) - set(self.rows)))

    @property
    def has_depth_slope(self) -> bool:
        """Whether any row count was measured at two depths; if not, every depth is taken to cost the same."""
        return any(line.slope_s for line in self.lines) or len(self.depths) > 1

    def direct_s(self, rows: int, depth: int) -> float:
        """Seconds of a forward of exactly so many rows; in a hole, those of the dearer neighbour.

        Raises: ConfigError outside of what was swept.
        """
        below, above = self.around(rows)
        return max(below.at(depth), above.at(depth))

    def price(self, rows: int, depth: int) -> Price:
        """The cheapest width for so many rows: themselves, or more of them where the target can pad.

        Raises: ConfigError outside of what was swept.
        """
        width, seconds = rows, self.direct_s(rows, depth)
        if self.can_pad:
            for line in self.lines:
                if line.rows > rows and line.at(depth) < seconds:
                    width, seconds = line.rows, line.at(depth)
        return Price(rows, width, seconds)

    def round_s(self, rows: int, depth: int, draft_s: float = 0.0) -> float:
        """Seconds of a whole round: forward, host, and the drafter's own time."""
        return self.price(rows, depth).seconds + self.host_s + draft_s

    def relative(self, rows: int, depth: int) -> float:
        """The verify cost c_v(S) = t(S) / t(1), padding allowed."""
        return self.price(rows, depth).seconds / self.direct_s(1, depth)

    def bar(self, rows: int, depth: int, draft_s: float = 0.0) -> float:
        """Tokens that a round of so many rows must yield to be as fast as plain decoding.

        Source: t_round(S) / t_round(1): a round pays when it emits more.
        """
        return self.round_s(rows, depth, draft_s) / self.round_s(1, depth)

    def error(self, rows: int) -> float:
        """One standard deviation of the cost of so many rows, as a share of it."""
        below, above = self.around(rows)
        return max(below.error, above.error)

    def around(self, rows: int) -> tuple[RowCost, RowCost]:
        """The nearest measured row counts, at most and at least `rows`; the same one twice where it was measured."""
        if not self.lines[0].rows <= rows <= self.max_rows:
            raise ConfigError(
                f"the cost of {rows} rows was asked for, and {self.lines[0].rows} to {self.max_rows} were measured; "
                "measure wider, or draft less"
            )
        above = bisect_left(self.lines, rows, key=lambda line: line.rows)
        return self.lines[above if self.lines[above].rows == rows else above - 1], self.lines[above]


@dataclass(frozen=True, slots=True)
class PriceTable:
    """The prices of every row count from 1 on, for a policy that asks every round: `CostCurve.price`, in microseconds.

    lines: of each row count, base and slope of its measured neighbours, below and above. measured: whether it is one
    itself. Plain numbers: behind a forward, which drives all else out of the caches, ten calls of numpy took 50 us
    (measured: Zen 4, 8.5 ms a forward).
    """

    lines: tuple[tuple[float, float, float, float], ...]
    measured: tuple[bool, ...]
    can_pad: bool

    @classmethod
    def of(cls, curve: CostCurve) -> PriceTable:
        """The table of a curve that holds the cost of one row."""
        counts, measured = range(1, curve.max_rows + 1), frozenset(curve.rows)
        pairs = [curve.around(rows) for rows in counts]
        lines = tuple((below.base_s, below.slope_s, above.base_s, above.slope_s) for below, above in pairs)
        return cls(lines, tuple(rows in measured for rows in counts), curve.can_pad)

    def at(self, depth: int) -> list[float]:
        """Seconds of 1, 2, 3 ... rows at this depth, padding up where that is cheaper."""
        seconds = [max(base + slope * depth, base_2 + slope_2 * depth) for base, slope, base_2, slope_2 in self.lines]
        if self.can_pad:
            cheapest = math.inf
            for i in range(len(seconds) - 1, -1, -1):
                if self.measured[i]:
                    cheapest = min(cheapest, seconds[i])
                seconds[i] = min(seconds[i], cheapest)
        return seconds


@cache
def rank_below(n: int) -> int:
    """k, such that the kth smallest and the kth largest of n samples enclose the median at `LEVEL`; 0 for too few.

    Source: W. R. Thompson, Annals of Mathematical Statistics 7:122, 1936: order statistics, exact for any law.
    """
    below, k = 0.0, 0
    while below + math.comb(n, k) / 2**n <= (1 - LEVEL) / 2:
        below += math.comb(n, k) / 2**n
        k += 1
    return k


def point(rows: int, depth: int, samples_s: Sequence[float]) -> Point:
    """The median of the samples with its interval."""
    if not samples_s or not all(math.isfinite(each) and each > 0 for each in samples_s):
        raise ConfigError(f"{rows} rows at {depth} tokens: samples must be positive seconds; got {list(samples_s)!r}")
    ordered = sorted(samples_s)
    low, high = _ends(ordered)
    return Point(rows, depth, float(np.median(ordered)), low, high, _error(low, high), tuple(samples_s))


def median_error(samples: Sequence[float]) -> float:
    """One standard deviation of the median of the samples, as a share of it; they are positive."""
    return _error(*_ends(sorted(samples)))


def _ends(ordered: Sequence[float]) -> tuple[float, float]:
    """The interval of the median; where there are too few samples for one, the least and the largest."""
    k = rank_below(len(ordered))
    return (ordered[k - 1], ordered[-k]) if k else (ordered[0], ordered[-1])


def _error(low: float, high: float) -> float:
    return max(NOISE, math.log(high / low) / 2 / 1.96)


def published(medians_s: Mapping[int, float], depth: int, error: float = NOISE) -> tuple[Point, ...]:
    """Points of a sweep of which only the medians are known; `error` is one standard deviation, as a share."""
    if not all(math.isfinite(each) and each > 0 for each in medians_s.values()):
        raise ConfigError(f"a sweep at {depth} tokens holds costs that are not positive: {dict(medians_s)!r}")
    return tuple(
        Point(rows, depth, each, each * (1 - 1.96 * error), each * (1 + 1.96 * error), error)
        for rows, each in sorted(medians_s.items())
    )


def fit_curve(points: Sequence[Point], *, host_s: float = 0.0, can_pad: bool = False) -> CostCurve:
    """The curve through these points.

    A row count measured at several depths gets the line of least squares that does not fall: a longer context never
    makes attention cheaper, and a falling line would become negative somewhere. One measured at a single depth takes
    its slope from its neighbours. Raises: ConfigError for no points, or a row count that comes twice at one depth.
    """
    by_rows: dict[int, list[Point]] = {}
    for each in sorted(points, key=lambda each: (each.rows, each.depth)):
        by_rows.setdefault(each.rows, []).append(each)
    if not by_rows:
        raise ConfigError("a cost curve needs at least one point; measure the cost of one row, which is plain decoding")
    for rows, found in by_rows.items():
        if len({each.depth for each in found}) < len(found):
            raise ConfigError(f"{rows} rows come twice at one depth; put the samples of both together")
    known = {rows: _slope(found) for rows, found in by_rows.items() if len(found) > 1}
    slopes = np.interp(list(by_rows), list(known), list(known.values())) if known else np.zeros(len(by_rows))
    lines = []
    for (rows, found), slope in zip(by_rows.items(), slopes.tolist(), strict=True):
        lines.append(_line(rows, found, slope))
    return CostCurve(tuple(each for found in by_rows.values() for each in found), tuple(lines), host_s, can_pad)


def _line(rows: int, points: Sequence[Point], slope: float) -> RowCost:
    """The line of this slope through the points; through 0 at depth 0 where it would be negative there."""
    weights = [(point.median_s * point.error) ** -2 for point in points]
    base = sum(w * (p.median_s - slope * p.depth) for w, p in zip(weights, points, strict=True)) / sum(weights)
    if base < 0:
        base, slope = 0.0, min(point.median_s / point.depth for point in points if point.depth)
    return RowCost(rows, base, slope, max(point.error for point in points))


def _slope(points: Sequence[Point]) -> float:
    """Seconds per token of context: weighted least squares, never below 0."""
    depth = np.asarray([point.depth for point in points], np.float64)
    seconds = np.asarray([point.median_s for point in points])
    weights = np.asarray([(point.median_s * point.error) ** -2 for point in points])
    depth = depth - np.average(depth, weights=weights)
    return max(0.0, float((weights * depth * seconds).sum() / (weights * depth**2).sum()))
