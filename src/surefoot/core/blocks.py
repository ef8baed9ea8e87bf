"""What a session is asked for: what every runtime refuses alike, and the block of rows that is left to score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from surefoot.core.errors import CapacityError, ConfigError, LawError, TargetError
from surefoot.core.trees import check_parents, depths, visible
from surefoot.core.types import Caps, Ids


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a session takes. n_ids: ids that its model reads, which may be more than it scores; the rest as in Caps."""

    n_ids: int
    max_length: int
    max_rows: int
    can_pad: bool
    can_tree: bool

    @classmethod
    def of(cls, caps: Caps) -> Bounds:
        """Those of a target that scores every id it reads."""
        return cls(caps.vocab_size, caps.max_length, caps.max_rows, caps.can_pad, caps.can_tree)


class Block(NamedTuple):
    """Rows to score, the first at position `start`. Shapes: ids (width,), of which the first `rows` count."""

    ids: Ids
    start: int
    rows: int
    parents: tuple[int, ...] | None

    @property
    def width(self) -> int:
        """Rows that are computed, padding included."""
        return len(self.ids)

    @property
    def places(self) -> range | npt.NDArray[np.int64]:
        """(width,) the position of each row in the text."""
        if self.parents is None:
            return range(self.start, self.start + len(self.ids))
        return self.start + np.pad(depths(self.parents), (0, self.width - self.rows))

    def square(self) -> npt.NDArray[np.bool_]:
        """(width, width) which rows of the block each row sees."""
        if self.parents is None:
            return np.tri(self.width, dtype=np.bool_)
        own = np.eye(self.width, dtype=np.bool_)
        own[: self.rows, : self.rows] = visible(self.parents)
        return own


def chain(ids: Ids, start: int) -> Block:
    """Tokens one after the other, the first at position `start`."""
    return Block(ids, start, len(ids), None)


def checked_block(
    ids: Ids, parents: Sequence[int] | None, width: int | None, bounds: Bounds, start: int, tail: int, after_tree: bool
) -> Block:
    """The block that `extend` is asked for, its first token at position `start`, with `tail` staged rows before it.

    Raises: CapacityError, ConfigError, LawError where it cannot be appended.
    """
    rows, tree = len(ids), parents is not None
    wide = rows if width is None else width
    if not rows:
        raise LawError("extend of no tokens")
    if wide < rows:
        raise LawError(f"extend of {rows} rows with a width of {wide}")
    if tail and (tree or after_tree):
        raise LawError("a tree must be the only extend before its commit")
    if tree and not bounds.can_tree:
        raise LawError("extend with parents on a target that cannot score trees (caps.can_tree)")
    if wide > rows and not bounds.can_pad:
        raise LawError("extend with a width on a target that cannot pad (caps.can_pad)")
    if wide > bounds.max_rows:
        raise CapacityError(f"{wide} rows are more than the {bounds.max_rows} of one extend")
    _check_ids(ids, bounds)
    _check_room(rows, start, bounds)
    links = None if parents is None else check_parents(parents, rows)
    return Block(ids if wide == rows else np.pad(ids, (0, wide - rows), mode="edge"), start, rows, links)


def check_prompt(ids: Ids, bounds: Bounds, length: int, tail: int) -> None:
    """Raises: CapacityError, ConfigError, LawError where `prefill` cannot append the ids."""
    if tail:
        raise LawError(f"prefill with an uncommitted tail of {tail} rows")
    if not len(ids):
        raise LawError("prefill of no tokens")
    _check_ids(ids, bounds)
    _check_room(len(ids), length, bounds)


def check_reset(keep: int, length: int) -> None:
    """Raises: LawError unless `keep` tokens are committed."""
    if not 0 <= keep <= length:
        raise LawError(f"reset to {keep} tokens with {length} committed")


def closed(backend: str, operation: str) -> TargetError:
    """The error of a verb on a closed session."""
    return TargetError(f"{operation} on a closed session", backend=backend, operation=operation)


def _check_ids(ids: Ids, bounds: Bounds) -> None:
    """Raises: ConfigError for an id that the model does not read."""
    plain = ids.tolist()  # a block has few, and a reduction of numpy costs it ten times as much
    low, high = min(plain), max(plain)
    if low < 0 or high >= bounds.n_ids:
        wrong = low if low < 0 else high
        raise ConfigError(f"token id {wrong} is outside the model's {bounds.n_ids} ids: use this model's own tokenizer")


def _check_room(rows: int, filled: int, bounds: Bounds) -> None:
    """Raises: CapacityError where the context does not hold `rows` more."""
    if filled + rows > bounds.max_length:
        raise CapacityError(
            f"{rows} more tokens after {filled} pass the context of {bounds.max_length}: "
            "shorten the prompt or raise ctx_size"
        )
