"""llama.cpp's own greedy generation through the binding that the target uses, with the settings that it reports.

Through xllamacpp it is llama.cpp's server, in a process of its own, asked over its socket for ids; its prompt lookup is
`ngram-simple`. Through llama-cpp-python it is Llama.generate, and LlamaPromptLookupDecoding.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from surefoot.core.errors import NotEligible, TargetError
from surefoot.core.ports import Clock
from surefoot.core.types import Ids
from surefoot.engine.generator import Model
from surefoot.lab.records import Side
from surefoot.lab.vendor import end_ids, finish_of, room_for
from surefoot.lab.vendor.llama_server import NGRAM, Server
from surefoot.targets.llamacpp.settings import CACHE_TYPES, MAX_ROWS

_SAME = ("weights", "cache", "flash_attention", "repack", "threads", "ubatch", "gpu_layers", "built_for")
_TIMEOUT_S = 3600.0
_LOCAL = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Asks a server on this machine, whatever proxy the system names for others."""


class ServerVendor:
    """llama.cpp's server. Holds up to two of them: one for plain decoding, and one for the last draft length asked for.

    Each is started on first use, and holds the weights once more.
    """

    def __init__(self, model: Model, clock: Clock) -> None:
        self._model, self._clock = model, clock
        settings = model.target.caps.settings
        self.name = f"llama.cpp's server of xllamacpp {settings['xllamacpp']}"
        self.settings: Mapping[str, str] = {name: settings[name] for name in _SAME}
        self.lookup_settings: Mapping[str, str] = {
            **self.settings, "spec_type": "ngram-simple", "size_n": str(NGRAM), "min_hits": "1"
        }  # fmt: skip
        self._running: dict[int, Server] = {}

    def plain(self, ids: Ids, n_tokens: int) -> Side:
        """Greedy, a token a forward."""
        return self._write(0, ids, n_tokens)

    def lookup(self, ids: Ids, n_tokens: int, draft_len: int) -> Side:
        """Greedy with drafts of up to `draft_len` tokens behind the last place where two tokens stood before."""
        if draft_len < 1:
            raise NotEligible(f"prompt lookup of llama.cpp drafts at least 1 token; {draft_len} were asked for.")
        return self._write(draft_len, ids, n_tokens)

    def _ask(self, draft_len: int, body: Mapping[str, Any]) -> Any:
        """What the server for this draft length answers; 0 is plain decoding."""
        if draft_len not in self._running:
            self._start(draft_len)
        return _post(f"{self._running[draft_len].address}/completion", body, self.name)

    def _start(self, draft_len: int) -> None:
        for other in [other for other in self._running if other and draft_len]:
            del self._running[other]
        server = Server(_asked(self._model, draft_len), self.name)
        _post(f"{server.address}/completion", {"prompt": [0], "n_predict": 1}, self.name)
        self._running[draft_len] = server

    def _write(self, draft_len: int, ids: Ids, n_tokens: int) -> Side:
        if self._model.config.stop_ids:
            raise NotEligible("llama.cpp's server takes no stop ids of one's own; leave stop_ids out.")
        wanted = room_for(self._model, ids, n_tokens)
        body = {
            "prompt": ids.tolist(), "n_predict": wanted, "temperature": 0.0, "samplers": ["temperature"],
            "cache_prompt": False, "return_tokens": True, "stream": False,
        }  # fmt: skip
        answer = self._ask(draft_len, body)
        text = [int(token) for token in answer["tokens"]]
        timings = answer["timings"]
        return Side(
            ids=text,
            n_output=len(text),
            finish=finish_of(self._model, text, wanted, n_tokens),
            prefill_s=timings["prompt_ms"] / 1e3,
            decode_s=timings["predicted_ms"] / 1e3,
            steps=None,
        )


