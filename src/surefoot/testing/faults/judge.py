"""Faults of the judge, the history it sees and the noise it draws with."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, cast

from surefoot.core import judge as judge_module
from surefoot.core.history import History, Tally
from surefoot.core.judge import Judge, MatchJudge
from surefoot.core.law import Law
from surefoot.core.noise import KeyedSampler
from surefoot.core.ports import Scores
from surefoot.core.sampling import Sampling
from surefoot.core.types import Doubles, Draft, Floats, Ids, Verdict
from surefoot.testing.faults.patching import replaced


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
