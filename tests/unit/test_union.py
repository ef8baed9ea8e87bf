"""The union: whose draft is scored, what losers learn, gates that open again, and what an exception costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.core.acceptance import Acceptance
from surefoot.core.errors import ConfigError, NotEligible
from surefoot.core.ports import Drafter, Scores, Workshop
from surefoot.core.sampling import Sampling
from surefoot.core.types import EMPTY_DRAFT, Draft, Ids, as_ids
from surefoot.drafters.ngram import NgramDrafter
from surefoot.drafters.ngram import Options as NgramOptions
from surefoot.drafters.suffix.drafter import SuffixDrafter
from surefoot.drafters.suffix.options import Options as SuffixOptions
from surefoot.drafters.union import PLUGIN, Options
from surefoot.drafters.union.along import Along, rows_along
from surefoot.drafters.union.drafter import CHEAP, PROBE_LEN, Union
from surefoot.drafters.union.gate import Gate, Rule
from surefoot.drafters.union.member import Member
from surefoot.drafters.union.options import MODEL_COST, Seat
from surefoot.engine import parts
from surefoot.engine.config import load_config, parse_assignment
from surefoot.engine.guarded import Guarded
from surefoot.targets.toy import Options as ToyOptions
from surefoot.targets.toy import ToyTarget
from surefoot.testing.drafter_suite import run, written
from surefoot.testing.drafters import Drawing, Guesser, oracle, scripted
from surefoot.testing.enumerator import Walker
from surefoot.testing.laws import FreshRows
from surefoot.testing.workshops import ToyWorkshop

TOY = ToyTarget(ToyOptions(order=1))
PROMPT = as_ids([1, 2, 3, 1, 2, 3, 1])
NO_SCORES: Any = None


def plain_text(n: int = 60, sampling: Sampling | None = None) -> list[int]:
    return written(run(Guesser(scripted([])), TOY, PROMPT, n, lengths=(0,), sampling=sampling))


RIGHT = (*PROMPT.tolist(), *plain_text(140))


class Counted(Guesser):
    """A drafter that counts how often it was asked, and for how much."""

    def __init__(self, guess: Callable[[tuple[int, ...], int], Draft], *, trees: bool = False) -> None:
        super().__init__(guess, trees=trees)
        self.asked: list[int] = []

    def propose(self, budget: int) -> Draft:
        self.asked.append(budget)
        return super().propose(budget)


def named(source: str, guess: Callable[[tuple[int, ...], int], Draft]) -> Counted:
    def draft(known: tuple[int, ...], budget: int) -> Draft:
        found = guess(known, budget)
        return Draft(found.ids, source=source, match_len=found.match_len) if len(found) else EMPTY_DRAFT

    return Counted(draft)


def wrong(known: tuple[int, ...], budget: int) -> Draft:
    ids = as_ids([*RIGHT[len(known) : len(known) + budget], *[0] * budget])[:budget]
    return Draft((ids + 1) % 16, source="wrong")


def union(
    *members: Drafter, choice: Any = "value", clock: Callable[[], float] | None = None, **seats: Sequence[Any]
) -> Union:
    made = []
    for number, drafter in enumerate(members):
        values = {key: value[number] for key, value in seats.items()}
        made.append(Member(Seat(f"member{number}", {}, **values), drafter))
    return Union(made, choice, clock)


def sources(drafter: Drafter, n: int = 60, length: int = 4) -> list[str]:
    """Whose draft was scored in each round of n tokens; later rounds, where little room is left, do not count."""
    rounds = run(drafter, TOY, PROMPT, n + 10, lengths=(length,))
    assert written(rounds) == plain_text(n + 10)
    return [round_.source for round_ in rounds[1:] if round_.depth < len(PROMPT) + n]


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


class Machine:
    """A clock that moves when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


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


# ---------------------------------------------------------------- an exception in a member


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=1.0, seed=4)], ids=["greedy", "drawn"])
@pytest.mark.parametrize("verb", ["begin", "propose", "observe"])
@pytest.mark.parametrize("choice", ["value", "longest", "first"])
def test_a_member_that_fails_costs_its_own_draft_and_a_note(choice: str, verb: str, sampling: Sampling) -> None:
    calls = {"n": 0}

    class Fails(NgramDrafter):
        def __getattribute__(self, name: str) -> Any:
            if name == verb:
                calls["n"] += 1
                if calls["n"] in (1, 3):
                    raise RuntimeError("spoilt")
            return super().__getattribute__(name)

    notes: list[str] = []
    guarded = Guarded(Fails(NgramOptions(min_n=1)), "fails", notes.append)
    rounds = run(union(guarded, SuffixDrafter(SuffixOptions()), choice=choice), TOY, PROMPT, 60, sampling=sampling)
    assert written(rounds) == plain_text(60, sampling)
    assert notes
    assert any(round_.drafted for round_ in rounds)


