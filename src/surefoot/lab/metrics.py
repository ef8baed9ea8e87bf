"""What the drafts of a run did: every number about acceptance is defined here, once, and nowhere else."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from surefoot.lab.records import Step


@dataclass(frozen=True, slots=True)
class Position:
    """Draft tokens at one place in the draft, counted from 1.

    offered: rounds whose draft had a token here that was judged or lay behind a rejected one. reached: those where
    every token before it was accepted. accepted: those where it was, too.
    survival: accepted / offered, the chance that a draft lives to here. conditional: accepted / reached, the chance
    that it takes this step. Only survivals add up to tokens. None where nothing was counted.
    """

    position: int
    offered: int
    reached: int
    accepted: int

    @property
    def survival(self) -> float | None:
        return self.accepted / self.offered if self.offered else None

    @property
    def conditional(self) -> float | None:
        return self.accepted / self.reached if self.reached else None


@dataclass(frozen=True, slots=True)
class Group:
    """Rounds that have something in common: `key` tokens drafted, or a match of `key` tokens."""

    key: int
    rounds: int
    evaluated: int
    accepted: int

    @property
    def accepted_per_round(self) -> float:
        return self.accepted / self.rounds

    @property
    def rate(self) -> float | None:
        """Accepted by evaluated."""
        return self.accepted / self.evaluated if self.evaluated else None


@dataclass(frozen=True, slots=True)
class Shape:
    """Rounds of one shape. rows: scored, the root included; median_s: of the forward."""

    rows: int
    rounds: int
    median_s: float


@dataclass(frozen=True, slots=True)
class Acceptance:
    """What the drafts did, over all decode rounds; the prefill is none.

    drafted: proposed; evaluated: scored; accepted: emitted; discarded: evaluated and not emitted. drafting: rounds that
    scored a draft. emitted: tokens of these rounds, those of the root's prediction included. positions, by_draft_len
    and by_match_len count drafting rounds; shapes count all.
    """

    rounds: int
    drafting: int
    drafted: int
    evaluated: int
    accepted: int
    emitted: int
    positions: tuple[Position, ...]
    by_draft_len: tuple[Group, ...]
    by_match_len: tuple[Group, ...]
    shapes: tuple[Shape, ...]

    @property
    def discarded(self) -> int:
        return self.evaluated - self.accepted

    @property
    def accepted_per_round(self) -> float | None:
        """Accepted drafts by rounds, those without a draft included. None without a round."""
        return self.accepted / self.rounds if self.rounds else None

    @property
    def tokens_per_round(self) -> float | None:
        """Accepted per round plus the model's own token: what the field calls the acceptance length."""
        return self.accepted / self.rounds + 1 if self.rounds else None

    @property
    def conditional_sum(self) -> float | None:
        """1 plus the sum of the conditional chances, which is no number of tokens: only survivals add up.

        It is here to stand beside `tokens_per_round`, because a published bench reports it as expected tokens. None
        where nothing was drafted.
        """
        if not self.positions:
            return None
        return 1 + sum(at.conditional or 0.0 for at in self.positions)

    @property
    def rate(self) -> float | None:
        """Accepted by evaluated. It falls as drafts get longer, by arithmetic alone: compare at one draft length."""
        return self.accepted / self.evaluated if self.evaluated else None


@dataclass(frozen=True, slots=True)
class Phases:
    """Where the time of a text goes, shares of its decode time that add up to 1. other: outside the rounds' calls."""

    draft: float
    extend: float
    judge: float
    commit: float
    other: float

    @property
    def host(self) -> float:
        """Everything outside the runtime's forward."""
        return 1 - self.extend


def judged(step: Step) -> int:
    """The drafted tokens of a round whose fate is known.

    A round emits one token more than it accepts, but for one that a stop or the limit cut short: what lay behind the
    cut was neither accepted nor rejected, and is not counted.
    """
    return step.evaluated if step.emitted > step.accepted else step.accepted


def acceptance(steps: Iterable[Step]) -> Acceptance:
    """The counts of these rounds."""
    steps = list(steps)
    drafting = [step for step in steps if step.evaluated]
    return Acceptance(
        rounds=len(steps),
        drafting=len(drafting),
        drafted=sum(step.drafted for step in steps),
        evaluated=sum(step.evaluated for step in steps),
        accepted=sum(step.accepted for step in steps),
        emitted=sum(step.emitted for step in steps),
        positions=positions([(judged(step), step.accepted) for step in drafting]),
        by_draft_len=_groups(drafting, lambda step: step.evaluated),
        by_match_len=_groups(drafting, lambda step: step.match_len),
        shapes=_shapes(steps),
    )


def positions(rounds: Sequence[tuple[int, int]]) -> tuple[Position, ...]:
    """By position, from the judged and the accepted tokens of each round, whose drafts are chains.

    Of a tree a record keeps how many nodes were scored, not how deep they lay: its positions would be nodes in order.
    """
    longest = max((n for n, _ in rounds), default=0)
    return tuple(
        Position(
            position=at,
            offered=sum(n >= at for n, _ in rounds),
            reached=sum(n >= at and accepted >= at - 1 for n, accepted in rounds),
            accepted=sum(accepted >= at for _, accepted in rounds),
        )
        for at in range(1, longest + 1)
    )


def from_histogram(counts: Sequence[int]) -> tuple[Position, ...]:
    """By position, from a published histogram: counts[a] rounds accepted a of len(counts) - 1 drafted tokens."""
    longest = len(counts) - 1
    return positions([(longest, accepted) for accepted, n in enumerate(counts) for _ in range(n)])


def phases(sides: Iterable[tuple[float, Sequence[Step]]]) -> Phases | None:
    """The shares over texts, each with its decode seconds; None where no time passed."""
    sides = list(sides)
    total = sum(decode_s for decode_s, _ in sides)
    if total <= 0:
        return None
    steps = [step for _, each in sides for step in each]
    draft, extend = sum(s.draft_s for s in steps) / total, sum(s.extend_s for s in steps) / total
    judge, commit = sum(s.judge_s for s in steps) / total, sum(s.commit_s for s in steps) / total
    return Phases(draft, extend, judge, commit, 1 - draft - extend - judge - commit)


def _groups(steps: Sequence[Step], key: Callable[[Step], int]) -> tuple[Group, ...]:
    found: defaultdict[int, list[Step]] = defaultdict(list)
    for step in steps:
        found[key(step)].append(step)
    return tuple(
        Group(k, len(each), sum(s.evaluated for s in each), sum(s.accepted for s in each))
        for k, each in sorted(found.items())
    )


def _shapes(steps: Sequence[Step]) -> tuple[Shape, ...]:
    found: defaultdict[int, list[float]] = defaultdict(list)
    for step in steps:
        found[step.rows].append(step.extend_s)
    return tuple(Shape(rows, len(each), sorted(each)[(len(each) - 1) // 2]) for rows, each in sorted(found.items()))
