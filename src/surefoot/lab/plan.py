"""Which pairs a run consists of, and in which order: the same run has the same plan on every machine."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Literal

from surefoot.lab.records import Pair, PromptUse, Run, Workload
from surefoot.lab.stats import MIN_VALUES


@dataclass(frozen=True, slots=True)
class Planned:
    """A pair that is still to run. `number` is that of the `Pair` it becomes. shared: the pair before ends with the
    plain text that this one begins with."""

    number: int
    arm: str
    workload: Workload
    prompt: str
    budget: int
    first: Literal["off", "on"]
    shared: bool = False


def plan(run: Run) -> tuple[Planned, ...]:
    """The pairs of `run` in the order in which they run.

    A turn holds one pair of every workload, budget and arm, mixed, so that a drift of the machine meets all of them
    alike and a run that is cut short is short of every row alike. Each turn takes the next prompt of each workload.
    Which side goes first changes from pair to pair as far as it can, and always from one run of a prompt with an arm to
    the next. Of two arms, one ends and the other begins with plain decoding of the prompt, which runs once for both.
    Source: the order within a turn is that of a hash, because the generators of the standard library promise no
    sequence across versions, and a run may be resumed by another one.
    """
    groups = by_workload(run.prompts)
    planned: list[Planned] = []
    for turn in range(run.pairs_wanted):
        planned.extend(_turn(run, groups, turn, len(planned)))
    return tuple(planned)


def spare(run: Run, pairs: Sequence[Pair], left_out: Container[int]) -> tuple[Planned, ...]:
    """One more turn of the rows in which fewer pairs count than were wanted; empty where none or no turn is left.

    left_out: the numbers of pairs that do not count. Whether a pair counts never depends on its ratio, so going on
    until enough do favours nobody. Half as many turns again as were wanted, and at least two, are all there are: on a
    machine that is never quiet a run ends, too. Fewer pairs than an interval needs are a try, and stay what they are.
    """
    if run.pairs_wanted < MIN_VALUES:
        return ()
    counted = Counter((pair.arm, pair.workload, pair.budget) for pair in pairs if pair.number not in left_out)
    turn = max(Counter((pair.arm, pair.workload, pair.budget) for pair in pairs).values(), default=0)
    if turn >= run.pairs_wanted + max(2, run.pairs_wanted // 2):
        return ()
    more = _turn(run, by_workload(run.prompts), turn, 0)
    short = [pair for pair in more if counted[pair.arm, pair.workload, pair.budget] < run.pairs_wanted]
    start = 1 + max((pair.number for pair in pairs), default=-1)
    return tuple(_numbered(short, start))


def by_workload(prompts: Sequence[PromptUse]) -> dict[Workload, list[PromptUse]]:
    """The prompts of each workload, both in the order in which they were given."""
    groups: dict[Workload, list[PromptUse]] = {}
    for prompt in prompts:
        groups.setdefault(prompt.workload, []).append(prompt)
    return groups


def references(run: Run) -> tuple[tuple[str, int], ...]:
    """The prompt and budget of each reference run, in the order in which they run.

    One of each workload, and as many as it takes to tell their scatter; the shortest budget will do, because what depth
    costs is known from all texts of the run.
    """
    groups = list(by_workload(run.prompts).values())
    count = max(len(groups), MIN_VALUES)
    turns = ((groups[n % len(groups)], n // len(groups)) for n in range(count))
    return tuple((prompts[turn % len(prompts)].id, min(run.budgets)) for prompts, turn in turns)


def _turn(run: Run, groups: dict[Workload, list[PromptUse]], turn: int, start: int) -> list[Planned]:
    """One pair of every workload, budget and arm."""
    couples: list[list[Planned]] = []
    alone: dict[str, list[Planned]] = {"on": [], "off": []}
    place = 0
    for workload, prompts in groups.items():
        prompt = prompts[turn % len(prompts)]
        # An even number of prompts would bring each of them back with the same side first.
        flips = turn + (turn // len(prompts) if len(prompts) % 2 == 0 else 0)
        for budget in run.budgets:
            on: list[Planned] = []
            off: list[Planned] = []
            for arm in run.arms:
                first: Literal["off", "on"] = "on" if (place + flips) % 2 else "off"
                (on if first == "on" else off).append(Planned(0, arm.label, workload, prompt.id, budget, first))
                place += 1
            for side in (on, off):
                side.sort(key=partial(_place, run.seed, turn))
            couples += [list(couple) for couple in zip(on, off, strict=False)]
            for pair in (*on[len(off) :], *off[len(on) :]):
                alone[pair.first].append(pair)
    for side in alone.values():
        side.sort(key=partial(_place, run.seed, turn))
    couples += [list(couple) for couple in zip(alone["on"], alone["off"], strict=False)]
    couples.sort(key=lambda couple: _place(run.seed, turn, couple[0]))
    n = min(map(len, alone.values()))
    return _numbered([*alone["off"][n:], *chain.from_iterable(couples), *alone["on"][n:]], start)


def _numbered(pairs: Sequence[Planned], start: int) -> list[Planned]:
    """The pairs of a turn in their order, the first of this number."""
    before = (None, *pairs)
    return [replace(pair, number=start + at, shared=_share(before[at], pair)) for at, pair in enumerate(pairs)]


def _share(before: Planned | None, pair: Planned) -> bool:
    """Whether plain decoding of a prompt ends one pair and begins the next; within a turn that is another arm."""
    if before is None or (before.first, pair.first) != ("on", "off"):
        return False
    return (before.prompt, before.budget) == (pair.prompt, pair.budget)


def _place(seed: int, turn: int, pair: Planned) -> str:
    """Where a pair lies within its turn."""
    return _hash(seed, turn, pair.workload, pair.budget, pair.arm)


def _hash(*parts: object) -> str:
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()
