"""The staircase in a cost curve: treads whose rows cost about the same, and the steps between them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
import numpy.typing as npt

from surefoot.core.cost import CostCurve

Doubles = npt.NDArray[np.float64]

SEGMENT = 2.0
RAMP = 1.0
"""Source: G. Schwarz, Annals of Statistics 6:461, 1978: each free number costs log n, in units of chi squared with
known noise. A flat piece has two, its level and its beginning; a rising one has a slope too."""

SHORTEST_RAMP = 3
"""Two points lie on a line whatever they are."""

OPEN_END = 3.0
"""chosen: how much larger than the rise inside the step must be that begins the last piece, whose own end nobody
saw."""


LONGEST_TOP = 16
"""chosen: twice the longest fixed length that was the best anywhere; longer drafts hold too seldom to be grown to."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Points first to last - 1 of a fit. The fitted cost is level where it is flat, and rises by slope per row."""

    first: int
    last: int
    level: float
    slope: float
    centre: float

    def at(self, rows: float) -> float:
        """The fitted cost."""
        return self.level + self.slope * (rows - self.centre)


@dataclass(frozen=True, slots=True)
class Plateau:
    """Rows first to last cost about the same: what they add up to inside is less than the step that ends it.

    first_s, last_s: fitted seconds of a forward. low_s, high_s: the 95 % interval of the mean. holes: row counts inside
    that were not measured. closed: the step behind it was seen at the very next row count, so that `last` is the top;
    where it is not, the top is `last` at least. at_most: the last row count that could still belong to it; None where
    the sweep ends.
    """

    first: int
    last: int
    first_s: float
    last_s: float
    low_s: float
    high_s: float
    holes: tuple[int, ...]
    closed: bool
    at_most: int | None

    @property
    def top_draft_len(self) -> int:
        """K of the last row: the draft length that this tread is best used with."""
        return self.last - 1


@dataclass(frozen=True, slots=True)
class Step:
    """The cost jumps from `below` to `above` rows. exact: there is no row count between the two."""

    below: int
    above: int
    rise_s: float

    @property
    def exact(self) -> bool:
        return self.above == self.below + 1


@dataclass(frozen=True, slots=True)
class Dip:
    """Computing `width` rows is cheaper than `rows`, by more than the noise: saving is a share of the cost of
    `rows`."""

    rows: int
    width: int
    saving: float


@dataclass(frozen=True, slots=True)
class Staircase:
    """What a curve looks like at one depth.

    kind: flat (every row costs the same), staircase (a plateau with a step), slope (no plateau). holes: row counts of
    the sweep that were not measured; a step or a plateau may hide in each.
    """

    depth: int
    kind: Literal["flat", "staircase", "slope"]
    plateaus: tuple[Plateau, ...]
    steps: tuple[Step, ...]
    dips: tuple[Dip, ...]
    holes: tuple[int, ...]

    @property
    def tops(self) -> tuple[int, ...]:
        """Draft lengths at the tops whose step was seen, ascending."""
        return tuple(plateau.top_draft_len for plateau in self.plateaus if plateau.closed)


def staircase(curve: CostCurve, depth: int) -> Staircase:
    """Plateaus, steps and points that do not rise, at this depth.

    The fit is the best of all ways to cut the curve into flat and rising pieces. A piece of two row counts or more is a
    plateau when it is flat, or when the step that ends it costs more than everything inside it; the last piece, whose
    end was not seen, when the step that begins it costs much more. So a straight line, one rising piece, has none.
    """
    rows = np.asarray(curve.rows, np.float64)
    cost = np.asarray([line.at(depth) for line in curve.lines])
    sigma = cost * np.asarray([line.error for line in curve.lines])
    pieces = fit(rows, cost, sigma)
    treads = [piece for number, piece in enumerate(pieces) if _is_tread(pieces, number, curve.rows)]
    plateaus = tuple(_plateau(piece, curve, cost, sigma) for piece in treads)
    steps = tuple(
        Step(curve.rows[a.last - 1], curve.rows[b.first], _jump(a, b, curve.rows)) for a, b in pairwise(pieces)
    )
    kind: Literal["flat", "staircase", "slope"] = "slope"
    if plateaus:
        kind = "flat" if len(pieces) == 1 else "staircase"
    return Staircase(depth, kind, plateaus, steps, _dips(curve, depth), curve.holes)


