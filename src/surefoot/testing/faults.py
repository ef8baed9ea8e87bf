"""Bugs of this field, planted where they live, to show that a check catches them.

A fault is a faulty part (judge, limits, sampler, session) to use instead of the good one, or a context manager that
replaces one function of a module or one method of the toy's cache while it is open. Logits are never perturbed.
`CACHE_FAULTS` lists those of the toy's attention cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from surefoot.core import judge as judge_module
from surefoot.core.history import History, Tally
from surefoot.core.judge import Judge, MatchJudge
from surefoot.core.law import Law
from surefoot.core.limits import Limits
from surefoot.core.noise import KeyedSampler
from surefoot.core.ports import Scan, Scores, Session, Target
from surefoot.core.sampling import Sampling
from surefoot.core.types import Caps, Doubles, Draft, Finish, Floats, Ids, Round, Verdict
from surefoot.targets.toy.caches import Places, Slots, Tail

Mask = npt.NDArray[np.bool_]


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """`owner.name` is `value` while the context is open."""
    good = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, good)


# --- faults of the judge ---------------------------------------------------------------------------------------------


def residual_from_p() -> AbstractContextManager[None]:
    """A turned-down draft is drawn anew from p itself, not from max(p - q, 0)."""

    def residual(p: Law, q: Doubles | None, token: int) -> Law:
        return p

    return replaced(judge_module, "residual", residual)


@dataclass(frozen=True, slots=True)
class RowsFrom:
    """The scores of a block without its first rows."""

    inner: Scores
    first: int

    @property
    def rows(self) -> int:
        """The rows left."""
        return self.inner.rows - self.first

    @property
    def width(self) -> int:
        """As computed."""
        return self.inner.width

    def argmax(self) -> Ids:
        """Of the rows left."""
        return self.inner.argmax()[self.first :]

    def logits(self, row: int) -> Floats:
        """Of a row left."""
        return self.inner.logits(row + self.first)

    def tap(self, name: str) -> Any:
        """Of the rows left."""
        return self.inner.tap(name)[self.first :]


@dataclass(frozen=True, slots=True)
class FirstUnverified:
    """A judge that takes the first drafted token of a chain on trust."""

    inner: Judge

    def pick(self, scores: Scores, row: int, history: History) -> int:
        """As the good judge."""
        return self.inner.pick(scores, row, history)

    def judge(self, draft: Draft, scores: Scores, history: History) -> Verdict:
        """The first drafted token, then what the good judge says of the rest."""
        if not len(draft):
            return self.inner.judge(draft, scores, history)
        first = int(draft.ids[0])
        history.push(first)
        rest = Draft(draft.ids[1:], None if draft.q is None else draft.q[1:], source=draft.source)
        verdict = self.inner.judge(rest, RowsFrom(scores, 1), history)
        return Verdict((first, *verdict.new_ids), (0, *(row + 1 for row in verdict.path)))


class OldTallies:
    """A history whose counts stand still since the round began, while its length grows. Holds changing state."""

    def __init__(self, history: History) -> None:
        self._history = history
        self.context = Tally(history.tokens)
        self.output = Tally(history.tokens[history.n_prompt :])
        self.tokens = history.tokens.copy()

    def push(self, token: int) -> None:
        """Onto the real history only."""
        self._history.push(token)

    @property
    def n_output(self) -> int:
        """As it really is."""
        return self._history.n_output


@dataclass(frozen=True, slots=True)
class PenaltyOncePerRound:
    """A judge whose penalties count the tokens before the round, not the accepted ones within it."""

    inner: Judge

    def pick(self, scores: Scores, row: int, history: History) -> int:
        """As the good judge."""
        return self.inner.pick(scores, row, history)

    def judge(self, draft: Draft, scores: Scores, history: History) -> Verdict:
        """As the good judge, on a history whose counts stand still."""
        return self.inner.judge(draft, scores, cast(History, OldTallies(history)))


@dataclass(slots=True)
class RoundSampler:
    """Noise keyed by the round and the row in it, not by the position. Holds changing state: two counters."""

    inner: KeyedSampler
    round: int = 0
    row: int = 0

    def draw(self, law: Law, n: int) -> int:
        """A token for the next row of this round, whatever its position."""
        self.row += 1
        return self.inner.draw(law, self.round * 1000 + self.row)

    def accept(self, chance: float, n: int, attempt: int) -> bool:
        """As keyed noise."""
        return self.inner.accept(chance, n, attempt)


@dataclass(frozen=True, slots=True)
class NoiseKeyedByRound:
    """The match judge with a `RoundSampler`."""

    sampling: Sampling
    sampler: RoundSampler = field(default_factory=lambda: RoundSampler(KeyedSampler(0)))

    def pick(self, scores: Scores, row: int, history: History) -> int:
        """As the match judge."""
        return MatchJudge(self.sampling, self.sampler).pick(scores, row, history)

    def judge(self, draft: Draft, scores: Scores, history: History) -> Verdict:
        """As the match judge, in a new round."""
        self.sampler.round += 1
        self.sampler.row = 0
        return MatchJudge(self.sampling, self.sampler).judge(draft, scores, history)


# --- faults of the loop and the limits -------------------------------------------------------------------------------


def carry_emitted_twice(rounds: Iterator[Round]) -> Iterator[Round]:
    """The rounds of a loop that shows the root again at the beginning of the next round."""
    root: tuple[int, ...] = ()
    for round_ in rounds:
        shown = (*root, *round_.new_ids)
        root = round_.new_ids[-1:]
        yield _with_ids(round_, shown)


def _with_ids(round_: Round, new_ids: tuple[int, ...]) -> Round:
    return Round(new_ids, round_.drafted, round_.cut, round_.accepted, round_.depth, round_.rows, round_.width,
                 round_.source, round_.match_len, finish=round_.finish)  # fmt: skip


@dataclass(frozen=True, slots=True)
class LimitBeforeStop:
    """Limits that test the output limit first, so that a stop at the last token is called a limit."""

    max_tokens: int
    stop_ids: frozenset[int] = frozenset()
    scan: Scan | None = None

    def clip(self, new_ids: Sequence[int], room: int, room_ends: Finish) -> tuple[int, Finish | None]:
        """The limit; only below it the stops."""
        if len(new_ids) >= room:
            return room, room_ends
        return Limits(self.max_tokens, self.stop_ids, self.scan).clip(new_ids, room, room_ends)


# --- faults of a session ---------------------------------------------------------------------------------------------


class CommitsOneTooMany:
    """A session that keeps one token more than it was asked to, where the tail has one. Holds the session inside."""

    def __init__(self, inner: Session) -> None:
        self._inner = inner
        self._tail = 0

    @property
    def length(self) -> int:
        """As the session inside counts."""
        return self._inner.length

    def prefill(self, ids: Ids) -> Scores:
        """As the good session."""
        return self._inner.prefill(ids)

    def extend(self, block: Ids, parents: Sequence[int] | None = None, width: int | None = None) -> Scores:
        """As the good session."""
        self._tail += len(block)
        return self._inner.extend(block, parents, width)

    def commit(self, keep: int | Sequence[int]) -> None:
        """One more, unless nothing is kept."""
        more = min(keep + 1, self._tail) if isinstance(keep, int) and keep else keep
        self._inner.commit(more)
        self._tail = 0

    def reset(self, keep: int = 0) -> None:
        """As the good session."""
        self._inner.reset(keep)
        self._tail = 0

    def close(self) -> None:
        """As the good session."""
        self._inner.close()


@dataclass(frozen=True, slots=True)
class WithSessions:
    """A target whose sessions are wrapped: `WithSessions(target, CommitsOneTooMany)`."""

    inner: Target
    wrap: Callable[[Session], Session]

    @property
    def caps(self) -> Caps:
        """As the good target."""
        return self.inner.caps

    def open(self, taps: Sequence[str] = ()) -> Session:
        """A session of the good target in the wrapper."""
        return self.wrap(self.inner.open(taps))


# --- faults of the toy's attention cache -----------------------------------------------------------------------------


def hole_after_full_acceptance() -> AbstractContextManager[None]:
    """After a block was kept whole, the cache slot of its last token is never filled."""
    good = Slots.keep

    def keep(self: Slots, tail: Tail, path: Places) -> None:
        whole = len(path) == len(tail) > 1 and self.length > 0
        good(self, tail, path)
        if whole:
            self.tokens[self.base - 1] = 0
            self.positions[self.base - 1] = 0

    return replaced(Slots, "keep", keep)


def future_row_leak() -> AbstractContextManager[None]:
    """The attention mask lets each row of a block see the row behind it, as a mask built one off does."""

    def fault(cache: Slots, tail: Tail, mask: Mask) -> None:
        for row in range(len(tail) - 1):
            mask[row, cache.base + row + 1] = True

    return _masked(fault, tails_only=True)


def lost_early_rows() -> AbstractContextManager[None]:
    """The mask shows a block the last four committed tokens only, as an undeclared sliding window does."""

    def fault(cache: Slots, tail: Tail, mask: Mask) -> None:
        mask[:, cache.committed()[:-4]] = False

    return _masked(fault)


def stale_visible_rows() -> AbstractContextManager[None]:
    """The mask shows every slot ever written: turned-down rows stay visible."""

    def fault(cache: Slots, tail: Tail, mask: Mask) -> None:
        mask[:, : cache.base] = True
        mask[:, cache.base + len(tail) :] = True

    return _masked(fault)


def _masked(fault: Callable[[Slots, Tail, Mask], None], tails_only: bool = False) -> AbstractContextManager[None]:
    good = Slots.visible

    def visible(self: Slots, tail: Tail, n_slots: int) -> Mask:
        mask = good(self, tail, n_slots)
        if not tails_only or self.base:
            fault(self, tail, mask)
        return mask

    return replaced(Slots, "visible", visible)


def position_shift() -> AbstractContextManager[None]:
    """Positions of a block count turned-down tokens too: each one shifts everything behind it by one."""
    good_see, good_keep = Slots.see, Slots.keep
    shifts: dict[int, int] = {}

    def keep(self: Slots, tail: Tail, path: Places) -> None:
        if self.length:
            shifts[id(self)] = shifts.get(id(self), 0) + len(tail) - len(path)
        else:
            shifts.pop(id(self), None)
        good_keep(self, tail, path)

    def see(self: Slots, tail: Tail, start: int, width: int) -> Any:
        shift = shifts.get(id(self), 0) if self.length else 0
        return good_see(self, Tail(tail.tokens, tail.parents, tail.depths + shift), start, width)

    @contextmanager
    def both() -> Iterator[None]:
        with replaced(Slots, "see", see), replaced(Slots, "keep", keep):
            yield

    return both()


CACHE_FAULTS: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    fault.__name__: fault
    for fault in (hole_after_full_acceptance, future_row_leak, lost_early_rows, stale_visible_rows, position_shift)
}
"""The faults of the toy's attention cache by name; its recurrent discipline has no slots to get wrong."""
