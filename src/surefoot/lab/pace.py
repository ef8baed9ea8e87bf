"""What plain decoding should take at a time: how a text's depth, the rested machine and the pairs nearby explain it.

The pace of a text is its log seconds per token. What depth explains is taken off; what is left is the machine's, and it
may drift: a pair is held against its neighbours in time, on the same side of any sudden change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
import numpy.typing as npt

from surefoot.lab import stats
from surefoot.lab.records import Pair, Reference, Run, Side

NEIGHBOURS = 12
"""chosen: a line of Theil and Sen through 12 points bears 3 wild ones; they are two or three minutes of a usual run."""

ARM = 6
"""chosen: pairs on each side of a sudden change. Their median bears two wild ones, and a slow drift of a fifth over 24
pairs moves by a twentieth over them."""

SLOPE_POINTS = 400
"""chosen: 80,000 pairs of points, a few milliseconds."""

Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Depth:
    """What depth explains of a pace: straight in it. slope: log seconds per token, by token of depth. lengths: of the
    prompts, in tokens."""

    slope: float
    lengths: Mapping[str, int]

    def excess(self, prompt: str, side: Side) -> float:
        """Log seconds per token of this text, less what its depth explains."""
        return pace(side) - self.slope * (self.lengths[prompt] + side.n_output / 2)

    def speed(self, prompt: str, side: Side, excess: float) -> float:
        """Tokens per second of a text as deep as this one where the machine's own part is `excess`."""
        return float(np.exp(-excess - self.slope * (self.lengths[prompt] + side.n_output / 2)))


@dataclass(frozen=True, slots=True)
class Step:
    """A sudden change. before, after: the numbers of the pairs on its two sides. change: of the speed, as a share."""

    before: int
    after: int
    change: float


@dataclass(frozen=True, slots=True)
class Course:
    """The machine's own part of the pace over the run. expected: at each pair, by its number, from the pairs nearby
    without itself. noise: the standard deviation of a pair around that; None where too few can tell."""

    expected: Mapping[int, float]
    noise: float | None
    steps: tuple[Step, ...]


def pace(side: Side) -> float:
    """Log seconds per token after the first."""
    return float(np.log(side.decode_s / (side.n_output - 1)))


def by_depth(run: Run, references: Sequence[Reference], pairs: Sequence[Pair]) -> Depth:
    """What depth explains, from all baselines of the run, because the references are few."""
    lengths = {use.id: use.n_tokens for use in run.prompts}
    texts = [(each.at_s, each.prompt, each.off) for each in references]
    texts += [(each.at_s, each.prompt, each.off) for each in pairs if not each.shared]
    points = [(at_s, lengths[prompt] + side.n_output / 2, pace(side)) for at_s, prompt, side in texts]
    return Depth(_slope(points), lengths)


def course(pairs: Sequence[Pair], depth: Depth, every: Sequence[Pair], step: float) -> Course:
    """The machine's part over the run, as the baselines of `pairs` tell it, at `every` pair.

    step: the least sudden change of the pace that counts; more where the baselines scatter.
    """
    ordered = sorted({pair.measured: pair for pair in pairs}.values(), key=lambda pair: pair.measured)
    values = np.asarray([depth.excess(pair.prompt, pair.off) for pair in ordered], dtype=np.float64)
    when = np.asarray([pair.at_s for pair in ordered], dtype=np.float64)
    numbers = [pair.measured for pair in ordered]
    cuts = _cuts(values, step)
    steps = tuple(Step(numbers[cut - 1], numbers[cut], _change(values, cuts, cut)) for cut in cuts)
    expected = {}
    for pair in every:
        place = int(np.searchsorted(numbers, pair.measured))
        near = _near(place, cuts, len(values), place if pair.measured in numbers[place : place + 1] else None)
        if len(near) >= stats.MIN_VALUES:
            expected[pair.number] = _line(when[near], values[near], pair.at_s)
    left = [values[i] - expected[pair.number] for i, pair in enumerate(ordered) if pair.number in expected]
    noise = stats.spread(left) if len(left) >= stats.MIN_VALUES else None
    return Course(expected, noise, steps)


def _near(place: int, cuts: Sequence[int], n: int, itself: int | None) -> list[int]:
    """The places nearest to one, between the same two sudden changes, without itself."""
    low = max([0, *(cut for cut in cuts if cut <= place)])
    high = min([n, *(cut for cut in cuts if cut > place)])
    others = [i for i in range(low, high) if i != itself]
    return sorted(others, key=lambda i: (abs(i - place), i))[:NEIGHBOURS]


