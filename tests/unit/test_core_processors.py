"""Processors against the plain reading of their definition, and the edges of the law."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surefoot.core.errors import ConfigError, TargetError
from surefoot.core.history import History
from surefoot.core.law import best, next_law
from surefoot.core.processors import process
from surefoot.core.sampling import Sampling
from surefoot.core.types import Floats, as_ids

V = 8


def history_of(prompt: list[int], output: list[int]) -> History:
    history = History(as_ids(prompt))
    for token in output:
        history.push(token)
    return history


def row(seed: int = 0) -> Floats:
    return np.random.default_rng(seed).standard_normal(V).astype(np.float32)


def test_without_processors_the_row_itself_comes_back() -> None:
    logits = row()
    assert process(logits, Sampling(temperature=1.0), history_of([1], [])) is logits


def test_the_row_of_the_target_is_never_written_to() -> None:
    logits = row()
    logits.flags.writeable = False
    sampling = Sampling(
        temperature=0.7,
        top_k=5,
        top_p=0.9,
        min_p=0.1,
        repetition_penalty=1.2,
        presence_penalty=1.0,
        banned=frozenset({1}),
    )
    next_law(logits, sampling, history_of([1, 2], [3]))
    next_law(logits, Sampling(temperature=0.7), history_of([1, 2], [3]))


def test_repetition_counts_prompt_and_output_and_openai_penalties_the_output_only() -> None:
    logits = np.asarray([2, -2, 2, -2, 1, 1, 1, 1], np.float32)
    history = history_of([0, 1], [2, 3, 3])
    assert process(logits, Sampling(repetition_penalty=2.0), history).tolist() == [1, -4, 1, -4, 1, 1, 1, 1]
    found = process(logits, Sampling(presence_penalty=0.5, frequency_penalty=0.25), history)
    assert found.tolist() == [2, -2, 1.25, -3, 1, 1, 1, 1]


def test_minimum_length_and_forced_tokens_go_by_output_position() -> None:
    sampling = Sampling(min_tokens=2, end_ids=frozenset({3, 99}), forced={1: 3})
    assert process(row(), sampling, history_of([0], []))[3] == -np.inf
    forced = process(row(), sampling, history_of([0], [5]))
    assert np.flatnonzero(np.isfinite(forced)).tolist() == [3]
    assert np.isfinite(process(row(), sampling, history_of([0], [5, 3]))).all()


def plain_dry(tokens: list[int], sampling: Sampling) -> dict[int, float]:
    """What each token loses, by comparing every earlier place with the end."""
    if sampling.dry_range:
        tokens = tokens[-sampling.dry_range :]
    losses: dict[int, int] = {}
    for place in range(len(tokens) - 1):
        length = 0
        while (
            length <= place
            and tokens[place - length] == tokens[-1 - length]
            and tokens[place - length] not in sampling.dry_breakers
        ):
            length += 1
        follower = tokens[place + 1]
        if length >= sampling.dry_allowed_length and follower not in sampling.dry_breakers:
            losses[follower] = max(losses.get(follower, 0), length)
    return {
        token: sampling.dry_multiplier * sampling.dry_base ** (length - sampling.dry_allowed_length)
        for token, length in losses.items()
    }


@given(
    st.lists(st.integers(0, 3), max_size=24),
    st.integers(1, 3),
    st.sampled_from([0, 5, 12]),
    st.frozensets(st.integers(0, 3), max_size=2),
)
def test_dry_is_what_comparing_every_place_gives(
    tokens: list[int], allowed: int, reach: int, breakers: frozenset[int]
) -> None:
    sampling = Sampling(dry_multiplier=0.8, dry_allowed_length=allowed, dry_range=reach, dry_breakers=breakers)
    logits = np.zeros(V, np.float32)
    found = -process(logits, sampling, history_of(tokens, []))
    due = np.zeros(V)
    for token, loss in plain_dry(tokens, sampling).items():
        due[token] = loss
    np.testing.assert_allclose(found, due, rtol=1e-5)


@pytest.mark.filterwarnings("error")
def test_a_long_repeat_does_not_overflow() -> None:
    sampling = Sampling(temperature=1.0, dry_multiplier=1e30, dry_base=1e3)
    law = next_law(row(), sampling, history_of([1] * 400, []))
    assert law.prob(1) == 0
    assert law.probs().sum() == pytest.approx(1)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("options", [{}, {"top_k": 3}, {"top_p": 0.5}, {"banned": frozenset({1})}])
def test_logits_that_are_no_numbers_are_the_targets_fault(bad: float, options: dict[str, Any]) -> None:
    logits = row()
    logits[4] = bad
    with pytest.raises(TargetError, match="the model gave a logit of"):
        next_law(logits, Sampling(temperature=1.0, **options), history_of([0], []))


def test_a_ban_of_everything_is_refused() -> None:
    for sampling in (Sampling(banned=frozenset(range(V))), Sampling(temperature=1.0, banned=frozenset(range(V)))):
        with pytest.raises(ConfigError, match="every token is banned"):
            (best if sampling.greedy else next_law)(row(), sampling, history_of([0], []))


@pytest.mark.parametrize("temperature", [1e-4, 1e-2, 100.0])
def test_the_coldest_and_the_hottest_law_sum_to_one(temperature: float) -> None:
    logits = (row() * 1e4).astype(np.float32)
    for options in ({}, {"top_k": 3}, {"top_p": 0.9}, {"min_p": 0.1}):
        probs = next_law(logits, Sampling(temperature=temperature, **options), history_of([0], [])).dense(V)  # type: ignore[arg-type]
        assert probs.sum() == pytest.approx(1)
        assert probs.argmax() == logits.argmax()
