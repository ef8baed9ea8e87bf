"""Two models of one vocabulary: which pairs are, and how ids cross where one of them has padding."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from surefoot.core.types import Floats, Vocabulary
from surefoot.drafters.model.follower import NEVER


@dataclass(frozen=True, slots=True)
class Same:
    """The ids are the same; either model may have more rows than the other. Sizes are rows of the models."""

    vocab_size: int
    its_size: int
    start: tuple[int, ...] = ()

    def read(self, tokens: Iterable[int]) -> list[int]:
        """All that it has."""
        return [token for token in tokens if token < self.its_size]

    def named(self, its_id: int) -> int | None:
        """The same id, None where the target has no such row."""
        return its_id if its_id < self.vocab_size else None

    def row(self, logits: Floats) -> Floats:
        """(V,): cut, or filled up with what is never drawn."""
        if self.its_size >= self.vocab_size:
            return logits[: self.vocab_size]
        filled = np.full(self.vocab_size, NEVER, np.float32)
        filled[: self.its_size] = logits
        return filled


def difference(one: Vocabulary, other: Vocabulary) -> tuple[int, int] | None:
    """How many ids spell something else in the other vocabulary, and the first of them; None where none does.

    Only ids that both have are compared, and control tokens are not: a turn may end with another token in a model that
    was trained for conversations.
    """
    both = range(min(len(one), len(other)))
    control = one.control | other.control
    differ = [token for token in both if one.spelled[token] != other.spelled[token] and token not in control]
    return (len(differ), differ[0]) if differ else None
