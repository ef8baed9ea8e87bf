"""The best that a policy could do who knew of each kind of place how drafts fare there, and not of each place.

A kind is what can be seen before a draft is scored: nothing, the length of the match, the match and the streak of draft
tokens that held before. One draft length is chosen for each kind and text, with hindsight.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from surefoot.core.cost import CostCurve
from surefoot.lab.replay import Offer, Trace

Kind = Callable[[Offer, int], tuple[int, ...]]

KINDS: dict[str, Kind] = {
    "the text": lambda offer, streak: (),
    "the match": lambda offer, streak: (offer.match_len,),
    "the match and the streak": lambda offer, streak: (offer.match_len, min(streak, 32).bit_length()),
}

STEPS = 12
"""chosen: the best was found in the first seven on every curve and text."""


def best_by_kind(trace: Trace, curve: CostCurve, kind: Kind) -> float:
    """Seconds of the text with the best draft length for each kind of place in it; 0 for a place without an offer.

    Source: policy iteration (R. A. Howard, Dynamic Programming and Markov Processes, 1960): a length is better than
    another at a kind by the seconds that it costs and the seconds that are left afterwards, in the mean over the places
    of this kind. Places of one kind go on differently, so that it need not end at the best; the best found counts.
    """
    n, longest = len(trace.ids), curve.max_rows - 1
    places = range(1, n)
    number = _numbers(trace, kind)
    right = np.asarray([trace.offers[at].right for at in places])
    limit = np.asarray([min(trace.offers[at].length, trace.room(at), longest) for at in places])
    cost = np.asarray([[curve.round_s(k + 1, trace.n_prompt + at - 1) for k in range(longest + 1)] for at in places])
    after = np.arange(n - 1)[:, None] + np.minimum(right[:, None], np.arange(longest + 1)[None, :]) + 1
    allowed = np.arange(longest + 1)[None, :] <= limit[:, None]
    draft_len = np.minimum(limit, 2)
    least = np.inf
    for _ in range(STEPS):
        left_s = _left(draft_len, cost, after)
        least = min(least, left_s[0])
        # Against the mean pace of the text, so that places at its beginning and at its end can be put together.
        ahead_s = left_s - left_s[0] * (n - 1 - np.arange(n)) / (n - 1)
        pace_s = left_s[0] / (n - 1)
        each = np.where(
            allowed, cost - pace_s * (after - np.arange(n - 1)[:, None]) + ahead_s[np.minimum(after, n - 1)], 0
        )
        total, count = np.zeros((number.max() + 1, longest + 1)), np.zeros((number.max() + 1, longest + 1))
        np.add.at(total, number, each)
        np.add.at(count, number, allowed)
        mean = np.where(count > 0, total / np.maximum(count, 1), np.inf)
        draft_len = np.argmin(np.where(allowed, mean[number], np.inf), axis=1)
    return float(least)


def _numbers(trace: Trace, kind: Kind) -> npt.NDArray[np.int64]:
    """The number of each place's kind."""
    names: dict[tuple[int, ...] | None, int] = {}
    found, streak = [], 0
    for offer in trace.offers[1:]:
        name = kind(offer, streak) if offer.length else None
        found.append(names.setdefault(name, len(names)))
        streak = streak + 1 if offer.right else 0
    return np.asarray(found)


def _left(
    draft_len: Sequence[int] | npt.NDArray[np.int64], cost: npt.NDArray[np.float64], after: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """Seconds to the end of the text from each place, with these draft lengths."""
    n = len(draft_len) + 1
    left_s = np.zeros(n)
    for at in range(n - 2, -1, -1):
        chosen = draft_len[at]
        left_s[at] = cost[at, chosen] + left_s[min(after[at, chosen], n - 1)]
    return left_s
