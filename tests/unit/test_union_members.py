"""Real drafters as members: a draft model with its session beside lookups, trees beside chains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from surefoot.core.ports import Companion, Scores
from surefoot.core.sampling import Sampling
from surefoot.core.types import Floats, Ids, Round, Vocabulary, as_ids
from surefoot.drafters.union.drafter import Union
from surefoot.targets.toy import Options, ToyTarget
from surefoot.testing.conformance import check_drafter
from surefoot.testing.drafter_suite import run, written
from surefoot.testing.workshops import ToyWorkshop, numbered

TOY = ToyTarget(Options(order=1))
PROMPT = as_ids([1, 2, 3, 1, 2, 3, 1])
MODEL = {"name": "model", "model": "same", "confidence": 0.0, "cost": 0.0}
CROSSVOCAB = {**MODEL, "name": "crossvocab", "model": "turned round"}
PIECES = Vocabulary([b"<", b">", *[b"%d" % digit for digit in range(10)], *[b"<%d>" % n for n in (1, 2, 7)], b"x"])
LAWS = [Sampling(), Sampling(temperature=1.0, seed=5)]


class TurnedRound:
    """The toy with its ids counted from the other end."""

    def __init__(self, inner: ToyTarget) -> None:
        self.inner = inner
        self.caps = inner.caps

    def open(self, taps: Sequence[str] = ()) -> Any:
        session = self.inner.open(taps)
        for verb in ("prefill", "extend"):
            setattr(session, verb, self._turned(getattr(session, verb)))
        return session

    def _turned(self, verb: Callable[..., Scores]) -> Callable[[Ids], Scores]:
        return lambda ids: Backwards(verb(self.caps.vocab_size - 1 - ids))


class Backwards:
    """Scores whose rows are turned round."""

    def __init__(self, inner: Scores) -> None:
        self._inner = inner
        self.rows, self.width, self.tap = inner.rows, inner.width, inner.tap

    def argmax(self) -> Ids:
        return as_ids([int(np.argmax(self.logits(row))) for row in range(self.rows)])

    def logits(self, row: int) -> Floats:
        return self._inner.logits(row)[::-1]


def workshop(sampling: Sampling) -> ToyWorkshop:
    companions = {
        "same": Companion("same", TOY, numbered(16)),
        "other": Companion("other", ToyTarget(Options(order=1, seed=3)), numbered(16)),
        "pieces": Companion("pieces", ToyTarget(Options(order=1, seed=3)), PIECES),
        "turned round": Companion("turned round", TurnedRound(TOY), Vocabulary(numbered(16).spelled[::-1])),
    }
    return ToyWorkshop(TOY, companions, sampling=sampling)


def rounds_of(sampling: Sampling, lengths: tuple[int, ...] = (4,), **options: Any) -> list[Round]:
    drafter = workshop(sampling).drafter("union", options)
    rounds = run(drafter, TOY, PROMPT, 80, lengths=lengths, sampling=sampling)
    plain = run(workshop(sampling).drafter("off", {}), TOY, PROMPT, 80, lengths=(0,), sampling=sampling)
    assert written(rounds) == written(plain)
    return rounds


@pytest.mark.parametrize("sampling", LAWS, ids=["greedy", "drawn"])
@pytest.mark.parametrize("choice", ["value", "longest", "first"])
@pytest.mark.parametrize("model", [MODEL, CROSSVOCAB], ids=["model", "crossvocab"])
def test_a_model_that_is_the_target_holds_whole_whoever_else_guesses(
    model: dict[str, Any], choice: str, sampling: Sampling
) -> None:
    """Each of its drafts, in rounds that it won as in rounds after others did: its session is rolled back by whole."""
    bad = {"name": model["name"], "label": "wrong", "model": "other", "confidence": 0.0}
    members = [model, {"name": "suffix"}, bad]
    for order in (members, members[::-1]):
        rounds = rounds_of(sampling, (4, 0, 1, 3), members=order, choice=choice)
        right = [round_ for round_ in rounds if round_.source == model["name"] and round_.finish is None]
        assert all(round_.accepted == round_.evaluated for round_ in right)
        others = [round_ for round_ in rounds if round_.source not in (model["name"], "", "prefill")]
        assert len(right) > 5 if order is members or choice == "value" else others


def test_by_value_a_dear_model_is_asked_where_lookups_do_not_hold() -> None:
    """The drawn text seldom repeats itself; lookups guess all the same, and mostly wrong."""
    sampling = LAWS[1]
    both = rounds_of(sampling, members=["suffix", {**MODEL, "cost": 0.1}])
    alone = rounds_of(sampling, members=["suffix"])
    assert sum(round_.accepted for round_ in both) > 2 * sum(round_.accepted for round_ in alone)
    assert sum(round_.source == "model" for round_ in both) > len(both) / 2


@pytest.mark.parametrize("sampling", LAWS, ids=["greedy", "drawn"])
def test_trees_and_chains_in_one_union(sampling: Sampling) -> None:
    rounds = rounds_of(
        sampling, (6, 3), members=[{"name": "suffix", "branches": 3, "min_match": 1}, "lookahead", {"name": "ngram"}]
    )
    assert any(round_.accepted for round_ in rounds)


@pytest.mark.parametrize(
    "members",
    [
        ["ngram", "suffix", "lookahead", MODEL],
        [{"name": "suffix", "branches": 3, "min_match": 1}, {**MODEL, "cost": 0.2}],
        ["suffix", {**CROSSVOCAB, "confidence": 0.3}, {**CROSSVOCAB, "model": "pieces", "cost": 0.1}],
        [{"name": "union", "members": ["lookahead", "suffix"]}, "ngram"],
    ],
    ids=["all", "trees", "crossvocab", "nested"],
)
def test_a_union_keeps_the_contract_of_a_drafter(members: list[Any]) -> None:
    check_drafter(
        lambda _: workshop(LAWS[0]).drafter("union", {"members": members}),
        TOY,
        prompts=[[1, 2, 3, 1, 2, 3, 1], [5], [3] * 9],
    )


def test_a_nested_union_is_one_member() -> None:
    made = workshop(LAWS[0]).drafter("union", {"members": [{"name": "union", "members": ["ngram"]}, "suffix"]})
    assert isinstance(made, Union)
    assert isinstance(made.members[0].drafter, Union)
