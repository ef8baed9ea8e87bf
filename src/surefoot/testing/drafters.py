"""Drafters for tests: right, wrong, nearly right, branching, and drawing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from surefoot.core.history import History
from surefoot.core.law import next_law
from surefoot.core.noise import Sampler
from surefoot.core.ports import Needs, Scores, Target
from surefoot.core.sampling import Sampling
from surefoot.core.types import EMPTY_DRAFT, Draft, Ids, as_ids
from surefoot.testing.laws import FreshRows

Guess = Callable[[tuple[int, ...], int], Draft]
"""guess(known, budget): a draft of at most `budget` tokens after the known ids, prompt and root included."""


class Guesser:
    """A drafter that is a function of what is known. Holds changing state: the tokens it was shown."""

    def __init__(self, guess: Guess, *, trees: bool = False) -> None:
        self.needs = Needs(trees=trees)
        self._guess = guess
        self._known: tuple[int, ...] = ()

    def begin(self, prompt: Ids, root: int, scores: Scores) -> None:
        """Start from the prompt and the root."""
        self._known = (*prompt.tolist(), root)

    def propose(self, budget: int) -> Draft:
        """What the function guesses."""
        return self._guess(self._known, budget)

    def observe(self, new_ids: Sequence[int], scores: Scores) -> None:
        """Append what was emitted."""
        self._known = (*self._known, *new_ids)


def scripted(ids: Sequence[int]) -> Guess:
    """Always the same tokens, right or wrong."""
    return lambda known, budget: Draft(as_ids(ids[:budget]), source="scripted")


def oracle(text: Sequence[int]) -> Guess:
    """What comes next in `text` (prompt and continuation), as long as that lasts."""
    return lambda known, budget: Draft(as_ids(text[len(known) : len(known) + budget]), source="oracle")


def right_then_wrong(text: Sequence[int], n_right: int, vocab_size: int) -> Guess:
    """The next `n_right` tokens of `text`, then tokens that are not in it there."""

    def guess(known: tuple[int, ...], budget: int) -> Draft:
        ids = np.resize(as_ids([*text[len(known) : len(known) + budget], 0]), budget)
        ids[n_right:] = (ids[n_right:] + 1) % vocab_size
        return Draft(ids, source="right_then_wrong")

    return guess


def adversary(text: Sequence[int], vocab_size: int, seed: int) -> Guess:
    """Chains of any length up to the budget, some empty, some over and over the same token, some right for a while.

    The same known ids give the same draft.
    """

    def guess(known: tuple[int, ...], budget: int) -> Draft:
        rng = np.random.default_rng([seed, len(known), known[-1]])
        n = int(rng.integers(0, budget + 1))
        ids = rng.integers(0, vocab_size, n).astype(np.int32)
        if rng.random() < 0.2:
            ids[:] = known[-1]
        right = as_ids(text[len(known) : len(known) + int(rng.integers(0, n + 1))])
        ids[: len(right)] = right
        return Draft(ids, source="adversary", match_len=int(rng.integers(0, 3)))

    return guess


def branching_adversary(text: Sequence[int], vocab_size: int, seed: int) -> Guess:
    """Trees of any shape, with the right path somewhere in them, or in pieces, or twice, or not at all."""

    def guess(known: tuple[int, ...], budget: int) -> Draft:
        rng = np.random.default_rng([seed, len(known), known[-1]])
        n = int(rng.integers(0, budget + 1))
        parents = as_ids([int(rng.integers(max(-1, row - 3), row)) for row in range(n)])
        depths: list[int] = []
        for parent in parents.tolist():
            depths.append(depths[parent] + 1 if parent >= 0 else 0)
        ids = rng.integers(0, vocab_size, n).astype(np.int32)
        for row, depth in enumerate(depths):
            if rng.random() < 0.6 and len(known) + depth < len(text):
                ids[row] = text[len(known) + depth]
        return Draft(ids, parents=parents, source="branches")

    return guess


class Drawing:
    """A drafter that draws from a law of its own and says so honestly. Holds changing state: the tokens it was shown.

    The length is the budget, fixed before any draw, so q counts in the ratio test. `n` of a draw is the output
    position, so that with keyed noise of the judge's seed the drafter shares the judge's noise. Never greedy.
    """

    def __init__(self, source: Target, sampling: Sampling, sampler: Sampler, rows: FreshRows | None = None) -> None:
        self.needs = Needs()
        self._rows = rows or FreshRows(source)
        self._sampling = sampling
        self._sampler = sampler
        self._known: tuple[int, ...] = ()
        self._n_prompt = 0

    def begin(self, prompt: Ids, root: int, scores: Scores) -> None:
        """Start from the prompt and the root."""
        self._known, self._n_prompt = (*prompt.tolist(), root), len(prompt)

    def propose(self, budget: int) -> Draft:
        """`budget` tokens, each drawn from q given the ones before."""
        known = list(self._known)
        laws = []
        for _ in range(budget):
            history = History(as_ids(known[: self._n_prompt]))
            for token in known[self._n_prompt :]:
                history.push(token)
            row = self._rows(known)
            law = next_law(row, self._sampling, history)
            known.append(self._sampler.draw(law, history.n_output))
            laws.append(law.dense(len(row)))
        if not budget:
            return EMPTY_DRAFT
        return Draft(as_ids(known[len(self._known) :]), q=np.stack(laws), source="drawing")

    def observe(self, new_ids: Sequence[int], scores: Scores) -> None:
        """Append what was emitted."""
        self._known = (*self._known, *new_ids)


class ConfidenceCut:
    """A drafter whose tokens are dropped from the first one of low q on, after they were drawn.

    As a point mass that is honest. With `keep_q` it is the classical fault: the cut looked at the draw, so the tokens
    that are left no longer follow q. Holds changing state: that of the drafter inside.
    """

    def __init__(self, inner: Drawing, threshold: float, *, keep_q: bool) -> None:
        self.needs = inner.needs
        self._inner = inner
        self._threshold = threshold
        self._keep_q = keep_q

    def begin(self, prompt: Ids, root: int, scores: Scores) -> None:
        """As the drafter inside."""
        self._inner.begin(prompt, root, scores)

    def propose(self, budget: int) -> Draft:
        """The tokens of the drafter inside, up to the first one of low q."""
        draft = self._inner.propose(budget)
        if draft.q is None:
            return draft
        sure = draft.q[np.arange(len(draft)), draft.ids] >= self._threshold
        draft = draft.head(len(draft) if sure.all() else int(sure.argmin()))
        return draft if self._keep_q else replace(draft, q=None)

    def observe(self, new_ids: Sequence[int], scores: Scores) -> None:
        """As the drafter inside."""
        self._inner.observe(new_ids, scores)
