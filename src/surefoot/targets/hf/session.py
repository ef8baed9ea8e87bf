"""One sequence on a transformers model, rolled back by truncating its cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from surefoot.core.errors import CapacityError, ConfigError, LawError, NotEligible, SurefootError, TargetError
from surefoot.core.trees import check_parents, kept_path
from surefoot.core.types import Floats, Ids
from surefoot.targets.hf import cache as kv
from surefoot.targets.hf.runner import Runner
from surefoot.targets.hf.taps import recorded

# chosen: a block's logits live on the device until the next block: 256 rows of a 152k vocabulary are 156 MB in float32.
MAX_ROWS = 256


class _Kept(NamedTuple):
    """Committed tokens, tail rows, and the tail's parents when it is a tree. One value, so that it changes at once."""

    length: int
    tail: int
    parents: tuple[int, ...] | None = None


class HfSession:
    """One sequence and its cache. Holds changing state; not for two threads at once."""

    def __init__(self, runner: Runner, taps: tuple[str, ...], max_rows: int) -> None:
        self._runner = runner
        self._taps = taps
        self._max_rows = max_rows
        self._cache = kv.new_cache(runner.config)
        self._kept = _Kept(0, 0)
        # Rows in the cache, padding included. Not to be believed while `_torn`: a forward has begun and not come back.
        self._cached = 0
        self._torn = False
        self._closed = False
        self.turn = 0

    @property
    def length(self) -> int:
        """Committed tokens."""
        return self._kept.length

    def prefill(self, ids: Ids) -> HfScores:
        """Scores after the last of `ids`, which are appended and committed at once."""
        self._settle("prefill")
        length, tail, _ = self._kept
        n = len(ids)
        if tail:
            raise LawError(f"prefill with an uncommitted tail of {tail} rows")
        if not n:
            raise LawError("prefill of no tokens")
        self._check_ids(ids)
        self._check_room(n)
        logits, taps = self._forward("prefill", ids, self._runner.chain_positions(length, n), last_only=True)
        self._kept = _Kept(length + n, 0)
        self._cached, self._torn = length + n, False
        return HfScores(self, logits, 1, 1, taps)

    def extend(self, block: Ids, parents: Sequence[int] | None = None, width: int | None = None) -> HfScores:
        """Scores of every token of `block`, appended to the provisional tail."""
        self._settle("extend")
        length, tail, _ = self._kept
        rows = len(block)
        wide = self._check_block(block, parents is not None, width)
        links = None if parents is None else check_parents(parents, rows)
        start = length + tail
        padded = block if wide == rows else np.concatenate([block, np.repeat(block[-1:], wide - rows)])
        mask = None
        if links is None:
            positions = self._runner.chain_positions(start, wide)
        else:
            all_links = links + (-1,) * (wide - rows)
            positions = self._runner.tree_positions(start, all_links)
            mask = self._runner.tree_mask(start, all_links)
        logits, taps = self._forward("extend", padded, positions, mask=mask)
        self._kept = _Kept(length, tail + rows, links)
        self._cached, self._torn = start + wide, False
        return HfScores(self, logits[:rows], rows, wide, {name: rows_of[:rows] for name, rows_of in taps.items()})

    def commit(self, keep: int | Sequence[int]) -> None:
        """Keep the first `keep` tail tokens, or those on the path `keep`."""
        self._settle("commit")
        length, tail, parents = self._kept
        path = kept_path(keep, tail, parents)
        if path != tuple(range(len(path))):
            self._move(length, path)
        self._kept = _Kept(length + len(path), 0)
        self._settle("commit")

    def reset(self, keep: int = 0) -> None:
        """Drop the tail and all but the first `keep` committed tokens."""
        self._settle("reset")
        if not 0 <= keep <= self._kept.length:
            raise LawError(f"reset to {keep} tokens with {self._kept.length} committed")
        self.turn += 1
        self._kept = _Kept(keep, 0)
        if keep == 0:
            self._cache, self._cached = kv.new_cache(self._runner.config), 0
        self._settle("reset")

    def close(self) -> None:
        """Free the cache."""
        self.turn += 1
        self._closed = True
        self._cache = None

    def _settle(self, operation: str) -> None:
        """Makes the cache hold exactly what is kept: cuts dropped rows, padding, and what an interrupt left behind.

        An interrupted forward leaves layers of unequal lengths and a tail nobody saw: that tail is dropped.
        """
        if self._closed:
            raise TargetError(f"{operation} on a closed session", backend="hf", operation=operation)
        if self._torn:
            self._kept = _Kept(self._kept.length, 0)
        wanted = self._kept.length + self._kept.tail
        if self._torn or self._cached != wanted:
            kv.truncate(self._cache, wanted)
            self._cached = wanted
        self._torn = False

    def _forward(
        self, operation: str, ids: Ids, positions: Any, mask: Any = None, last_only: bool = False
    ) -> tuple[Any, dict[str, Any]]:
        """Logits and taps on the device. Leaves `_torn` set: the caller clears it once the result is kept."""
        start, taps = self._cached, dict[str, Any]()
        stack = self._runner.stack if self._taps else None
        self.turn += 1
        with self._in_runtime(operation, ids=(len(ids),), cache=(start,)):
            with recorded(stack, self._taps, taps):
                tokens = self._runner.tokens(ids)
                logits = self._runner.forward(tokens, positions, self._cache, mask, last_only)
            if start == 0:
                kv.check(self._cache, len(ids))
            if len(logits) != (1 if last_only else len(ids)):
                raise NotEligible(f"the model gives {len(logits)} row of logits for {len(ids)} tokens")
        return logits, taps

    def _move(self, length: int, path: tuple[int, ...]) -> None:
        """Moves the path's rows to the front of the tail."""
        with self._in_runtime("commit", path=(len(path),), cache=(self._cached,)):
            kv.gather(self._cache, length, path, self._runner.cache_rows(length, path))
        self._torn = False

    @contextmanager
    def _in_runtime(self, operation: str, **shapes: tuple[int, ...]) -> Iterator[None]:
        """Marks the cache torn, and closes the session when the runtime fails; an interrupt passes through."""
        import torch

        self._torn = True
        try:
            with torch.inference_mode():
                yield
        except SurefootError:
            self.close()
            raise
        except Exception as error:
            self.close()
            raise TargetError(
                f"transformers failed in {operation} with {shapes}: {type(error).__name__}: {error}",
                backend="hf",
                operation=operation,
                shapes=shapes,
            ) from error

    def _check_ids(self, ids: Ids) -> None:
        low, high = int(ids.min()), int(ids.max())
        if low < 0 or high >= self._runner.embeddings:
            wrong = low if low < 0 else high
            raise ConfigError(
                f"token id {wrong} is outside the model's {self._runner.embeddings} ids: use this model's own tokenizer"
            )

    def _check_room(self, rows: int) -> None:
        length, tail, _ = self._kept
        if length + tail + rows > self._runner.max_length:
            raise CapacityError(
                f"{rows} more tokens after {length + tail} pass the context of {self._runner.max_length}: "
                "shorten the prompt or raise ctx_size"
            )

    def _check_block(self, block: Ids, tree: bool, width: int | None) -> int:
        """The width to compute. Raises when the block cannot be appended."""
        _, tail, links = self._kept
        rows = len(block)
        wide = rows if width is None else width
        if not rows:
            raise LawError("extend of no tokens")
        if wide < rows:
            raise LawError(f"extend of {rows} rows with a width of {wide}")
        if tail and (tree or links is not None):
            raise LawError("a tree must be the only extend before its commit")
        if tree and not self._runner.steerable:
            raise LawError("extend with parents on a target that cannot score trees (caps.can_tree)")
        if wide > rows and not self._runner.steerable:
            raise LawError("extend with a width on a target that cannot pad (caps.can_pad)")
        if wide > self._max_rows:
            raise CapacityError(f"{wide} rows are more than the {self._max_rows} of one extend")
        self._check_ids(block)
        self._check_room(rows)
        return wide


