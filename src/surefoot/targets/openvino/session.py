"""One sequence on an OpenVINO model: rejected rows stay in the cache, hidden by the mask, and are removed in time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from surefoot.core.errors import CapacityError, ConfigError, LawError, SurefootError, TargetError
from surefoot.core.trees import check_parents, depths, kept_path, visible
from surefoot.core.types import Caps, Floats, Ids
from surefoot.targets.openvino.names import reason
from surefoot.targets.openvino.runner import Runner
from surefoot.targets.openvino.slots import Slots

CHUNK, CHUNK_OF_LOGITS = 512, 64
"""chosen: tokens of a prompt in one forward; few where the graph gives logits for each, 39 MB at a 152k vocabulary."""


class OpenvinoSession:
    """One sequence and its cache. Holds changing state; not for two threads at once."""

    def __init__(self, runner: Runner, caps: Caps, window: int | None) -> None:
        self._runner, self._caps, self._window = runner, caps, window
        self._slots = Slots()
        self._tokens = np.zeros(256, np.int32)
        self._length = 0
        self._parents: tuple[int, ...] | None = None
        # A forward, or a removal of stale rows, has begun and not come back: what the cache holds is not known.
        self._torn = False
        self._closed = False
        self.turn = 0

    @property
    def length(self) -> int:
        """Committed tokens."""
        return self._length

    def prefill(self, ids: Ids) -> OpenvinoScores:
        """Scores after the last of `ids`, which are appended and committed at once."""
        self._settle("prefill")
        if self._slots.tail:
            raise LawError(f"prefill with an uncommitted tail of {len(self._slots.tail)} rows")
        if not len(ids):
            raise LawError("prefill of no tokens")
        self._check_ids(ids)
        self._check_room(len(ids))
        self._remember(ids)
        logits, taps = self._read(len(ids))
        self._length += len(ids)
        self._torn = False
        return OpenvinoScores(self, logits, 1, 1, taps)

    def extend(self, block: Ids, parents: Sequence[int] | None = None, width: int | None = None) -> OpenvinoScores:
        """Scores of every token of `block`, appended to the provisional tail."""
        self._settle("extend")
        rows, tail = len(block), len(self._slots.tail)
        wide = self._check_block(block, parents is not None, width)
        links = None if parents is None else check_parents(parents, rows)
        start = self._length + tail
        place = np.arange(start, start + wide) if links is None else start + np.pad(depths(links), (0, wide - rows))
        padded = block if wide == rows else np.pad(block, (0, wide - rows), mode="edge")
        self._remember(block)
        logits = self._forward("extend", padded, place, rows, wide, links)
        taps = {name: hidden[:rows] for name, hidden in self._runner.taps().items()}
        self._parents = links
        self._torn = False
        return OpenvinoScores(self, logits[:rows], rows, wide, taps)

    def commit(self, keep: int | Sequence[int]) -> None:
        """Keep the first `keep` tail tokens, or those on the path `keep`."""
        self._settle("commit")
        path = kept_path(keep, len(self._slots.tail), self._parents)
        self._torn = True
        self._tokens[self._length : self._length + len(path)] = self._tokens[self._length + np.array(path, np.intp)]
        self._slots.commit(path)
        self._length += len(path)
        self._parents = None
        self._torn = False
        if self._slots.removal_pays():
            self._remove_stale()

    def reset(self, keep: int = 0) -> None:
        """Drop the tail and all but the first `keep` committed tokens."""
        self._settle("reset")
        if not 0 <= keep <= self._length:
            raise LawError(f"reset to {keep} tokens with {self._length} committed")
        self.turn += 1
        with self._in_runtime("reset"):
            self._length = keep
            self._parents = None
            self._slots.commit(())
            if keep == 0:
                self._runner.clear()
                self._slots.clear()
            else:
                self._slots.keep(keep)
        self._torn = False

    def close(self) -> None:
        """Free the cache."""
        self.turn += 1
        self._closed = True
        self._runner = None  # type: ignore[assignment]

    def _settle(self, operation: str) -> None:
        """Makes the cache known: after an interrupt the committed tokens are read anew, and the tail is gone."""
        if self._closed:
            raise TargetError(f"{operation} on a closed session", backend="openvino", operation=operation)
        if not self._torn:
            return
        length, self._length = self._length, 0
        try:
            self._runner.renew()
            self._slots.clear()
            self._parents = None
            if length:
                self._read(length)
        finally:
            self._length = length
        self._torn = False

    def _read(self, count: int) -> tuple[Floats, dict[str, Any]]:
        """Append `count` remembered tokens after the committed ones, in chunks; the last row and all taps."""
        size = CHUNK if self._runner.slices else CHUNK_OF_LOGITS
        taps: dict[str, list[npt.NDArray[Any]]] = {}
        logits: Floats = np.zeros((0, 0), np.float32)
        stop = self._length + count
        for start in range(self._length, stop, size):
            place = np.arange(start, min(start + size, stop))
            logits = self._forward("prefill", self._tokens[place], place, 1, len(place), None)
            self._slots.tail.clear()
            for name, hidden in self._runner.taps().items():
                taps.setdefault(name, []).append(hidden.copy())
        return logits, {name: np.concatenate(parts) for name, parts in taps.items()}

    def _forward(
        self, operation: str, ids: Ids, place: npt.NDArray[Any], rows: int, width: int, links: tuple[int, ...] | None
    ) -> Floats:
        """Logits of the last rows. Leaves `_torn` set: the caller clears it once the result is kept."""
        self.turn += 1
        if self._window is not None and self._slots.used + width > self._window and self._slots.stale:
            self._remove_stale()
        scored = width if operation == "extend" else rows
        with self._in_runtime(operation, ids=(width,), cache=(self._slots.used,)):
            before = self._slots.line()
            self._slots.append(rows if operation == "extend" else width, width)
            mask = self._tree_mask(before, width, links) if self._caps.can_tree else self._slots.line()
            logits = self._runner.forward(ids, place, mask, scored)
        self._slots.charge(width)
        if operation == "extend":
            self._slots.hide_padding(rows, width)
        return logits

    def _tree_mask(
        self, before: npt.NDArray[np.int64], width: int, links: tuple[int, ...] | None
    ) -> npt.NDArray[np.bool_]:
        """(1, 1, width, used) what each row sees: the slots that count, its ancestors, itself."""
        own = np.tri(width, dtype=np.bool_)
        if links is not None:
            own = np.eye(width, dtype=np.bool_)
            own[: len(links), : len(links)] = visible(links)
        seen = np.broadcast_to(before.astype(np.bool_), (width, before.shape[1]))
        return np.ascontiguousarray(np.concatenate([seen, own], 1)[None, None])

    def _remove_stale(self) -> None:
        with self._in_runtime("compaction", cache=(self._slots.used,)):
            self._runner.keep_slots(self._slots.live())
            self._slots.removed()
        self._torn = False

    @contextmanager
    def _in_runtime(self, operation: str, **shapes: tuple[int, ...]) -> Iterator[None]:
        """Marks the cache torn, and closes the session when the runtime fails; an interrupt passes through."""
        self._torn = True
        try:
            yield
        except SurefootError:
            self.close()
            raise
        except Exception as error:
            self.close()
            raise TargetError(
                f"OpenVINO failed in {operation} with {shapes}: {reason(error)}",
                backend="openvino",
                operation=operation,
                shapes=shapes,
            ) from error

    def _remember(self, ids: Ids) -> None:
        """Note the tokens behind the tail, so that the cache can be made again."""
        start = self._length + len(self._slots.tail)
        if start + len(ids) > len(self._tokens):
            self._tokens = np.resize(self._tokens, 2 * (start + len(ids)))
        self._tokens[start : start + len(ids)] = ids

    def _check_ids(self, ids: Ids) -> None:
        low, high = int(ids.min()), int(ids.max())
        if low < 0 or high >= self._caps.vocab_size:
            wrong = low if low < 0 else high
            raise ConfigError(
                f"token id {wrong} is outside the model's {self._caps.vocab_size} ids: use this model's own tokenizer"
            )

    def _check_room(self, rows: int) -> None:
        filled = self._length + len(self._slots.tail)
        if filled + rows > self._caps.max_length:
            raise CapacityError(
                f"{rows} more tokens after {filled} pass the context of {self._caps.max_length}: "
                "shorten the prompt or raise ctx_size"
            )

    def _check_block(self, block: Ids, tree: bool, width: int | None) -> int:
        """The width to compute. Raises when the block cannot be appended."""
        rows = len(block)
        wide = rows if width is None else width
        if not rows:
            raise LawError("extend of no tokens")
        if wide < rows:
            raise LawError(f"extend of {rows} rows with a width of {wide}")
        if self._slots.tail and (tree or self._parents is not None):
            raise LawError("a tree must be the only extend before its commit")
        if tree and not self._caps.can_tree:
            raise LawError("extend with parents on a target that cannot score trees (caps.can_tree)")
        if wide > self._caps.max_rows:
            raise CapacityError(f"{wide} rows are more than the {self._caps.max_rows} of one extend")
        self._check_ids(block)
        self._check_room(rows)
        return wide


class OpenvinoScores:
    """What one forward predicted, in the runtime's own memory; reading after the session moved on is a LawError."""

    __slots__ = ("_logits", "_session", "_taps", "_turn", "rows", "width")

    def __init__(self, session: OpenvinoSession, logits: Floats, rows: int, width: int, taps: dict[str, Any]) -> None:
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
