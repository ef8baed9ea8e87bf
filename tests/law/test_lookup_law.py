"""A3: suffix lookup, lookahead and unions of drafters keep the law of the text exactly, as chains and as trees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from draft_models import follow, with_q
from hypothesis import given, settings
from hypothesis import strategies as st
from law_cases import Case, cases, check, make_drafter, run

from surefoot.core.noise import Sampler
from surefoot.core.ports import Drafter
from surefoot.core.sampling import Sampling
from surefoot.core.types import Vocabulary
from surefoot.drafters.crossvocab.surface import surface_map
from surefoot.drafters.lookahead import LookaheadDrafter
from surefoot.drafters.lookahead import Options as LookaheadOptions
from surefoot.drafters.model.follower import Style
from surefoot.drafters.ngram import NgramDrafter
from surefoot.drafters.ngram import Options as NgramOptions
from surefoot.drafters.suffix.corpus import Caps, Corpus
from surefoot.drafters.suffix.drafter import SuffixDrafter
from surefoot.drafters.suffix.options import Options as SuffixOptions
from surefoot.drafters.union.drafter import Union
from surefoot.drafters.union.member import Member
from surefoot.drafters.union.options import Seat
from surefoot.targets.toy import DISCIPLINES, Options, ToyTarget
from surefoot.testing.drafter_suite import written
from surefoot.testing.drafters import Drawing, Guesser, adversary, branching_adversary, scripted
from surefoot.testing.laws import FreshRows, TextLaw, assert_same_law, output_law, walked_law

PROMPT = (0, 1, 2, 0, 1)
TEXT = (*PROMPT, 2, 0, 1, 2, 0)
N = 4
VARIANTS = {
    "plain": Sampling(temperature=1.0),
    "top_p": Sampling(temperature=1.3, top_p=0.8),
    "penalties": Sampling(temperature=1.0, repetition_penalty=1.6, frequency_penalty=0.5),
    "greedy": Sampling(repetition_penalty=2.0),
}


def toy(discipline: str = "truncate") -> ToyTarget:
    return ToyTarget(Options(discipline=discipline, vocab_size=3, order=1, strength=1.0))


OTHER = FreshRows(ToyTarget(Options(vocab_size=3, order=1, strength=1.0, seed=5)))


def union_of(choice: Any, *makes: Callable[[Sampler], Drafter]) -> Callable[[Sampler], Drafter]:
    return lambda sampler: Union([Member(Seat("m", {}), make(sampler)) for make in makes], choice, None)


def drawing(sampler: Sampler) -> Drafter:
    return Drawing(OTHER.target, Sampling(temperature=1.0), sampler, OTHER)


def following(sampler: Sampler) -> Drafter:
    """A draft model that says what its draws followed, as one beside the judge ratio does."""
    style = with_q(Style("model"))
    return follow(OTHER.target, 3, sampling=Sampling(temperature=1.0), sampler=sampler, style=style)


def crossing(sampler: Sampler) -> Drafter:
    """The same with another vocabulary: two tokens are shared, one is read in pieces, one is a miss."""
    ours, its = Vocabulary([b"a", b"b", b"ab"]), Vocabulary([b"b", b"a", b"x"])
    reading = surface_map(ours, 3, its, 3)
    style = with_q(Style("crossvocab"))
    drawn = Sampling(temperature=1.0)
    return follow(OTHER.target, 3, sampling=drawn, sampler=sampler, style=style, reading=reading)


def suffix(branches: int) -> Callable[[Sampler], Drafter]:
    return lambda _: SuffixDrafter(SuffixOptions(min_match=1, branches=branches))


def with_corpus(_: Sampler) -> Drafter:
    """Earlier outputs, right on some branches and wrong on others; nothing is saved."""
    corpus = Corpus(Path("nowhere") / "corpus.npz", "toy", Caps(10**4, 10**3), 3)
    for output in ([0, 1, 2, 0, 1, 2, 1], [1, 0, 1, 0, 0], [2, 2, 1]):
        corpus.learn(output)
    return SuffixDrafter(SuffixOptions(min_match=1), corpus)


LOOKUPS: tuple[Callable[[Sampler], Drafter], ...] = (
    lambda _: NgramDrafter(NgramOptions(min_n=1)),
    suffix(1),
    lambda _: LookaheadDrafter(LookaheadOptions()),
)
BAD = (lambda _: Guesser(adversary(TEXT, 3, 1)), lambda _: Guesser(scripted([2, 0, 1])))
DRAFTERS: dict[str, Callable[[Sampler], Drafter]] = {
    "suffix": suffix(1),
    "suffix_tree": suffix(2),
    "corpus": with_corpus,
    "lookahead": lambda _: LookaheadDrafter(LookaheadOptions(max_n=0)),
    "union_value": union_of("value", *LOOKUPS),
    "union_longest": union_of("longest", *LOOKUPS),
    "union_first": union_of("first", *LOOKUPS),
    "union_of_wrong_ones": union_of("longest", *BAD),
    "union_with_one_that_draws": union_of("value", drawing, BAD[0]),
    "union_with_a_model": union_of("value", following, suffix(1)),
    "union_with_a_crossvocab": union_of("value", crossing, suffix(1)),
    "union_of_trees": union_of("value", lambda _: Guesser(branching_adversary(TEXT, 3, 1), trees=True), BAD[0]),
}


DRAWS = {"union_with_one_that_draws", "union_with_a_model", "union_with_a_crossvocab"}


@cache
def due(variant: str, n: int = N) -> TextLaw:
    return output_law(toy(), PROMPT, VARIANTS[variant], n)


@pytest.mark.parametrize("judge", ["match", "ratio"])
@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_law_is_kept(variant: str, drafter: str, judge: str) -> None:
    n = 3 if drafter in DRAWS else N
    found = walked_law(
        toy(), PROMPT, VARIANTS[variant], n, judge=judge, make_drafter=DRAFTERS[drafter], lengths=(2, 0, 3)
    )
    assert_same_law(found, due(variant, n))


@pytest.mark.parametrize("judge", ["match", "ratio"])
@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_every_cache_discipline_keeps_the_law_of_a_tree(discipline: str, judge: str) -> None:
    found = walked_law(
        toy(discipline),
        PROMPT,
        VARIANTS["penalties"],
        N,
        judge=judge,
        make_drafter=DRAFTERS["suffix_tree"],
        lengths=(3,),
    )
    assert_same_law(found, due("penalties"))


class KeepsQ(Union):
    """A union that hands q on although it chose among drafts that it had seen."""

    def propose(self, budget: int) -> Any:
        drafts = [member.drafter.propose(budget) for member in self.members]
        return max(drafts, key=lambda draft: (len(draft), float(draft.ids.sum())))


@pytest.mark.parametrize("member", [drawing, following, crossing])
def test_a_union_that_kept_q_would_break_the_law(member: Callable[[Sampler], Drafter]) -> None:
    def make(sampler: Sampler) -> Drafter:
        return KeepsQ([Member(Seat("m", {}), member(sampler)) for _ in range(2)], "value", None)

    found = walked_law(toy(), PROMPT, VARIANTS["plain"], 3, judge="ratio", make_drafter=make, lengths=(1,))
    with pytest.raises(AssertionError, match="was due"):
        assert_same_law(found, due("plain", 3))


NAMES = ("suffix", "lookahead", "union")


@settings(max_examples=800)
@given(cases(drafters=NAMES, stops=True, ends=True))
def test_greedy_text_stops_and_sums_are_those_of_plain_decoding(case: Case) -> None:
    check(case)


@settings(max_examples=200)
@given(case=cases(drafters=("suffix_tree", "union_tree")), seed=st.integers(0, 5))
def test_trees_write_the_text_of_a_seed(case: Case, seed: int) -> None:
    drawn = replace(case, sampling=Sampling(temperature=1.0, seed=seed), toy=replace(case.toy, order=1))
    plain = written(run(drawn, Guesser(scripted([])), ToyTarget(drawn.toy).open()))
    assert written(run(drawn, make_drafter(drawn, ()), ToyTarget(drawn.toy).open())) == plain