def test_through_the_workshop_members_are_guarded() -> None:
    made = ToyWorkshop(TOY, {}, guarded=True).drafter("union", {})
    assert isinstance(made, Guarded)
    assert isinstance(made.inner, Union)
    assert all(isinstance(member.drafter, Guarded) for member in made.inner.members)


# ---------------------------------------------------------------- configuration

ORDER = """
[drafts]
name = "union"
choice = "first"
members = [
  { name = "eagle3", optional = true },
  { name = "suffix", label = "lookahead" },
  { name = "mtp", optional = true },
  { name = "union", choice = "longest", members = [
      { name = "crossvocab", model = "other", optional = true },
      { name = "ngram", label = "pld3", max_n = 3, min_n = 3 },
      { name = "suffix" },
      { name = "ngram", label = "pld2", max_n = 2, min_n = 2 },
  ] },
  { name = "crossvocab", model = "other", optional = true },
]
"""


def test_the_order_of_engines_can_be_written_as_a_file(tmp_path: Any) -> None:
    path = tmp_path / "order.toml"
    path.write_text(ORDER, encoding="utf-8")
    config = load_config(path)
    workshop = ToyWorkshop(TOY, {})
    made = workshop.drafter(config.drafts.name, config.drafts.options)
    assert isinstance(made, Union)
    assert [member.seat.label or member.seat.name for member in made.members] == ["lookahead", "union"]
    inner = made.members[1].drafter
    assert isinstance(inner, Union)
    assert [member.seat.label or member.seat.name for member in inner.members] == ["pld3", "suffix", "pld2"]
    assert sum("does without it" in note for note in workshop.notes) == 4
    assert set(sources(made)) <= {"lookahead", "pld3", "suffix", "suffix-split", "pld2", ""}


def test_members_can_be_set_on_the_command_line() -> None:
    key, value = parse_assignment('drafts.members=["suffix", {name="ngram", max_n=3}]')
    config = load_config(overrides={"drafts": "union", key: value})
    assert PLUGIN.options(**config.drafts.options).seats()[1].options == {"max_n": 3}


def test_names_with_a_plus_are_a_union() -> None:
    config = load_config(overrides={"drafts": "suffix+ngram", "drafts.choice": "longest"})
    made = ToyWorkshop(TOY, {}).drafter(config.drafts.name, config.drafts.options)
    assert isinstance(made, Union)
    assert [member.seat.name for member in made.members] == ["suffix", "ngram"]
    with pytest.raises(ConfigError, match="there is no drafter called 'nrgam'; did you mean 'ngram'"):
        load_config(overrides={"drafts": "suffix+nrgam"})
    with pytest.raises(ConfigError, match="leave one of them out"):
        ToyWorkshop(TOY, {}).drafter("suffix+ngram", {"members": ["suffix"]})


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"choice": "best"}, "choice"),
        ({"members": [{"max_n": 3}]}, "union member 1 has no name"),
        ({"members": ["suffix", {"name": "ngram", "max_m": 3}]}, r"union member 2 \(ngram\): .*max_m"),
        ({"members": [{"name": "nrgam"}]}, r"union member 1 \(nrgam\): there is no drafter called 'nrgam'"),
        ({"members": [{"name": "ngram", "cost": -1.0}]}, r"union member 1 \(ngram\): cost must be"),
        ({"members": [{"name": "ngram", "cost": "much"}]}, "cost takes a number"),
        ({"members": [{"name": "ngram", "gate": "ajar"}]}, "gate takes open or closed"),
        ({"members": [{"name": "ngram", "gate_close": 0.5}]}, "close <= open"),
        ({"members": [{"name": "ngram", "probe_every": -1}]}, "probe_every must be"),
    ],
)
def test_a_bad_member_is_refused_by_its_place(options: Mapping[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        ToyWorkshop(TOY, {}).drafter("union", options)


def test_a_member_with_a_second_model_is_not_taken_to_be_free() -> None:
    free, dear, stated = Options(
        ("suffix", {"name": "m", "model": "x"}, {"name": "m", "model": "x", "cost": 0})
    ).seats()
    assert (free.cost, dear.cost, stated.cost) == (0.0, MODEL_COST, 0.0)
    assert MODEL_COST * 2 > CHEAP


def test_a_union_of_nothing_is_refused() -> None:
    with pytest.raises(NotEligible, match="none of the drafters"):
        ToyWorkshop(TOY, {}).drafter("union", {"members": [{"name": "eagle3", "optional": True}]})


def test_every_option_has_help_and_lookups_are_cheap() -> None:
    assert parts.find("drafter", "union") is PLUGIN
    assert all(seat.cost * 256 <= CHEAP for seat in Options().seats())
    workshop: Workshop = ToyWorkshop(TOY, {})
    assert isinstance(PLUGIN.build(Options(), TOY, workshop), Union)
    assert Acceptance().survival("", 0, 0, 1) == [0.5]
