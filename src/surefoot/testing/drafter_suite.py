"""What every drafter promises, as checks that run on any of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from surefoot.core.judge import make_judge
from surefoot.core.limits import Limits
from surefoot.core.loop import generate
from surefoot.core.ports import Drafter, Needs, Scores, Session, Target
from surefoot.core.sampling import Sampling
from surefoot.core.types import Draft, Ids, Round, State, as_ids
from surefoot.testing.probe import demand

MakeDrafter = Callable[[Target], Drafter]
Check = Callable[[MakeDrafter, Target, Ids], None]

_BUDGETS = (3, 1, 5, 0, 2, 8, 1, 16, 4, 0, 0, 7)


@dataclass(slots=True)
class Budgets:
    """A policy that asks for given lengths, over and over. Holds changing state: how many it gave."""

    lengths: Sequence[int]
    given: int = 0

    def budget(self, state: State) -> int:
        self.given += 1
        return self.lengths[(self.given - 1) % len(self.lengths)]

    def cut(self, draft: Draft) -> int:
        return len(draft)

    def learn(self, round: Round) -> None:
        pass


class Watched:
    """A drafter with its proposals written down and checked. Holds changing state: the drafts so far."""

    def __init__(self, inner: Drafter, vocab_size: int) -> None:
        self.inner = inner
        self.vocab_size = vocab_size
        self.drafts: list[tuple[object, ...]] = []

    @property
    def needs(self) -> Needs:
        return self.inner.needs

    def begin(self, prompt: Ids, root: int, scores: Scores) -> None:
        self.inner.begin(prompt, root, scores)

    def propose(self, budget: int) -> Draft:
        draft = self.inner.propose(budget)
        check_draft(draft, budget, self.vocab_size, self.needs)
        self.drafts.append(described(draft))
        return draft

    def observe(self, new_ids: Sequence[int], scores: Scores) -> None:
        self.inner.observe(new_ids, scores)


def described(draft: Draft) -> tuple[object, ...]:
    """What makes two drafts the same."""
    parents = None if draft.parents is None else tuple(draft.parents.tolist())
    return tuple(draft.ids.tolist()), parents, draft.source, draft.match_len


def check_draft(draft: Draft, budget: int, vocab_size: int, needs: Needs) -> None:
    """Raises: AssertionError when a draft is not one that the loop takes."""
    n = len(draft)
    demand(n <= budget, f"propose({budget}) gave {n} tokens")
    demand(draft.ids.ndim == 1 and draft.ids.dtype == np.int32, f"draft ids are {draft.ids.dtype} {draft.ids.shape}")
    ids = draft.ids.tolist()
    demand(
        all(0 <= token < vocab_size for token in ids),
        f"propose({budget}) gave {ids}, not all of the vocabulary of {vocab_size} tokens",
    )
    demand(draft.parents is None or needs.trees, "a tree was proposed, but needs.trees is False")
    demand(n == 0 or bool(draft.source), "a draft with tokens must name its source")
    if draft.q is not None:
        demand(draft.q.shape == (n, vocab_size), f"q has shape {draft.q.shape}; {(n, vocab_size)} was due")
        demand(bool(np.all(np.abs(draft.q.sum(axis=1) - 1) < 1e-9)), "a row of q does not sum to 1")
        demand(bool(np.all(draft.q >= 0)), "a row of q has a negative probability")
        demand(bool(np.all(draft.q[np.arange(n), ids] > 0)), "a token was drafted to which its own q gives no chance")


def run(
    drafter: Drafter,
    target: Target,
    prompt: Ids,
    n_tokens: int,
    *,
    lengths: Sequence[int] = _BUDGETS,
    sampling: Sampling | None = None,
    session: Session | None = None,
) -> list[Round]:
    """The rounds of one generation with this drafter, its draft lengths given."""
    session = session or target.open(drafter.needs.taps)
    try:
        return list(
            generate(
                session, prompt, caps=target.caps, drafter=drafter, policy=Budgets(lengths),
                judge=make_judge("match", sampling or Sampling()), limits=Limits(n_tokens), clock=lambda: 0.0,
            )
        )  # fmt: skip
    finally:
        session.close()


def written(rounds: Sequence[Round]) -> list[int]:
    """The ids that the rounds emitted."""
    return [token for round_ in rounds for token in round_.new_ids]


def drafts_are_valid_and_change_nothing(make: MakeDrafter, target: Target, prompt: Ids) -> None:
    """Every draft is one that the loop takes, and the text is that of plain decoding, greedy and drawn."""
    for sampling in (Sampling(), Sampling(temperature=1.0, seed=3)):
        plain = run(make(target), target, prompt, 40, lengths=(0,), sampling=sampling)
        for lengths in (_BUDGETS, (1,), (16,)):
            watched = Watched(make(target), target.caps.vocab_size)
            drafted = run(watched, target, prompt, 40, lengths=lengths, sampling=sampling)
            demand(
                written(drafted) == written(plain),
                f"with drafts {written(drafted)} was written, without {written(plain)}",
            )


def same_observations_same_drafts(make: MakeDrafter, target: Target, prompt: Ids) -> None:
    """Two drafters that saw the same things propose the same."""
    first, twin = (Watched(make(target), target.caps.vocab_size) for _ in range(2))
    for watched in (first, twin):
        run(watched, target, prompt, 40)
    demand(first.drafts == twin.drafts, "two drafters that saw the same tokens proposed different drafts")


def begin_forgets(make: MakeDrafter, target: Target, prompt: Ids) -> None:
    """A drafter that begins anew proposes what a new drafter does."""
    used, new = (Watched(make(target), target.caps.vocab_size) for _ in range(2))
    run(used, target, prompt, 30)
    used.drafts.clear()
    other = as_ids([*prompt[::-1].tolist(), 0])
    run(used, target, other, 30)
    run(new, target, other, 30)
    demand(used.drafts == new.drafts, "after begin() the drafts still depend on the text before it")


def rejected_drafts_leave_nothing(make: MakeDrafter, target: Target, prompt: Ids) -> None:
    """After any rounds the next draft is that of a drafter which saw the same tokens one by one."""
    for n_rounds in (1, 2, 3, 5, 8, 12):
        session = target.open(make(target).needs.taps)
        busy = Watched(make(target), target.caps.vocab_size)
        rounds = generate(
            session, prompt, caps=target.caps, drafter=busy, policy=Budgets(_BUDGETS),
            judge=make_judge("match", Sampling(temperature=1.0, seed=n_rounds)), limits=Limits(200), clock=lambda: 0.0,
        )  # fmt: skip
        ids = [token for _, round_ in zip(range(n_rounds + 1), rounds, strict=False) for token in round_.new_ids]
        rounds.close()
        session.close()
        fresh = make(target)
        session = target.open(fresh.needs.taps)
        fresh.begin(prompt, ids[0], session.prefill(prompt))
        for root, token in pairwise(ids):
            scores = session.extend(as_ids([root]))
            session.commit(1)
            fresh.observe((token,), scores)
        for budget in (6, 2):
            found, due = described(busy.propose(budget)), described(fresh.propose(budget))
            demand(
                found == due,
                f"after {n_rounds} rounds of drafts propose({budget}) gives {found}; a drafter that saw the same "
                f"{len(prompt)} + {len(ids)} tokens one by one gives {due}",
            )
        session.close()


DRAFTER_CHECKS: Mapping[str, Check] = {
    check.__name__: check
    for check in (
        drafts_are_valid_and_change_nothing,
        same_observations_same_drafts,
        begin_forgets,
        rejected_drafts_leave_nothing,
    )
}
"""The checks by name, for a test each."""


def check_drafter(make_drafter: MakeDrafter, target: Target, *, prompts: Sequence[Sequence[int]]) -> None:
    """Nothing, when the drafter keeps its promises on this target, which gives the text and the taps.

    A drafter that says that its drafts depend on more than the history (a Jacobi buffer, a gate) is not asked for
    rejected_drafts_leave_nothing. Prompts should repeat themselves, so that look-ups find something.
    Raises: AssertionError with the promise that is broken.
    """
    history_only = make_drafter(target).needs.history_only
    for name, check in DRAFTER_CHECKS.items():
        if check is rejected_drafts_leave_nothing and not history_only:
            continue
        for prompt in prompts:
            try:
                check(make_drafter, target, as_ids(prompt))
            except AssertionError as error:
                raise AssertionError(f"the drafter breaks {name} on the prompt {list(prompt)}: {error}") from error
