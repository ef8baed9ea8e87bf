"""Intervals that hold what they promise at the few pairs a bench has, and words that say no more than they do."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations

import numpy as np
import numpy.typing as npt
import pytest

from surefoot.lab import stats
from surefoot.lab.stats import Interval, grouped_interval, median_interval, ratio_interval, sentence, trend, verdict

Values = npt.NDArray[np.float64]

RUNS = 1_000
HELD = 930
"""Of 1,000 A/A runs, those whose 95 % interval must hold 1: 950 less three standard deviations."""

PAIRS = (6, 8, 12, 20)


def noise(rng: np.random.Generator, n: int) -> Values:
    """Log time of one side of n pairs: 1 % with heavy tails (Student's t of 3 degrees, whose fourth moment is none)."""
    return 0.01 * rng.standard_t(3, n)


def measured(rng: np.random.Generator, n: int, effect: float = 1.0, prompts: int = 6) -> tuple[Values, list[str]]:
    """Ratios of n pairs over prompts in turn. Prompts differ in speed and in noise, and the second side is slower."""
    of = np.arange(n) % prompts
    speed = rng.normal(0, 0.3, prompts)[of]
    rough = rng.lognormal(0, 0.5, prompts)[of]
    second = np.where(rng.permutation(n) % 2, 0.004, -0.004)
    off, on = speed + rough * noise(rng, n) + second, speed + rough * noise(rng, n) - second
    return effect * np.exp(off - on), [f"p{prompt}" for prompt in of]


@pytest.mark.parametrize("n", PAIRS)
@pytest.mark.parametrize("prompts", [3, 6])
def test_equal_sides_are_found_equal(n: int, prompts: int) -> None:
    """A/A: with 6 prompts each is a value, with 3 each pair is."""
    held = 0
    for seed in range(RUNS):
        found = grouped_interval(*measured(np.random.default_rng(seed), n, prompts=prompts))
        assert found is not None
        held += found.low <= 1 <= found.high
    assert held >= HELD


@pytest.mark.parametrize("n", PAIRS)
def test_each_pair_its_own_prompt(n: int) -> None:
    held = 0
    for seed in range(RUNS):
        ratios, groups = measured(np.random.default_rng(seed), n, prompts=n)
        found = grouped_interval(ratios, groups)
        assert found == ratio_interval(ratios)
        assert found is not None
        held += found.low <= 1 <= found.high
    assert held >= HELD


def test_a_drawn_percentile_bootstrap_would_not_do() -> None:
    """Why the interval is made of subsets: drawn with replacement, 6 pairs hold the truth far too seldom."""
    held = 0
    for seed in range(RUNS):
        rng = np.random.default_rng(seed)
        logs = np.log(measured(rng, 6)[0])
        low, high = np.quantile(logs[rng.integers(0, 6, (2_000, 6))].mean(axis=1), [0.025, 0.975])
        held += low <= 0 <= high
    assert held < HELD - 30


def test_three_per_cent_are_found_in_20_pairs_and_mostly_in_12() -> None:
    """With ratios that scatter by 3 % from pair to pair, and never with the wrong sign."""
    for n, least in ((12, 850), (20, 930)):
        for effect, right, wrong in ((1.03, "faster", "slower"), (1 / 1.03, "slower", "faster")):
            words = [_word(seed, n, effect) for seed in range(RUNS)]
            assert words.count(right) >= least, (n, right)
            assert words.count(wrong) == 0


def test_nothing_is_claimed_of_equal_sides() -> None:
    """A wrong "faster" or "slower" comes less often than the level allows, because within 2 % nothing is claimed."""
    words = [_word(seed, 12, 1.0) for seed in range(RUNS)]
    assert words.count("faster") + words.count("slower") <= 50
    assert words.count("no difference") >= 300


def _word(seed: int, n: int, effect: float) -> str:
    found = grouped_interval(*measured(np.random.default_rng(seed), n, effect, prompts=n))
    assert found is not None
    return verdict(found)


def test_the_level_is_exact_for_every_way_in_which_signs_can_fall() -> None:
    """Hartigan's theorem, walked: of all 2^n sign patterns of any distances, the interval misses 0 in at most 5 %."""
    rng = np.random.default_rng(1)
    for n in (6, 7, 8, 9):
        distances = rng.lognormal(0, 1.5, n)
        missed = 0
        for pattern in range(2**n):
            signs = np.where((pattern >> np.arange(n)) & 1, 1, -1)
            found = ratio_interval(np.exp(signs * distances))
            assert found is not None
            missed += not found.low <= 1 <= found.high
        k = int(0.025 * 2**n)
        assert missed == 2 * k, n  # not one pattern more or less than the level says


def test_the_ends_are_means_of_subsets() -> None:
    logs = [0.1, -0.2, 0.35, 0.0, 0.05, 0.6, -0.4]
    means = sorted(math.fsum(part) / len(part) for size in range(1, 8) for part in combinations(logs, size))
    found = ratio_interval([math.exp(value) for value in logs])
    assert found is not None
    k = int(0.025 * (len(means) + 1))
    assert (math.log(found.low), math.log(found.high)) == pytest.approx((means[k - 1], means[-k]))
    assert math.log(found.estimate) == pytest.approx(sum(logs) / 7)
    assert found.n == 7


@pytest.mark.parametrize("n", [13, 64, 65, 200])
def test_drawn_subsets_are_the_same_everywhere_and_half_of_the_values(n: int) -> None:
    weights = stats._weights(n)
    chosen = weights > 0
    assert np.allclose(weights.sum(axis=1), 1)
    assert len(weights) >= stats.DRAWN - 10
    assert np.all(np.abs(chosen.mean(axis=0) - 0.5) < 0.03)
    ratios = np.exp(np.random.default_rng(n).normal(0, 0.01, n))
    assert ratio_interval(ratios) == ratio_interval(ratios)
    assert [chosen[row, :8].astype(int).tolist() for row in (0, 1)] == _FIRST[n]


_FIRST = {
    13: [[0, 0, 1, 1, 1, 1, 0, 1], [1, 1, 1, 1, 1, 1, 1, 1]],
    64: [[0, 1, 1, 1, 0, 1, 0, 0], [1, 1, 1, 1, 0, 1, 0, 0]],
    65: [[1, 1, 1, 0, 1, 1, 1, 1], [1, 0, 1, 0, 0, 0, 1, 0]],
    200: [[1, 0, 1, 0, 0, 1, 0, 1], [1, 1, 0, 1, 1, 0, 0, 1]],
}
"""As drawn on x86_64 with NumPy 2.4: another stream would read a record differently."""


def test_many_pairs_of_few_prompts_do_not_make_an_interval_narrow() -> None:
    """Six prompts that gain between 0.8 and 1.6: a hundred pairs of each change nothing about what a seventh gains."""
    gains = [0.8, 0.9, 1.0, 1.2, 1.4, 1.6]
    rng = np.random.default_rng(2)
    few = grouped_interval(gains, list("abcdef"))
    many = grouped_interval([gain * float(np.exp(rng.normal(0, 0.01))) for gain in gains * 100], list("abcdef") * 100)
    assert few is not None
    assert many is not None
    assert (few.low, few.high, few.n) == pytest.approx((0.8, 1.6, 6))
    assert (many.low, many.high, many.n) == pytest.approx((0.8, 1.6, 6), rel=0.01)
    assert verdict(few) == "undecided"


def test_each_prompt_counts_alike() -> None:
    found = grouped_interval([2.0] * 10 + [1.0] * 6, ["often"] * 10 + list("abcdef"))
    assert found is not None
    assert found.estimate == pytest.approx(2 ** (1 / 7))


def test_too_few_values_give_no_interval() -> None:
    assert ratio_interval([1.0] * 5) is None
    assert median_interval([1.0] * 5) is None
    assert grouped_interval([1.0] * 5, list("abcde")) is None
    assert grouped_interval([1.0] * 6, list("aabbcc")) is not None


@pytest.mark.parametrize("draw", [np.random.Generator.standard_normal, np.random.Generator.standard_cauchy])
def test_the_median_is_held_whatever_the_law(draw: Callable[[np.random.Generator, int], Values]) -> None:
    for n in (6, 9, 20):
        held = 0
        for seed in range(RUNS):
            found = median_interval([float(value) for value in draw(np.random.default_rng(seed), n)])
            assert found is not None
            held += found.low <= 0 <= found.high
        assert held >= HELD


@pytest.mark.parametrize(
    ("low", "high", "word", "told"),
    [
        (1.01, 1.30, "faster", "faster: 1.010 to 1.300 times the baseline"),
        (0.70, 0.99, "slower", "slower: 0.700 to 0.990 times the baseline"),
        (0.985, 1.015, "no difference", "no difference within 2 %"),
        (1.001, 1.019, "no difference", "no difference within 2 %"),
        (0.97, 1.01, "undecided", "undecided: 0.970 to 1.010 times the baseline, more pairs would tell"),
        (0.6, 1.9, "undecided", "undecided: 0.600 to 1.900 times the baseline is too wide, more prompts would tell"),
        (1.1, 3.5, "undecided", "undecided: 1.100 to 3.500 times the baseline is too wide, more prompts would tell"),
    ],
)
def test_words(low: float, high: float, word: str, told: str) -> None:
    found = Interval(math.sqrt(low * high), low, high, 8)
    assert verdict(found) == word
    assert sentence(found) == told


def test_a_trend_is_told_from_noise() -> None:
    times = list(range(30))
    false = drifts = 0
    for seed in range(RUNS):
        values = noise(np.random.default_rng(seed), 30)
        false += trend(times, values.tolist())[0] < 0.01
        chance, change = trend(times, (values - 0.002 * np.arange(30)).tolist())
        drifts += chance < 0.01 and change == pytest.approx(-0.058, abs=0.03)
    assert false <= 20
    assert drifts >= 980
    assert trend([1, 1, 1, 1, 1, 1, 1], [1, 2, 3, 4, 5, 6, 7]) == (1.0, 0.0)
    assert trend([1, 2], [1, 2]) == (1.0, 0.0)
    wild = [0.0] * 29 + [1e9]
    assert trend(times, wild)[0] > 0.1


def test_a_spread_ignores_a_few_wild_values() -> None:
    values = np.random.default_rng(0).normal(0, 2.0, 2_000)
    values[:200] = 1e6
    assert stats.spread(values.tolist()) == pytest.approx(2.0, rel=0.2)
    assert stats.spread([]) == 0.0
