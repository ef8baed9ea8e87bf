"""The caches of the toy: slots that an attention mask looks at, and a recurrent state.

Both see one block of a provisional tail at a time and give each new row two words: `local`, of the last `order`
tokens it sees, and `whole`, of all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from surefoot.targets.toy.model import U64, Ints, Options, hashed

Places = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class Tail:
    """Provisional tokens. Shapes: tokens, parents, depths (n,); parents index the tail, -1 = last committed token."""

    tokens: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    parents: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    depths: Ints = field(default_factory=lambda: np.zeros(0, np.int64))

    def __len__(self) -> int:
        return len(self.tokens)

    def grown(self, tokens: Ints, parents: Ints) -> Tail:
        """This tail with more tokens behind it."""
        depths = [*self.depths.tolist()]
        for parent in parents.tolist():
            depths.append(depths[parent] + 1 if parent >= 0 else 0)
        joined = np.concatenate([self.tokens, tokens]), np.concatenate([self.parents, parents])
        return Tail(*joined, np.asarray(depths, np.int64))


class Cache(Protocol):
    """What a toy session keeps. Holds changing state."""

    @property
    def length(self) -> int:
        """Committed tokens."""
        ...

    def see(self, tail: Tail, start: int, width: int) -> tuple[U64, U64]:
        """(R,) local and (R,) whole words of the tail rows from `start` on; `width` rows are computed."""
        ...

    def keep(self, tail: Tail, path: Places) -> None:
        """Commit the tail tokens at `path` and drop the others."""
        ...

    def cut(self, keep: int) -> None:
        """Forget all but the first `keep` committed tokens."""
        ...


class Slots:
    """Slots of (token, position) under an attention mask. Holds changing state: live and stale slots.

    Committed tokens are the live slots below `base`. The tail is written from `base` on, or apart when staged.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        self.tokens = np.zeros(0, np.int64)
        self.positions = np.zeros(0, np.int64)
        self.live = np.zeros(0, np.bool_)
        self.base = 0

    @property
    def length(self) -> int:
        return int(np.count_nonzero(self.live[: self.base]))

    def committed(self) -> Places:
        """Slots of the committed tokens, in order of position."""
        return np.flatnonzero(self.live[: self.base])

    def see(self, tail: Tail, start: int, width: int) -> tuple[U64, U64]:
        positions = self.length + tail.depths
        pad = np.arange(width - (len(tail) - start))
        padded = np.concatenate([tail.tokens, 0 * pad])
        places = np.concatenate([positions, positions[-1] + 1 + pad])
        if self.options.discipline == "staged":
            tokens, slots = np.concatenate([self.tokens, padded]), np.concatenate([self.positions, places])
        else:
            self.write(self.base, padded, places)
            tokens, slots = self.tokens, self.positions
        return attend(self.options, tokens, slots, positions[start:], self.visible(tail, len(tokens))[start:])

    def visible(self, tail: Tail, n_slots: int) -> npt.NDArray[np.bool_]:
        """(n, slots) what each tail row attends to: the committed, its ancestors, itself."""
        mask = np.zeros((len(tail), n_slots), np.bool_)
        mask[:, self.committed()] = True
        for row, parent in enumerate(tail.parents):
            if parent >= 0:
                mask[row] = mask[parent]
            mask[row, self.base + row] = True
        return mask

    def write(self, at: int, tokens: Ints, positions: Ints) -> None:
        """Put tokens into the slots from `at` on, growing the cache where it ends."""
        grow = max(0, at + len(tokens) - len(self.tokens))
        self.tokens = np.concatenate([self.tokens, np.zeros(grow, np.int64)])
        self.positions = np.concatenate([self.positions, np.zeros(grow, np.int64)])
        self.live = np.concatenate([self.live, np.zeros(grow, np.bool_)])
        self.tokens[at : at + len(tokens)] = tokens
        self.positions[at : at + len(tokens)] = positions
        self.live[at : at + len(tokens)] = True

    def keep(self, tail: Tail, path: Places) -> None:
        if self.options.discipline == "mask":
            self.live[self.base : self.base + len(tail)] = False
            self.live[self.base + path] = True
            self.base += len(tail)
            if self.base - self.length > self.options.stale_share * self.base:
                self._pack(self.committed())
            return
        self.write(self.base, tail.tokens[path], self.length + np.arange(len(path)))
        self.base += len(path)
        if self.options.discipline in ("truncate", "staged"):
            self._pack(np.arange(self.base))

    def cut(self, keep: int) -> None:
        if self.options.discipline in ("overwrite", "fixed"):
            self.base = keep
        else:
            self._pack(self.committed()[:keep])

    def _pack(self, slots: Places) -> None:
        self.tokens, self.positions = self.tokens[slots], self.positions[slots]
        self.live = np.ones(len(slots), np.bool_)
        self.base = len(slots)