class PythonVendor:
    """Llama.generate of llama-cpp-python. Holds its models: each is loaded on first use, the weights once more."""

    def __init__(self, model: Model, clock: Clock) -> None:
        self._model, self._clock = model, clock
        settings = model.target.caps.settings
        self.name = f"llama-cpp-python {settings['llama-cpp-python']} generate"
        # It has no switch for the arrangement of weights.
        self.settings: Mapping[str, str] = {name: settings[name] for name in _SAME} | {"repack": "on"}
        self.lookup_settings: Mapping[str, str] = {**self.settings, "max_ngram_size": str(NGRAM)}

    def plain(self, ids: Ids, n_tokens: int) -> Side:
        """Greedy, a token a forward."""
        return self._write(self._plain, ids, n_tokens)

    def lookup(self, ids: Ids, n_tokens: int, draft_len: int) -> Side:
        """Greedy with prompt lookup."""
        if draft_len < 1:
            raise NotEligible(f"prompt lookup of llama-cpp-python drafts at least 1 token; {draft_len} were asked for.")
        self._looking.draft_model.num_pred_tokens = draft_len
        return self._write(self._looking, ids, n_tokens)

    @cached_property
    def _plain(self) -> Any:
        return self._load(None)

    @cached_property
    def _looking(self) -> Any:
        from llama_cpp.llama_speculative import LlamaPromptLookupDecoding

        return self._load(LlamaPromptLookupDecoding(max_ngram_size=NGRAM))

    def _load(self, draft_model: Any) -> Any:
        from llama_cpp import Llama

        given, context = self._model.target.caps.settings, self._model.target.caps.max_length
        key, value = (CACHE_TYPES[name][0] for name in given["cache"].split("/"))
        threads, ubatch = int(given["threads"]), int(given["ubatch"])
        try:
            return Llama(
                str(self._model.path), n_ctx=context, n_threads=threads, n_threads_batch=threads, n_ubatch=ubatch,
                n_batch=ubatch, type_k=key, type_v=value, flash_attn=given["flash_attention"] == "on",
                n_gpu_layers=_layers(given), draft_model=draft_model, swa_full=True, verbose=False,
                # Without it there is room for the scores of the first n_batch tokens of a text only.
                logits_all=draft_model is not None,
            )  # fmt: skip
        except Exception as error:
            raise NotEligible(f"{self.name} cannot open {self._model.path}: {error}") from error

    def _write(self, engine: Any, ids: Ids, n_tokens: int) -> Side:
        wanted = room_for(self._model, ids, n_tokens)
        ends = end_ids(self._model)
        text: list[int] = []
        # Without a reset it would take the rows that the prompt shares with the one before.
        engine.reset()
        start = first = self._clock()
        try:
            for token in engine.generate(ids.tolist(), temp=0.0, repeat_penalty=1.0):
                text.append(int(token))
                if len(text) == 1:
                    first = self._clock()
                if len(text) == wanted or text[-1] in ends:
                    break
        except Exception as error:
            raise TargetError(f"{self.name} failed: {error}", backend="llamacpp", operation="generate") from error
        end = self._clock()
        return Side(
            ids=text,
            n_output=len(text),
            finish=finish_of(self._model, text, wanted, n_tokens),
            prefill_s=first - start,
            decode_s=end - first,
            steps=None,
        )


def open_llamacpp(model: Model, clock: Clock) -> ServerVendor | PythonVendor:
    """The vendor of a model on the target llamacpp. Raises: NotEligible where the binding has no greedy ids to give."""
    settings = model.target.caps.settings
    if "xllamacpp" in settings:
        return ServerVendor(model, clock)
    if "llama-cpp-python" in settings:
        return PythonVendor(model, clock)
    raise NotEligible(
        "llama-cpp-py-sync generates text and no ids: compare with binding xllamacpp or llama-cpp-python."
    )


def _asked(model: Model, draft_len: int) -> dict[str, Any]:
    """What a server is asked for, to run the model as the target does."""
    given = model.target.caps.settings
    return {
        "path": str(model.path),
        "n_ctx": model.target.caps.max_length + MAX_ROWS,  # as the target has it; a text ends a token before that
        "ubatch": int(given["ubatch"]),
        "threads": int(given["threads"]),
        "layers": _layers(given),
        "draft_len": draft_len,
        **{name: given[name] for name in ("cache", "flash_attention", "repack")},
    }


def _layers(given: Mapping[str, str]) -> int:
    return -1 if given["gpu_layers"] == "all" else int(given["gpu_layers"])


def _post(url: str, body: Mapping[str, Any], name: str) -> Any:
    """The server's answer. Raises: TargetError with what the server says."""
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with _LOCAL.open(request, timeout=_TIMEOUT_S) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        said = error.read().decode(errors="replace")
        raise TargetError(f"{name} failed: {said}", backend="llamacpp", operation="generate") from error
    except (OSError, ValueError) as error:
        raise TargetError(f"{name} failed: {error}", backend="llamacpp", operation="generate") from error
