"""A3: the law of the text is that of plain sampling, exactly, for every judge, drafter and shape of law.

Every branch of every random choice is walked on a vocabulary of three tokens, and the result compared to 1e-12 with the
chain rule over fresh prefills.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from surefoot.core.noise import Sampler
from surefoot.core.ports import Drafter
from surefoot.core.sampling import Sampling
from surefoot.engine import parts
from surefoot.targets.toy import DISCIPLINES, Options, ToyTarget
from surefoot.testing.drafters import (
    ConfidenceCut,
    Drawing,
    Guesser,
    adversary,
    branching_adversary,
    oracle,
    right_then_wrong,
    scripted,
)
from surefoot.testing.laws import FreshRows, TextLaw, assert_same_law, output_law, walked_law
from surefoot.testing.toytext import PieceScanner

PROMPT = (0, 1, 2, 0, 1)
N = 4
TEXT = (*PROMPT, 2, 0, 1, 2, 0)
"""One of the texts that the model may write; drafts that follow it are right on some branches and wrong on others."""

VARIANTS = {
    "plain": Sampling(temperature=1.0),
    "cold": Sampling(temperature=0.4),
    "hot": Sampling(temperature=3.0),
    "top_k": Sampling(temperature=1.0, top_k=2),
    "top_p": Sampling(temperature=1.0, top_p=0.7),
    "min_p": Sampling(temperature=1.0, min_p=0.3),
    "top_k_top_p_min_p": Sampling(temperature=1.3, top_k=2, top_p=0.9, min_p=0.1),
    "one_candidate": Sampling(temperature=1.0, top_k=1),
    "penalties": Sampling(temperature=1.0, repetition_penalty=1.6, presence_penalty=0.7, frequency_penalty=0.5),
    "bias": Sampling(temperature=1.0, logit_bias={0: 1.5, 1: -1.0}),
    "dry": Sampling(temperature=1.0, dry_multiplier=0.8, dry_allowed_length=1),
    "banned": Sampling(temperature=1.0, banned=frozenset({1})),
    "forced": Sampling(temperature=1.0, forced={0: 2, 2: 1}),
    "min_tokens": Sampling(temperature=1.0, min_tokens=2, end_ids=frozenset({0})),
    "greedy": Sampling(),
    "greedy_penalties": Sampling(repetition_penalty=2.0, presence_penalty=1.0, frequency_penalty=1.0),
}

MakeDrafter = Callable[[Sampler], Drafter]


def toy(discipline: str = "truncate", **options: int) -> ToyTarget:
    return ToyTarget(Options(discipline=discipline, vocab_size=3, order=1, strength=1.0, **options))


OTHER = FreshRows(ToyTarget(Options(vocab_size=3, order=1, strength=1.0, seed=5)))


def drawing(sampling: Sampling, sampler: Sampler) -> Drawing:
    return Drawing(OTHER.target, sampling, sampler, OTHER)


def installed(name: str) -> MakeDrafter:
    plugin = parts.find("drafter", name)
    return lambda _: plugin.build(plugin.options(), toy())


POINTS: dict[str, MakeDrafter] = {
    "scripted": lambda _: Guesser(scripted([2, 0, 1])),
    "same_token": lambda _: Guesser(scripted([1, 1, 1])),
    "oracle": lambda _: Guesser(oracle(TEXT)),
    "right_then_wrong": lambda _: Guesser(right_then_wrong(TEXT, 1, 3)),
    "adversary": lambda _: Guesser(adversary(TEXT, 3, 1)),
    "branches": lambda _: Guesser(branching_adversary(TEXT, 3, 1), trees=True),
    **{name: installed(name) for name in parts.names("drafter") if not parts.find("drafter", name).workshop},
}


@cache
def due(variant: str, n_tokens: int = N, stops: frozenset[int] = frozenset()) -> TextLaw:
    return output_law(toy(), PROMPT, VARIANTS[variant], n_tokens, stop_ids=stops)


@pytest.mark.parametrize("judge", ["match", "ratio"])
@pytest.mark.parametrize("drafter", POINTS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_point_masses_keep_the_law(variant: str, drafter: str, judge: str) -> None:
    found = walked_law(toy(), PROMPT, VARIANTS[variant], N, judge=judge, make_drafter=POINTS[drafter])
    assert_same_law(found, due(variant))


@pytest.mark.parametrize("variant", [name for name, sampling in VARIANTS.items() if not sampling.greedy])
def test_a_drawing_drafter_keeps_the_law_of_the_ratio_judge(variant: str) -> None:
    sampling = Sampling(temperature=1.0)
    found = walked_law(
        toy(), PROMPT, VARIANTS[variant], N, judge="ratio", make_drafter=lambda walker: drawing(sampling, walker)
    )
    assert_same_law(found, due(variant))


@pytest.mark.parametrize("variant", ["plain", "top_k_top_p_min_p", "penalties"])
@pytest.mark.parametrize("drawn_from", ["cold", "top_k", "one_candidate", "banned"])
def test_q_may_have_any_shape(variant: str, drawn_from: str) -> None:
    q = VARIANTS[drawn_from]
    found = walked_law(toy(), PROMPT, VARIANTS[variant], N, judge="ratio", make_drafter=lambda w: drawing(q, w))
    assert_same_law(found, due(variant))


def test_supports_that_do_not_meet_keep_the_law() -> None:
    q = Sampling(temperature=1.0, banned=frozenset({1, 2}))
    p = Sampling(temperature=1.0, banned=frozenset({0}))
    found = walked_law(toy(), PROMPT, p, N, judge="ratio", make_drafter=lambda walker: drawing(q, walker))
    assert_same_law(found, output_law(toy(), PROMPT, p, N))


@pytest.mark.parametrize("variant", ["plain", "top_p"])
def test_a_drawing_drafter_keeps_the_law_of_the_match_judge(variant: str) -> None:
    found = walked_law(
        toy(), PROMPT, VARIANTS[variant], 3, judge="match", make_drafter=lambda w: drawing(VARIANTS["plain"], w)
    )
    assert_same_law(found, due(variant, 3))


@pytest.mark.parametrize("judge", ["match", "ratio"])
def test_drafts_cut_by_confidence_are_exact_as_point_masses(judge: str) -> None:
    def make(walker: Sampler) -> Drafter:
        return ConfidenceCut(drawing(VARIANTS["plain"], walker), 0.35, keep_q=False)

    found = walked_law(toy(), PROMPT, VARIANTS["plain"], 3, judge=judge, make_drafter=make)
    assert_same_law(found, due("plain", 3))


@pytest.mark.parametrize("judge", ["match", "ratio"])
@pytest.mark.parametrize("drafter", ["adversary", "branches", "ngram"])
@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_every_cache_discipline_keeps_the_law(discipline: str, drafter: str, judge: str) -> None:
    found = walked_law(toy(discipline), PROMPT, VARIANTS["penalties"], N, judge=judge, make_drafter=POINTS[drafter])
    assert_same_law(found, due("penalties"))


@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_every_cache_discipline_keeps_the_law_of_a_drawing_drafter(discipline: str) -> None:
    found = walked_law(
        toy(discipline), PROMPT, VARIANTS["top_p"], N, judge="ratio", make_drafter=lambda w: drawing(VARIANTS["hot"], w)
    )
    assert_same_law(found, due("top_p"))


@pytest.mark.parametrize("judge", ["match", "ratio"])
@pytest.mark.parametrize("drafter", ["scripted", "adversary", "branches"])
@pytest.mark.parametrize("lengths", [(0,), (1,), (3,), (3, 0, 1)], ids=str)
def test_every_budget_keeps_the_law(lengths: tuple[int, ...], drafter: str, judge: str) -> None:
    found = walked_law(toy(), PROMPT, VARIANTS["plain"], N, judge=judge, make_drafter=POINTS[drafter], lengths=lengths)
    assert_same_law(found, due("plain"))


@pytest.mark.parametrize("judge", ["match", "ratio"])
@pytest.mark.parametrize("drafter", ["scripted", "oracle", "adversary", "branches"])
@pytest.mark.parametrize("n_tokens", [1, 2, 3, 5])
def test_stops_and_limits_keep_the_law_and_their_reason(n_tokens: int, drafter: str, judge: str) -> None:
    stops = frozenset({0})
    found = walked_law(
        toy(),
        PROMPT,
        VARIANTS["plain"],
        n_tokens,
        judge=judge,
        make_drafter=POINTS[drafter],
        lengths=(3,),
        stop_ids=stops,
    )
    assert_same_law(found, due("plain", n_tokens, stops))


@pytest.mark.parametrize("judge", ["match", "ratio"])
@pytest.mark.parametrize("drafter", ["oracle", "adversary", "branches"])
@pytest.mark.parametrize("max_length", [5, 6, 7, 8, 9])
def test_the_end_of_the_context_keeps_the_law_and_its_reason(max_length: int, drafter: str, judge: str) -> None:
    target = toy(max_length=max_length)
    found = walked_law(target, PROMPT, VARIANTS["plain"], 4, judge=judge, make_drafter=POINTS[drafter], lengths=(3,))
    assert_same_law(found, output_law(target, PROMPT, VARIANTS["plain"], 4))


@pytest.mark.parametrize("judge", ["match", "ratio"])
@pytest.mark.parametrize("drafter", ["oracle", "adversary", "branches"])
@pytest.mark.parametrize("stop", ["aba", "cc", "b"])
def test_stop_strings_keep_the_law(stop: str, drafter: str, judge: str) -> None:
    def scan() -> PieceScanner:
        return PieceScanner(["ab", "a", "cb"], [stop])

    sampling = VARIANTS["plain"]
    found = walked_law(
        toy(), PROMPT, sampling, N, judge=judge, make_drafter=POINTS[drafter], lengths=(3,), make_scan=scan
    )
    assert_same_law(found, output_law(toy(), PROMPT, sampling, N, make_scan=scan))
