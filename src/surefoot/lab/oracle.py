"""The best schedule with hindsight: what a policy that knew every draft's fate would have done."""

from __future__ import annotations

from dataclasses import dataclass

from surefoot.core.cost import CostCurve
from surefoot.core.payoff import FREE, DraftCost
from surefoot.lab.replay import Replayed, Trace


@dataclass(frozen=True, slots=True)
class Oracle:
    """draft_lens: of each round, in order. seconds: of the whole text after its first token, the least there can be."""

    draft_lens: tuple[int, ...]
    seconds: float
    tokens: int

    @property
    def tokens_per_s(self) -> float:
        return self.tokens / self.seconds

    def share(self, replayed: Replayed) -> float:
        """The speed of a policy as a share of this; 1 is the best that drafts of this drafter allow."""
        return self.seconds / replayed.seconds


def oracle(trace: Trace, curve: CostCurve, draft: DraftCost = FREE) -> Oracle:
    """The schedule of least seconds, exactly; the shorter draft where two are equal.

    Source: dynamic programming from the end of the text (R. Bellman, 1957): a drafter that goes by the history alone
    offers the same at a position however the text got there, so what is left does not depend on the rounds before.
    """
    n = len(trace.ids)
    left_s, choice = [0.0] * (n + 1), [0] * (n + 1)
    for emitted in range(n - 1, 0, -1):
        offer, depth = trace.offers[emitted], trace.n_prompt + emitted - 1
        longest = min(offer.length, trace.room(emitted), curve.max_rows - 1)
        totals = [
            curve.round_s(draft_len + 1, depth, draft.of(draft_len)) + left_s[emitted + min(draft_len, offer.right) + 1]
            for draft_len in range(longest + 1)
        ]
        left_s[emitted] = min(totals)
        choice[emitted] = totals.index(left_s[emitted])
    draft_lens, emitted = [], 1
    while emitted < n:
        draft_lens.append(choice[emitted])
        emitted += min(choice[emitted], trace.offers[emitted].right) + 1
    return Oracle(tuple(draft_lens), left_s[1], n - 1)
