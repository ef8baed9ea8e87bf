"""What one forward predicted, in the runtime's own memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from surefoot.core.errors import LawError
from surefoot.core.types import Floats, Ids


class Turns(Protocol):
    """A session that counts what invalidates its scores."""

    turn: int


class OpenvinoScores:
    """Predicted rows. Reading them after their session moved on is a LawError."""

    __slots__ = ("_logits", "_session", "_taps", "_turn", "rows", "width")

    def __init__(self, session: Turns, logits: Floats, rows: int, width: int, taps: Mapping[str, Any]) -> None:
        self._session, self._turn = session, session.turn
        self._logits = logits
        self._taps = taps
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
        values: Floats = self._logits[row].astype(np.float32, copy=False).view()
        values.flags.writeable = False
        return values

    def tap(self, name: str) -> Any:
        """The hidden state `name`: (R, D), or (m, D) after a prefill."""
        self._check()
        if name not in self._taps:
            raise LawError(f"tap {name!r} was not asked for at open: {', '.join(self._taps) or 'none were'}")
        return self._taps[name]

    def _check(self) -> None:
        if self._session.turn != self._turn:
            raise LawError("scores were read after their session's next prefill, extend, reset or close")