class HfScores:
    """What one forward predicted. The logits stay on the device; reading after the session moved on is a LawError."""

    __slots__ = ("_ids", "_logits", "_session", "_taps", "_turn", "rows", "width")

    def __init__(self, session: HfSession, logits: Any, rows: int, width: int, taps: dict[str, Any]) -> None:
        self._session, self._turn = session, session.turn
        self._logits = logits
        self._taps = taps
        self._ids: Ids | None = None
        self.rows = rows
        self.width = width

    def argmax(self) -> Ids:
        """(R,) int32, the first index among equals: numpy and torch both promise it. Only integers leave the device."""
        self._check()
        if self._ids is None:
            if self._logits.device.type == "cpu":
                # measured 2026-11-30, torch 2.13 on AVX2, V = 49152: 6 us a row here, 60 in torch.argmax.
                found = self._logits.float().numpy().argmax(axis=-1)
            else:
                found = self._logits.argmax(dim=-1).cpu().numpy()
            self._ids = found.astype(np.int32)
        return self._ids

    def logits(self, row: int) -> Floats:
        """(V,) float32 on the host, read-only."""
        self._check()
        if not 0 <= row < self.rows:
            raise LawError(f"row {row} of {self.rows} rows of scores")
        values: Floats = self._logits[row].float().cpu().numpy()
        values.flags.writeable = False
        return values

    def tap(self, name: str) -> Any:
        """The hidden state `name`: (R, D), or (m, D) after a prefill, on the device."""
        self._check()
        if name not in self._taps:
            raise LawError(f"tap {name!r} was not asked for at open: {', '.join(self._taps) or 'none were'}")
        return self._taps[name]

    def _check(self) -> None:
        if self._session.turn != self._turn:
            raise LawError("scores were read after their session's next prefill, extend, reset or close")
