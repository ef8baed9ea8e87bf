"""What one forward predicted, in llama.cpp's own memory."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from surefoot.core.errors import LawError
from surefoot.core.types import Floats, Ids


class Turns(Protocol):
    """A session that counts what invalidates its scores."""

    turn: int


class LlamacppScores:
    """Predicted rows. Reading them after their session moved on is a LawError."""

    __slots__ = ("_logits", "_session", "_turn", "rows", "width")

    def __init__(self, session: Turns, logits: Floats, rows: int, width: int) -> None:
        self._session, self._turn = session, session.turn
        self._logits = logits
        self.rows = rows
        self.width = width

    def argmax(self) -> Ids:
        """(R,) int32, the first index among equals."""
        self._check()
        ids: Ids = self._logits.argmax(-1).astype(np.int32)
        return ids

    def logits(self, row: int) -> Floats:
        """(V,) float32, read-only."""
        self._check()
        if not 0 <= row < self.rows:
            raise LawError(f"row {row} of {self.rows} rows of scores")
        values: Floats = self._logits[row]
        return values

    def tap(self, name: str) -> Any:
        """Nothing: llama.cpp gives no hidden states out at a price that pays."""
        raise LawError(f"tap {name!r} was not asked for at open: none were")

    def _check(self) -> None:
        if self._session.turn != self._turn:
            raise LawError("scores were read after their session's next prefill, extend, reset or close")
