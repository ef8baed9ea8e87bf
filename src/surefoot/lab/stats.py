"""How sure a figure is: intervals of ratios and medians that hold at the few pairs a bench has, and the words for them.

The interval of a ratio is a paired bootstrap whose resamples take each value once or not at all: the means of all
subsets. Where values scatter evenly around the truth, it lies between any two neighbouring means equally often (the
typical value theorem, J. A. Hartigan, JASA 64:1303, 1969), at any number of values and with any tails. Resamples with
replacement reach that only as the number grows: of 1,000 A/A runs of 6 pairs, their percentile interval held the truth
in about 870 (tests/unit/test_stats.py). The logarithm of a ratio of two times scatters evenly where the sides take
turns at being first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
import numpy.typing as npt

from surefoot.core.cost import LEVEL, rank_below

MIN_VALUES = 6
"""Source: Hartigan 1969; fewer than 6 values have fewer than 2 / 0.05 subsets, so that no interval reaches 95 %."""

ALL_SUBSETS = 12
"""chosen: up to so many values, all subsets are taken; above, `DRAWN` of them."""

DRAWN = 9_999
"""chosen: the ends of an interval are then the 250th and the 9750th mean. Drawing subsets keeps the level (Hartigan
1969, theorem 2) and makes the ends a little rougher."""

SAME_WITHIN = 0.02
"""chosen: less than anybody notices, and about what 20 pairs of a machine with 3 % of noise can tell."""

TOO_WIDE = 3.0
"""chosen: an interval whose ends are this factor apart says nothing of how large the effect is."""

Verdict = Literal["faster", "slower", "no difference", "undecided"]


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its 95 % interval, from n values."""

    estimate: float
    low: float
    high: float
    n: int


def ratio_interval(ratios: Sequence[float]) -> Interval | None:
    """The geometric mean of ratios of one kind, each from other pairs; None where they are fewer than `MIN_VALUES`.

    Source: Hartigan 1969 on the logarithms.
    """
    logs = np.log(np.asarray(ratios, dtype=np.float64))
    if len(logs) < MIN_VALUES:
        return None
    means = np.sort(_weights(len(logs)) @ logs)
    # A share of 1 / (means + 1) lies between any two neighbours, and below the first, and above the last.
    k = int((1 - LEVEL) / 2 * (len(means) + 1))
    low, high = means[k - 1], means[-k]
    return Interval(math.exp(logs.mean()), math.exp(low), math.exp(high), len(logs))


def grouped_interval(ratios: Sequence[float], groups: Sequence[str]) -> Interval | None:
    """The geometric mean of ratios over groups (prompts), each group counting alike.

    What a draft gains depends on the prompt, so that many pairs of few prompts say little about a workload: where there
    are `MIN_VALUES` groups and more, each is one value. With fewer, each pair is one, and the interval is that of these
    prompts only.
    """
    by_group: dict[str, list[float]] = {}
    for ratio, group in zip(ratios, groups, strict=True):
        by_group.setdefault(group, []).append(math.log(ratio))
    if len(by_group) < MIN_VALUES:
        return ratio_interval(ratios)
    return ratio_interval([math.exp(sum(logs) / len(logs)) for logs in by_group.values()])


def median_interval(values: Sequence[float]) -> Interval | None:
    """The median with the interval that its order statistics give; None where there are fewer than `MIN_VALUES`."""
    n = len(values)
    if n < MIN_VALUES:
        return None
    ordered, k = sorted(values), rank_below(n)
    return Interval(float(np.median(ordered)), ordered[k - 1], ordered[-k], n)


def verdict(ratio: Interval) -> Verdict:
    """The word for an interval: what it leaves no doubt about."""
    if ratio.high / ratio.low > TOO_WIDE:
        return "undecided"
    if ratio.low >= 1 - SAME_WITHIN and ratio.high <= 1 + SAME_WITHIN:
        return "no difference"
    if ratio.low > 1:
        return "faster"
    return "slower" if ratio.high < 1 else "undecided"


def sentence(ratio: Interval) -> str:
    """The verdict in words for a table's foot or a report."""
    ends = f"{ratio.low:.3f} to {ratio.high:.3f} times the baseline"
    match verdict(ratio):
        case "no difference":
            return f"no difference within {100 * SAME_WITHIN:g} %"
        case "undecided" if ratio.high / ratio.low > TOO_WIDE:
            return f"undecided: {ends} is too wide, more prompts would tell"
        case "undecided":
            return f"undecided: {ends}, more pairs would tell"
        case word:
            return f"{word}: {ends}"


def trend(times: Sequence[float], values: Sequence[float]) -> tuple[float, float]:
    """The chance that values without a trend look like this, and the change from the first to the last time.

    Source: the Mann-Kendall test in its normal form (M. G. Kendall, Rank Correlation Methods, 1948), and the slope of
    Theil and Sen, the median over all pairs of points: both unmoved by a few wild values.
    """
    when, what = np.asarray(times, dtype=np.float64), np.asarray(values, dtype=np.float64)
    n = len(when)
    if n < MIN_VALUES or when.max() == when.min():
        return 1.0, 0.0
    first, second = np.triu_indices(n, 1)
    steps, spans = what[second] - what[first], when[second] - when[first]
    score = float(np.sum(np.sign(steps * spans)))
    spread = math.sqrt(n * (n - 1) * (2 * n + 5) / 18)
    z = max(abs(score) - 1, 0.0) / spread
    chance = math.erfc(z / math.sqrt(2))
    apart = spans != 0
    return chance, float(np.median(steps[apart] / spans[apart]) * (when.max() - when.min()))


def spread(values: Sequence[float]) -> float:
    """The standard deviation as the middle of the values tells it: 1.4826 times the median distance from the median."""
    array = np.asarray(values, dtype=np.float64)
    return 1.4826 * float(np.median(np.abs(array - np.median(array)))) if len(array) else 0.0


@cache
def _weights(n: int) -> npt.NDArray[np.float64]:
    """(m, n): a row for each subset that is not empty, 1 / its size where it has the value.

    Drawn subsets come from the bits of a generator whose stream NumPy promises to keep (NEP 19), so that a record is
    read alike everywhere.
    """
    if n <= ALL_SUBSETS:
        words, count = 1, 2**n
        drawn = np.arange(count, dtype=np.uint64)
    else:
        words, count = -(-n // 64), DRAWN
        drawn = np.asarray(np.random.PCG64(n).random_raw(count * words), dtype=np.uint64)
    bits = (drawn.reshape(count, words, 1) >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
    chosen = bits.reshape(count, words * 64)[:, :n].astype(np.float64)
    sizes = chosen.sum(axis=1, keepdims=True)
    some = sizes[:, 0] > 0
    weights: npt.NDArray[np.float64] = chosen[some] / sizes[some]
    return weights
