"""What a record of `surefoot accept` says: acceptance by workload, temperature, drafter and mode, nothing averaged."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from surefoot.lab import metrics
from surefoot.lab.metrics import Acceptance
from surefoot.lab.records import Counted, Mode, Step, Workload
from surefoot.lab.store import Loaded


@dataclass(frozen=True, slots=True)
class Row:
    """One drafter on one workload at one temperature, in one mode. There is no row over workloads.

    texts: that were written or replayed; differ: those among them that are not the text of plain decoding. survival,
    conditional, accepted_per_round, tokens_per_round: as `drafts` defines them, by position from 1 on. conditional_sum:
    1 plus the sum of `conditional`, which is no number of tokens. by_draft_len: accepted per round if no draft were
    longer than 1, 2, 3 ... tokens; only of an oracle, whose rounds do not depend on that.
    """

    workload: Workload
    temperature: float
    arm: str
    mode: Mode
    texts: int
    differ: int
    accepted_per_round: float | None
    tokens_per_round: float | None
    conditional_sum: float | None
    survival: tuple[float | None, ...]
    conditional: tuple[float | None, ...]
    by_draft_len: tuple[float, ...] | None
    drafts: Acceptance


@dataclass(frozen=True, slots=True)
class Matched:
    """Rounds of one drafter on one workload at one temperature whose match had `low` to `high` tokens.

    survival: as `Row` has it, of these rounds alone.
    """

    workload: Workload
    temperature: float
    arm: str
    mode: Mode
    low: int
    high: int
    rounds: int
    evaluated: int
    accepted: int
    survival: tuple[float | None, ...]


Key = tuple[Workload, float, str, Mode]
"""Workload, temperature, arm and mode."""

BOUNDS = (0, 1, 2, 3, 4, 5, 8, 16, 32)
"""chosen: the matches of lookups one by one, those of a suffix automaton by doubling ranges."""


def rows(loaded: Loaded) -> tuple[Row, ...]:
    """By workload, temperature, arm and mode, in the order of the run; what was not counted is not there."""
    groups: dict[Key, list[Counted]] = {}
    plain = {(each.prompt, each.temperature): each.ids for each in loaded.counted if each.mode == "plain"}
    for each in loaded.counted:
        if each.mode != "plain":
            groups.setdefault((each.workload, each.temperature, each.arm, each.mode), []).append(each)
    return tuple(_row(key, groups[key], plain) for key in _order(loaded) if key in groups)


def by_match(loaded: Loaded) -> tuple[Matched, ...]:
    """By workload, temperature, arm, mode and match length, in the order of the run."""
    groups: dict[Key, list[Step]] = {}
    for each in loaded.counted:
        if each.mode != "plain":
            groups.setdefault((each.workload, each.temperature, each.arm, each.mode), []).extend(each.steps)
    return tuple(found for key in _order(loaded) for found in _matched(key, groups.get(key, ())))


def different(loaded: Loaded) -> int:
    """How many texts with drafts are not the text that plain decoding wrote."""
    return sum(row.differ for row in rows(loaded))


def _order(loaded: Loaded) -> Iterable[Key]:
    run = loaded.run
    assert run.counting is not None
    for workload in dict.fromkeys(use.workload for use in run.prompts):
        for temperature in run.counting.temperatures:
            for arm in run.arms:
                for mode in run.counting.modes:
                    yield workload, temperature, arm.label, mode


def _row(
    key: Key,
    texts: Sequence[Counted],
    plain: dict[tuple[str, float], Sequence[int]],
) -> Row:
    workload, temperature, arm, mode = key
    found = metrics.acceptance(step for text in texts for step in text.steps)
    differ = 0
    if mode != "oracle":
        differ = sum(list(text.ids) != list(plain[text.prompt, text.temperature]) for text in texts)
    return Row(
        workload=workload,
        temperature=temperature,
        arm=arm,
        mode=mode,
        texts=len(texts),
        differ=differ,
        accepted_per_round=found.accepted_per_round,
        tokens_per_round=found.tokens_per_round,
        conditional_sum=found.conditional_sum,
        survival=tuple(at.survival for at in found.positions),
        conditional=tuple(at.conditional for at in found.positions),
        by_draft_len=_by_draft_len(found) if mode == "oracle" else None,
        drafts=found,
    )


def _by_draft_len(found: Acceptance) -> tuple[float, ...]:
    """A draft of K tokens accepts those of its first K positions that a longer one accepts there."""
    lengths, accepted = [], 0
    for at in found.positions:
        accepted += at.accepted
        lengths.append(accepted / found.rounds)
    return tuple(lengths)


def _matched(key: Key, steps: Sequence[Step]) -> Iterable[Matched]:
    groups: dict[int, list[Step]] = {}
    for step in steps:
        if step.evaluated:
            groups.setdefault(bisect_right(BOUNDS, step.match_len) - 1, []).append(step)
    for place in sorted(groups):
        within, is_last = groups[place], place == len(BOUNDS) - 1
        high = max(step.match_len for step in within) if is_last else BOUNDS[place + 1] - 1
        found = metrics.acceptance(within)
        survival = tuple(at.survival for at in found.positions)
        yield Matched(*key, BOUNDS[place], high, found.rounds, found.evaluated, found.accepted, survival)
