"""The judges: the only ones who accept a draft.

`match` (the default) takes the target's own choice at each row and accepts a draft that equals it. It is exact for
any drafter, and with keyed noise the same seed writes the same text with drafts on or off. `ratio` is the classical
rejection test; it keeps the law but not the text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from surefoot.core.errors import ConfigError
from surefoot.core.history import History
from surefoot.core.law import Law, best, next_law
from surefoot.core.noise import KeyedSampler, Sampler
from surefoot.core.ports import Scores
from surefoot.core.sampling import Sampling
from surefoot.core.types import Doubles, Draft, Verdict

JUDGES = ("match", "ratio")


class Judge(Protocol):
    """Decides which drafts stand. Every token it lets through is pushed onto the history, in order."""

    def pick(self, scores: Scores, row: int, history: History) -> int:
        """The token that follows `row` where nothing was drafted: the root after a prefill."""
        ...

    def judge(self, draft: Draft, scores: Scores, history: History) -> Verdict:
        """The longest part of the draft that stands, and one correction or bonus token."""
        ...


def make_judge(name: str, sampling: Sampling, sampler: Sampler | None = None) -> Judge:
    """The judge called `name`. Greedy decoding has one judge, since both rules agree on a point mass.

    Raises: ConfigError for an unknown name.
    """
    if name not in JUDGES:
        raise ConfigError(f"there is no judge called {name!r}; the judges are {' and '.join(JUDGES)}.")
    if name == "ratio" and not sampling.greedy:
        return RatioJudge(sampling, sampler or KeyedSampler.for_ratio(sampling.seed))
    return MatchJudge(sampling, sampler or KeyedSampler(sampling.seed))


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

    def pick(self, scores: Scores, row: int, history: History) -> int:
        token = self._chooser(scores, history)(row)
        history.push(token)
        return token

    def judge(self, draft: Draft, scores: Scores, history: History) -> Verdict:
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
        if sampling.edits_logits:
            return lambda row: best(scores.logits(row), sampling, history)
        picks: list[int] = scores.argmax().tolist()
        return picks.__getitem__


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
