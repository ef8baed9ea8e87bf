"""The plan of a run: every pair once, every row alike, sides in turn, and the same plan whenever it is asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from surefoot.lab.plan import Planned, plan, spare
from surefoot.lab.records import SCHEMA, Arm, Conditions, Pair, PromptUse, Run, Side


def run_of(prompts: Sequence[int], budgets: Sequence[int], arms: int, pairs: int, seed: int = 0) -> Run:
    """A run with that many prompts in each workload."""
    uses = [
        PromptUse(f"{workload}-{number}", f"w{workload}", "test", 10, f"{workload}/{number}")
        for workload, count in enumerate(prompts)
        for number in range(count)
    ]
    return Run(
        SCHEMA, "0", "2026-01-01T00:00:00Z", (), {}, {}, {}, seed, [Arm(f"arm{n}", "drafts") for n in range(arms)],
        uses, {use.workload: "x" for use in uses}, tuple(budgets), pairs,
    )  # fmt: skip


RUNS = st.builds(
    run_of,
    st.lists(st.integers(1, 5), min_size=1, max_size=4),
    st.lists(st.integers(1, 600), min_size=1, max_size=3, unique=True),
    st.integers(1, 4),
    st.integers(1, 9),
    st.integers(0, 2**32),
)


def turns(run: Run) -> list[tuple[Planned, ...]]:
    """The plan, cut where every row has had one more pair."""
    planned = plan(run)
    size = len(planned) // run.pairs_wanted
    return [planned[start : start + size] for start in range(0, len(planned), size)]


@given(RUNS)
def test_each_turn_holds_one_pair_of_every_row(run: Run) -> None:
    rows = {(workload, budget, arm.label) for workload in run.workloads for budget in run.budgets for arm in run.arms}
    for turn in turns(run):
        found = [(pair.workload, pair.budget, pair.arm) for pair in turn]
        assert len(found) == len(rows)
        assert set(found) == rows


@given(RUNS)
def test_the_number_of_a_pair_is_its_place(run: Run) -> None:
    assert [pair.number for pair in plan(run)] == list(range(len(plan(run))))


@given(RUNS)
def test_prompts_take_turns(run: Run) -> None:
    """No prompt of a workload is more than one pair ahead of another, for any arm and budget."""
    owner = {use.id: use.workload for use in run.prompts}
    counts = Counter((pair.prompt, pair.budget, pair.arm) for pair in plan(run))
    for workload in run.workloads:
        for budget in run.budgets:
            for arm in run.arms:
                own = [counts[use.id, budget, arm.label] for use in run.prompts if use.workload == workload]
                assert max(own) - min(own) <= 1
    assert all(owner[pair.prompt] == pair.workload for pair in plan(run))


@given(RUNS)
def test_both_sides_are_first_as_often(run: Run) -> None:
    """For a prompt with a budget and an arm strictly in turns; for a whole row up to one pair a round of prompts."""
    by_prompt: dict[tuple[str, int, str], list[str]] = {}
    by_row: dict[tuple[str, int, str], list[str]] = {}
    for pair in plan(run):
        by_prompt.setdefault((pair.prompt, pair.budget, pair.arm), []).append(pair.first)
        by_row.setdefault((pair.workload, pair.budget, pair.arm), []).append(pair.first)
    for firsts in by_prompt.values():
        assert all(a != b for a, b in pairwise(firsts)), firsts
    for firsts in by_row.values():
        assert abs(firsts.count("on") - firsts.count("off")) <= 1, firsts


@given(RUNS)
def test_which_side_is_first_turns_from_pair_to_pair(run: Run) -> None:
    """Where a turn has as many pairs of one kind as of the other, up to one; else the rest comes first or last."""
    for turn in turns(run):
        firsts = [pair.first for pair in turn]
        counts = firsts.count("on"), firsts.count("off")
        repeats = sum(a == b for a, b in pairwise(firsts))
        assert repeats <= max(0, abs(counts[0] - counts[1]) - 1)


@given(RUNS)
def test_two_arms_of_a_text_share_its_plain_decoding(run: Run) -> None:
    """As many as can, next to each other; no plain text is shared by three, and none by two pairs of one row."""
    for turn in turns(run):
        shared = [pair.shared for pair in turn]
        assert sum(shared) == len(run.workloads) * len(run.budgets) * (len(run.arms) // 2)
        for before, pair in pairwise(turn):
            if pair.shared:
                assert not before.shared
                assert (before.first, pair.first) == ("on", "off")
                assert (before.prompt, before.budget) == (pair.prompt, pair.budget)
                assert before.arm != pair.arm
        assert not shared[0]


def test_a_spare_pair_whose_partner_needs_none_shares_nothing() -> None:
    run = run_of((1,), (8,), 2, 6)
    pairs = [pair_of(planned) for planned in plan(run)]
    shared = next(pair for pair in pairs if pair.shared)
    (spared,) = spare(run, pairs, {shared.number})
    assert (spared.arm, spared.shared, spared.number) == (shared.arm, False, len(pairs))
    both = spare(run, pairs, {shared.number, shared.number - 1})
    assert [pair.shared for pair in both] == [False, True]


def pair_of(planned: Planned) -> Pair:
    side = Side((1, 2), 2, "length", 0.1, 0.1, None)
    return Pair(
        planned.number, planned.arm, planned.workload, planned.prompt, planned.budget, 0.0, planned.first, side, side,
        Conditions(), Conditions(), planned.shared,
    )  # fmt: skip


@given(RUNS)
def test_the_plan_is_always_the_same_and_the_seed_turns_it(run: Run) -> None:
    assert plan(run) == plan(replace(run))
    more = plan(replace(run, pairs_wanted=run.pairs_wanted + 2))
    assert more[: len(plan(run))] == plan(run), "more pairs only come behind"


def test_another_seed_is_another_order_of_the_same_pairs() -> None:
    run = run_of((2, 3, 2), (256, 512), 3, 4)
    other = plan(replace(run, seed=1))
    assert other != plan(run)
    assert sorted(replace(pair, number=0, shared=False).__repr__() for pair in other) == sorted(
        replace(pair, number=0, shared=False).__repr__() for pair in plan(run)
    )


def test_arms_are_mixed_and_not_run_one_after_the_other() -> None:
    """In each turn every arm has pairs in the first and in the last half."""
    run = run_of((3, 3, 3, 3, 3, 3, 3), (256, 512), 3, 6)
    for turn in turns(run):
        half = len(turn) // 2
        for arm in run.arms:
            places = [at for at, pair in enumerate(turn) if pair.arm == arm.label]
            assert min(places) < half <= max(places)


def test_the_plan_of_a_run_stays_what_it_was() -> None:
    """A record is resumed by a later version too: its plan must not change."""
    planned = plan(run_of((1, 2), (8,), 2, 2, seed=7))
    assert [(pair.workload, pair.prompt, pair.arm, pair.first) for pair in planned] == PINNED


PINNED = [
    ("w1", "1-0", "arm1", "on"),
    ("w1", "1-0", "arm0", "off"),
    ("w0", "0-0", "arm1", "on"),
    ("w0", "0-0", "arm0", "off"),
    ("w0", "0-0", "arm0", "on"),
    ("w0", "0-0", "arm1", "off"),
    ("w1", "1-1", "arm0", "on"),
    ("w1", "1-1", "arm1", "off"),
]
