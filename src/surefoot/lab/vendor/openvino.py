"""OpenVINO GenAI's pipelines on the folder that the target runs, with the settings that the target reports.

Plain decoding is compared with the attention that the target itself uses (SDPA). Prompt lookup exists on paged
attention only, so its text may differ in near ties. Source: openvino.genai 2026.4, src/cpp/src/utils.cpp,
"User properties are conflicting" where SDPA and prompt_lookup are asked for together.
"""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.core.errors import NotEligible, TargetError
from surefoot.core.ports import Clock
from surefoot.core.types import Ids
from surefoot.engine.generator import Model
from surefoot.lab.records import Side
from surefoot.lab.vendor import end_ids, finish_of, room_for

_MAX_NGRAM = 3
"""Source: OpenVINO GenAI's own default of max_ngram_size."""
_SAME = (
    "INFERENCE_PRECISION_HINT",
    "KV_CACHE_PRECISION",
    "DYNAMIC_QUANTIZATION_GROUP_SIZE",
    "ENABLE_CPU_PINNING",
)


class OpenvinoVendor:
    """OpenVINO GenAI. Holds its pipelines: each is made on first use, and holds the weights once more."""

    def __init__(self, model: Model, clock: Clock) -> None:
        import openvino_genai

        self._model, self._clock = model, clock
        self.name = f"OpenVINO GenAI {openvino_genai.__version__.partition('-')[0]}"
        reported = model.target.caps.settings
        self._given: dict[str, str] = {name: reported[name] for name in _SAME if name in reported}
        if "threads" in reported:
            self._given["INFERENCE_NUM_THREADS"] = reported["threads"]
        self.settings: Mapping[str, str] = self._given | {"ATTENTION_BACKEND": "SDPA"}
        self.lookup_settings: Mapping[str, str] = self._given | {
            "ATTENTION_BACKEND": "PA", "prompt_lookup": "True", "max_ngram_size": str(_MAX_NGRAM),
        }  # fmt: skip

    def plain(self, ids: Ids, n_tokens: int) -> Side:
        """Greedy, a token a forward."""
        return self._write(self._plain, ids, n_tokens, {})

    def lookup(self, ids: Ids, n_tokens: int, draft_len: int) -> Side:
        """Greedy with prompt lookup."""
        if draft_len < 1:
            raise NotEligible(f"prompt lookup of OpenVINO GenAI drafts at least 1 token; {draft_len} were asked for.")
        options = {"num_assistant_tokens": draft_len, "max_ngram_size": _MAX_NGRAM}
        return self._write(self._lookup, ids, n_tokens, options)

    @cached_property
    def _plain(self) -> Any:
        return self._pipeline(ATTENTION_BACKEND="SDPA")

    @cached_property
    def _lookup(self) -> Any:
        pipeline = self._pipeline(ATTENTION_BACKEND="PA", prompt_lookup=True)
        # The pipeline is made of any graph; only its first forward shows whether paged attention could be put in.
        try:
            self._generate(pipeline, np.zeros(1, np.int32), 1, {"num_assistant_tokens": 1, "max_ngram_size": 1})
        except RuntimeError as error:
            raise NotEligible(
                f"{self.name} has no prompt lookup for this graph ({_line(error)}): export it again with this version."
            ) from error
        return pipeline

    @cached_property
    def _tokenizer(self) -> Any:
        """Any tokenizer will do, since ids go in and come out, but there is no pipeline without one."""
        import openvino as ov
        import openvino_genai
        from openvino_tokenizers import convert_tokenizer

        try:
            both = convert_tokenizer(self._model.tokenizer.library, with_detokenizer=True)
        except Exception as error:  # a converter of many kinds, which fails in as many ways
            raise NotEligible(f"openvino-tokenizers cannot convert the tokenizer of this model: {error}") from error
        with tempfile.TemporaryDirectory(prefix="surefoot-") as folder:
            for part, graph in zip(("tokenizer", "detokenizer"), both, strict=True):
                ov.save_model(graph, Path(folder) / f"openvino_{part}.xml")
            return openvino_genai.Tokenizer(folder)

    def _pipeline(self, **properties: Any) -> Any:
        import openvino_genai

        given = {name: _value(value) for name, value in self._given.items()}
        device = self._model.target.caps.device.upper()
        try:
            return openvino_genai.LLMPipeline(str(self._model.path), self._tokenizer, device, **given, **properties)
        except RuntimeError as error:
            raise NotEligible(f"{self.name} cannot open {self._model.path}: {_line(error)}") from error

    def _write(self, pipeline: Any, ids: Ids, n_tokens: int, options: Mapping[str, int]) -> Side:
        wanted = room_for(self._model, ids, n_tokens)
        start = self._clock()
        try:
            result = self._generate(pipeline, ids, wanted, options)
            text = [int(token) for token in result.tokens[0]]
        except RuntimeError as error:
            raise TargetError(
                f"{self.name} failed: {_line(error)}", backend="openvino", operation="generate"
            ) from error
        whole_s = self._clock() - start
        prefill_s = result.perf_metrics.get_ttft().mean / 1e3
        sizes = list(result.perf_metrics.raw_metrics.m_batch_sizes)
        return Side(
            ids=text,
            n_output=len(text),
            finish=finish_of(self._model, text, wanted, n_tokens),
            prefill_s=prefill_s,
            decode_s=max(0.0, whole_s - prefill_s),
            steps=None,
            n_first=int(sizes[0]) if sizes else 1,
        )

    def _generate(self, pipeline: Any, ids: Ids, n_tokens: int, options: Mapping[str, int]) -> Any:
        import openvino as ov
        import openvino_genai

        ends = end_ids(self._model)
        wanted = openvino_genai.GenerationConfig(max_new_tokens=n_tokens, **options)
        if ends:
            wanted.eos_token_id = min(ends)
            wanted.stop_token_ids = set(ends)
        else:
            wanted.ignore_eos = True
        return pipeline.generate(ov.Tensor(ids.astype(np.int64)[None]), wanted)


def open_openvino(model: Model, clock: Clock) -> OpenvinoVendor:
    """The vendor of a model on the target openvino. Raises: NotEligible without openvino-genai."""
    missing = [name for name in ("openvino_genai", "openvino_tokenizers") if importlib.util.find_spec(name) is None]
    if missing:
        raise NotEligible("openvino-genai is not installed: pip install openvino-genai.")
    return OpenvinoVendor(model, clock)


def _value(text: str) -> str | int | bool:
    """A property as it was before it was reported."""
    if text in ("True", "False"):
        return text == "True"
    return int(text) if text.isdecimal() else text


def _line(error: BaseException) -> str:
    """The last thing that the runtime says, on one line: what failed, not where in its sources."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
