"""One sequence on a transformers model, rolled back by truncating its cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from surefoot.core.blocks import Bounds, check_prompt, check_reset, checked_block, closed
from surefoot.core.errors import NotEligible, SurefootError, TargetError
from surefoot.core.scores import HeldScores, Reader
from surefoot.core.trees import kept_path
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
        self._bounds = Bounds(runner.embeddings, runner.max_length, max_rows, runner.steerable, runner.steerable)
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

    def prefill(self, ids: Ids) -> HeldScores:
        """Scores after the last of `ids`, which are appended and committed at once."""
        self._settle("prefill")
        length, tail, _ = self._kept
        check_prompt(ids, self._bounds, length, tail)
        n = len(ids)
        logits, taps = self._forward("prefill", ids, self._runner.chain_positions(length, n), last_only=True)
        self._kept = _Kept(length + n, 0)
        self._cached, self._torn = length + n, False
        return HeldScores(self, logits, 1, 1, taps, ON_DEVICE)

    def extend(self, block: Ids, parents: Sequence[int] | None = None, width: int | None = None) -> HeldScores:
        """Scores of every token of `block`, appended to the provisional tail."""
        self._settle("extend")
        length, tail, before = self._kept
        start = length + tail
        asked = checked_block(block, parents, width, self._bounds, start, tail, before is not None)
        rows, wide, links = asked.rows, asked.width, asked.parents
        mask = None
        if links is None:
            positions = self._runner.chain_positions(start, wide)
        else:
            all_links = links + (-1,) * (wide - rows)
            positions = self._runner.tree_positions(start, all_links)
            mask = self._runner.tree_mask(start, all_links)
        logits, taps = self._forward("extend", asked.ids, positions, mask=mask)
        self._kept = _Kept(length, tail + rows, links)
        self._cached, self._torn = start + wide, False
        shown = {name: hidden[:rows] for name, hidden in taps.items()}
        return HeldScores(self, logits[:rows], rows, wide, shown, ON_DEVICE)

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
        check_reset(keep, self._kept.length)
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
            raise closed("hf", operation)
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


def _argmax(logits: Any) -> Ids:
    """(R,) int32: numpy and torch both promise the first index among equals. Only integers leave the device."""
    if logits.device.type == "cpu":
        # measured 2026-11-30, torch 2.13 on AVX2, V = 49152: 6 us a row here, 60 in torch.argmax.
        found = logits.float().numpy().argmax(axis=-1)
    else:
        found = logits.argmax(dim=-1).cpu().numpy()
    ids: Ids = found.astype(np.int32)
    return ids


def _row(logits: Any, row: int) -> Floats:
    """(V,) float32 on the host."""
    values: Floats = logits[row].float().cpu().numpy()
    return values


ON_DEVICE = Reader(_argmax, _row)
"""For tensors of torch, wherever they are."""
