"""The judges: the only ones who accept a draft.

`match` (the default) takes the target's own choice at each row and accepts a draft that equals it. It is exact for
any drafter, and with keyed noise the same seed writes the same text with drafts on or off. `ratio` is the classical
rejection test; it keeps the law but not the text. `tolerant` is lossy: it keeps neither.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from surefoot.core.errors import ConfigError
from surefoot.core.history import History
from surefoot.core.law import Law, best, next_law
from surefoot.core.noise import KeyedSampler, Sampler
from surefoot.core.ports import Scores
from surefoot.core.processors import process
from surefoot.core.sampling import Sampling
from surefoot.core.types import Doubles, Draft, Floats, Verdict

JUDGES = ("match", "ratio", "tolerant")

LOSSY = ("tolerant",)
"""Judges that accept drafts which plain decoding would not write. No gate passes with one of them."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far from the likeliest token the lossy judge `tolerant` accepts a draft.

    top_n: among so many of the likeliest, the lower id first where two are equal. margin: or by less than so many
    logits below the likeliest, after the processors. With 1 and 0 only the likeliest token itself is accepted.
    """

    top_n: int = 1
    margin: float = 0.0

    def __post_init__(self) -> None:
        if self.top_n < 1:
            raise ConfigError(f"tolerance.top_n must be at least 1, the likeliest token alone; got {self.top_n}.")
        if not (math.isfinite(self.margin) and self.margin >= 0):
            raise ConfigError(f"tolerance.margin must be a number of logits from 0 up; got {self.margin}.")

    @property
    def is_none(self) -> bool:
        """Whether nothing but the likeliest token is accepted."""
        return self.top_n == 1 and self.margin == 0


class Judge(Protocol):
    """Decides which drafts stand. Every token it lets through is pushed onto the history, in order."""

    def pick(self, scores: Scores, row: int, history: History) -> int:
        """The token that follows `row` where nothing was drafted: the root after a prefill."""
        ...

    def judge(self, draft: Draft, scores: Scores, history: History) -> Verdict:
        """The longest part of the draft that stands, and one correction or bonus token."""
        ...


def make_judge(
    name: str, sampling: Sampling, sampler: Sampler | None = None, tolerance: Tolerance | None = None
) -> Judge:
    """The judge called `name`. On greedy texts `match` and `ratio` are one, since they agree on a point mass.

    tolerance: of the lossy judge, which needs a greedy text; None tolerates nothing.
    Raises: ConfigError for an unknown name, or a text that is drawn where the judge needs a greedy one.
    """
    if name not in JUDGES:
        raise ConfigError(f"there is no judge called {name!r}; the judges are {', '.join(JUDGES)}.")
    if name == "tolerant":
        check_greedy(sampling)
        return TolerantJudge(sampling, tolerance or Tolerance())
    if name == "ratio" and not sampling.greedy:
        return RatioJudge(sampling, sampler or KeyedSampler.for_ratio(sampling.seed))
    return MatchJudge(sampling, sampler or KeyedSampler(sampling.seed))


def check_greedy(sampling: Sampling) -> None:
    """Raises: ConfigError where the text is drawn, so that there is no likeliest token to measure from."""
    if not sampling.greedy:
        raise ConfigError(
            f"the lossy judge tolerant measures from the token that greedy decoding takes, and temperature "
            f"{sampling.temperature:g} draws; set temperature to 0, or leave the judge out, which is match."
        )


class Branches:
    """The children of each row of a block, to walk a draft from its root."""

    def __init__(self, draft: Draft) -> None:
        self._ids = draft.ids.tolist()
        self._rows: dict[int, list[int]] | None = None
        if draft.parents is not None:
            self._rows = {}
            for child, parent in enumerate(draft.parents.tolist(), start=1):
                self._rows.setdefault(parent + 1, []).append(child)

    def after(self, row: int) -> list[int]:
        """Rows that follow `row` in the block, first come first."""
        if self._rows is None:
            return [row + 1] if row < len(self._ids) else []
        return self._rows.get(row, [])

    def token(self, row: int) -> int:
        """The drafted token that stands at `row` (row 0 is the root)."""
        return int(self._ids[row - 1])

    def child(self, row: int, token: int) -> int | None:
        """The first row after `row` that holds `token`."""
        if self._rows is None:
            return row + 1 if row < len(self._ids) and self._ids[row] == token else None
        return next((child for child in self.after(row) if self.token(child) == token), None)


@dataclass(frozen=True, slots=True)
class MatchJudge:
    """Accepts a draft when it is the token that plain decoding writes there.

    Source: arXiv 2408.07978, the case where the draft is a point mass.
    """

    sampling: Sampling
    sampler: Sampler
    _takes_argmax: bool = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_takes_argmax", self.sampling.greedy and not self.sampling.edits_logits)

    def pick(self, scores: Scores, row: int, history: History) -> int:
        token = int(scores.argmax()[row]) if self._takes_argmax else self._chooser(scores, history)(row)
        history.push(token)
        return token

    def judge(self, draft: Draft, scores: Scores, history: History) -> Verdict:
        if not len(draft.ids):
            # Spares the frame of a NamedTuple's own constructor, about 0.1 of 0.35 us with warm caches.
            return tuple.__new__(Verdict, ((self.pick(scores, 0, history),), (0,), ()))
        choose = self._chooser(scores, history)
        branches = Branches(draft)
        new_ids: list[int] = []
        path: list[int] = []
        row: int | None = 0
        while row is not None:
            token = choose(row)
            history.push(token)
            new_ids.append(token)
            path.append(row)
            row = branches.child(row, token)
        return Verdict(tuple(new_ids), tuple(path))

    def _chooser(self, scores: Scores, history: History) -> Callable[[int], int]:
        sampling = self.sampling
        if not sampling.greedy:
            return lambda row: self.sampler.draw(next_law(scores.logits(row), sampling, history), history.n_output)
        return _likeliest(sampling, scores, history)


def _likeliest(sampling: Sampling, scores: Scores, history: History) -> Callable[[int], int]:
    """What greedy decoding takes after a row; without processors no row of logits is fetched for it."""
    if sampling.edits_logits:
        return lambda row: best(scores.logits(row), sampling, history)
    picks: list[int] = scores.argmax().tolist()
    return picks.__getitem__


@dataclass(frozen=True, slots=True)
class TolerantJudge:
    """Lossy: accepts a draft when it is nearly the token that greedy decoding writes there.

    Where a tree offers that token itself, it is taken; else the likeliest of the branches that are tolerated.
    Rank and distance are those after the processors, so that a banned token is never accepted.
    """

    sampling: Sampling
    tolerance: Tolerance

    def pick(self, scores: Scores, row: int, history: History) -> int:
        token = _likeliest(self.sampling, scores, history)(row)
        history.push(token)
        return token

    def judge(self, draft: Draft, scores: Scores, history: History) -> Verdict:
        choose = _likeliest(self.sampling, scores, history)
        branches = Branches(draft)
        new_ids: list[int] = []
        path: list[int] = []
        lossy: list[int] = []
        row: int | None = 0
        while row is not None:
            token = choose(row)
            child = branches.child(row, token)
            if child is None and (child := self._tolerated(row, branches, scores, history)) is not None:
                token = branches.token(child)
                lossy.append(len(new_ids))
            history.push(token)
            new_ids.append(token)
            path.append(row)
            row = child
        return Verdict(tuple(new_ids), tuple(path), tuple(lossy))

    def _tolerated(self, row: int, branches: Branches, scores: Scores, history: History) -> int | None:
        """The row of the likeliest branch after `row` that is near enough, first come first; None where none is."""
        offered = branches.after(row)
        if not offered or self.tolerance.is_none:
            return None
        logits = process(scores.logits(row), self.sampling, history)
        near = [child for child in offered if within(logits, branches.token(child), self.tolerance)]
        return max(near, key=lambda child: float(logits[branches.token(child)]), default=None)


def within(logits: Floats, token: int, tolerance: Tolerance) -> bool:
    """Whether `token` is near enough to the likeliest. Shapes: logits (V,), after the processors."""
    own = logits[token]
    if not np.isfinite(own):
        return False
    ahead = np.count_nonzero(logits > own) + np.count_nonzero(logits[:token] == own)
    return bool(ahead < tolerance.top_n or float(logits.max()) - float(own) < tolerance.margin)


@dataclass(frozen=True, slots=True)
class RatioJudge:
    """Accepts a draft with chance min(1, p/q) and draws a turned-down one anew from the residual.

    Source: arXiv 2211.17192 algorithm 1; without q a draft is a point mass, q = 1 at its token. The branches of a
    tree are tried one after the other against what the turned-down ones left over (arXiv 2305.09781, point masses).
    """

    sampling: Sampling
    sampler: Sampler

    def pick(self, scores: Scores, row: int, history: History) -> int:
        token = self.sampler.draw(next_law(scores.logits(row), self.sampling, history), history.n_output)
        history.push(token)
        return token

    def judge(self, draft: Draft, scores: Scores, history: History) -> Verdict:
        branches = Branches(draft)
        new_ids: list[int] = []
        path: list[int] = []
        row: int | None = 0
        while row is not None:
            token, child = self._decide(row, branches, draft, scores, history)
            history.push(token)
            new_ids.append(token)
            path.append(row)
            row = child
        return Verdict(tuple(new_ids), tuple(path))

    def _decide(
        self, row: int, branches: Branches, draft: Draft, scores: Scores, history: History
    ) -> tuple[int, int | None]:
        law = next_law(scores.logits(row), self.sampling, history)
        for attempt, child in enumerate(branches.after(row)):
            token = branches.token(child)
            q = None if draft.q is None else draft.q[child - 1]
            if self.sampler.accept(acceptance(law, q, token), history.n_output, attempt):
                return token, child
            law = residual(law, q, token)
        return self.sampler.draw(law, history.n_output), None


def acceptance(law: Law, q: Doubles | None, token: int) -> float:
    """min(1, p/q) at the drafted token; q (V,) None is a point mass."""
    p = law.prob(token)
    if q is None:
        return p
    return min(1.0, p / float(q[token])) if q[token] > 0 else 0.0


def residual(law: Law, q: Doubles | None, token: int) -> Law:
    """max(p - q, 0): what is left of the law after the draft was turned down.

    Where nothing is left the draft was turned down by rounding alone, and the law itself is drawn from.
    """
    place = law.place(token)
    if q is None:
        rest = law.weights.copy()
        if place is not None:
            rest[place] = 0
    else:
        rest = np.maximum(law.probs() - (q if law.ids is None else q[law.ids]), 0.0)
    return Law(rest, law.ids) if rest.max() > 0 else law