def attend(options: Options, tokens: Ints, places: Ints, rows: Ints, visible: npt.NDArray[np.bool_]) -> tuple[U64, U64]:
    """The two words of each row at position `rows[i]` that sees the slots `visible[i]`."""
    whole = np.where(visible, hashed(tokens, places, 1)[None, :], np.uint64(0)).sum(axis=1, dtype=np.uint64)
    distance = rows[:, None] - places[None, :]
    near = visible & (distance >= 0) & (distance < options.order)
    local = np.where(near, hashed(tokens[None, :], distance, 2), np.uint64(0)).sum(axis=1, dtype=np.uint64)
    return local, whole


@dataclass(frozen=True, slots=True)
class Memory:
    """A recurrent state: the sum of what was seen, the last `order` tokens, and how many there were."""

    whole: int = 0
    last: tuple[int, ...] = ()
    n: int = 0

    def after(self, token: int, word: int, order: int) -> Memory:
        """The state one token on; `word` is the hash of the token at its position."""
        return Memory((self.whole + word) % 2**64, (*self.last, token)[-order:], self.n + 1)


class Recurrent:
    """A state that only moves forward. Holds changing state: the snapshot at the last commit, and the tail's states.

    `keep` goes back to the snapshot and replays the tokens kept; `cut` starts again from nothing.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        self.history: list[int] = []
        self.snapshot = Memory()
        self.states: list[Memory] = []

    @property
    def length(self) -> int:
        return self.snapshot.n

    def see(self, tail: Tail, start: int, width: int) -> tuple[U64, U64]:
        words = hashed(tail.tokens[start:], self.length + tail.depths[start:], 1).tolist()
        new = zip(tail.tokens[start:].tolist(), tail.parents[start:].tolist(), words, strict=True)
        for token, parent, word in new:
            before = self.states[parent] if parent >= 0 else self.snapshot
            self.states.append(before.after(token, word, self.options.order))
        rows = self.states[start:]
        local = np.zeros(len(rows), np.uint64)
        for distance in range(self.options.order):
            reach = np.asarray([row.last[-1 - distance] if distance < row.n else -1 for row in rows])
            local += np.where(reach >= 0, hashed(reach, np.asarray([distance]), 2), np.uint64(0))
        return local, np.asarray([row.whole for row in rows], np.uint64)

    def keep(self, tail: Tail, path: Places) -> None:
        self._replay(tail.tokens[path])
        self.states = []

    def cut(self, keep: int) -> None:
        kept = np.asarray(self.history[:keep], np.int64)
        self.history, self.snapshot, self.states = [], Memory(), []
        self._replay(kept)

    def _replay(self, tokens: Ints) -> None:
        words = hashed(tokens, self.length + np.arange(len(tokens)), 1).tolist()
        for token, word in zip(tokens.tolist(), words, strict=True):
            self.snapshot = self.snapshot.after(token, word, self.options.order)
            self.history.append(token)
