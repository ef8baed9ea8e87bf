"""A toy session: the contract around one of the toy's caches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from surefoot.core.errors import CapacityError, ConfigError, LawError, TargetError
from surefoot.core.types import Floats, Ids
from surefoot.targets.toy.caches import Cache, Places, Recurrent, Slots, Tail
from surefoot.targets.toy.model import Ints, Options, toy_logits


@dataclass(frozen=True, slots=True, eq=False)
class ToyScores:
    """Logits of one forward, all rows already on the host."""

    matrix: Floats
    width: int
    taps: dict[str, Any]

    @property
    def rows(self) -> int:
        return len(self.matrix)

    def argmax(self) -> Ids:
        picks: Ids = self.matrix.argmax(axis=1).astype(np.int32)
        return picks

    def logits(self, row: int) -> Floats:
        return np.asarray(self.matrix[row])

    def tap(self, name: str) -> Any:
        return self.taps[name]


class ToySession:
    """One toy sequence. Holds changing state: its cache and the provisional tail."""

    def __init__(self, options: Options, taps: tuple[str, ...]) -> None:
        self._options = options
        self._taps = taps
        self._cache: Cache = Recurrent(options) if options.discipline == "snapshot" else Slots(options)
        self._tail = Tail()
        self._tree = False
        self._open = True

    @property
    def length(self) -> int:
        return self._cache.length

    def prefill(self, ids: Ids) -> ToyScores:
        self._check("prefill")
        if len(self._tail):
            raise LawError("a prefill came before the tail was committed")
        self._room(ids)
        scores = self._forward(ids, np.arange(-1, len(ids) - 1), len(ids))
        self.commit(len(ids))
        return ToyScores(scores.matrix[-1:], 1, scores.taps)

    def extend(self, block: Ids, parents: Sequence[int] | None = None, width: int | None = None) -> ToyScores:
        self._check("extend")
        rows = len(block)
        if max(rows, width or 0) > self._options.max_rows:
            raise CapacityError(
                f"{max(rows, width or 0)} rows were asked for; this toy computes at most {self._options.max_rows}."
            )
        self._room(block)
        width = self._width(rows, width)
        if self._tree:
            raise LawError("an extend followed a tree before its commit")
        links = np.arange(-1, rows - 1) + len(self._tail) if parents is None else self._links(parents, rows)
        scores = self._forward(block, links, width)
        self._tree = parents is not None
        return scores

    def commit(self, keep: int | Sequence[int]) -> None:
        self._check("commit")
        if isinstance(keep, int) and not 0 <= keep <= len(self._tail):
            raise LawError(f"commit({keep}) was asked of a tail of {len(self._tail)}")
        path = np.arange(keep) if isinstance(keep, int) else np.asarray(keep, np.intp)
        if self._tree or not isinstance(keep, int):
            self._check_path(path)
        self._cache.keep(self._tail, path)
        self._tail, self._tree = Tail(), False

    def reset(self, keep: int = 0) -> None:
        self._check("reset")
        if not 0 <= keep <= self.length:
            raise LawError(f"reset({keep}) was asked of a session of {self.length} tokens")
        self.commit(0)
        self._cache.cut(keep)

    def close(self) -> None:
        if self._open:
            self.reset()
        self._open = False

    def _forward(self, block: Ids, parents: Ints, width: int) -> ToyScores:
        start = len(self._tail)
        self._tail = self._tail.grown(block.astype(np.int64), parents)
        local, whole = self._cache.see(self._tail, start, width)
        taps = {"sums": np.stack([local, whole], axis=1)} if self._taps else {}
        return ToyScores(toy_logits(self._options, local, whole), width, taps)

    def _check_path(self, path: Places) -> None:
        if len(path) and not (path.min() >= 0 and path.max() < len(self._tail)):
            raise LawError(f"a commit names the places {path.tolist()} of a tail of {len(self._tail)}")
        if not np.array_equal(self._tail.parents[path], [-1, *path[:-1]][: len(path)]):
            raise LawError(f"a commit names the places {path.tolist()}, which are no path from the root of the tail")

    def _links(self, parents: Sequence[int], rows: int) -> Ints:
        """(rows,) the parents of a tree, which may stand here only alone."""
        if not self._options.trees or len(self._tail):
            raise LawError("a tree was given where trees are off or the tail is not empty")
        links = np.asarray(parents, np.int64)
        if len(links) != rows or np.any(links < -1) or np.any(links >= np.arange(rows)):
            raise LawError(f"{list(parents)} are not the parents of {rows} rows, each before its children")
        return links

    def _width(self, rows: int, width: int | None) -> int:
        """Rows computed: a fixed-width toy has entries for powers of two and for its largest block."""
        if width is not None and width < rows:
            raise LawError(f"a width of {width} was asked for {rows} rows")
        if self._options.discipline == "fixed":
            return min(1 << (max(rows, width or 0) - 1).bit_length(), self._options.max_rows)
        if width is not None and width != rows:
            raise LawError(f"{width} computed rows were asked for {rows}; only the fixed discipline pads")
        return rows

    def _room(self, ids: Ids) -> None:
        if len(ids) < 1:
            raise LawError("a forward needs at least one token; got none")
        if ids.min() < 0 or ids.max() >= self._options.vocab_size:
            raise ConfigError(f"the toy has {self._options.vocab_size} tokens; got the ids {ids.tolist()}.")
        held = self.length + len(self._tail)
        if held + len(ids) > self._options.max_length:
            raise CapacityError(f"{len(ids)} more tokens do not fit: {held} of {self._options.max_length} are taken.")

    def _check(self, operation: str) -> None:
        if not self._open:
            raise TargetError(f"{operation} was called on a closed session", backend="toy", operation=operation)
