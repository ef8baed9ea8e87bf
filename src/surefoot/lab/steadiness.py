"""What the samples of a sweep say about the machine: its pace from turn to turn, stalls, and whether it drifts,
throttles, shifts or has two modes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Literal

import numpy as np
import numpy.typing as npt

from surefoot.core.plateaus import fit

ROUNDS = 10
"""chosen: median polish settles in two or three; ten is never reached on sweeps."""

OUTLIER = 1.5
STALL = 5.0
"""chosen: half as much again is no rounding of a clock, and five times is a pause of the system, whatever it was."""

PACE_NOISE = 0.03
"""chosen: at least, of the median over a turn of a dozen row counts, on a machine that does something else, too."""

SAME = 1.05
"""measured: differences under 5 % between sweeps on one machine are noise."""

MODES = 1.3
"""chosen: a pace that leaves and comes back, this factor apart: no drift does that."""

JUMP = 1.15
"""chosen: five times the noise of a pace from one turn to the next; what slows down more slowly drifts."""

SHIFT = 1.5
"""chosen: half as much again, from one turn to the next. Heat does that, and so does a process that falls into a mode
twice as slow; whoever sees it once cannot tell which."""

MIXED = 0.10
"""chosen: more samples than this share that are `OUTLIER` times the lower quartile of their own kind are no
outliers."""

Kind = Literal["steady", "drift", "throttled", "shift", "two modes", "restless"]
Doubles = npt.NDArray[np.float64]
Place = tuple[int, int]
"""Rows and depth."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One round of a sweep. at_s: when it began, since the sweep began."""

    turn: int
    rows: int
    depth: int
    at_s: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Outlier:
    """A round that took `times` the usual of its rows and depth, the pace of its turn taken out."""

    sample: Sample
    times: float


@dataclass(frozen=True, slots=True)
class Steadiness:
    """paces: how many times slower than usual each turn was. outliers: kept and named, the worst first; stalls: how
    many of them took `STALL` times the usual and more. kind: what the paces do. text: in words, with what to do about
    it.
    """

    paces: Mapping[int, float]
    outliers: tuple[Outlier, ...]
    stalls: int
    kind: Kind
    slowest: float
    text: str

    @property
    def steady(self) -> bool:
        return self.kind == "steady"


def corrected(samples: Sequence[Sample], paces: Mapping[int, float]) -> dict[Place, list[float]]:
    """The seconds of each row count and depth, each by the pace of its turn, in the order in which they were
    measured."""
    found: dict[Place, list[float]] = {}
    for each in samples:
        found.setdefault((each.rows, each.depth), []).append(each.seconds / paces[each.turn])
    return found


def turn_paces(samples: Sequence[Sample]) -> dict[int, float]:
    """How many times slower than usual each turn was; the median of all is 1.

    Whatever slows a turn slows all its row counts, so that it can be told from what a row count costs.
    Source: J. W. Tukey, Exploratory Data Analysis, 1977, median polish on logarithms.
    """
    logs = [(each.turn, (each.rows, each.depth), float(np.log(each.seconds))) for each in samples]
    pace = dict.fromkeys((turn for turn, _, _ in logs), 0.0)
    for _ in range(ROUNDS):
        cost: dict[Place, list[float]] = {}
        for turn, place, log in logs:
            cost.setdefault(place, []).append(log - pace[turn])
        level = {place: median(values) for place, values in cost.items()}
        turns: dict[int, list[float]] = {}
        for turn, place, log in logs:
            turns.setdefault(turn, []).append(log - level[place])
        new = {turn: median(values) for turn, values in turns.items()}
        usual = median(new.values())
        new = {turn: value - usual for turn, value in new.items()}
        if all(abs(new[turn] - pace[turn]) < 1e-9 for turn in new):
            break
        pace = new
    return {turn: float(np.exp(value)) for turn, value in pace.items()}


def steadiness(samples: Sequence[Sample]) -> Steadiness:
    """What these samples, turn by turn, say about the machine."""
    paces = turn_paces(samples)
    usual = {place: median(values) for place, values in corrected(samples, paces).items()}
    ratios = [Outlier(each, each.seconds / paces[each.turn] / usual[each.rows, each.depth]) for each in samples]
    outliers = tuple(sorted((each for each in ratios if each.times > OUTLIER), key=lambda each: -each.times))
    stalls = sum(each.times > STALL for each in outliers)
    turns = sorted(paces)
    values = np.asarray([paces[turn] for turn in turns])
    pieces = fit(np.arange(1.0, len(values) + 1), values, _noise(values) * values)
    levels = [piece.at(at + 1) for piece in pieces for at in (piece.first, piece.last - 1)]
    slowest = max(levels) / min(levels)
    jumps = [b.at(b.first + 1) / a.at(a.last) for a, b in pairwise(pieces)]
    return Steadiness(paces, outliers, stalls, *_judged(levels, slowest, jumps, _mixed(corrected(samples, paces))))


def _noise(paces: Doubles) -> float:
    """One standard deviation of a pace, as a share, from neighbouring turns, so that jumps and drifts are not in it.

    Source: the median absolute difference of neighbours by that of a normal law.
    """
    if len(paces) < 2:
        return PACE_NOISE
    between = float(np.median(np.abs(np.diff(np.log(paces)))))
    return max(PACE_NOISE, between / (0.6745 * math.sqrt(2)))


def _mixed(by_place: Mapping[Place, Sequence[float]]) -> bool:
    """Whether samples of one kind, the paces of their turns taken out, still fall into two groups."""
    high = sum(value > OUTLIER * float(np.quantile(v, 0.25)) for v in by_place.values() for value in v)
    return high > MIXED * sum(map(len, by_place.values()))


def _judged(levels: Sequence[float], slowest: float, jumps: Sequence[float], mixed: bool) -> tuple[Kind, float, str]:
    """The kind, how much slower the slowest stretch was than the fastest, and the words.

    levels: the pace at both ends of each stretch; jumps: from each stretch to the next, above 1 where it became slower.
    """
    if mixed:
        return "restless", slowest, (
            "samples of one and the same kind fall into two groups: something else uses this machine by fits and "
            "starts; close it, or fix the clock rate, and measure again"
        )  # fmt: skip
    if slowest <= SAME:
        return "steady", slowest, "the machine kept its pace"
    top = levels.index(max(levels))
    before, after = min(levels[: top + 1]), min(levels[top:])
    if slowest >= MODES and levels[top] / before >= MODES and levels[top] / after >= MODES:
        return "two modes", slowest, (
            f"the machine went to a pace {slowest:.1f} times slower and came back; relative costs stand, seconds do "
            "not: measure again in a new process, and compare"
        )  # fmt: skip
    slower, quicker = max(jumps, default=1.0), 1 / min(jumps, default=1.0)
    if max(slower, quicker) >= SHIFT:
        became = "slower" if slower >= quicker else "quicker"
        return "shift", slowest, (
            f"the machine became {max(slower, quicker):.1f} times {became} at once: a mode of the process, or heat; "
            "relative costs stand, seconds do not: measure again in a new process, and let it cool down before"
        )  # fmt: skip
    if slower >= JUMP and levels[-1] / levels[0] >= MODES:
        return "throttled", slowest, (
            f"the machine became {levels[-1] / levels[0]:.1f} times slower and stayed so: let it cool down, give it "
            "power, and measure again; relative costs stand"
        )  # fmt: skip
    return "drift", slowest, (
        f"the pace changed by {slowest - 1:.0%} while measuring; costs are corrected for it, and seconds are those of "
        "the middle"
    )  # fmt: skip
