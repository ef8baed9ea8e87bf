"""Two vocabularies by what their tokens spell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from surefoot.core.types import Floats, Ids, Vocabulary, as_ids
from surefoot.drafters.model.follower import NEVER

MISS = -1


@dataclass(frozen=True, slots=True)
class Coverage:
    """Tokens that spell something, and how many of them have a counterpart, of the second model and of the target."""

    its_tokens: int
    its_shared: int
    tokens: int
    shared: int

    @property
    def its_share(self) -> float:
        """Of the second model's tokens; 0 where it has none."""
        return self.its_shared / max(1, self.its_tokens)

    @property
    def share(self) -> float:
        """Of the target's tokens; 0 where it has none."""
        return self.shared / max(1, self.tokens)


@dataclass(frozen=True, slots=True, eq=False)
class SurfaceMap:
    """How ids cross between a target and a second model of another vocabulary. V rows of the target, V2 of the second.

    to_target: (V2,) the target's id for each of the second's, MISS where it has none. to_second: (V,) the other way.
    pieces: the second's id by what it spells. A token without a counterpart is read as pieces; control tokens are not
    read at all, since what begins a turn for one model is noise to the other.
    """

    to_target: Ids
    to_second: Ids
    target: Vocabulary
    pieces: Mapping[bytes, int]
    longest: int
    start: tuple[int, ...]
    coverage: Coverage
    shared: Ids
    misses: Ids

    @property
    def vocab_size(self) -> int:
        """V."""
        return len(self.to_second)

    def read(self, tokens: Iterable[int]) -> list[int]:
        """The target's tokens as the second model reads them."""
        read: list[int] = []
        for token in tokens:
            its_id = int(self.to_second[token])
            if its_id != MISS:
                read.append(its_id)
            elif token < len(self.target) and token not in self.target.control:
                read.extend(self._pieces(self.target.spelled[token]))
        return read

    def named(self, its_id: int) -> int | None:
        """The target's token that spells the same."""
        token = int(self.to_target[its_id])
        return None if token == MISS else token

    def row(self, logits: Floats) -> Floats:
        """Its logits by the ids of the target, then those of the misses; of two ids of one text, that of the lowest."""
        row = np.full(self.vocab_size + len(self.misses), NEVER, np.float32)
        row[self.to_target[self.shared]] = logits[self.shared]
        row[self.vocab_size :] = logits[self.misses]
        return row

    def _pieces(self, spelled: bytes) -> Iterator[int]:
        """The longest pieces from the left; bytes that the second model cannot spell are left out."""
        place = 0
        while place < len(spelled):
            ends = range(min(len(spelled), place + self.longest), place, -1)
            end = next((end for end in ends if spelled[place:end] in self.pieces), None)
            if end is not None:
                yield self.pieces[spelled[place:end]]
            place = place + 1 if end is None else end


def surface_map(target: Vocabulary, vocab_size: int, second: Vocabulary, its_size: int) -> SurfaceMap:
    """The map of two vocabularies; the sizes are the rows of the models, which may have more than tokens."""
    here, there = by_surface(target), by_surface(second)
    to_target = _crossed(second, here, its_size)
    to_second = _crossed(target, there, vocab_size)
    shared = np.flatnonzero(to_target != MISS)
    # Where several spell the same the lowest comes last, so that its logit is the one that stays in a row.
    lowest = to_second[to_target[shared]] == shared
    texts, its_texts = _texts(target), _texts(second)
    coverage = Coverage(
        len(its_texts), int((to_target != MISS).sum()), len(texts), int((to_second != MISS).sum())
    )  # fmt: skip
    return SurfaceMap(
        to_target,
        to_second,
        target,
        there,
        max(map(len, there), default=0),
        second.start,
        coverage,
        as_ids(np.concatenate([shared[~lowest], shared[lowest]])),
        as_ids(np.flatnonzero(to_target == MISS)),
    )


def by_surface(vocabulary: Vocabulary) -> dict[bytes, int]:
    """The id that stands for each text: the lowest of those that spell it.

    An id for a single byte stands back behind one for the same text, whatever their order: a model that has both writes
    the byte only where it lacks the character.
    """
    texts = _texts(vocabulary)
    single = {vocabulary.spelled[t]: t for t in reversed(texts) if t in vocabulary.single}
    return single | {vocabulary.spelled[t]: t for t in reversed(texts) if t not in vocabulary.single}


def _texts(vocabulary: Vocabulary) -> list[int]:
    """Ids that spell something and are no control tokens."""
    return [t for t, text in enumerate(vocabulary.spelled) if text and t not in vocabulary.control]


def _crossed(one: Vocabulary, other: Mapping[bytes, int], size: int) -> Ids:
    """(size,) the other vocabulary's id for each id of the one."""
    crossed = np.full(size, MISS, np.int32)
    for token in _texts(one):
        crossed[token] = other.get(one.spelled[token], MISS)
    return crossed
