"""The union: whose draft is scored, what it may cost, gates that open again, and what losers learn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from guessers import NO_SCORES, PROMPT, RIGHT, TOY, Counted, Machine, named, sources, union, wrong
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.core.ports import Scores
from surefoot.core.sampling import Sampling
from surefoot.core.types import EMPTY_DRAFT, Draft, Ids, as_ids
from surefoot.drafters.ngram import NgramDrafter
from surefoot.drafters.ngram import Options as NgramOptions
from surefoot.drafters.suffix.drafter import SuffixDrafter
from surefoot.drafters.suffix.options import Options as SuffixOptions
from surefoot.drafters.union.along import Along, rows_along
from surefoot.drafters.union.drafter import PROBE_LEN, Union
from surefoot.drafters.union.gate import Gate, Rule
from surefoot.drafters.union.member import Member
from surefoot.targets.toy import Options as ToyOptions
from surefoot.targets.toy import ToyTarget
from surefoot.testing.drafter_suite import run, written
from surefoot.testing.drafters import Drawing, Guesser, oracle, scripted
from surefoot.testing.enumerator import Walker
from surefoot.testing.laws import FreshRows
from surefoot.testing.workshops import ToyWorkshop

# ---------------------------------------------------------------- whose draft is scored


def test_longest_then_the_order() -> None:
    three, five = named("three", scripted([1, 2, 3])), named("five", scripted([4, 5, 6, 7, 8]))
    other = named("other", scripted([9, 9, 9]))
    made = union(three, other, five, choice="longest")
    made.begin(PROMPT, 2, NO_SCORES)
    assert made.propose(8).source == "five"
    assert made.propose(3).source == "three"  # all have three: the first one


def test_first_asks_no_further_than_the_first_draft() -> None:
    nothing, short, long = named("none", scripted([])), named("short", scripted([1])), named("long", scripted([2] * 9))
    made = union(nothing, short, long, choice="first")
    made.begin(PROMPT, 2, NO_SCORES)
    assert (made.propose(8).source, long.asked) == ("short", [])


def test_value_prefers_what_holds_to_what_is_long() -> None:
    """The longer draft is always wrong; its gate does not even have to close."""
    good = named("good", lambda known, budget: oracle(RIGHT)(known, min(budget, 2)))
    found = sources(union(named("bad", wrong), good, rule=[Rule(close_below=0.0), Rule()]))
    assert found[-10:] == ["good"] * 10
    longest = sources(union(named("bad", wrong), good, choice="longest", rule=[Rule(close_below=0.0), Rule()]))
    assert longest == ["bad"] * len(longest)


def test_value_knows_a_drafter_by_its_match_length() -> None:
    """Right after long matches, wrong after short ones: trusted exactly there."""

    def moody(known: tuple[int, ...], budget: int) -> Draft:
        good = len(known) // 6 % 2 == 0
        draft = oracle(RIGHT)(known, budget) if good else wrong(known, budget)
        return Draft(draft.ids, source="moody", match_len=9 if good else 2)

    def steady(known: tuple[int, ...], budget: int) -> Draft:
        return Draft(oracle(RIGHT)(known, min(budget, 1)).ids, source="steady", match_len=3)

    made = union(Counted(moody), Counted(steady))
    rounds = run(made, TOY, PROMPT, 110, lengths=(3,))
    late = [round_ for round_ in rounds[len(rounds) // 2 :] if round_.drafted]
    assert {round_.source for round_ in late if round_.match_len == 9} == {"moody"}
    assert {round_.source for round_ in late if round_.match_len != 9} == {"steady"}


def test_who_is_right_where_they_differ_is_counted_apart() -> None:
    """One is right in four of five rounds, the other in one of four, yet always where both say something."""

    def mostly(known: tuple[int, ...], budget: int) -> Draft:
        draft = oracle(RIGHT)(known, 1)
        kind = len(known) % 8
        return EMPTY_DRAFT if kind in (1, 2, 3) else Draft((draft.ids + (kind == 0)) % 16, source="mostly")

    def seldom(known: tuple[int, ...], budget: int) -> Draft:
        draft = oracle(RIGHT)(known, 1)
        kind = len(known) % 8
        return EMPTY_DRAFT if kind > 3 else Draft((draft.ids + (kind != 0)) % 16, source="seldom")

    made = union(named("mostly", mostly), named("seldom", seldom), rule=[Rule(), Rule(close_below=0.0)])
    rounds = run(made, TOY, PROMPT, 130, lengths=(1,))
    both = [round_.source for round_ in rounds if round_.drafted and (round_.depth + 1) % 8 == 0]
    assert both.count("seldom") > len(both) - 3
    assert both[-3:] == ["seldom"] * 3


def test_what_nobody_knows_yet_goes_to_the_longer_match() -> None:
    def of(match_len: int, token: int) -> Counted:
        return Counted(lambda known, budget: Draft(as_ids([token]), source="x", match_len=match_len))

    made = union(of(2, 1), of(9, 2), of(9, 3))
    made.begin(PROMPT, 2, NO_SCORES)
    assert made.propose(4).ids.tolist() == [2]


def test_equal_drafts_are_worth_the_same_to_the_first_and_a_longer_one_more() -> None:
    one, two = named("one", scripted([1, 2])), named("two", scripted([1, 2, 3]))
    made = union(one, two)
    made.begin(PROMPT, 2, NO_SCORES)
    assert (made.propose(2).source, made.propose(3).source) == ("one", "two")


def test_a_label_names_the_drafts_and_q_is_dropped() -> None:
    drawing = Drawing(TOY, Sampling(temperature=1.0), Walker(), FreshRows(TOY))
    made = union(drawing, label=["mine"])
    made.begin(PROMPT, 2, NO_SCORES)
    draft = made.propose(3)
    assert (draft.source, draft.q, len(draft)) == ("mine", None, 3)


# ---------------------------------------------------------------- what a drafter costs


def test_a_dear_drafter_is_asked_only_where_it_brings_more_than_it_costs() -> None:
    """Half of its first tokens hold: worth it at a tenth of a round a token, not at one."""

    def half(known: tuple[int, ...], budget: int) -> Draft:
        return oracle(RIGHT)(known, budget) if len(known) % 2 else wrong(known, budget)

    cheap, dear = named("dear", half), named("dear", half)
    rule = [Rule(close_below=0.0, probe_every=0)]
    sources(union(cheap, cost=[0.1], rule=rule), 100)
    sources(union(dear, cost=[1.0], rule=rule), 100)
    assert len(cheap.asked) > 20
    assert len(dear.asked) <= 1


def test_a_dear_drafter_is_not_asked_where_a_lookup_is_as_good() -> None:
    lookup, model = named("lookup", oracle(RIGHT)), named("model", oracle(RIGHT))
    found = sources(union(model, lookup, cost=[0.2, 0.0], rule=[Rule(probe_every=0)] * 2), 100)
    assert found.count("lookup") > 0.8 * len(found)
    assert len(model.asked) < len(lookup.asked) / 2


def test_a_dear_drafter_that_was_not_worth_it_is_probed_and_comes_back() -> None:
    """Wrong for 40 tokens, right from then on."""

    def late(known: tuple[int, ...], budget: int) -> Draft:
        return (wrong if len(known) < len(PROMPT) + 40 else oracle(RIGHT))(known, budget)

    dear = named("dear", late)
    found = sources(union(dear, cost=[0.3], rule=[Rule(probe_every=4)]), 110)
    assert found[20:35].count("dear") < 8
    assert found[-3:] == ["dear"] * 3
    assert PROBE_LEN in dear.asked[:12]


def test_costs_are_measured_where_a_clock_may_count() -> None:
    machine = Machine()

    class Slow(Counted):
        def propose(self, budget: int) -> Draft:
            machine.now += 0.5 * budget
            return super().propose(budget)

    slow = Slow(oracle(RIGHT))
    made = union(slow, clock=machine)
    made.begin(PROMPT, RIGHT[len(PROMPT)], NO_SCORES)
    known = len(PROMPT) + 1
    for _ in range(6):
        made.propose(2)
        machine.now += 1.0  # the forward
        made.observe((RIGHT[known],), NO_SCORES)
        known += 1
    [member] = made.members
    assert member.token_cost == pytest.approx(0.5, rel=0.01)  # half a plain round for each token
    assert union(Slow(oracle(RIGHT)), cost=[0.25]).members[0].token_cost == 0.25


class NearTies(ToyTarget):
    """A toy of whose rows nobody knows whether they equal single rows."""

    def __init__(self, options: ToyOptions) -> None:
        super().__init__(options)
        self.caps = replace(self.caps, row_class="near-tie")


def forbidden() -> float:
    raise AssertionError("the clock was read")


@pytest.mark.parametrize(
    ("target", "options"),
    [(TOY, {"reproducible": True}), (NearTies(ToyOptions(order=1)), {})],
    ids=["asked for", "where rows may differ"],
)
def test_reproducible_unions_ask_no_clock_and_do_the_same_twice(target: ToyTarget, options: dict[str, bool]) -> None:
    def rounds() -> list[tuple[Any, ...]]:
        workshop = ToyWorkshop(target, {}, clock=forbidden)
        made = workshop.drafter("union", {"members": ["ngram", {"name": "suffix", "cost": 0.1}], **options})
        return [(r.new_ids, r.drafted, r.source) for r in run(made, target, PROMPT, 80, lengths=(5, 3))]

    assert rounds() == rounds()


@pytest.mark.parametrize(
    ("target", "options"),
    [(TOY, {}), (NearTies(ToyOptions(order=1)), {"reproducible": False})],
    ids=["where rows are identical", "asked for"],
)
def test_other_unions_ask_the_clock(target: ToyTarget, options: dict[str, bool]) -> None:
    made = ToyWorkshop(target, {}, clock=forbidden).drafter("union", options)
    with pytest.raises(AssertionError, match="clock"):
        run(made, target, PROMPT, 20)


# ---------------------------------------------------------------- gates


def test_a_gate_closes_by_its_average_and_opens_by_it() -> None:
    gate = Gate(Rule(close_below=0.1, open_above=0.3, probe_every=5))
    for _ in range(21):
        gate.learn(False)
        assert gate.is_open
    gate.learn(False)
    assert not gate.is_open  # 0.9 ** 22 < 0.1
    gate.learn(True)
    gate.learn(True)
    assert not gate.is_open  # between the two nothing changes
    gate.learn(True)
    assert gate.is_open


@settings(max_examples=200)
@given(st.lists(st.booleans(), max_size=60), st.booleans(), st.integers(1, 40))
def test_every_closed_gate_can_open_again(held: list[bool], starts_open: bool, probe_every: int) -> None:
    gate = Gate(Rule(probe_every=probe_every, starts_open=starts_open))
    for each in held:
        gate.learn(each)
    waited = 0
    while not gate.wants_probe:
        gate.pass_by(asked=False)
        waited += 1
    assert waited == probe_every
    gate.pass_by(asked=True)
    assert not gate.wants_probe
    for _ in range(3):
        gate.learn(True)
    assert gate.is_open


@pytest.mark.parametrize("choice", ["value", "longest", "first"])
def test_a_closed_gate_keeps_a_lookup_out_until_it_would_have_been_right(choice: str) -> None:
    """Lookups are asked although their gate is closed: what they say is compared with the text for nothing."""

    def late(known: tuple[int, ...], budget: int) -> Draft:
        return (wrong if len(known) < len(PROMPT) + 60 else oracle(RIGHT))(known, budget)

    found = sources(union(named("late", late), choice=choice), 110)
    assert found[40:58] == [""] * 18
    assert found[-5:] == ["late"] * 5


@pytest.mark.parametrize("choice", ["value", "longest", "first"])
def test_a_dear_drafter_whose_gate_closed_is_probed_and_comes_back(choice: str) -> None:
    """C6: nobody asks it while its gate is closed but to probe it, and the gate opens by what the probes show."""
    opened: list[bool] = []

    def late(known: tuple[int, ...], budget: int) -> Draft:
        opened.append(made.members[0].gate.is_open)
        return (wrong if len(known) < len(PROMPT) + 60 else oracle(RIGHT))(known, budget)

    rule = Rule(close_below=0.3, open_above=0.35, probe_every=2)
    made = union(named("late", late), cost=[0.3], choice=choice, rule=[rule])
    found = sources(made, 110)
    assert opened[:2] == [True, True]
    assert False in opened, "the gate never closed, so this proves nothing"
    assert opened[-3:] == [True] * 3
    assert found[-3:] == ["late"] * 3


@pytest.mark.parametrize("choice", ["value", "longest", "first"])
def test_a_closed_gate_saves_what_a_dear_drafter_costs(choice: str) -> None:
    bad = named("bad", wrong)
    sources(union(bad, cost=[0.2], choice=choice, rule=[Rule(probe_every=16)]), 110)
    assert len(bad.asked) < 40
    assert len(bad.asked[-1:]) == 1


def test_a_gate_may_start_closed() -> None:
    good = named("good", oracle(RIGHT))
    found = sources(union(good, cost=[0.1], rule=[Rule(probe_every=8, starts_open=False)]), 110)
    assert found[:8] == [""] * 8
    assert "good" in found[8:]


# ---------------------------------------------------------------- losers, trees, state


def members_of(made: Union) -> list[Any]:
    return [vars(each.drafter) if isinstance(each.drafter, NgramDrafter) else automaton(each) for each in made.members]


def automaton(member: Member) -> Any:
    assert isinstance(member.drafter, SuffixDrafter)
    return vars(member.drafter.automaton)


def lookups(choice: str) -> Union:
    return union(
        NgramDrafter(NgramOptions(max_n=3, min_n=3)), SuffixDrafter(SuffixOptions(branches=2)),
        NgramDrafter(NgramOptions(max_n=2)), choice=choice,
    )  # fmt: skip


@settings(max_examples=100)
@given(
    choice=st.sampled_from(["value", "longest", "first"]),
    prompt=st.lists(st.integers(0, 3), min_size=2, max_size=30),
    rounds=st.lists(st.tuples(st.integers(0, 6), st.lists(st.integers(0, 3), min_size=1, max_size=4)), max_size=6),
)
def test_after_any_rounds_every_member_is_one_that_saw_the_same_tokens(
    choice: str, prompt: list[int], rounds: list[tuple[int, list[int]]]
) -> None:
    class Rows:
        rows = 8
        width = 8

    busy, text = lookups(choice), list(prompt)
    busy.begin(as_ids(prompt[:-1]), prompt[-1], NO_SCORES)
    for budget, new_ids in rounds:
        busy.propose(budget)
        busy.observe(new_ids, Rows())  # type: ignore[arg-type]
        text += new_ids
        fresh = lookups(choice)
        fresh.begin(as_ids(text[:-1]), text[-1], NO_SCORES)
        assert members_of(busy) == members_of(fresh)


class Session:
    """A drafter with a cache of its own, which a draft enters and an observation must roll back.

    A model drafter in small: its guesses follow from what is in the cache, so a loser that kept its guesses shows.
    """

    needs = Guesser(scripted([])).needs

    def __init__(self) -> None:
        self.cache: list[int] = []
        self.kept = 0

    def begin(self, prompt: Ids, root: int, scores: Scores) -> None:
        self.cache = [*prompt.tolist(), root]
        self.kept = len(self.cache)

    def propose(self, budget: int) -> Draft:
        for _ in range(budget):
            self.cache.append((sum(self.cache) * 7 + len(self.cache)) % 16)
        return Draft(as_ids(self.cache[self.kept :]), source="session")

    def observe(self, new_ids: Sequence[int], scores: Scores) -> None:
        del self.cache[self.kept :]
        self.cache += new_ids
        self.kept = len(self.cache)


@pytest.mark.parametrize("choice", ["value", "longest", "first"])
def test_a_loser_with_a_session_is_rolled_back(choice: str) -> None:
    loser = Session()
    made = union(named("good", oracle(RIGHT)), loser, choice=choice)
    rounds = run(made, TOY, PROMPT, 60, lengths=(4, 2, 0))
    assert loser.cache == [*PROMPT.tolist(), *written(rounds)]


def test_others_see_the_accepted_branch_of_a_tree_as_a_chain() -> None:
    """Row i of what they are shown follows token i of what was emitted."""
    seen: list[tuple[list[int], list[int]]] = []

    class Reads(Guesser):
        def observe(self, new_ids: Sequence[int], scores: Scores) -> None:
            seen.append((list(new_ids), scores.argmax().tolist()))
            assert scores.rows == len(scores.argmax())
            assert all(int(np.argmax(scores.logits(row))) == scores.argmax()[row] for row in range(scores.rows))
            super().observe(new_ids, scores)

    def forked(known: tuple[int, ...], budget: int) -> Draft:
        right = RIGHT[len(known) : len(known) + budget // 2]
        ids, parents = [], []
        at = -1
        for token in right:  # a wrong branch before each right one
            ids += [(token + 1) % 16, token]
            parents += [at, at]
            at = len(ids) - 1
        return Draft(as_ids(ids), parents=as_ids(parents), source="forked")

    made = union(Guesser(forked, trees=True), Reads(scripted([])))
    rounds = run(made, TOY, PROMPT, 50, lengths=(6,))
    assert sum(round_.accepted for round_ in rounds) > 20
    assert all(new_ids == argmax for new_ids, argmax in seen), "greedy: what was emitted is what the rows said"
    assert made.needs.trees
    assert not made.needs.history_only


def test_rows_along_stop_where_the_policy_cut_the_tree() -> None:
    draft = Draft(as_ids([5, 6, 7, 8]), parents=as_ids([-1, -1, 1, 2]))
    assert rows_along(draft, [6, 7, 8, 9], 5) == [0, 2, 3, 4]
    assert rows_along(draft, [6, 7, 9], 5) == [0, 2, 3]
    assert rows_along(draft, [6, 9], 3) == [0, 2]
    assert isinstance(Along(NO_SCORES, [0, 2]).rows, int)