def _line(when: Doubles, values: Doubles, at_s: float) -> float:
    """The value at a time, on the line of Theil and Sen."""
    first, second = np.triu_indices(len(when), 1)
    spans = when[second] - when[first]
    apart = spans != 0
    slope = float(np.median((values[second] - values[first])[apart] / spans[apart])) if apart.any() else 0.0
    return float(np.median(values - slope * when)) + slope * at_s


def _cuts(values: Doubles, step: float) -> list[int]:
    """Where the values change suddenly: each the first place after a change, in order.

    The largest change first, then those between it and the ends. A change counts above `step`, and above four standard
    deviations of the difference of two medians.
    Source: binary segmentation; the variance of a median is pi / 2 of that of a mean. The scatter is that between
    neighbours, so that no drift is in it.
    """
    noise = stats.spread(np.diff(values).tolist()) / np.sqrt(2)

    def within(low: int, high: int) -> list[int]:
        best, cut = 1.0, None
        for at in range(low + ARM // 2, high - ARM // 2 + 1):
            left, right = values[max(at - ARM, low) : at], values[at : min(at + ARM, high)]
            least = max(step, 4 * noise * np.sqrt(np.pi / 2 * (1 / len(left) + 1 / len(right))))
            times = abs(np.median(right) - np.median(left)) / least
            if times > best and _sudden(np.concatenate((left, right)), len(left)):
                best, cut = times, at
        if cut is None:
            return []
        cut = _sharpened(values[low:high], cut - low) + low
        return [*within(low, cut), cut, *within(cut, high)]

    return within(0, len(values)) if len(values) >= 2 * ARM else []


def _sudden(values: Doubles, cut: int) -> bool:
    """Whether two levels tell the values better than a slope does."""
    places = np.arange(len(values), dtype=np.float64)
    slope = values - [_line(places, values, place) for place in places]
    return bool(_apart(values, cut) < np.abs(slope).sum())


def _apart(values: Doubles, cut: int) -> float:
    """How far the values are from the two medians before and after a place, in all."""
    return sum(float(np.abs(part - np.median(part)).sum()) for part in (values[:cut], values[cut:]))


def _sharpened(values: Doubles, cut: int) -> int:
    """The place nearby where two levels tell the values around it best."""
    low, high = max(cut - ARM, 0), min(cut + ARM, len(values))
    near = range(max(cut - ARM // 2, low + 1), min(cut + ARM // 2, high - 1) + 1)
    return min(near, key=lambda at: _apart(values[low:high], at - low))


def _change(values: Doubles, cuts: Sequence[int], cut: int) -> float:
    """Of the speed at a sudden change, as a share, from the pairs up to the next ones."""
    low = max([cut - ARM, 0, *(other for other in cuts if other < cut)])
    high = min([cut + ARM, len(values), *(other for other in cuts if other > cut)])
    return float(np.expm1(np.median(values[low:cut]) - np.median(values[cut:high])))


def _slope(points: Sequence[tuple[float, float, float]]) -> float:
    """Of the pace over the depth, from (time, depth, pace), by Theil and Sen; 0 where too few points can tell.

    Only points at least 64 tokens and at most a quarter of the run apart are compared. chosen: closer depths tell
    noise, and distant times a drift of the machine. Never below 0: no cache gets faster as it fills.
    """
    if len(points) > SLOPE_POINTS:
        points = points[:: -(-len(points) // SLOPE_POINTS)]
    if not points:
        return 0.0
    when, depth, paces = np.asarray(points, dtype=np.float64).T
    first, second = np.triu_indices(len(depth), 1)
    spans = depth[second] - depth[first]
    near = np.abs(when[second] - when[first]) <= np.ptp(when) / 4
    telling = near & (np.abs(spans) >= 64)
    if telling.sum() < stats.MIN_VALUES:
        return 0.0
    return max(float(np.median((paces[second] - paces[first])[telling] / spans[telling])), 0.0)


def fastest(levels: Sequence[float], found: Course) -> float | None:
    """The excess of a rested machine; None where nothing was measured at rest.

    levels: of the references. Their median, or that of the run where it was faster: references that were disturbed make
    no bound.
    """
    if not levels:
        return None
    return min(median(levels), median(found.expected.values())) if found.expected else median(levels)
