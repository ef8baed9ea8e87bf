"""transformers' own generate, on the very module that the target runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from surefoot.core.errors import NotEligible, TargetError
from surefoot.core.ports import Clock
from surefoot.core.types import Ids
from surefoot.engine.generator import Model
from surefoot.lab.records import Side
from surefoot.lab.vendor import end_ids, finish_of, room_for


class FirstToken:
    """A streamer that notes when the first forward was read, and what it gave. Holds changing state.

    generate hands it the prompt, then the new ids of every forward, each copied to the host, as our loop does too.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen = 0
        self.at_s = 0.0
        self.n_first = 0

    def put(self, ids: Any) -> None:
        """The prompt, then new ids."""
        self._seen += 1
        if self._seen == 2:
            self.at_s, self.n_first = self._clock(), ids.numel()

    def end(self) -> None:
        """Nothing more comes."""


class HfVendor:
    """generate of transformers. Holds nothing but the module."""

    def __init__(self, model: Model, module: Any, clock: Clock) -> None:
        import transformers

        self._model, self._module, self._clock = model, module, clock
        self.name = f"transformers {transformers.__version__} generate"
        self.settings: Mapping[str, str] = dict(model.target.caps.settings)
        self.lookup_settings: Mapping[str, str] = {"max_matching_ngram_size": "2"}

    def plain(self, ids: Ids, n_tokens: int) -> Side:
        """Greedy, a token a forward."""
        return self._write(ids, n_tokens, {})

    def lookup(self, ids: Ids, n_tokens: int, draft_len: int) -> Side:
        """Greedy with prompt_lookup_num_tokens; matches of one or two tokens, as transformers does by itself."""
        if draft_len < 1:
            raise NotEligible(f"prompt lookup of transformers drafts at least 1 token; {draft_len} were asked for.")
        return self._write(ids, n_tokens, {"prompt_lookup_num_tokens": draft_len, "max_matching_ngram_size": 2})

    def _write(self, ids: Ids, n_tokens: int, options: Mapping[str, Any]) -> Side:
        import torch

        model, module = self._model, self._module
        wanted = room_for(model, ids, n_tokens)
        ends = sorted(end_ids(model))
        config = _greedy(wanted, ends, options)
        tokens = torch.from_numpy(ids.astype("int64"))[None].to(module.device)
        streamer = FirstToken(self._clock)
        before, module.generation_config = module.generation_config, _greedy(wanted, ends, {})
        start = self._clock()
        try:
            with torch.inference_mode():
                written = module.generate(
                    tokens, attention_mask=torch.ones_like(tokens), generation_config=config, streamer=streamer
                )
            text: list[int] = written[0, tokens.shape[1] :].tolist()
            end = self._clock()
        except Exception as error:
            raise TargetError(
                f"{self.name} failed: {type(error).__name__}: {error}", backend="hf", operation="generate"
            ) from error
        finally:
            module.generation_config = before
        return Side(
            ids=text,
            n_output=len(text),
            finish=finish_of(model, text, wanted, n_tokens),
            prefill_s=streamer.at_s - start,
            decode_s=end - streamer.at_s,
            steps=None,
            n_first=streamer.n_first,
        )


def open_hf(model: Model, clock: Clock) -> HfVendor:
    """The vendor of a model on the target hf."""
    module = getattr(model.target, "module", None)
    if module is None or not hasattr(module, "generate"):
        raise NotEligible(f"{type(module).__name__} has no generate of its own to compare with.")
    return HfVendor(model, module, clock)


def _greedy(n_tokens: int, ends: list[int], options: Mapping[str, Any]) -> Any:
    """A greedy configuration. The module's own is replaced by one too, since generate takes what is unset from it."""
    from transformers import GenerationConfig

    build: Any = GenerationConfig
    stops = {"eos_token_id": ends, "pad_token_id": ends[0]} if ends else {}
    return build(max_new_tokens=n_tokens, do_sample=False, num_beams=1, use_cache=True, **stops, **options)
