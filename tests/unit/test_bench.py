"""The runner, on a toy whose forwards take virtual time: what it measures, keeps, tells, and how it goes on."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from timed_toy import VirtualClock, timed_model

from surefoot.core.errors import ConfigError
from surefoot.core.types import Ids, as_ids
from surefoot.engine.config import Config
from surefoot.lab import codec, store
from surefoot.lab.arms import configured, parse, plain
from surefoot.lab.bench import REST_S, Progress, Sides, World, execute
from surefoot.lab.plan import plan, references
from surefoot.lab.records import (
    SCHEMA,
    Conditions,
    End,
    Gate,
    Pair,
    PromptUse,
    Record,
    Reference,
    Resumed,
    Run,
    Side,
)
from surefoot.lab.sides import write

ARMS = parse(["ngram/additive", "ngram/fixed:draft_len=3"], Config())
QUIET = Conditions(others_cpu=0.01)
PROMPTS = {"a-1": as_ids([1, 2, 3] * 5), "a-2": as_ids([7, 8] * 6), "b-1": as_ids([20, 21, 22, 23] * 3)}
BASELINE = Gate("baseline", True, 1.0, 0.97, "of the runtime's speed", "as fast")


class Killed(Exception):
    """Stands for a process that is gone between two records."""


@dataclass
class Here:
    """A whole world in memory. Holds changing state: the clock, what was appended, told and shown."""

    clock: VirtualClock = field(default_factory=VirtualClock)
    records: list[Record] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    shown: list[Progress] = field(default_factory=list)
    conditions: Callable[[int], Conditions] = lambda number: QUIET
    die_after: int | None = None
    writings: int = 0

    def append(self, record: Record) -> None:
        self.records.append(codec.decode(codec.encode(record), "the record"))
        if len(self.records) == self.die_after:
            raise Killed

    def watched(self, action: Callable[[], Side]) -> tuple[Side, Conditions]:
        self.writings += 1
        return action(), self.conditions(self.writings)

    @property
    def world(self) -> World:
        return World(
            self.clock, self.clock.sleep, self.watched, self.append, lambda: "2026-01-01T00:00:00Z",
            self.notes.append, self.shown.append,
        )  # fmt: skip

    def of(self, kind: type[Any]) -> list[Any]:
        return [record for record in self.records if isinstance(record, kind)]


def run_of(**changes: Any) -> Run:
    uses = [PromptUse(name, name[0], "test", len(ids), name) for name, ids in PROMPTS.items()]
    run = Run(
        SCHEMA, "0", "2026-01-01T00:00:00Z", (), {}, {}, {}, 0, ARMS, uses, {"a": "x", "b": "y"}, (12, 20), 3
    )  # fmt: skip
    return replace(run, **changes)


def sides_of(run: Run, here: Here) -> Sides:
    model = timed_model(here.clock)

    def by(arm: Any) -> Callable[[Ids, int], Side]:
        return lambda ids, budget: write(model, ids, configured(arm, Config(), budget), here.clock)

    def off(ids: Ids, budget: int) -> Side:
        return write(model, ids, plain(Config(), budget), here.clock)

    return Sides(off, {arm.label: by(arm) for arm in run.arms}, PROMPTS, lambda ids: 0.25)


def done(run: Run | None = None, here: Here | None = None, **options: Any) -> Here:
    run, here = run or run_of(), here or Here()
    here.why = execute(run, sides_of(run, here), here.world, **options)  # type: ignore[attr-defined]
    return here


def test_a_whole_run() -> None:
    run = run_of()
    here = done(run, gates={"baseline": lambda: BASELINE})
    pairs = here.of(Pair)
    assert [(p.number, p.arm, p.prompt, p.budget, p.first) for p in pairs] == [
        (p.number, p.arm, p.prompt, p.budget, p.first) for p in plan(run)
    ]
    assert len(pairs) == 3 * 2 * 2 * 2
    assert all(pair.same_ids and pair.off.steps and pair.on.steps for pair in pairs)
    assert all(step.rows == 1 for pair in pairs for step in pair.off.steps)
    assert {pair.arm for pair in pairs if any(step.accepted for step in pair.on.steps)} == {arm.label for arm in ARMS}
    kinds = [type(record).__name__ for record in here.records]
    assert kinds == ["Gate"] + ["Reference"] * 6 + ["Pair"] * 24 + ["Gate", "End"]
    assert here.records[0] == BASELINE
    assert here.records[-2].name == "lossless"  # type: ignore[union-attr]
    assert here.records[-2].passed  # type: ignore[union-attr]
    assert here.records[-1] == End("2026-01-01T00:00:00Z", "complete")
    assert here.notes == []


def test_sides_of_a_pair_follow_each_other_and_time_counts_from_the_beginning() -> None:
    here = done()
    pairs = here.of(Pair)
    assert here.of(Reference)[0].at_s < pairs[0].at_s
    for pair, after in pairwise(pairs):
        sides = (pair.on,) if after.shared else (pair.off, pair.on)
        lasted = sum(side.prefill_s + side.decode_s for side in sides)
        assert after.at_s == pytest.approx(pair.at_s + lasted), "nothing runs between two pairs"


def test_a_plain_text_between_two_arms_is_written_once() -> None:
    here = done()
    pairs = here.of(Pair)
    shared = [(before, pair) for before, pair in pairwise(pairs) if pair.shared]
    assert len(shared) == len(pairs) // 2
    for before, pair in shared:
        assert (before.off, before.off_conditions) == (pair.off, pair.off_conditions)
        assert (before.first, pair.first, before.arm == pair.arm) == ("on", "off", False)
    warm_up, references = 3, 6
    assert here.writings == warm_up + references + 2 * len(pairs) - len(shared)


def test_one_arm_on_one_prompt_shares_nothing() -> None:
    """Two pairs of one row with one plain text would count its noise twice."""
    run = run_of(arms=ARMS[:1], budgets=(12,), prompts=run_of().prompts[:1], workloads={"a": "x"}, pairs_wanted=6)
    here = done(run)
    assert [pair.first for pair in here.of(Pair)] == ["off", "on"] * 3
    assert not any(pair.shared for pair in here.of(Pair))


def test_a_run_that_broke_off_between_two_arms_writes_the_plain_text_again() -> None:
    run, whole = run_of(), done()
    pairs = whole.of(Pair)
    place = next(pair.number for pair in pairs if pair.shared)
    cut = store.Loaded(run, (), tuple(whole.of(Reference)), tuple(pairs[:place]), (), None, False)
    again = done(run, Here(), before=cut).of(Pair)
    assert (again[0].number, again[0].shared, again[0].arm) == (place, False, pairs[place].arm)
    assert [pair.shared for pair in again[1:]] == [pair.shared for pair in pairs[place + 1 :]]


def test_the_time_that_is_left_counts_a_shared_text_once() -> None:
    """Once every text has been written, what is left is known to the second."""
    here = done(run_of(pairs_wanted=6))
    pairs = here.of(Pair)
    end = pairs[-1].at_s + sum(side.prefill_s + side.decode_s for side in (pairs[-1].off, pairs[-1].on))
    known = [shown for shown in here.shown if shown.total == len(pairs)][-8:]
    for shown in known:
        assert shown.left_s == pytest.approx(end - begin(pairs, shown.done))


def begin(pairs: list[Pair], place: int) -> float:
    """When a pair begins to run: after its plain text where that was there already."""
    pair = pairs[place]
    return pair.at_s + (pair.off.prefill_s + pair.off.decode_s if pair.shared else 0.0)


def test_the_machine_rests_before_the_references_and_warms_up_before_that() -> None:
    here = done()
    assert here.clock.slept == [REST_S]
    model_s = here.of(Reference)[0].at_s - REST_S
    assert model_s > 0, "the warm-up ran before, and is not in the record"
    assert [(ref.prompt, ref.budget) for ref in here.of(Reference)] == list(references(run_of()))
    assert list(references(run_of())) == [("a-1", 12), ("b-1", 12), ("a-2", 12), ("b-1", 12), ("a-1", 12), ("b-1", 12)]


def test_what_is_shown_counts_down_to_nothing() -> None:
    here = done()
    counted = [shown for shown in here.shown if shown.total]
    assert [shown.done for shown in counted] == list(range(24))
    lefts = [shown.left_s for shown in counted]
    assert lefts[0] is None
    real_end = here.clock.now
    began = {pair.number: 100.0 + pair.at_s for pair in here.of(Pair)}
    for number, left in list(enumerate(lefts))[12:]:
        assert left == pytest.approx(real_end - began[number], rel=0.5), "half-way through, the guess is a fair one"


def test_a_run_ends_before_its_time_is_over() -> None:
    whole = done(rest_s=0.0)
    limit = 0.6 * (whole.clock.now - 100.0)
    here = done(time_limit_s=limit, rest_s=0.0)
    assert here.records[-1] == End("2026-01-01T00:00:00Z", "time")
    assert 8 < len(here.of(Pair)) < 24
    assert here.clock.now - 100.0 <= limit
    assert here.of(Gate)[-1].name == "lossless"
    assert all(shown.left_s is None or shown.left_s <= limit for shown in here.shown)


def kept(path: Path, run: Run, records: list[Record]) -> store.Loaded:
    """The records as a file holds them."""
    with store.Store.create(path, run) as kept:
        for record in records:
            kept.append(record)
    return store.load(path)


@pytest.mark.parametrize("die_after", [1, 2, 4, 7, 8, 17, 30, 31, 32])
def test_a_run_that_was_killed_goes_on_where_it_was(tmp_path: Path, die_after: int) -> None:
    """Wherever it is cut: every pair once, the same pairs, references and gates not twice, no time in the gap."""
    run = run_of()
    first = Here(die_after=die_after)
    with pytest.raises(Killed):
        done(run, first, gates={"baseline": lambda: BASELINE})
    before = kept(tmp_path / "run.jsonl", run, first.records)
    second = Here(VirtualClock(9e6))
    second.world.append(Resumed("2026-01-02T00:00:00Z", {}))
    done(run, second, before=before, gates={"baseline": lambda: BASELINE})
    whole = [*first.records, *second.records]
    pairs = [record for record in whole if isinstance(record, Pair)]
    assert [p.number for p in pairs] == list(range(24))
    assert [(p.arm, p.prompt, p.budget, p.first) for p in pairs] == [
        (p.arm, p.prompt, p.budget, p.first) for p in plan(run)
    ]
    found = Counter((r.prompt, r.budget) for r in whole if isinstance(r, Reference))
    assert found == Counter(references(run))
    assert sum(isinstance(r, Gate) and r.name == "baseline" for r in whole) == 1
    times = [record.at_s for record in whole if isinstance(record, Pair | Reference)]
    assert times == sorted(times)
    assert times[-1] < 100, "the time between the two is not in it"
    assert whole[-1] == End("2026-01-01T00:00:00Z", "complete")


def test_a_record_of_another_plan_is_not_gone_on_with(tmp_path: Path) -> None:
    run = run_of()
    before = kept(tmp_path / "run.jsonl", run, done(run).records[:14])
    with pytest.raises(ConfigError, match="pair 0 of the record"):
        done(replace(run, seed=1), before=before)


def test_others_who_load_the_machine_are_told_of_once_and_at_once() -> None:
    """Writings: three to warm up, six references, three for two pairs; the machine is busy in four of those."""
    here = Here()
    here.conditions = lambda number: Conditions(others_cpu=0.5 if 19 <= number <= 24 else 0.01)
    told: list[int] = []

    def note(text: str) -> None:
        told.append(len(here.of(Pair)))
        here.notes.append(text)

    run = run_of()
    busy = lambda c: "others use 50 % of the processor" if (c.others_cpu or 0) > 0.1 else None  # noqa: E731
    execute(run, sides_of(run, here), replace(here.world, note=note), busy=busy)
    assert len(here.notes) == 2
    assert here.notes[0].startswith("others use 50 % of the processor")
    assert "goes on" in here.notes[0]
    assert "quiet again" in here.notes[1]
    assert told == [7, 11], "as soon as the disturbed pair was written"
    assert [p.number for p in here.of(Pair) if (p.off_conditions.others_cpu or 0) > 0.1] == [6, 7, 8, 9]


def test_rows_get_a_pair_more_for_each_that_others_disturbed() -> None:
    here, run = Here(), run_of(budgets=(20,), pairs_wanted=6)
    third_and_fourth = 9 + 3 + 2  # the writings before, and the plain text is the second of three
    here.conditions = lambda number: Conditions(others_cpu=0.5 if number == third_and_fourth else 0.01)
    done(run, here)
    pairs, planned = here.of(Pair), plan(run)
    more = pairs[len(planned) :]
    assert {(p.arm, p.workload, p.budget) for p in more} == {(p.arm, p.workload, 20) for p in pairs[2:4]}
    assert [p.number for p in more] == [len(planned), len(planned) + 1]
    assert here.records[-1] == End("2026-01-01T00:00:00Z", "complete")
    # A run that was cut off among its spare pairs goes on with what is missing.
    cut = store.Loaded(run, (), tuple(here.of(Reference)), tuple(pairs), (), None, False)
    again = done(run, Here(), before=cut)
    assert again.of(Pair) == []


def test_a_run_of_too_few_pairs_for_an_interval_stays_what_it_is() -> None:
    here, run = Here(), run_of(budgets=(20,), pairs_wanted=5)
    here.conditions = lambda number: Conditions(others_cpu=0.5)
    assert len(done(run, here).of(Pair)) == 2 * 2 * 5


def test_a_machine_that_is_never_quiet_ends_a_run_too() -> None:
    here, run = Here(), run_of(budgets=(20,), pairs_wanted=6)
    here.conditions = lambda number: Conditions(others_cpu=0.5)
    done(run, here)
    assert len(here.of(Pair)) == 2 * 2 * (6 + 3), "three turns more, each of all rows"
    assert here.why == "complete"  # type: ignore[attr-defined]


def faulty(sides: Sides, label: str, budgets: set[int], times: int | None, here: Here) -> Sides:
    """An arm that writes another fourth token, the first `times` times that a pair of these budgets asks it."""
    left = [times]

    def wrong(real: Callable[[Ids, int], Side], ids: Ids, budget: int) -> Side:
        side = real(ids, budget)
        if budget not in budgets or left[0] == 0 or not here.of(Reference):
            return side
        left[0] = None if left[0] is None else left[0] - 1
        text = [*side.ids]
        text[3] += 1
        return replace(side, ids=text)

    return replace(sides, arms={**sides.arms, label: partial(wrong, sides.arms[label])})


@pytest.mark.parametrize("times", [None, 1], ids=["always", "once"])
def test_a_text_that_differs_is_written_again_before_it_counts(times: int | None) -> None:
    run, here = run_of(), Here()
    label = ARMS[1].label
    execute(run, faulty(sides_of(run, here), label, {20}, times, here), here.world)
    different = [pair.number for pair in here.of(Pair) if not pair.same_ids]
    last = here.of(Gate)[-1]
    found = last.details["differences"]
    assert [each["pair"] for each in found] == different
    assert {(each["arm"], each["budget"], each["index"]) for each in found} == {(label, 20, 3)}
    assert len(here.notes) == len(different)
    if times is None:
        assert len(different) == 6
        assert (last.passed, last.figure, last.limit) == (False, 6, 0)
        assert {each["again"] for each in found} == {"same"}
        for word in (label, "from token 3", "6 of 24 texts"):
            assert word in last.text
        assert "again when written alone" in here.notes[0]
    else:
        assert len(different) == 1
        assert (last.passed, last.figure) == (True, 0)
        assert found[0]["again"] == "none"
        assert "not when written again" in last.text
        assert "does not count" in here.notes[0]


def test_a_near_tie_is_no_failure_where_near_ties_are_allowed() -> None:
    run, here = run_of(), Here()
    sides = replace(faulty(sides_of(run, here), ARMS[1].label, {20}, None, here), near_tie_below=0.3)
    execute(run, sides, here.world)
    last = here.of(Gate)[-1]
    assert last.passed
    assert "6 differ where the two likeliest tokens nearly tie" in last.text
    assert "equal" not in last.text, "nobody reads that they are the same"
    assert {each["gap"] for each in last.details["differences"]} == {0.25}
    assert "near tie" in here.notes[0]


def test_a_difference_is_in_the_record_before_the_next_pair(tmp_path: Path) -> None:
    """So that a run that is killed later has not forgotten what it knew."""
    run, here = run_of(), Here()
    label = ARMS[1].label
    execute(run, faulty(sides_of(run, here), label, {20}, None, here), here.world)
    for record, after in pairwise(here.records):
        if isinstance(record, Pair) and not record.same_ids:
            assert isinstance(after, Gate)
            assert not after.passed
    cut = next(at for at, record in enumerate(here.records) if isinstance(record, Gate)) + 1
    before = kept(tmp_path / "run.jsonl", run, here.records[:cut])
    second = Here()
    done(run, second, before=before)
    assert not second.of(Gate)[-1].passed
    assert second.of(Gate)[-1].figure == 1


@pytest.mark.parametrize("listed", [[{"pair": 1}], [5], 7])
def test_differences_that_somebody_else_wrote_are_refused(tmp_path: Path, listed: Any) -> None:
    run = run_of()
    gate = Gate("lossless", True, 0, 0, "texts", "made up", {"differences": listed})
    with pytest.raises(ConfigError, match="differences that cannot be read"):
        done(run, before=kept(tmp_path / "run.jsonl", run, [gate]))


def test_what_another_engine_writes_is_no_failure_of_ours() -> None:
    run = run_of(arms=parse(["ngram", "peer:draft_len=5"], Config()))
    here = Here()
    sides = sides_of(replace(run, arms=run.arms[:1]), here)
    peer = {"peer:draft_len=5": sides.arms["ngram/additive"]}
    sides = faulty(replace(sides, arms={**sides.arms, **peer}), "peer:draft_len=5", {12, 20}, None, here)
    execute(run, sides, here.world)
    assert sum(not pair.same_ids for pair in here.of(Pair)) == 12
    (lossless,) = here.of(Gate)
    assert lossless.passed
    assert "12 texts" in lossless.text
    assert here.notes == []


def test_an_interrupt_leaves_whole_records(tmp_path: Path) -> None:
    run, here = run_of(), Here()
    sides = sides_of(run, here)

    def pressed(ids: Ids, budget: int) -> Side:
        if len(here.of(Pair)) == 8:
            raise KeyboardInterrupt
        return sides.off(ids, budget)

    with pytest.raises(KeyboardInterrupt):
        execute(run, replace(sides, off=pressed), here.world)
    assert [pair.number for pair in here.of(Pair)] == list(range(8))
    assert json.dumps([type(record).__name__ for record in here.records]).count("End") == 0
