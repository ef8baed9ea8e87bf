"""One sequence on an OpenVINO model without state: rows are staged, and copied into the history once accepted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from surefoot.core.blocks import Block, Bounds, chain, check_prompt, check_reset, checked_block, closed
from surefoot.core.errors import SurefootError
from surefoot.core.scores import HeldScores
from surefoot.core.trees import kept_path
from surefoot.core.types import Caps, Floats, Ids
from surefoot.targets.openvino.failures import failed
from surefoot.targets.openvino.history import Array, History
from surefoot.targets.openvino.pages import HISTORY_ROWS, PAGE, Pages, Port
from surefoot.targets.openvino.runner import Runner

CHUNK = 128
"""Tokens of a prompt in one forward. Source: measured 2026-11-30, x86 with AVX-512, OpenVINO 2026.4, SmolLM2 fp16,
4,000 tokens: 22.8 s of one thread with 512, 22.7 with 128, 26.9 with 32."""

MAX_SCORES = 2**21
"""chosen: products of a chunk with the history, for each query head; 268 MB with 32 heads, reached at 16,384 tokens."""


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """What a session holds: committed rows, and the tail behind them. Replaced as a whole, so that an interrupt leaves
    what was or what is. `staged` are the tail's keys and values; None while they lie in the runtime's outputs.
    """

    length: int = 0
    tail: int = 0
    parents: tuple[int, ...] | None = None
    staged: dict[Port, Array] | None = None


class StagedSession:
    """One sequence and its cache. Holds changing state; not for two threads at once.

    A row is written into the history behind all that count, and counted afterwards; so no interrupt tears the cache.
    """

    def __init__(self, runner: Runner, caps: Caps, pages: Pages) -> None:
        self._runner, self._bounds = runner, Bounds.of(caps)
        self._ports = tuple(pages.ports())
        self._history = History(pages, caps.max_length)
        self._past = np.zeros(1, np.int64)
        self._nothing = dict.fromkeys(self._ports, np.zeros(pages.rows(0), np.float32))
        self._feeds_nothing = False
        self._held = Held()
        self._closed = False
        self.turn = 0
        runner.bind(HISTORY_ROWS, self._past)

    @property
    def length(self) -> int:
        """Committed tokens."""
        return self._held.length

    def prefill(self, ids: Ids) -> HeldScores:
        """Scores after the last of `ids`, which are appended and committed at once."""
        self._check_open("prefill")
        start = self._held.length
        check_prompt(ids, self._bounds, start, self._held.tail)
        taps: dict[str, list[npt.NDArray[Any]]] = {}
        filled = start
        while filled < start + len(ids):
            size = min(CHUNK, MAX_SCORES // (filled + PAGE))
            block = chain(ids[filled - start :][: max(1, size)], filled)
            logits = self._forward("prefill", block, 1, Held(filled))
            self._history.write(filled, range(block.rows), self._new_rows)
            filled += block.rows
            for name, hidden in self._runner.taps().items():
                taps.setdefault(name, []).append(hidden.copy())
        self._held = Held(filled)
        return HeldScores(self, logits, 1, 1, {name: np.concatenate(parts) for name, parts in taps.items()})

    def extend(self, block: Ids, parents: Sequence[int] | None = None, width: int | None = None) -> HeldScores:
        """Scores of every token of `block`, appended to the provisional tail."""
        self._check_open("extend")
        held = self._held
        start, after_tree = held.length + held.tail, held.parents is not None
        asked = checked_block(block, parents, width, self._bounds, start, held.tail, after_tree)
        if held.tail and held.staged is None:
            # The next forward reads these rows, and writes its own where they lie.
            copies = {port: self._new_rows(port)[:, :, : held.tail].copy() for port in self._ports}
            self._held = held = replace(held, staged=copies)
        logits = self._forward("extend", asked, asked.width, held)
        taps = self._runner.taps(asked.rows)
        self._held = Held(held.length, held.tail + asked.rows, asked.parents)
        return HeldScores(self, logits[: asked.rows], asked.rows, asked.width, taps)

    def commit(self, keep: int | Sequence[int]) -> None:
        """Keep the first `keep` tail tokens, or those on the path `keep`."""
        self._check_open("commit")
        held = self._held
        path = kept_path(keep, held.tail, held.parents)
        self._history.write(held.length, path, self._new_rows if held.staged is None else held.staged.__getitem__)
        self._held = Held(held.length + len(path))

    def reset(self, keep: int = 0) -> None:
        """Drop the tail and all but the first `keep` committed tokens."""
        self._check_open("reset")
        check_reset(keep, self._held.length)
        self.turn += 1
        self._held = Held(keep)

    def close(self) -> None:
        """Free the cache."""
        self.turn += 1
        self._closed = True
        self._runner = self._history = self._held = None  # type: ignore[assignment]

    def _forward(self, operation: str, block: Block, scored: int, held: Held) -> Floats:
        """Logits of the last `scored` rows of a block behind what is held; nothing but the outputs changes."""
        self.turn += 1
        try:
            self._history.reserve(held.length + held.tail + block.rows)
            self._history.bind(self._runner, held.length)
            self._feed(held.staged)
            self._past[0] = held.length
            seen = np.ones((block.width, held.tail + block.width), np.bool_)
            seen[:, held.tail :] = block.square()
            return self._runner.forward(block.ids, block.places, seen, scored)
        except SurefootError:
            self.close()
            raise
        except Exception as error:
            self.close()
            shapes = {"ids": (block.width,), "cache": (held.length, held.tail)}
            raise failed(operation, error, **shapes) from error

    def _feed(self, staged: dict[Port, Array] | None) -> None:
        """Let the runtime read these staged rows, or none."""
        if staged is None and self._feeds_nothing:
            return
        self._feeds_nothing = False
        for port, array in (staged or self._nothing).items():
            self._runner.bind(port.staged, array)
        self._feeds_nothing = staged is None

    def _new_rows(self, port: Port) -> Array:
        """(1, kv_heads, t, head_dim): the tail and padding as the last forward gave them out."""
        return self._runner.output(port.rows)

    def _check_open(self, operation: str) -> None:
        if self._closed:
            raise closed("openvino", operation)
