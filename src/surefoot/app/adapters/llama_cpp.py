"""Drafts for llama-cpp-python, as its `draft_model=`.

from llama_cpp import Llama
from surefoot.app.adapters.llama_cpp import DraftModel

llama = Llama(model_path="model.gguf", draft_model=DraftModel(), logits_all=True)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from surefoot.app.adapters.handed import LONGEST, hand
from surefoot.core.errors import ConfigError
from surefoot.core.types import as_ids

_ANY_VOCABULARY = 2**31 - 1
"""llama-cpp-python tells a draft model nothing but tokens; drafts of a drafter that looks back repeat those."""


class DraftModel:
    """What llama-cpp-python calls for drafts. Holds changing state: the text so far.

    It stands for `llama_cpp.llama_speculative.LlamaDraftModel`, of which only the call is used. longest: tokens in a
    draft at most; the other settings as in `handed.hand`. One `Llama` writes one text at a time, so one `DraftModel` is
    enough for it; give each `Llama` its own.
    """

    def __init__(
        self,
        drafts: str = "ngram",
        draft_options: Mapping[str, Any] | None = None,
        policy: str = "goodput",
        policy_options: Mapping[str, Any] | None = None,
        *,
        longest: int = LONGEST,
    ) -> None:
        if not 1 <= longest <= LONGEST:
            raise ConfigError(f"longest must be from 1 to {LONGEST} tokens; got {longest}.")
        self._longest = longest
        self.handed = hand(
            "llama-cpp-python",
            _ANY_VOCABULARY,
            _ANY_VOCABULARY,
            drafts=drafts,
            draft_options=draft_options,
            policy=policy,
            policy_options=policy_options,
        )

    def __call__(self, input_ids: npt.NDArray[np.intc], /, **kwargs: Any) -> npt.NDArray[np.intc]:
        """The draft after `input_ids`. Shapes: (n,) -> (k,), k from 0 to `longest`."""
        return self.handed(as_ids(input_ids), self._longest).astype(np.intc)
