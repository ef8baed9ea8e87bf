"""The runtime's own way to write, as the reference that plain decoding and drafts are compared with.

Greedy, on the same weights, with the target's own settings. Nothing of a runtime is imported before one is opened.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Protocol

from surefoot.core.errors import NotEligible
from surefoot.core.ports import Clock
from surefoot.core.types import Finish, Ids
from surefoot.engine.generator import Model
from surefoot.lab.records import Side


class Vendor(Protocol):
    """Another engine on the model's weights. Its sides have no steps: its rounds are its own business."""

    @property
    def name(self) -> str:
        """The engine and its version."""
        ...

    @property
    def settings(self) -> Mapping[str, str]:
        """What it was given that can change a bit of the text or its speed."""
        ...

    def plain(self, ids: Ids, n_tokens: int) -> Side:
        """The text after `ids` without drafts, of at most `n_tokens`; the token that ends it is in it.

        Raises: TargetError when the engine fails.
        """
        ...

    def lookup(self, ids: Ids, n_tokens: int, draft_len: int) -> Side:
        """The same by the engine's own prompt lookup of at most `draft_len` tokens a round.

        Raises: NotEligible where the engine has none for this model; TargetError when it fails.
        """
        ...

    @property
    def lookup_settings(self) -> Mapping[str, str]:
        """What its prompt lookup is given, the draft length aside; the other settings hold where none is named here."""
        ...


def open_vendor(model: Model, clock: Clock = time.perf_counter) -> Vendor:
    """The vendor of the runtime that `model` is loaded on.

    Raises: NotEligible where there is none, or its package is missing.
    """
    backend = model.target.caps.backend
    if backend == "hf":
        from surefoot.lab.vendor.hf import open_hf

        return open_hf(model, clock)
    if backend == "openvino":
        from surefoot.lab.vendor.openvino import open_openvino

        return open_openvino(model, clock)
    if backend == "llamacpp":
        from surefoot.lab.vendor.llamacpp import open_llamacpp

        return open_llamacpp(model, clock)
    raise NotEligible(f"the runtime {backend} has no generate of its own to compare with.")


def room_for(model: Model, ids: Ids, n_tokens: int) -> int:
    """How many of `n_tokens` fit into the context: the last one needs no place in the cache."""
    return min(n_tokens, model.target.caps.max_length - len(ids) + 1)


def finish_of(model: Model, text: list[int], wanted: int, n_tokens: int) -> Finish:
    """Why a text of another engine ended, in our words."""
    if text and text[-1] in end_ids(model):
        return "stop"
    return "length" if wanted == n_tokens else "context"


def end_ids(model: Model) -> frozenset[int]:
    """The ids that end a text, as for our own loop."""
    return model.tokenizer.eos_ids | model.config.stop_ids
