"""What every policy promises, as checks that run on any of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from surefoot.core.ports import Policy
from surefoot.core.types import EMPTY_DRAFT, Draft, Round, State, as_ids
from surefoot.testing.probe import demand


def check_policy(make_policy: Callable[[], Policy], *, seed: int = 0, rounds: int = 400) -> None:
    """Nothing, when the policy keeps its promises over random rounds of every shape.

    Raises: AssertionError with the promise that is broken.
    """
    first, twin = make_policy(), make_policy()
    rng = np.random.default_rng(seed)
    emitted = 1
    for _ in range(rounds):
        state = State(int(rng.choice([0, 1, 2, 7, 31, 255])), 5 + emitted, emitted)
        budget = first.budget(state)
        demand(isinstance(budget, int) and budget >= 0, f"budget({state}) is {budget!r}, not a length")
        other = twin.budget(state)
        demand(budget == other, f"two policies that saw the same rounds ask for {budget} and {other} tokens")
        draft = _draft(rng, min(budget, state.room))
        kept = first.cut(draft)
        demand(isinstance(kept, int) and 0 <= kept <= len(draft), f"cut of a draft of {len(draft)} tokens is {kept!r}")
        demand(kept == twin.cut(draft), "two policies that saw the same rounds cut the same draft differently")
        round_ = _round(rng, draft, kept, state.depth)
        first.learn(round_)
        twin.learn(round_)
        emitted += len(round_.new_ids)
    demand(first.cut(EMPTY_DRAFT) == 0, "cut of an empty draft must be 0")


def _draft(rng: np.random.Generator, budget: int) -> Draft:
    """A draft of at most `budget` tokens: none, a chain, a chain with q, or a tree."""
    n = int(rng.integers(0, budget + 1)) if budget else 0
    kind = rng.integers(0, 4)
    if kind == 0 or n == 0:
        return EMPTY_DRAFT
    ids = as_ids(rng.integers(0, 4, n))
    if kind == 1:
        return Draft(ids, q=np.full((n, 4), 0.25), source="drawing")
    if kind == 2:
        return Draft(ids, parents=as_ids([int(rng.integers(-1, row)) for row in range(n)]), source="tree")
    return Draft(ids, source="ngram", match_len=int(rng.integers(0, 5)))


def _round(rng: np.random.Generator, draft: Draft, kept: int, depth: int) -> Round:
    """What may have become of the draft: accepted in part, and stopped somewhere."""
    accepted = int(rng.choice(np.asarray([0, kept, rng.integers(0, kept + 1)])))
    stopped = rng.random() < 0.1
    n_new = max(1, accepted) if stopped else accepted + 1
    draft_s, extend_s, judge_s, commit_s, host_s = (float(s) for s in rng.choice([0.0, 0.02]) * rng.random(5))
    return Round(
        new_ids=tuple(rng.integers(0, 4, n_new).tolist()),
        drafted=len(draft),
        cut=len(draft) - kept,
        accepted=accepted,
        depth=depth,
        rows=kept + 1,
        width=kept + 1 + int(rng.integers(0, 2)),
        source=draft.source,
        match_len=draft.match_len,
        draft_s=draft_s,
        extend_s=extend_s,
        judge_s=judge_s,
        commit_s=commit_s,
        finish="stop" if stopped else None,
        host_s=host_s,
    )