def highest_top(curve: CostCurve) -> int | None:
    """The longest draft length at a plateau top whose step was seen, at the deepest context that was swept; None where
    there is none up to `LONGEST_TOP`.

    A draft past that top pays for a step, which one below it does not.
    """
    tops = staircase(curve, max(curve.depths)).tops
    return max((top for top in tops if top <= LONGEST_TOP), default=None)


def fit(rows: Doubles, cost: Doubles, sigma: Doubles, *, ramps: bool = True) -> list[Piece]:
    """The cut of the curve into pieces with the least chi squared plus penalty, exactly, in ascending order.

    Without `ramps` every piece is flat: a piecewise-constant fit.
    Shapes: rows, cost, sigma (n,), n >= 1; sigma is one standard deviation of each cost.
    Source: dynamic programming over the last cut (R. Bellman, Communications of the ACM 4:284, 1961).
    """
    n = len(rows)
    unit = math.log(n) if n > 1 else 1.0
    best: list[tuple[float, Piece | None]] = [(0.0, None)]
    for last in range(1, n + 1):
        options = [
            (best[first][0] + misfit + unit * numbers, piece)
            for first in range(last)
            for misfit, numbers, piece in _candidates(rows, cost, sigma, first, last, ramps)
        ]
        best.append(min(options, key=lambda option: option[0]))
    pieces: list[Piece] = []
    while n:
        piece = best[n][1]
        assert piece is not None
        pieces.append(piece)
        n = piece.first
    return pieces[::-1]


def _candidates(
    rows: Doubles, cost: Doubles, sigma: Doubles, first: int, last: int, ramps: bool
) -> list[tuple[float, float, Piece]]:
    """Chi squared, free numbers and piece of the flat and of the rising fit to points first to last - 1."""
    x, y = rows[first:last], cost[first:last]
    weights = sigma[first:last] ** -2
    total = float(weights.sum())
    centre, level = float(weights @ x) / total, float(weights @ y) / total
    flat = float(weights @ (y - level) ** 2)
    found = [(flat, SEGMENT, Piece(first, last, level, 0.0, centre))]
    if ramps and last - first >= SHORTEST_RAMP:
        together = float(weights @ ((x - centre) * (y - level)))
        spread = float(weights @ (x - centre) ** 2)
        if together > 0:
            slope = together / spread
            found.append((flat - slope * together, SEGMENT + RAMP, Piece(first, last, level, slope, centre)))
    return found


def _is_tread(pieces: Sequence[Piece], number: int, rows: Sequence[int]) -> bool:
    piece = pieces[number]
    if piece.last - piece.first < 2:
        return False
    if not piece.slope:
        return True
    inside = piece.slope * (rows[piece.last - 1] - rows[piece.first])
    if number + 1 < len(pieces):
        return _jump(piece, pieces[number + 1], rows) > inside
    return number > 0 and _jump(pieces[number - 1], piece, rows) > OPEN_END * inside


def _jump(a: Piece, b: Piece, rows: Sequence[int]) -> float:
    """From the fitted end of one piece to the fitted beginning of the next."""
    return b.at(rows[b.first]) - a.at(rows[a.last - 1])


def _plateau(piece: Piece, curve: CostCurve, cost: Doubles, sigma: Doubles) -> Plateau:
    rows = curve.rows
    first, last = rows[piece.first], rows[piece.last - 1]
    half = 1.96 * float((sigma[piece.first : piece.last] ** -2).sum()) ** -0.5
    at_most = rows[piece.last] - 1 if piece.last < len(rows) else None
    return Plateau(
        first,
        last,
        piece.at(first),
        piece.at(last),
        piece.level - half,
        piece.level + half,
        tuple(hole for hole in curve.holes if first < hole < last),
        at_most == last,
        at_most,
    )


def _dips(curve: CostCurve, depth: int) -> tuple[Dip, ...]:
    """Row counts for which a wider forward is cheaper than the noise explains."""
    dips = []
    for number, line in enumerate(curve.lines[:-1]):
        wider = min(curve.lines[number + 1 :], key=lambda other: other.at(depth))
        saving = 1 - wider.at(depth) / line.at(depth)
        if saving > 1.96 * math.hypot(line.error, wider.error):
            dips.append(Dip(line.rows, wider.rows, saving))
    return tuple(dips)
