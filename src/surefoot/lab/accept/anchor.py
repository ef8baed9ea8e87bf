"""A drafter that is not told the last emitted token, the anchor of its drafts: what that mistake costs."""

from __future__ import annotations

from collections.abc import Sequence

from surefoot.core.ports import Drafter, Needs, Scores
from surefoot.core.types import Draft, Ids


class Unanchored:
    """The drafter inside, one token behind. Holds changing state: the token that it will be told next.

    The root is emitted and not yet in the cache, so a harness that drafts from the cache alone leaves it out. Each
    draft then begins with a guess of the root and is scored as if it began behind it, one place too early.
    """

    def __init__(self, inner: Drafter) -> None:
        self._inner = inner
        self._late = -1

    @property
    def needs(self) -> Needs:
        return self._inner.needs

    def begin(self, prompt: Ids, root: int, scores: Scores) -> None:
        """As the drafter inside, on a prompt of one token less, of which there must be two."""
        self._inner.begin(prompt[:-1], int(prompt[-1]), scores)
        self._late = root

    def propose(self, budget: int) -> Draft:
        """What the drafter inside would have proposed before the root was emitted."""
        return self._inner.propose(budget)

    def observe(self, new_ids: Sequence[int], scores: Scores) -> None:
        """The drafter inside learns all but the last of what was emitted so far."""
        self._inner.observe((self._late, *new_ids[:-1]), scores)
        self._late = new_ids[-1]
