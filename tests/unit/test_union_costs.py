"""What members of a union cost: lookups are cheap by the clock, and who has no draft is asked less and less."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from guessers import PROMPT, RIGHT, TOY, Counted, Machine, named, plain_text, sources, union, wrong

from surefoot.core.ports import Needs, Scores
from surefoot.core.types import EMPTY_DRAFT, Draft, Ids
from surefoot.drafters.union.drafter import PROBE_LEN, Union
from surefoot.drafters.union.gate import Rule
from surefoot.testing.drafter_suite import run, written
from surefoot.testing.drafters import oracle, scripted

FORWARD_S = 0.01
LOOKUP_S = 30e-6
CHOICES = ["value", "longest", "first"]
CLOSED = Rule(starts_open=False)


class Taking:
    """A drafter whose proposals take time: some each, and some for each token."""

    def __init__(self, inner: Counted, machine: Machine, proposal_s: float = 0.0, token_s: float = 0.0) -> None:
        self.inner = inner
        self.needs = inner.needs
        self.begin, self.observe = inner.begin, inner.observe
        self.machine, self.proposal_s, self.token_s = machine, proposal_s, token_s

    def propose(self, budget: int) -> Draft:
        draft = self.inner.propose(budget)
        self.machine.now += self.proposal_s + self.token_s * len(draft)
        return draft


class Forwards:
    """A union beside a target whose forwards take 10 ms, however many rows they have."""

    def __init__(self, inner: Union, machine: Machine) -> None:
        self.inner, self.machine = inner, machine

    @property
    def needs(self) -> Needs:
        return self.inner.needs

    def begin(self, prompt: Ids, root: int, scores: Scores) -> None:
        self.inner.begin(prompt, root, scores)

    def propose(self, budget: int) -> Draft:
        return self.inner.propose(budget)

    def observe(self, new_ids: Sequence[int], scores: Scores) -> None:
        self.machine.now += FORWARD_S
        self.inner.observe(new_ids, scores)


def rounds_with(made: Union, machine: Machine, n: int = 100) -> list[Any]:
    """The rounds in which drafts were asked for; drafts have up to 16 tokens."""
    rounds = run(Forwards(made, machine), TOY, PROMPT, n, lengths=(16,))
    assert written(rounds) == plain_text(n)
    return [round_ for round_ in rounds[1:] if round_.depth < len(PROMPT) + n - 2]


def every(n: int) -> Any:
    """Right at every nth token, for as long as is asked; nothing elsewhere."""
    return lambda known, budget: oracle(RIGHT)(known, budget) if len(known) % n == 0 else EMPTY_DRAFT


# ---------------------------------------------------------------- lookups, by the clock


@pytest.mark.parametrize("choice", CHOICES)
def test_a_lookup_that_mostly_finds_nothing_is_always_asked_and_opens_its_gate(choice: str) -> None:
    """30 us for nothing at all, taken for the cost of a token, would be 5 % of a round for the budget."""
    machine = Machine()
    seldom = named("seldom", lambda known, budget: every(7)(known, min(budget, 2)))
    made = union(Taking(seldom, machine, LOOKUP_S), choice=choice, clock=machine, rule=[CLOSED])
    rounds = rounds_with(made, machine)
    assert len(seldom.asked) == len(rounds)
    assert made.members[0].gate.is_open
    assert "seldom" in [round_.source for round_ in rounds]


@pytest.mark.parametrize("choice", ["value", "longest"])  # with first, who stands behind the first draft is not asked
@pytest.mark.parametrize("n", [1, 7], ids=["a long copy", "mostly nothing"])
def test_lookups_are_all_asked_and_compared_with_each_other(n: int, choice: str) -> None:
    """In a long copy a round gives many tokens, each of which takes little time; a lookup is no dearer there."""
    machine = Machine()
    one, other = named("one", every(n)), named("other", every(n))
    made = union(*(Taking(each, machine, LOOKUP_S) for each in (one, other)), choice=choice, clock=machine)
    rounds = rounds_with(made, machine, 130)
    assert len(one.asked) == len(other.asked) == len(rounds)


def test_a_draft_model_that_is_probed_stays_dear() -> None:
    """Two tokens of it take 0.8 % of a round, and sixteen 6.4 %."""
    machine = Machine()
    model = named("model", wrong)
    dear = Taking(model, machine, token_s=0.004 * FORWARD_S)
    rule = Rule(starts_open=False, probe_every=4)
    rounds = rounds_with(union(dear, cost=[0.15], clock=machine, rule=[rule]), machine)
    assert set(model.asked) == {PROBE_LEN}
    assert 10 < len(model.asked) < len(rounds) / 3


# ---------------------------------------------------------------- who has no draft


@pytest.mark.parametrize(
    ("choice", "rule"), [*((choice, Rule()) for choice in CHOICES), ("value", Rule(close_below=0.0))],
    ids=[*CHOICES, "value, its gate never closes"],
)  # fmt: skip
def test_a_dear_drafter_that_has_no_draft_is_seldom_asked_for_one(choice: str, rule: Rule) -> None:
    silent = named("silent", scripted([]))
    found = sources(union(silent, cost=[0.2], choice=choice, rule=[rule]), 110)
    assert found == [""] * 110
    assert len(silent.asked) < 40


@pytest.mark.parametrize("choice", CHOICES)
def test_it_comes_back_once_it_has_drafts(choice: str) -> None:
    def late(known: tuple[int, ...], budget: int) -> Draft:
        return EMPTY_DRAFT if len(known) < len(PROMPT) + 60 else oracle(RIGHT)(known, budget)

    found = sources(union(named("late", late), cost=[0.2], choice=choice, rule=[Rule(probe_every=4)]), 110)
    assert found[-3:] == ["late"] * 3


@pytest.mark.parametrize("choice", CHOICES)
def test_a_lookup_that_has_no_draft_loses_nothing_by_it(choice: str) -> None:
    seldom = named("seldom", every(29))
    made = union(seldom, choice=choice)
    assert "seldom" in sources(made, 110)
    assert len(seldom.asked) > 80
    assert made.members[0].gate.is_open
