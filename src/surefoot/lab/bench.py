"""Runs the pairs of a plan, one after the other, and puts each on the disk before the next one begins."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Literal

from surefoot.core.errors import ConfigError
from surefoot.core.ports import Clock
from surefoot.core.types import Ids, as_ids
from surefoot.lab import differences
from surefoot.lab.plan import Planned, plan, references, spare
from surefoot.lab.records import Conditions, End, Gate, Pair, Record, Reference, Run, Side
from surefoot.lab.store import Loaded
from surefoot.lab.validity import examine

Writer = Callable[[Ids, int], Side]
"""A text after these ids, of at most so many tokens."""

WARM_UP_TOKENS = 32
"""chosen: every shape of forward that short drafts have is then made; an eighth of the shortest usual budget."""

REST_S = 5.0
"""chosen: the bursts of loading, converting and warming up are then over. Sustained heat takes minutes: the band of the
baseline shows it."""


@dataclass(frozen=True, slots=True)
class Sides:
    """What a run can write: plain decoding, each arm by its label, and the ids of each prompt.

    gap: logits between the two likeliest tokens after these ids. near_tie_below: gaps at which drafts may swap the two;
    0 where they may not.
    """

    off: Writer
    arms: Mapping[str, Writer]
    prompts: Mapping[str, Ids]
    gap: Callable[[Ids], float]
    near_tie_below: float = 0.0


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is. left_s: seconds that the rest will take; None before anything is known."""

    done: int
    total: int
    left_s: float | None
    what: str


@dataclass(frozen=True, slots=True)
class World:
    """What a run uses of the world. watched: the result of an action and the machine's conditions while it ran.
    append: puts a record on the disk. now: the time of day, UTC, ISO 8601. note: tells the user a sentence at once.
    alone: held while nothing else of ours may run on this machine.
    """

    clock: Clock
    sleep: Callable[[float], None]
    watched: Callable[[Callable[[], Side]], tuple[Side, Conditions]]
    append: Callable[[Record], None]
    now: Callable[[], str]
    note: Callable[[str], None]
    show: Callable[[Progress], None]
    alone: Callable[[], AbstractContextManager[object]] = nullcontext


def execute(
    run: Run,
    sides: Sides,
    world: World,
    *,
    before: Loaded | None = None,
    gates: Mapping[str, Callable[[], Gate]] | None = None,
    busy: Callable[[Conditions], str | None] = lambda conditions: None,
    rest_s: float = REST_S,
    time_limit_s: float | None = None,
) -> Literal["complete", "time"]:
    """Why it ended. All that was measured has been appended. Rows of which pairs do not count get spare ones.

    before: what the record holds already, when it goes on after a break. gates: by name, asked at the start where the
    record has no answer. busy: how others load the machine, in words, or None where they do not. time_limit_s: no pair
    begins that would probably end later than that, counted from here.
    Raises: ConfigError when `before` belongs to another plan.
    """
    began = world.clock()
    todo, zero = _todo(run, before), began - _spent(before)
    _warm_up(run, sides, world)
    answered = {gate.name for gate in before.gates} if before else set()
    for name, ask in (gates or {}).items():
        if name not in answered:
            world.show(Progress(0, 0, None, f"gate {name}"))
            world.append(ask())
    rested = _references(run, sides, world, before, rest_s, zero)
    pairs = list(before.pairs) if before else []
    found = differences.recorded(before.gates if before else ())
    exempt, load = differences.may_differ(run), None
    why: Literal["complete", "time"] = "complete"
    place = 0
    last: Pair | None = None
    while why == "complete":
        if place == len(todo):
            todo += spare(run, pairs, _disturbed(run, rested, pairs))
            if place == len(todo):
                break
        planned = todo[place]
        elapsed = world.clock() - began
        if time_limit_s is not None and elapsed + _expected(planned, pairs) > time_limit_s:
            why = "time"
            break
        left = sum(_expected(each, pairs) for each in todo[place:])
        room = None if time_limit_s is None else time_limit_s - elapsed
        known = None if not pairs else left if room is None else min(left, room)
        world.show(Progress(place, len(todo), known, f"{planned.workload}, {planned.arm}"))
        pair = _measure(planned, last, sides, world, zero)
        world.append(pair)
        pairs.append(pair)
        load = _tell_load(pair, busy, load, world.note)
        last = pair
        if not pair.same_ids and pair.arm not in exempt:
            found = (*found, _look_again(pair, sides, world))
            world.append(differences.gate(run, pairs, found))
            last = None
        place += 1
    if any(arm.kind != "peer" for arm in run.arms):
        world.append(differences.gate(run, pairs, found))
    world.append(End(world.now(), why))
    return why


def _todo(run: Run, before: Loaded | None) -> list[Planned]:
    """The pairs of the plan that are still to run. Spare ones come after them, whichever the record holds."""
    planned = plan(run)
    done = {pair.number: pair for pair in before.pairs} if before else {}
    for number, pair in done.items():
        known = planned[number : number + 1] or planned
        if (pair.arm, pair.prompt, pair.budget) not in {(here.arm, here.prompt, here.budget) for here in known}:
            raise ConfigError(
                f"pair {number} of the record is {pair.arm} on {pair.prompt}, which is not what this version of "
                "Surefoot runs there: begin a new run, or go on with the version that began this one"
            )
    return [pair for pair in planned if pair.number not in done]


