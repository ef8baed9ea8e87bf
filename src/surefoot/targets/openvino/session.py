"""One sequence on an OpenVINO model: rejected rows stay in the cache, hidden by the mask, and are removed in time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from surefoot.core.blocks import Block, Bounds, chain, check_prompt, check_reset, checked_block, closed
from surefoot.core.errors import SurefootError
from surefoot.core.scores import HeldScores
from surefoot.core.trees import kept_path
from surefoot.core.types import Caps, Floats, Ids, as_ids
from surefoot.targets.openvino.failures import failed
from surefoot.targets.openvino.runner import Runner
from surefoot.targets.openvino.slots import Slots

CHUNK, CHUNK_OF_LOGITS = 512, 64
"""chosen: tokens of a prompt in one forward; few where the graph gives logits for each, 39 MB at a 152k vocabulary."""


class OpenvinoSession:
    """One sequence and its cache. Holds changing state; not for two threads at once."""

    def __init__(self, runner: Runner, caps: Caps, window: int | None, done: Callable[[Runner], None]) -> None:
        """`done` takes the runner back, its cache cleared, when the session is closed in a known state."""
        self._runner, self._window, self._done = runner, window, done
        self._bounds, self._trees = Bounds.of(caps), caps.can_tree
        self._slots = Slots()
        self._tokens: list[int] = []  # committed and provisional ones, to make the cache again
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

    def prefill(self, ids: Ids) -> HeldScores:
        """Scores after the last of `ids`, which are appended and committed at once."""
        self._settle("prefill")
        check_prompt(ids, self._bounds, self._length, len(self._slots.tail))
        self._remember(ids)
        logits, taps = self._read(len(ids))
        self._length += len(ids)
        self._torn = False
        return HeldScores(self, logits, 1, 1, taps)

    def extend(self, block: Ids, parents: Sequence[int] | None = None, width: int | None = None) -> HeldScores:
        """Scores of every token of `block`, appended to the provisional tail."""
        self._settle("extend")
        tail, after_tree = len(self._slots.tail), self._parents is not None
        asked = checked_block(block, parents, width, self._bounds, self._length + tail, tail, after_tree)
        self._remember(block)
        rows, wide = asked.rows, asked.width
        logits = self._forward("extend", asked, wide)
        if wide > rows:
            logits = logits[:rows]
        self._parents = asked.parents
        self._torn = False
        return HeldScores(self, logits, rows, wide, self._runner.taps(rows))

    def commit(self, keep: int | Sequence[int]) -> None:
        """Keep the first `keep` tail tokens, or those on the path `keep`."""
        self._settle("commit")
        path = kept_path(keep, len(self._slots.tail), self._parents)
        self._torn = True
        if self._parents is not None:  # the tokens of a chain stand where they belong
            self._tokens[self._length :] = [self._tokens[self._length + row] for row in path]
        self._slots.commit(path)
        self._length += len(path)
        self._parents = None
        self._torn = False
        if self._slots.removal_pays():
            self._remove_stale()

    def reset(self, keep: int = 0) -> None:
        """Drop the tail and all but the first `keep` committed tokens."""
        self._settle("reset")
        check_reset(keep, self._length)
        self.turn += 1
        self._torn = True
        self._length = keep
        self._parents = None
        self._slots.commit(())
        if keep == 0:
            try:
                self._runner.clear()
            except Exception as error:
                self.close()
                raise failed("reset", error) from error
            self._slots.clear()
        else:
            self._slots.keep(keep)
        self._torn = False

    def close(self) -> None:
        """Free the cache."""
        self.turn += 1
        if not self._closed:
            self._closed = True
            runner, self._runner = self._runner, None  # type: ignore[assignment]
            if not self._torn:
                runner.clear()
                self._done(runner)

    def _settle(self, operation: str) -> None:
        """Makes the cache known: after an interrupt the committed tokens are read anew, and the tail is gone."""
        if self._closed:
            raise closed("openvino", operation)
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
            part = as_ids(self._tokens[start : min(start + size, stop)])
            logits = self._forward("prefill", chain(part, start), 1)
            self._slots.tail.clear()
            for name, hidden in self._runner.taps().items():
                taps.setdefault(name, []).append(hidden.copy())
        return logits, {name: np.concatenate(parts) for name, parts in taps.items()}

    def _forward(self, operation: str, block: Block, scored: int) -> Floats:
        """Logits of the last `scored` rows. Leaves `_torn` set: the caller clears it once the result is kept."""
        self.turn += 1
        rows, width = block.rows, block.width
        if self._window is not None and self._slots.used + width > self._window and self._slots.stale:
            self._remove_stale()
        self._torn = True
        self._slots.append(rows, width)
        try:
            if self._trees:
                mask = self._tree_mask(self._slots.line()[:, : self._slots.used - width], block)
                logits = self._runner.forward(block.ids, block.places, mask, scored)
            else:
                line, used = self._slots.line(), self._slots.used
                logits = self._runner.forward(block.ids, block.places, line, scored, used)
        except SurefootError:
            self.close()
            raise
        except Exception as error:
            self.close()
            raise failed(operation, error, ids=(width,), cache=(self._slots.used - width,)) from error
        if width > rows:
            self._slots.hide(width - rows)
        return logits

    def _tree_mask(self, before: npt.NDArray[np.int64], block: Block) -> npt.NDArray[np.bool_]:
        """(1, 1, width, used) what each row sees: the slots that count, its ancestors, itself."""
        seen = np.broadcast_to(before.astype(np.bool_), (block.width, before.shape[1]))
        return np.ascontiguousarray(np.concatenate([seen, block.square()], 1)[None, None])

    def _remove_stale(self) -> None:
        self._torn = True
        try:
            self._runner.keep_slots(self._slots.live())
        except Exception as error:
            self.close()
            raise failed("compaction", error, cache=(self._slots.used,)) from error
        self._slots.removed()
        self._torn = False

    def _remember(self, ids: Ids) -> None:
        """Note the tokens behind the tail, so that the cache can be made again."""
        del self._tokens[self._length + len(self._slots.tail) :]
        self._tokens += ids.tolist()
