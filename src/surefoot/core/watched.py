"""A draft whose tokens are compared with what is written, whether they were scored or not."""

from __future__ import annotations

from collections.abc import Sequence

from surefoot.core.acceptance import Acceptance
from surefoot.core.types import Draft


class Watched:
    """Follows the text through a draft. Holds changing state: how far they agreed, and what was judged last.

    judged: (rank, position, held) of each draft token that the last call of `follow` decided. The rank counts the
    tokens that the draft has before it at the same place: 0 in a chain.

    The judge accepts a draft token exactly when it is the token that is written there, so a draft that was cut, in
    part or whole, is judged for nothing by the rounds that follow.
    """

    def __init__(self, draft: Draft, streak: int) -> None:
        self.source = draft.source
        self.match_len = draft.match_len
        self.streak = streak
        self._ids = draft.ids.tolist()
        self._parents = None if draft.parents is None else draft.parents.tolist()
        self.judged: list[tuple[int, int, bool]] = []
        self._at = -1
        self._position = 0

    def follow(self, new_ids: Sequence[int]) -> tuple[list[tuple[int, bool]], bool]:
        """What became of the positions that these tokens decide, and whether the draft has more to tell."""
        fates: list[tuple[int, bool]] = []
        self.judged = []
        for token in new_ids:
            nexts = self._nexts()
            if not nexts:
                return fates, False
            self._position += 1
            agreed = next((child for child in nexts if self._ids[child] == token), None)
            self.judged += [(rank, self._position, child == agreed) for rank, child in enumerate(nexts)]
            fates.append((self._position, agreed is not None))
            if agreed is None:
                return fates, False
            self._at = agreed
        return fates, bool(self._nexts())

    def teach(self, acceptance: Acceptance) -> None:
        """Let what was judged last be counted."""
        for rank, position, held in self.judged:
            acceptance.learn(self.source, self.match_len, self.streak, position, held, rank)

    def _nexts(self) -> list[int]:
        """The draft tokens that may come next."""
        if self._parents is None:
            return [self._at + 1] if self._at + 1 < len(self._ids) else []
        return [child for child, parent in enumerate(self._parents) if parent == self._at]


def survivals(acceptance: Acceptance, draft: Draft, streak: int) -> list[float]:
    """The chance of each token of the draft to be accepted, with all that stand before it; what comes after the list's
    end is as good as never accepted."""
    if draft.parents is None:
        return acceptance.survival(draft.source, draft.match_len, streak, len(draft))
    lived: list[float] = []
    depths: list[int] = []
    children: dict[int, int] = {}
    for parent in draft.parents.tolist():
        rank = children[parent] = children.get(parent, -1) + 1
        depths.append(1 if parent < 0 else depths[parent] + 1)
        chance = acceptance.chance(draft.source, draft.match_len, streak, depths[-1], rank)
        lived.append(chance if parent < 0 else lived[parent] * chance)
    return lived
