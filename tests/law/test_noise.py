"""A3: keyed draws follow their law, independently across positions, tokens and seeds, by either path."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from scipy import stats

from surefoot.core import noise
from surefoot.core.history import History
from surefoot.core.law import Law, next_law
from surefoot.core.noise import KeyedSampler
from surefoot.core.sampling import Sampling
from surefoot.core.types import as_ids
from surefoot.targets.toy import Options, ToyTarget
from surefoot.testing.faults import replaced
from surefoot.testing.references import fresh_logits

NOTHING = History(as_ids([0]))
ALMOST_NEVER = 1e-4
"""chosen: seeds are fixed, so a test either always passes or always fails; a sound sampler has 1 in 10,000 to fail."""


def toy_law(vocab_size: int, strength: float = 1.5, sampling: Sampling | None = None) -> Law:
    target = ToyTarget(Options(vocab_size=vocab_size, strength=strength, max_length=8))
    return next_law(fresh_logits(target, [1, 2]), sampling or Sampling(temperature=1.0), NOTHING)


@contextmanager
def always(path: str) -> Iterator[None]:
    """Every law drawn from by the direct path, or every law by the path for large vocabularies."""
    with replaced(noise, "_DIRECT", 2**31 if path == "direct" else 0):
        yield


def fits(counts: np.ndarray, probs: np.ndarray) -> float:
    """The p-value of the chi-square test, rare tokens pooled so that 10 of each are expected."""
    order = np.argsort(-probs)
    expected, found, pooled = probs[order] * counts.sum(), counts[order], []
    held = np.zeros(2)
    for due, seen in zip(expected, found, strict=True):
        held += (seen, due)
        if held[1] >= 10:
            pooled.append(held)
            held = np.zeros(2)
    pooled[-1] = pooled[-1] + held
    table = np.asarray(pooled)
    return float(stats.chisquare(table[:, 0], table[:, 1] * table[:, 0].sum() / table[:, 1].sum()).pvalue)


@pytest.mark.parametrize("path", ["direct", "large"])
@pytest.mark.parametrize(
    "sampling", [Sampling(temperature=1.0), Sampling(temperature=2.0, top_k=7)], ids=["all", "top_k"]
)
@pytest.mark.parametrize("key", ["position", "seed"])
def test_draws_follow_a_small_law(key: str, sampling: Sampling, path: str) -> None:
    law = toy_law(16, sampling=sampling)
    with always(path):
        if key == "position":
            sampler = KeyedSampler(11)
            drawn = [sampler.draw(law, n) for n in range(6_000)]
        else:
            drawn = [KeyedSampler(seed).draw(law, 3) for seed in range(6_000)]
    assert fits(np.bincount(drawn, minlength=16), law.dense(16)) > ALMOST_NEVER


@pytest.mark.parametrize("strength", [0.5, 2.0])
def test_draws_follow_a_law_over_fifty_thousand_tokens(strength: float) -> None:
    size = 50_000
    law = toy_law(size, strength)
    sampler = KeyedSampler(5)
    drawn = [sampler.draw(law, n) for n in range(2_000)]
    probs = law.dense(size)
    # Tokens are grouped by their hash-free rank, so that each group holds likely and unlikely ones of all ids.
    groups = np.argsort(np.argsort(-probs)) % 40
    mass = np.bincount(groups, weights=probs, minlength=40)
    assert fits(np.bincount(groups[drawn], minlength=40), mass) > ALMOST_NEVER
    by_likelihood = np.minimum((np.cumsum(np.sort(probs)[::-1])[np.argsort(np.argsort(-probs))] * 30).astype(int), 29)
    mass = np.bincount(by_likelihood, weights=probs, minlength=30)
    assert fits(np.bincount(by_likelihood[drawn], minlength=30), mass) > ALMOST_NEVER


@pytest.mark.parametrize("sampling", [
    Sampling(temperature=1.0), Sampling(temperature=0.2), Sampling(temperature=5.0),
    Sampling(temperature=1.0, top_k=3000), Sampling(temperature=1.0, top_p=0.95),
    Sampling(temperature=2.0, min_p=0.001),
], ids=["1.0", "0.2", "5.0", "top_k", "top_p", "min_p"])  # fmt: skip
def test_the_path_for_large_vocabularies_draws_what_the_direct_path_draws(sampling: Sampling) -> None:
    law = toy_law(20_000, 2.0, sampling)
    sampler = KeyedSampler(7)
    with always("direct"):
        direct = [sampler.draw(law, n) for n in range(400)]
    with always("large"):
        large = [sampler.draw(law, n) for n in range(400)]
    assert large == direct
    assert len(set(direct)) > 1


def test_the_paths_agree_on_small_and_odd_laws() -> None:
    rng = np.random.default_rng(0)
    for n in range(500):
        weights = rng.exponential(size=int(rng.integers(1, 40))).astype(np.float32) ** 4
        weights[rng.random(len(weights)) < 0.3] = 0
        weights[rng.integers(0, len(weights))] = rng.choice([1.0, 1e-30])
        law = Law(weights, None if n % 2 else np.sort(rng.choice(1000, len(weights), replace=False)).astype(np.int32))
        sampler = KeyedSampler(n)
        with always("direct"):
            direct = sampler.draw(law, n)
        with always("large"):
            assert sampler.draw(law, n) == direct
        place = law.place(direct)
        assert place is not None
        assert weights[place] > 0


def test_a_truncated_law_uses_the_noise_of_the_whole_one() -> None:
    whole = toy_law(64, 1.0)
    for sampling in (Sampling(temperature=1.0, top_k=20), Sampling(temperature=1.0, top_p=0.8)):
        part = toy_law(64, 1.0, sampling)
        sampler = KeyedSampler(2)
        kept = 0
        for n in range(500):
            token = sampler.draw(whole, n)
            if part.prob(token) > 0:
                kept += 1
                assert sampler.draw(part, n) == token
        assert kept > 200


def test_a_token_of_no_weight_is_never_drawn() -> None:
    law = Law(np.asarray([0, 1e-20, 0, 3e-20, 0], np.float32))
    assert {KeyedSampler(seed).draw(law, 0) for seed in range(200)} == {1, 3}


@pytest.mark.parametrize("lag", [1, 2, 7, 64])
def test_draws_of_different_positions_are_independent(lag: int) -> None:
    law = toy_law(6, 0.7)
    sampler = KeyedSampler(3)
    drawn = np.asarray([sampler.draw(law, n) for n in range(12_000)])
    table = np.zeros((6, 6))
    np.add.at(table, (drawn[:-lag], drawn[lag:]), 1)
    assert stats.chi2_contingency(table).pvalue > ALMOST_NEVER


@pytest.mark.parametrize("other", [4, 2**32 + 3, 3 ^ 2**63])
def test_draws_of_different_seeds_are_independent(other: int) -> None:
    law = toy_law(6, 0.7)
    first, second = KeyedSampler(3), KeyedSampler(other)
    table = np.zeros((6, 6))
    for n in range(8_000):
        table[first.draw(law, n), second.draw(law, n)] += 1
    assert stats.chi2_contingency(table).pvalue > ALMOST_NEVER


def test_the_noise_of_two_tokens_is_independent() -> None:
    # Who wins among tokens 0 and 1 says nothing about who wins among 2 and 3 at the same position.
    sampler = KeyedSampler(9)
    for pairs in (((0, 1), (2, 3)), ((0, 2), (1, 3)), ((0, 1000), (1, 1001)), ((5, 6), (40_000, 40_001))):
        table = np.zeros((2, 2))
        for n in range(4_000):
            first, second = (
                sampler.draw(Law(np.ones(2, np.float32), np.asarray(pair, np.int32)), n) == pair[0] for pair in pairs
            )
            table[int(first), int(second)] += 1
        assert stats.chi2_contingency(table).pvalue > ALMOST_NEVER


def test_the_ratio_judge_is_independent_of_drafts_that_share_the_seed() -> None:
    law = toy_law(6, 0.7)
    drafter, judge = KeyedSampler(3), KeyedSampler.for_ratio(3)
    table = np.zeros((6, 6))
    accepted = np.zeros((6, 2))
    for n in range(8_000):
        drafted = drafter.draw(law, n)
        table[drafted, judge.draw(law, n)] += 1
        accepted[drafted, int(judge.accept(0.5, n, 0))] += 1
    assert stats.chi2_contingency(table).pvalue > ALMOST_NEVER
    assert stats.chi2_contingency(accepted).pvalue > ALMOST_NEVER


@pytest.mark.parametrize("chance", [0.001, 0.3, 0.5, 0.97])
def test_acceptance_has_its_chance(chance: float) -> None:
    sampler = KeyedSampler.for_ratio(1)
    for attempt in range(3):
        hits = sum(sampler.accept(chance, n, attempt) for n in range(8_000))
        assert stats.binomtest(hits, 8_000, chance).pvalue > ALMOST_NEVER
    both = np.zeros((2, 2))
    for n in range(8_000):
        both[int(sampler.accept(0.5, n, 0)), int(sampler.accept(0.5, n, 1))] += 1
    assert stats.chi2_contingency(both).pvalue > ALMOST_NEVER


def test_certain_and_impossible_are_exact() -> None:
    sampler = KeyedSampler.for_ratio(1)
    assert all(sampler.accept(1.0, n, 0) for n in range(1000))
    assert not any(sampler.accept(0.0, n, 0) for n in range(1000))


def test_planted_correlation_between_positions_is_caught() -> None:
    """The independence test fails on noise that ignores the lowest bit of the position."""
    law = toy_law(6, 0.7)
    sampler = KeyedSampler(3)
    drawn = np.asarray([sampler.draw(law, n // 2) for n in range(12_000)])
    table = np.zeros((6, 6))
    np.add.at(table, (drawn[:-1], drawn[1:]), 1)
    assert stats.chi2_contingency(table).pvalue < ALMOST_NEVER