def _disturbed(run: Run, rested: Sequence[Reference], pairs: Sequence[Pair]) -> set[int]:
    """The numbers of pairs that the machine spoilt. One whose text is too short would be so again."""
    reasons = examine(run, rested, pairs).reasons
    return {number for number, why in reasons.items() if not any(text.startswith("short:") for text in why)}


def _spent(before: Loaded | None) -> float:
    """Working seconds that are in the record already."""
    if before is None:
        return 0.0
    ends = [pair.at_s + _seconds(pair.off) + _seconds(pair.on) for pair in before.pairs]
    return max([*ends, *(reference.at_s + _seconds(reference.off) for reference in before.references)], default=0.0)


def _warm_up(run: Run, sides: Sides, world: World) -> None:
    """Writes a little with every arm: the first forwards of a process are slower and belong to nobody."""
    ids = sides.prompts[run.prompts[0].id]
    for label, write in (("drafts off", sides.off), *sides.arms.items()):
        world.show(Progress(0, 0, None, f"warming up {label}"))
        world.watched(partial(write, ids, min(WARM_UP_TOKENS, max(run.budgets))))


def _references(
    run: Run, sides: Sides, world: World, before: Loaded | None, rest_s: float, zero: float
) -> list[Reference]:
    """All references; those that the record does not have are written now, the machine rested."""
    written = list(before.references) if before else []
    missing = references(run)[len(written) :]
    if missing:
        world.show(Progress(0, 0, None, "letting the machine rest"))
        world.sleep(rest_s)
    for number, (prompt, budget) in enumerate(missing, 1):
        world.show(Progress(0, 0, None, f"reference {number} of {len(missing)}"))
        at_s = world.clock() - zero
        side, conditions = world.watched(partial(sides.off, sides.prompts[prompt], budget))
        written.append(Reference(prompt, budget, at_s, side, conditions))
        world.append(written[-1])
    return written


def _measure(planned: Planned, last: Pair | None, sides: Sides, world: World, zero: float) -> Pair:
    """One pair, its sides right after each other.

    last: the pair that just ended; None where anything else ran since.
    """
    ids = sides.prompts[planned.prompt]
    off, on = (partial(write, ids, planned.budget) for write in (sides.off, sides.arms[planned.arm]))
    shared = planned.shared and last is not None and last.number == planned.number - 1
    if last is not None and shared:
        at_s = last.at_s + _seconds(last.on)
        off_side = last.off, last.off_conditions
        on_side = world.watched(on)
    else:
        at_s = world.clock() - zero
        one, other = (world.watched(side) for side in ((on, off) if planned.first == "on" else (off, on)))
        off_side, on_side = (other, one) if planned.first == "on" else (one, other)
    return Pair(
        planned.number, planned.arm, planned.workload, planned.prompt, planned.budget, at_s, planned.first,
        off_side[0], on_side[0], off_side[1], on_side[1], shared,
    )  # fmt: skip


def _look_again(pair: Pair, sides: Sides, world: World) -> differences.Difference:
    """Both texts once more; the user hears of it at once."""
    ids = sides.prompts[pair.prompt]

    def text(write: Writer) -> Side:
        return world.watched(partial(write, ids, pair.budget))[0]

    with world.alone():
        found = differences.look_again(
            pair,
            partial(text, sides.off),
            partial(text, sides.arms[pair.arm]),
            lambda n: sides.gap(as_ids([*ids, *pair.off.ids[:n]])),
            sides.near_tie_below,
        )
    if found.again == "none":
        what = "but not when written again alone, so it does not count"
    elif found.near_tie:
        what = f"a near tie ({found.gap:.2g} logits), which was allowed"
    else:
        what = "and again when written alone"
    world.note(f"{pair.arm} on {pair.prompt}: the text differs from token {found.index} on, {what}.")
    return found


def _tell_load(
    pair: Pair, busy: Callable[[Conditions], str | None], before: str | None, note: Callable[[str], None]
) -> str | None:
    """What others do to the machine now; the user is told when it begins and when it is over."""
    new = (pair.on_conditions,) if pair.shared else (pair.off_conditions, pair.on_conditions)
    found = [text for conditions in new if (text := busy(conditions))]
    if found and not before:
        note(f"{found[0]}; pairs that it disturbs are left out, and the run goes on.")
    if before and not found:
        note("the machine is quiet again.")
    return found[0] if found else None


def _expected(planned: Planned, pairs: Sequence[Pair]) -> float:
    """Seconds that a pair will take, from those most like it."""
    likeness: tuple[Callable[[Pair], bool], ...] = (
        lambda pair: (pair.prompt, pair.budget, pair.arm) == (planned.prompt, planned.budget, planned.arm),
        lambda pair: (pair.workload, pair.budget) == (planned.workload, planned.budget),
        lambda pair: pair.budget == planned.budget,
        lambda pair: True,
    )
    for like in likeness:
        found = [_seconds(pair.on) + (0.0 if planned.shared else _seconds(pair.off)) for pair in pairs if like(pair)]
        if found:
            return sum(found) / len(found)
    return 0.0


def _seconds(side: Side) -> float:
    return side.prefill_s + side.decode_s
