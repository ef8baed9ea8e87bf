"""What one forward predicted: read alike on every runtime, wherever its logits lie."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from surefoot.core.errors import LawError
from surefoot.core.types import Floats, Ids


class Turns(Protocol):
    """A session that counts what invalidates its scores."""

    turn: int


@dataclass(frozen=True, slots=True)
class Reader:
    """How logits are read where they lie.

    Shapes: argmax (R, V) -> (R,) int32, the first index among equals; row (R, V), i -> (V,) float32 on the host.
    """

    argmax: Callable[[Any], Ids]
    row: Callable[[Any, int], Floats]


def _argmax(logits: Floats) -> Ids:
    ids: Ids = logits.argmax(-1).astype(np.int32)
    return ids


def _row(logits: Floats, row: int) -> Floats:
    values: Floats = logits[row].astype(np.float32, copy=False).view()
    return values


ON_HOST = Reader(_argmax, _row)
"""For arrays of numpy."""

_STALE = "scores were read after their session's next prefill, extend, reset or close"

_NO_TAPS: Mapping[str, Any] = MappingProxyType({})


class HeldScores:
    """Predicted rows. Holds changing state: the ids, once read. Reading after the session moved on is a LawError.

    The logits stay in the runtime's own memory, which the next forward may write over.
    """

    __slots__ = ("_ids", "_logits", "_reader", "_session", "_taps", "_turn", "rows", "width")

    def __init__(
        self,
        session: Turns,
        logits: Any,
        rows: int,
        width: int,
        taps: Mapping[str, Any] = _NO_TAPS,
        reader: Reader = ON_HOST,
    ) -> None:
        """`logits` as `reader` reads them, padding cut off."""
        self._session, self._turn = session, session.turn
        self._logits, self._taps, self._reader = logits, taps, reader
        self._ids: Ids | None = None
        self.rows = rows
        self.width = width

    def argmax(self) -> Ids:
        """(R,) int32, the first index among equals; only these integers are copied."""
        if self._session.turn != self._turn:
            raise LawError(_STALE)
        if self._ids is None:
            self._ids = self._reader.argmax(self._logits)
        return self._ids

    def logits(self, row: int) -> Floats:
        """(V,) float32 on the host, read-only."""
        if self._session.turn != self._turn:
            raise LawError(_STALE)
        if not 0 <= row < self.rows:
            raise LawError(f"row {row} of {self.rows} rows of scores")
        values = self._reader.row(self._logits, row)
        values.flags.writeable = False
        return values

    def tap(self, name: str) -> Any:
        """The hidden state `name`: (R, D), or (m, D) after a prefill, where the runtime holds it."""
        if self._session.turn != self._turn:
            raise LawError(_STALE)
        if name not in self._taps:
            raise LawError(f"tap {name!r} was not asked for at open: {', '.join(self._taps) or 'none were'}")
        return self._taps[name]
