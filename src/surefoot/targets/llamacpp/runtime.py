"""A loaded model and the caches over it, as objects that free themselves."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from surefoot.core.types import Floats, Ids
from surefoot.targets.llamacpp.api import AbortCallback, Api, Batch


class Weights:
    """A loaded model. Its contexts share the weights, and keep it alive."""

    def __init__(self, api: Api, address: int) -> None:
        self.api, self.address = api, address
        self.vocab_size: int = api.fn.llama_vocab_n_tokens(api.fn.llama_model_get_vocab(address))
        self.hidden_size: int = api.fn.llama_model_n_embd_out(address)
        weakref.finalize(self, api.fn.llama_model_free, address)

    def number(self, name: str) -> int:
        """What llama.cpp says of the model: `n_layer` asks llama_model_n_layer."""
        return int(getattr(self.api.fn, f"llama_model_{name}")(self.address))

    def metadata(self, key: str) -> str | None:
        """A value of the file's metadata; "{arch}." in the key stands for the architecture."""
        arch = self.api.metadata(self.address, "general.architecture") or ""
        return self.api.metadata(self.address, key.replace("{arch}", arch))


class Context:
    """One cache over the weights, with its buffers. Holds changing state: what the runtime keeps for one sequence.

    It takes tokens at any position up to the one behind its last; rows from a position on are removed by `cut`.
    """

    def __init__(self, weights: Weights, settings: Mapping[str, int], most_tokens: int) -> None:
        """Raises: RuntimeError when llama.cpp cannot make it."""
        self._weights, self._fn = weights, weights.api.fn
        address = weights.api.new_context(weights.address, settings)
        if address is None:
            raise RuntimeError("llama.cpp could not make a context")
        self.address: int = address
        self._owner = _Owner()
        weakref.finalize(self._owner, _free, weights, address)
        self._memory = self._fn.llama_get_memory(address)
        self._tokens = np.zeros(most_tokens, np.int32)
        # Nothing is written for where a block stands and which rows it wants: it is shown another part of these.
        self._places = np.arange(self._fn.llama_n_ctx(address), dtype=np.int32)
        self._scored = np.repeat(np.array([0, 1], np.int8), most_tokens)
        self._first_place = self._places.ctypes.data
        self._first_scored = self._scored.ctypes.data + most_tokens
        self._batch = Batch(token=self._tokens.ctypes.data)
        self._shape = 0, 0  # tokens and scored rows that the batch says
        self._views: dict[tuple[int, int, int], Floats] = {}
        self._take_results(min(settings["n_outputs_max"], most_tokens))

    def forward(self, ids: Ids, start: int, scored: int) -> Floats:
        """(scored, V) logits of the last rows, in the runtime's memory; `ids[0]` stands at position `start`.

        Raises: RuntimeError when llama.cpp fails.
        """
        n = len(ids)
        batch = self._batch
        if n == 1:
            self._tokens[0] = ids[0]
        else:
            self._tokens[:n] = ids
        batch.pos = self._first_place + 4 * start
        if (n, scored) != self._shape:
            self._shape = 0, 0  # an interrupt in between leaves nothing that is taken for said
            batch.n_tokens, batch.logits = n, self._first_scored - (n - scored)
            self._shape = n, scored
        code = self._fn.llama_decode(self.address, batch)
        if code:
            raise RuntimeError(_MEANINGS.get(code, f"llama_decode gave {code}"))
        return self._rows(self._fn.llama_get_logits(self.address), scored, self._weights.vocab_size)

    def _take_results(self, rows: int) -> None:
        """Let llama.cpp take the memory for so many rows of logits and hidden states now.

        It takes it when rows are first asked for, and takes another one for more rows: views of the first would then
        show memory that is gone. The forward that asks is stopped at its first step.
        """
        self._fn.llama_set_abort_callback(self.address, _STOP, None)
        self.give_hidden(True)
        try:
            with suppress(RuntimeError):
                self.forward(np.zeros(rows, np.int32), 0, rows)
        finally:
            self.give_hidden(False)
            self._fn.llama_set_abort_callback(self.address, AbortCallback(), None)
            self.clear()

    def give_hidden(self, given: bool) -> None:
        """Whether the next forwards give hidden states out, too: then they score every row, however few are wanted.

        More rows than were reserved for logits would end the process.
        """
        self._fn.llama_set_embeddings(self.address, given)

    def hidden(self, rows: int) -> Floats:
        """(rows, D) what entered the head in the last forward, of `rows` tokens, in the runtime's memory.

        Raises: RuntimeError when llama.cpp gave none.
        """
        view = self._rows(self._fn.llama_get_embeddings(self.address), rows, self._weights.hidden_size).view()
        view.flags.writeable = False
        return view

    def cut(self, start: int) -> bool:
        """Remove every row from position `start` on; False when this kind of memory cannot."""
        return bool(self._fn.llama_memory_seq_rm(self._memory, 0, start, -1))

    def clear(self) -> None:
        """Forget every row."""
        self._fn.llama_memory_clear(self._memory, False)

    @property
    def threads(self) -> int:
        return int(self._fn.llama_n_threads(self.address))

    def _rows(self, address: int | None, rows: int, width: int) -> Floats:
        if address is None:
            raise RuntimeError("llama.cpp gave no result")
        key = (address, rows, width)
        if key not in self._views:
            if len(self._views) > 256:
                self._views.clear()
            memory: Any = (ctypes.c_float * (rows * width)).from_address(address)
            # Whoever holds the view keeps the memory. It names no object that names the view: numpy's arrays are hidden
            # from the garbage collector, so that such a circle would never be freed.
            memory.owner = self._owner
            # Writable: numpy 2.4 copies an array that is not before it looks for the largest value.
            view: Floats = np.frombuffer(memory, np.float32).reshape(rows, width)
            self._views[key] = view
        return self._views[key]


class _Owner:
    """What keeps a context of llama.cpp: it is freed when nobody holds this any more."""


_STOP = AbortCallback(lambda data: True)

# Source: the comment at llama_decode in include/llama.h.
_MEANINGS = {1: "no room for the tokens in the cache", 2: "the forward was stopped", -1: "the tokens were refused"}


def _free(weights: Weights, address: int) -> None:
    """The weights are named so that they outlive the context."""
    weights.api.fn.llama_free(address)
