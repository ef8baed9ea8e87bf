"""The rows of a tree that were kept, as if a chain had been scored: what a drafter that did not draft it can read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from surefoot.core.judge import Branches
from surefoot.core.ports import Scores
from surefoot.core.types import Draft, Floats, Ids


def rows_along(draft: Draft, new_ids: Sequence[int], rows: int) -> list[int]:
    """The row that predicted each of the new ids: row 0, then those of the accepted branch.

    The policy may have dropped the end of the draft, so only `rows` rows were scored.
    """
    branches = Branches(draft.head(rows - 1))
    path: list[int] = [0]
    for token in new_ids[:-1]:
        child = branches.child(path[-1], token)
        if child is None:
            break
        path.append(child)
    return path


class Along:
    """Some rows of what a forward predicted. Holds no state of its own."""

    def __init__(self, scores: Scores, path: Sequence[int]) -> None:
        self._scores = scores
        self._path = list(path)

    @property
    def rows(self) -> int:
        return len(self._path)

    @property
    def width(self) -> int:
        return self._scores.width

    def argmax(self) -> Ids:
        return self._scores.argmax()[self._path]

    def logits(self, row: int) -> Floats:
        return self._scores.logits(self._path[row])

    def tap(self, name: str) -> Any:
        return self._scores.tap(name)[self._path]
