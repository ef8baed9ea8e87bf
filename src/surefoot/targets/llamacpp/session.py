"""One sequence on llama.cpp: rejected rows are removed by position before the next forward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from surefoot.core.errors import CapacityError, ConfigError, LawError, TargetError
from surefoot.core.trees import kept_path
from surefoot.core.types import Caps, Floats, Ids
from surefoot.targets.llamacpp.runtime import Context
from surefoot.targets.llamacpp.scores import LlamacppScores


class _Held(NamedTuple):
    """Committed tokens and tail rows. One value, so that both change at once."""

    length: int = 0
    tail: int = 0


class LlamacppSession:
    """One sequence and its cache. Holds changing state; not for two threads at once."""

    def __init__(
        self, context: Context, caps: Caps, chunk: int, min_rows: int, give_back: Callable[[Context], None]
    ) -> None:
        """A prompt is read `chunk` tokens at a time, and a block computes `min_rows` rows at least.

        `give_back` takes the context, whole, when the session is closed.
        """
        self._context, self._caps, self._give_back = context, caps, give_back
        self._chunk, self._min_rows = chunk, min_rows
        self._held = _Held()
        # The cache holds no row from this position on. Set before a forward, so that it is true whatever becomes of it.
        self._written = 0
        self._closed = False
        self.turn = 0

    @property
    def length(self) -> int:
        """Committed tokens."""
        return self._held.length

    def prefill(self, ids: Ids) -> LlamacppScores:
        """Scores after the last of `ids`, which are appended and committed at once."""
        self._check_open("prefill")
        length, tail = self._held
        if tail:
            raise LawError(f"prefill with an uncommitted tail of {tail} rows")
        if not len(ids):
            raise LawError("prefill of no tokens")
        self._check_ids(ids)
        self._check_room(len(ids), length)
        logits: Floats = np.zeros((0, 0), np.float32)
        for start in range(0, len(ids), self._chunk):
            part = ids[start : start + self._chunk]
            padding = max(0, self._min_rows - len(part))
            logits = self._forward("prefill", _padded(part, padding), length + start, self._min_rows)
            logits = logits[self._min_rows - padding - 1 :][:1]
        self._held = _Held(length + len(ids))
        return LlamacppScores(self, logits, 1, 1)

    def extend(self, block: Ids, parents: Sequence[int] | None = None, width: int | None = None) -> LlamacppScores:
        """Scores of every token of `block`, appended to the provisional tail."""
        self._check_open("extend")
        length, tail = self._held
        rows = len(block)
        wide = rows if width is None else width
        self._check_block(rows, wide, parents)
        self._check_ids(block)
        self._check_room(rows, length + tail)
        wide = max(wide, self._min_rows)
        logits = self._forward("extend", _padded(block, wide - rows), length + tail, wide)
        self._held = _Held(length, tail + rows)
        return LlamacppScores(self, logits[:rows], rows, wide)

    def commit(self, keep: int | Sequence[int]) -> None:
        """Keep the first `keep` tail tokens."""
        self._check_open("commit")
        path = kept_path(keep, self._held.tail, None)
        self._held = _Held(self._held.length + len(path))

    def reset(self, keep: int = 0) -> None:
        """Drop the tail and all but the first `keep` committed tokens."""
        self._check_open("reset")
        if not 0 <= keep <= self._held.length:
            raise LawError(f"reset to {keep} tokens with {self._held.length} committed")
        self.turn += 1
        self._held = _Held(keep)

    def close(self) -> None:
        """Give the cache back."""
        self.turn += 1
        if not self._closed:
            self._closed = True
            context, self._context = self._context, None  # type: ignore[assignment]
            self._give_back(context)

    def _forward(self, operation: str, ids: Ids, start: int, scored: int) -> Floats:
        """Logits of the last `scored` rows of a block at position `start`; rows behind it are removed first."""
        self.turn += 1
        try:
            if self._written > start:
                self._cut(start)
            self._written = start + len(ids)
            return self._context.forward(ids, start, scored)
        except RuntimeError as error:
            self._closed = True
            self._context = None  # type: ignore[assignment]
            raise TargetError(
                f"llama.cpp failed in {operation} of {len(ids)} tokens behind {start}: {error}",
                backend="llamacpp",
                operation=operation,
                shapes={"ids": (len(ids),), "cache": (start,)},
            ) from error

    def _cut(self, start: int) -> None:
        if start == 0:
            self._context.clear()
        elif not self._context.cut(start):
            raise RuntimeError("this model's memory does not let rows be removed")

    def _check_block(self, rows: int, wide: int, parents: Sequence[int] | None) -> None:
        if not rows:
            raise LawError("extend of no tokens")
        if parents is not None:
            raise LawError("extend with parents on a target that cannot score trees (caps.can_tree)")
        if wide < rows:
            raise LawError(f"extend of {rows} rows with a width of {wide}")
        if wide > self._caps.max_rows:
            raise CapacityError(f"{wide} rows are more than the {self._caps.max_rows} of one extend")

    def _check_ids(self, ids: Ids) -> None:
        plain = ids.tolist()  # a block has few, and a reduction of numpy costs it ten times as much
        low, high = min(plain), max(plain)
        if low < 0 or high >= self._caps.vocab_size:
            raise ConfigError(
                f"token id {low if low < 0 else high} is outside the model's {self._caps.vocab_size} ids: "
                "use this model's own tokenizer"
            )

    def _check_room(self, rows: int, filled: int) -> None:
        if filled + rows > self._caps.max_length:
            raise CapacityError(
                f"{rows} more tokens after {filled} pass the context of {self._caps.max_length}: "
                "shorten the prompt or raise ctx_size"
            )

    def _check_open(self, operation: str) -> None:
        if self._closed:
            raise TargetError(f"{operation} on a closed session", backend="llamacpp", operation=operation)


def _padded(ids: Ids, padding: int) -> Ids:
    """The ids with the last one repeated `padding` times."""
    return ids if padding == 0 else np.concatenate([ids, ids[-1:].repeat(padding)])
