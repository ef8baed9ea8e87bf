"""A draft whose tokens are compared with what is written, whether they were scored or not."""

from __future__ import annotations

from collections.abc import Sequence

from surefoot.core.types import Draft


class Watched:
    """Follows the text through a draft. Holds changing state: how far they agreed.

    The judge accepts a draft token exactly when it is the token that is written there, so a draft that was cut, in
    part or whole, is judged for nothing by the rounds that follow.
    """

    def __init__(self, draft: Draft, streak: int) -> None:
        self.source = draft.source
        self.match_len = draft.match_len
        self.streak = streak
        self._ids = draft.ids.tolist()
        self._parents = None if draft.parents is None else draft.parents.tolist()
        self._at = -1
        self._position = 0

    def follow(self, new_ids: Sequence[int]) -> tuple[list[tuple[int, bool]], bool]:
        """What became of the positions that these tokens decide, and whether the draft has more to tell."""
        fates: list[tuple[int, bool]] = []
        for token in new_ids:
            nexts = self._nexts()
            if not nexts:
                return fates, False
            self._position += 1
            agreed = next((child for child in nexts if self._ids[child] == token), None)
            fates.append((self._position, agreed is not None))
            if agreed is None:
                return fates, False
            self._at = agreed
        return fates, bool(self._nexts())

    def _nexts(self) -> list[int]:
        """The draft tokens that may come next."""
        if self._parents is None:
            return [self._at + 1] if self._at + 1 < len(self._ids) else []
        return [child for child, parent in enumerate(self._parents) if parent == self._at]


def depth_of(draft: Draft) -> int:
    """The most tokens of this draft that can be accepted: its length, or the longest path of a tree."""
    if draft.parents is None:
        return len(draft)
    depths: list[int] = []
    for parent in draft.parents.tolist():
        depths.append(depths[parent] + 1 if parent >= 0 else 1)
    return max(depths, default=0)
