"""A text written again on a virtual clock: what another policy, draft length or machine would have given.

The text is fixed, and so is what a history-only drafter would have proposed at each of its positions. Which positions
are round starts is what a policy decides, and what a round costs is what a curve says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from surefoot.core.cost import CostCurve
from surefoot.core.errors import ConfigError, LawError
from surefoot.core.payoff import FREE, DraftCost
from surefoot.core.ports import Drafter, Policy, Scores
from surefoot.core.types import EMPTY_DRAFT, Draft, Finish, Ids, Round, State, as_ids

LONGEST = 64
"""chosen: twice the widest sweep; no policy asks for more."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What the drafter proposes at a position: `length` tokens, of which the first `right` are those that follow."""

    length: int
    right: int
    match_len: int = 0
    source: str = ""


NOTHING = Offer(0, 0)


@dataclass(frozen=True, slots=True)
class Trace:
    """A text and its offers. offers[t]: the draft when t tokens were emitted, t from 1; offers[0] is never used.

    n_prompt: tokens before the text. ids: the text, the root of the prefill first.
    """

    n_prompt: int
    ids: tuple[int, ...]
    offers: tuple[Offer, ...]

    def __post_init__(self) -> None:
        if len(self.offers) != len(self.ids):
            raise ConfigError(f"a trace of {len(self.ids)} tokens needs as many offers; got {len(self.offers)}")
        for at, offer in enumerate(self.offers):
            if not 0 <= offer.right <= min(offer.length, len(self.ids) - at):
                raise ConfigError(f"the offer at token {at} says that {offer.right} of {offer.length} tokens are right")

    def room(self, emitted: int) -> int:
        """The longest draft that the output limit leaves room for."""
        return len(self.ids) - emitted - 1


def record(drafter: Drafter, prompt: Ids, ids: Sequence[int], scores: Scores, longest: int = LONGEST) -> Trace:
    """What the drafter offers at every position of a text.

    Raises: ConfigError for a drafter whose drafts depend on more than the history, or are trees.
    """
    if not drafter.needs.history_only:
        raise ConfigError(
            "what this drafter offers depends on how the rounds fell, so it cannot be replayed; measure it live"
        )
    drafter.begin(prompt, ids[0], scores)
    offers = [NOTHING]
    for at in range(1, len(ids)):
        draft = drafter.propose(longest)
        if draft.parents is not None:
            raise ConfigError(f"{draft.source} drafts trees, and a trace holds chains")
        rest = as_ids(ids[at : at + len(draft)])
        wrong = np.flatnonzero(draft.ids[: len(rest)] != rest)
        right = int(wrong[0]) if len(wrong) else len(rest)
        offers.append(Offer(len(draft), right, draft.match_len, draft.source) if len(draft) else NOTHING)
        drafter.observe((ids[at],), scores)
    return Trace(len(prompt), tuple(ids), tuple(offers))


@dataclass(frozen=True, slots=True)
class Replayed:
    """The rounds of a replay, and the seconds of its clock after the first token."""

    rounds: tuple[Round, ...]
    seconds: float
    tokens: int

    @property
    def tokens_per_s(self) -> float:
        return self.tokens / self.seconds


def replay(trace: Trace, policy: Policy, curve: CostCurve, draft: DraftCost = FREE) -> Replayed:
    """The text of the trace as this policy would have it written where forwards cost what the curve says.

    Every round goes to the policy as the loop would hand it over, its seconds included.
    """
    rounds: list[Round] = []
    emitted, seconds = 1, 0.0
    while emitted < len(trace.ids):
        state = State(min(trace.room(emitted), curve.max_rows - 1), trace.n_prompt + emitted - 1, emitted)
        round_ = _round(trace, policy, curve, draft, state)
        policy.learn(round_)
        rounds.append(round_)
        seconds += round_.draft_s + round_.extend_s + round_.host_s
        emitted += len(round_.new_ids)
    return Replayed(tuple(rounds), seconds, len(trace.ids) - 1)


def plain_s(trace: Trace, curve: CostCurve) -> float:
    """Seconds of the same text without drafts."""
    return sum(curve.round_s(1, trace.n_prompt + at - 1) for at in range(1, len(trace.ids)))


def _round(trace: Trace, policy: Policy, curve: CostCurve, cost: DraftCost, state: State) -> Round:
    budget = max(0, min(policy.budget(state), state.room))
    proposed = _draft(trace, state.emitted, budget) if budget else EMPTY_DRAFT
    kept = policy.cut(proposed) if budget else 0
    if not 0 <= kept <= len(proposed):
        raise LawError(f"the policy kept {kept} of {len(proposed)} drafted tokens")
    accepted = min(kept, trace.offers[state.emitted].right)
    new_ids = trace.ids[state.emitted : state.emitted + accepted + 1]
    price = curve.price(kept + 1, state.depth)
    finish: Finish | None = "length" if state.emitted + len(new_ids) == len(trace.ids) else None
    return Round(
        new_ids, len(proposed), len(proposed) - kept, accepted, state.depth, kept + 1, price.width, proposed.source,
        proposed.match_len, cost.of(len(proposed)), price.seconds, finish=finish, host_s=curve.host_s,
    )  # fmt: skip


def _draft(trace: Trace, emitted: int, budget: int) -> Draft:
    """The offer as tokens: the right ones, then one that does not follow, over and over."""
    offer = trace.offers[emitted]
    n = min(offer.length, budget)
    if not n:
        return EMPTY_DRAFT
    right = trace.ids[emitted : emitted + min(n, offer.right)]
    following = emitted + len(right)
    wrong = trace.ids[following] + 1 if following < len(trace.ids) else 0
    return Draft(as_ids([*right, *[wrong] * (n - len(right))]), source=offer.source, match_len=offer.match_len)
