"""Every bug that must never ship is planted once, and a check that passes on the good code fails on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import cast

import numpy as np
import pytest

from surefoot.core.errors import LawError
from surefoot.core.judge import Judge, make_judge
from surefoot.core.limits import Limits
from surefoot.core.loop import generate
from surefoot.core.noise import Sampler
from surefoot.core.ports import Drafter, Target
from surefoot.core.sampling import Sampling
from surefoot.core.types import Round, as_ids
from surefoot.targets.toy import Options, ToyTarget
from surefoot.testing.conformance import check_target
from surefoot.testing.drafter_suite import Budgets, written
from surefoot.testing.drafters import ConfidenceCut, Drawing, Guesser, oracle, right_then_wrong, scripted
from surefoot.testing.faults import (
    CACHE_FAULTS,
    CommitsOneTooMany,
    FirstUnverified,
    LimitBeforeStop,
    NoiseKeyedByRound,
    PenaltyOncePerRound,
    WithSessions,
    carry_emitted_twice,
    hole_after_full_acceptance,
    residual_from_p,
)
from surefoot.testing.laws import FreshRows, assert_same_law, output_law, walked_law

PROMPT = (0, 1, 2, 0, 1)
SMALL = Options(vocab_size=3, order=1, strength=1.0)
OTHER = FreshRows(ToyTarget(Options(vocab_size=3, order=1, strength=1.0, seed=5)))
PLAIN = Sampling(temperature=1.0)
PENALTIES = Sampling(temperature=1.0, frequency_penalty=1.0, repetition_penalty=1.5)


def law_holds(
    judge: str,
    make_drafter: Callable[[Sampler], Drafter],
    sampling: Sampling = PLAIN,
    make: Callable[[str, Sampling, Sampler], Judge] = make_judge,
) -> None:
    target = ToyTarget(SMALL)
    found = walked_law(target, PROMPT, sampling, 4, judge=judge, make_drafter=make_drafter, make_judge=make)
    assert_same_law(found, output_law(target, PROMPT, sampling, 4))


def drawing(walker: Sampler) -> Drawing:
    return Drawing(OTHER.target, PLAIN, walker, OTHER)


def guessing(_: Sampler) -> Guesser:
    return Guesser(scripted([2, 0, 1]))


@pytest.mark.parametrize("make_drafter", [drawing, guessing])
def test_planted_residual_from_p_is_caught(make_drafter: Callable[[Sampler], Drafter]) -> None:
    law_holds("ratio", make_drafter)
    with residual_from_p(), pytest.raises(AssertionError, match="was due"):
        law_holds("ratio", make_drafter)
    law_holds("ratio", make_drafter)


def test_planted_q_filtered_after_drawing_is_caught() -> None:
    def cut(keep_q: bool) -> Callable[[Sampler], Drafter]:
        return lambda walker: ConfidenceCut(drawing(walker), 0.35, keep_q=keep_q)

    law_holds("ratio", cut(keep_q=False))
    with pytest.raises(AssertionError, match="was due"):
        law_holds("ratio", cut(keep_q=True))


@pytest.mark.parametrize("judge", ["match", "ratio"])
def test_planted_first_token_unverified_is_caught(judge: str) -> None:
    law_holds(judge, guessing)
    with pytest.raises(AssertionError, match="was due"):
        law_holds(judge, guessing, make=lambda *named: FirstUnverified(make_judge(*named)))


@pytest.mark.parametrize("judge", ["match", "ratio"])
def test_planted_penalty_once_per_round_is_caught(judge: str) -> None:
    law_holds(judge, guessing, PENALTIES)
    law_holds(judge, guessing, PLAIN, make=lambda *named: PenaltyOncePerRound(make_judge(*named)))
    with pytest.raises(AssertionError, match="was due"):
        law_holds(judge, guessing, PENALTIES, make=lambda *named: PenaltyOncePerRound(make_judge(*named)))


# --- the text itself -------------------------------------------------------------------------------------------------

TOY = ToyTarget(Options(order=1))


def rounds_of(
    drafter: Drafter,
    *,
    target: Target = TOY,
    judge: Judge | None = None,
    limits: Limits | None = None,
    length: int = 4,
    n_tokens: int = 24,
) -> Iterator[Round]:
    return generate(
        target.open(),
        as_ids(PROMPT),
        caps=target.caps,
        drafter=drafter,
        policy=Budgets([length]),
        judge=judge or make_judge("match", Sampling()),
        limits=limits or Limits(n_tokens),
        clock=lambda: 0.0,
    )


def plain_text(target: Target = TOY, judge: Judge | None = None) -> list[int]:
    return written(list(rounds_of(Guesser(scripted([])), target=target, judge=judge, length=0)))


def right_for(n: int) -> Guesser:
    return Guesser(right_then_wrong([*PROMPT, *plain_text()], n, TOY.caps.vocab_size))


def test_planted_noise_keyed_by_round_is_caught() -> None:
    def texts(make: Callable[[], Judge]) -> tuple[list[int], list[int]]:
        drafter = Guesser(oracle([*PROMPT, *plain_text(judge=make())]))
        return plain_text(judge=make()), written(list(rounds_of(drafter, judge=make())))

    off, on = texts(lambda: make_judge("match", PLAIN))
    assert on == off
    off, on = texts(lambda: NoiseKeyedByRound(PLAIN))
    assert on != off


def test_planted_carry_emitted_twice_is_caught() -> None:
    def assert_adds_up(rounds: Sequence[Round]) -> None:
        assert all(len(round_.new_ids) == round_.accepted + 1 for round_ in rounds), "a round shows too many tokens"
        assert written(rounds) == plain_text(), "the text is another"

    good = list(rounds_of(right_for(2)))
    assert_adds_up(good)
    with pytest.raises(AssertionError, match="a round shows too many tokens"):
        assert_adds_up(list(carry_emitted_twice(iter(good))))


def test_planted_limit_before_stop_is_caught() -> None:
    text = plain_text()
    n = next(place for place, token in enumerate(text) if token not in text[:place] and place >= 4) + 1
    stops = frozenset({text[n - 1]})
    for n_right in (0, 2, 4):
        good = list(rounds_of(right_for(n_right), limits=Limits(n, stops)))
        assert (written(good), good[-1].finish) == (text[:n], "stop")
        faulty = cast(Limits, LimitBeforeStop(n, stops))
        bad = list(rounds_of(right_for(n_right), limits=faulty))
        assert (written(bad), bad[-1].finish) == (text[:n], "length")


def test_planted_hole_after_full_acceptance_is_caught() -> None:
    text = plain_text()
    assert written(list(rounds_of(right_for(4)))) == text
    with hole_after_full_acceptance():
        assert written(list(rounds_of(right_for(0)))) == text  # nothing was accepted whole, so there is no hole
        assert written(list(rounds_of(Guesser(oracle([*PROMPT, *text]))))) != text
        with pytest.raises(AssertionError, match="breaks rejected_rows_leave_nothing"):
            check_target(lambda: TOY, only=["rejected_rows_leave_nothing"])
    check_target(lambda: TOY, only=["rejected_rows_leave_nothing"])


def test_planted_commit_one_too_many_is_caught() -> None:
    faulty = WithSessions(TOY, CommitsOneTooMany)
    assert plain_text(faulty) == plain_text()  # without drafts there is nothing too many
    with pytest.raises(LawError, match="tokens after"):
        list(rounds_of(right_for(1), target=faulty))
    with pytest.raises(AssertionError, match=r"after commit\(1\) length is"):
        check_target(lambda: faulty, only=["rejected_rows_leave_nothing"])


LEAVES_STALE_ROWS = ("overwrite", "mask", "fixed")


@pytest.mark.parametrize("discipline", ["truncate", "overwrite", "mask", "staged", "fixed"])
@pytest.mark.parametrize("fault", CACHE_FAULTS)
def test_planted_cache_faults_are_caught(fault: str, discipline: str) -> None:
    if fault == "stale_visible_rows" and discipline not in LEAVES_STALE_ROWS:
        pytest.skip(f"the {discipline} discipline leaves no stale rows to show")
    target = ToyTarget(Options(discipline=discipline))
    check_target(lambda: target, only=["random_walk"])
    with CACHE_FAULTS[fault](), pytest.raises(AssertionError, match="differs from a fresh prefill"):
        check_target(lambda: target, only=["random_walk"])
    check_target(lambda: target, only=["random_walk"])


@pytest.mark.parametrize("fault", CACHE_FAULTS)
def test_planted_cache_faults_change_the_text(fault: str) -> None:
    target = ToyTarget(Options(discipline="mask", order=3))
    text = plain_text(target)
    changed = 0
    for seed in range(8):
        guess = right_then_wrong([*PROMPT, *text], seed % 5, 16)
        assert written(list(rounds_of(Guesser(guess), target=target))) == text
        with CACHE_FAULTS[fault]():
            changed += written(list(rounds_of(Guesser(guess), target=target))) != text
    assert changed
    assert np.array_equal(plain_text(target), text)
