"""One sequence on llama.cpp: rejected rows are removed by position before the next forward."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import numpy as np

from surefoot.core.blocks import Bounds, check_prompt, check_reset, checked_block, closed
from surefoot.core.errors import TargetError
from surefoot.core.scores import HeldScores
from surefoot.core.trees import kept_path
from surefoot.core.types import Caps, Floats, Ids
from surefoot.targets.llamacpp.runtime import Context
from surefoot.targets.llamacpp.settings import MAX_ROWS

FINAL = "final"
"""The tap: what leaves the last norm. llama.cpp gives no other hidden state out."""


class LlamacppSession:
    """One sequence and its cache. Holds changing state; not for two threads at once."""

    def __init__(
        self,
        context: Context,
        caps: Caps,
        chunk: int,
        min_rows: int,
        tapped: bool,
        give_back: Callable[[Context], None],
    ) -> None:
        """A prompt is read `chunk` tokens at a time, and a block computes `min_rows` rows at least.

        With `tapped`, scores have the tap `final`. `give_back` takes the context, whole, when the session is closed.
        """
        self._context, self._bounds, self._give_back = context, Bounds.of(caps), give_back
        self._chunk, self._min_rows, self._tapped = chunk, min_rows, tapped
        self._held = 0, 0  # committed tokens and tail rows: one value, so that both change at once
        # The cache holds no row from this position on. Set before a forward, so that it is true whatever becomes of it.
        self._written = 0
        self._closed = False
        self.running = threading.RLock()  # held during a forward; of one thread, which an interrupt does not lock out
        self.turn = 0

    @property
    def length(self) -> int:
        """Committed tokens."""
        return self._held[0]

    def prefill(self, ids: Ids) -> HeldScores:
        """Scores after the last of `ids`, which are appended and committed at once."""
        if self._closed:
            raise closed("llamacpp", "prefill")
        length, tail = self._held
        check_prompt(ids, self._bounds, length, tail)
        taps = {FINAL: self._hidden(ids, length)} if self._tapped else {}
        logits: Floats = np.zeros((0, 0), np.float32)
        for start in range(0, len(ids), self._chunk):
            part = ids[start : start + self._chunk]
            padding = max(0, self._min_rows - len(part))
            logits = self._forward("prefill", _padded(part, padding), length + start, self._min_rows)
            logits = logits[self._min_rows - padding - 1 :][:1]
        self._held = length + len(ids), 0
        return HeldScores(self, logits, 1, 1, taps)

    def extend(self, block: Ids, parents: Sequence[int] | None = None, width: int | None = None) -> HeldScores:
        """Scores of every token of `block`, appended to the provisional tail."""
        if self._closed:
            raise closed("llamacpp", "extend")
        length, tail = self._held
        asked = checked_block(block, parents, width, self._bounds, length + tail, tail, after_tree=False)
        rows, wide = asked.rows, max(asked.width, self._min_rows)
        hidden: list[Floats] | None = [] if self._tapped else None
        padded = block if rows == wide else _padded(block, wide - rows)
        logits = self._forward("extend", padded, length + tail, wide, hidden)
        self._held = length, tail + rows
        taps = {FINAL: hidden[0][:rows]} if hidden else {}
        return HeldScores(self, logits if rows == wide else logits[:rows], rows, wide, taps)

    def commit(self, keep: int | Sequence[int]) -> None:
        """Keep the first `keep` tail tokens."""
        if self._closed:
            raise closed("llamacpp", "commit")
        length, tail = self._held
        self._held = length + len(kept_path(keep, tail, None)), 0

    def reset(self, keep: int = 0) -> None:
        """Drop the tail and all but the first `keep` committed tokens."""
        if self._closed:
            raise closed("llamacpp", "reset")
        check_reset(keep, self._held[0])
        self.turn += 1
        self._held = keep, 0

    def close(self) -> None:
        """Give the cache back."""
        self.turn += 1
        if not self._closed:
            self._closed = True
            context, self._context = self._context, None  # type: ignore[assignment]
            self._give_back(context)

    def _hidden(self, ids: Ids, length: int) -> Floats:
        """(m, D) hidden states of a prompt behind `length` tokens, from forwards of their own.

        Where llama.cpp gives hidden states out, it computes the logits of every row, so that no more rows are read at a
        time than it reserves logits for. Prompts in other parts, and parts whose every row is scored, go through other
        kernels: what is written to the cache here is removed, and the prompt is read as it is without a tap.
        """
        found: list[Floats] = []
        for start in range(0, len(ids), MAX_ROWS):
            part = ids[start : start + MAX_ROWS]
            wide = max(len(part), self._min_rows)
            shown: list[Floats] = []
            self._forward("prefill", _padded(part, wide - len(part)), length + start, wide, shown)
            found.append(shown[0][: len(part)].copy())
        return np.concatenate(found)

    def _forward(self, operation: str, ids: Ids, start: int, scored: int, hidden: list[Floats] | None = None) -> Floats:
        """Logits of the last `scored` rows of a block at position `start`; rows behind it are removed first.

        Their hidden states are added to `hidden`, for which every row must be scored.
        """
        self.turn += 1
        try:
            with self.running:
                if self._written > start:
                    self._cut(start)
                self._written = start + len(ids)
                if self._tapped:
                    self._context.give_hidden(hidden is not None)
                logits = self._context.forward(ids, start, scored)
                if hidden is not None:
                    hidden.append(self._context.hidden(scored))
                return logits
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


def _padded(ids: Ids, padding: int) -> Ids:
    """The ids with the last one repeated `padding` times."""
    return ids if padding == 0 else np.concatenate([ids, ids[-1:].repeat(padding)])
