"""Every installed drafter that needs nothing but its defaults keeps the contract on the toy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from surefoot.core.errors import ConfigError, NotEligible
from surefoot.core.ports import Companion, Drafter, Needs, Scores, Target
from surefoot.core.types import Draft, Ids, as_ids
from surefoot.engine import parts
from surefoot.targets.toy import Options, ToyTarget
from surefoot.testing.conformance import check_drafter
from surefoot.testing.workshops import ToyWorkshop, numbered

TOY = ToyTarget(Options(order=1))
PROMPTS = ([1, 2, 3, 1, 2, 3, 1], [5], [3] * 9)


SECOND = ToyTarget(Options(order=1, seed=4))
NEEDED: Mapping[str, Mapping[str, Any]] = {name: {"model": "second"} for name in ("model", "crossvocab")}
"""Options without which a drafter cannot be built."""


@pytest.mark.parametrize("name", parts.names("drafter"))
def test_drafter(name: str) -> None:
    def build(target: Target) -> Drafter:
        companion = Companion("second", SECOND, numbered(16))
        return ToyWorkshop(target, {"second": companion}).drafter(name, NEEDED.get(name, {}))

    try:
        build(TOY)
    except (ConfigError, NotEligible) as error:
        pytest.skip(f"{name} cannot be built from its defaults: {error}")
    check_drafter(build, TOY, prompts=PROMPTS)


class Repeats:
    """Guesses that the last token comes again; the base of the faulty ones."""

    needs = Needs()

    def __init__(self) -> None:
        self.known: list[int] = []
        self.proposed = 0

    def begin(self, prompt: Ids, root: int, scores: Scores) -> None:
        self.known = [*prompt.tolist(), root]

    def propose(self, budget: int) -> Draft:
        return Draft(as_ids(self.known[-1:] * budget), source="repeats")

    def observe(self, new_ids: Sequence[int], scores: Scores) -> None:
        self.known += new_ids


class OverBudget(Repeats):
    def propose(self, budget: int) -> Draft:
        return super().propose(budget + 1)


class OutsideTheVocabulary(Repeats):
    def propose(self, budget: int) -> Draft:
        return Draft(as_ids([16] * budget), source="repeats")


class KeepsTheLastText(Repeats):
    def begin(self, prompt: Ids, root: int, scores: Scores) -> None:
        self.known = [root, *self.known]

    def propose(self, budget: int) -> Draft:
        return Draft(as_ids([self.known[len(self.known) % 7 % len(self.known)]] * budget), source="repeats")


class LearnsItsOwnDrafts(Repeats):
    def propose(self, budget: int) -> Draft:
        draft = super().propose(budget)
        self.known += [(token + 1) % 16 for token in draft.ids.tolist()[:1]]
        return draft

    def observe(self, new_ids: Sequence[int], scores: Scores) -> None:
        self.known += new_ids[:1]


class Forgetful(Repeats):
    seen = 0

    def propose(self, budget: int) -> Draft:
        Forgetful.seen += 1
        return Draft(as_ids([Forgetful.seen % 16] * budget), source="repeats")


class UndeclaredTree(Repeats):
    def propose(self, budget: int) -> Draft:
        draft = super().propose(budget)
        return Draft(draft.ids, parents=as_ids([-1] * budget), source="repeats")


def check(make: type[Repeats]) -> None:
    def build(target: Target) -> Drafter:
        return make()

    check_drafter(build, TOY, prompts=PROMPTS)


def test_the_base_of_the_faulty_drafters_is_sound() -> None:
    check(Repeats)


@pytest.mark.parametrize(
    ("faulty", "sentence"),
    [
        (OverBudget, r"propose\(3\) gave 4 tokens"),
        (OutsideTheVocabulary, "not all of the vocabulary"),
        (KeepsTheLastText, "begin_forgets"),
        (LearnsItsOwnDrafts, "rejected_drafts_leave_nothing"),
        (Forgetful, "same_observations_same_drafts"),
        (UndeclaredTree, "needs.trees is False"),
    ],
)
def test_planted_drafter_faults_are_caught(faulty: type[Repeats], sentence: str) -> None:
    with pytest.raises(AssertionError, match=sentence):
        check(faulty)
