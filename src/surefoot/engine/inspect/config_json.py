"""What a config.json in the layout of transformers says; MLX, OpenVINO and ONNX folders have one, too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from surefoot.core.eligibility import of_architectures, of_direction
from surefoot.core.errors import ConfigError
from surefoot.engine.bounded import json_object
from surefoot.engine.inspect.findings import Evidence, Experts, Found, LayerKind, Lookup, Objection, shown

NAME = "config.json"

# The keys under which families keep the same number, in the order in which they are believed.
_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "decoder_layers")
_CONTEXT = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "n_ctx", "max_sequence_length")
_VOCABULARY = ("vocab_size", "padded_vocab_size")
_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts", "num_moe_experts", "n_experts")
_USED = ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k", "top_k_experts", "num_selected_experts")
_TEXT = ("text_config", "llm_config", "language_config", "decoder", "thinker_config", "lm_config")

_KINDS: Mapping[str, LayerKind] = {
    "full_attention": "full attention",
    "attention": "full attention",
    "global": "full attention",
    "full": "full attention",
    "sliding_attention": "sliding window",
    "sliding_window": "sliding window",
    "local": "sliding window",
    "swa": "sliding window",
    "chunked_attention": "chunked attention",
    "indexed_attention": "indexed attention",
    "compressed_sparse_attention": "indexed attention",
    "heavily_compressed_attention": "indexed attention",
    "linear_attention": "recurrent",
    "lightning_attention": "recurrent",
    "mamba": "recurrent",
    "mamba2": "recurrent",
    "recurrent": "recurrent",
    "conv": "recurrent",
    "hybrid": "recurrent",
    "hybrid_sliding": "recurrent",
    "moe": "other",
    "mlp": "other",
}
"""What the words of layer_types mean. `hybrid` is attention and a recurrence side by side, so its state is cumulative.
Source: transformers 5.24, configuration_utils.ALLOWED_LAYER_TYPES and the families' own configurations."""

_PATTERN: Mapping[str, LayerKind] = {"M": "recurrent", "*": "full attention", "-": "other", "E": "other"}
"""Source: transformers, nemotron_h: the letters of hybrid_override_pattern."""

_RECURRENT = ("mamba", "mamba2", "falcon_mamba", "rwkv", "xlstm")
"""Families without attention. Source: transformers 5.24."""

_ALWAYS_HYBRID = ("bamba", "falcon_h1", "zamba", "zamba2")
"""Families whose every layer, or every shared block, carries a recurrent state whatever their configuration lists."""

WINDOWED: Mapping[str, int] = {"gemma2": 2, "gemma3": 6, "gemma3n": 5, "gemma4": 6, "gpt-oss": 2, "cohere2": 4}
"""Families, as llama.cpp spells them, of which one of so many layers attends to everything and the others to a window.
Source: llama.cpp, llama-model.cpp, set_swa_pattern of each architecture, where a file has no pattern of its own;
transformers 5.24, the families' own configurations, where layer_types is not there."""

_NO_PICTURE_TEXT = ("ocr", "nougat", "donut", "trocr", "pix2struct")
"""Parts of the names of families that read text off pictures and do nothing else."""

_SPEECH = ("whisper", "speech", "moonshine", "audio", "voxtral", "parakeet", "csm", "dia", "bark", "vits", "tts")
"""Parts of the names of families that hear or speak."""


@dataclass(frozen=True, slots=True)
class Config:
    """A config.json. whole: all of it; text: the part about the model that writes tokens; at: the way to that part."""

    file: str
    whole: Mapping[str, Any]
    text: Mapping[str, Any]
    at: str

    @property
    def model_type(self) -> str:
        return str(self.whole.get("model_type", ""))

    def evidence(self, key: str, value: object) -> Evidence:
        return Evidence(self.file, f"{self.at}{key}", shown(value))


def read(folder: Path) -> Config | None:
    """The configuration in a folder; None without one. Raises: ConfigError where it is damaged."""
    whole = json_object(folder / NAME)
    if not whole:
        return None
    text: Mapping[str, Any] = whole
    at = ""
    for key in _TEXT:
        inner = text.get(key)
        if isinstance(inner, Mapping) and _first(inner, _LAYERS) is not None:
            text, at = inner, f"{at}{key}."
    config = Config(NAME, whole, text, at)
    _check(config, folder)
    return config


def _check(config: Config, folder: Path) -> None:
    """Raises: ConfigError for a number that no model has, before anything is computed from it."""
    for part in (config.whole, config.text):
        for key, value in part.items():
            if isinstance(value, int | float) and not isinstance(value, bool) and not abs(value) <= _LARGEST:
                raise ConfigError(f"{folder / NAME} is damaged: {shown(key)} is {shown(value)}")
    layers = _first(config.text, _LAYERS)
    if layers is not None and not 0 < layers[1] <= _MOST_LAYERS:
        raise ConfigError(f"{folder / NAME} is damaged: it claims {layers[1]} layers ({layers[0]})")
    for key in ("head_dim", "num_attention_heads", "num_key_value_heads", "hidden_size"):
        value = config.text.get(key)
        if isinstance(value, int) and not 0 <= value <= _WIDEST:
            raise ConfigError(f"{folder / NAME} is damaged: {key} is {value}")


_LARGEST = 10.0**30
"""chosen: some configurations write 1e30 for no limit; nothing says more."""

_MOST_LAYERS = 10_000
_WIDEST = 1_000_000
"""chosen: fifty times the deepest and the widest model that was published."""


def vocabulary(config: Config) -> Found[int] | None:
    """Rows of the head."""
    return _number(config, _VOCABULARY)


def context(config: Config) -> Found[int] | None:
    """Tokens that the model was made for."""
    return _number(config, _CONTEXT)


def layers(config: Config) -> Found[Mapping[LayerKind, int]] | None:
    """How many layers of each kind."""
    count = _first(config.text, _LAYERS)
    total = 0 if count is None else count[1]
    of_count = () if count is None else (config.evidence(*count),)
    if config.model_type in _RECURRENT and total:
        return Found({"recurrent": total}, (config.evidence("model_type", config.model_type), *of_count))
    for kinds, evidence in _listed(config, total):
        found = Counter(kinds)
        if config.model_type in _ALWAYS_HYBRID and "recurrent" not in found:
            found["recurrent"] = total
        return Found(dict(found), (evidence, *of_count))
    if not total:
        return None
    if config.model_type in _ALWAYS_HYBRID:
        return Found({"recurrent": total}, (config.evidence("model_type", config.model_type), *of_count))
    return Found(*_windowed(config, total, of_count))


def _listed(config: Config, total: int) -> Iterator[tuple[list[LayerKind], Evidence]]:
    """The kinds of all layers where the configuration lists them, or gives a rule for them."""
    text = config.text
    for key in ("layer_types", "layers_block_type", "block_types", "attention_types"):
        kinds = text.get(key)
        if isinstance(kinds, list) and kinds and all(isinstance(kind, str) for kind in kinds):
            if key == "block_types":  # recurrentgemma repeats it
                kinds = [kinds[i % len(kinds)] for i in range(total)]
            yield [_KINDS.get(kind, "other") for kind in kinds], config.evidence(key, _summary(kinds))
    pattern = text.get("hybrid_override_pattern")
    if isinstance(pattern, str) and pattern:
        yield [_PATTERN.get(letter, "other") for letter in pattern], config.evidence("hybrid_override_pattern", pattern)
    full = text.get("full_attn_idxs", text.get("attn_layer_indices"))
    if isinstance(full, list) and total:
        attends = [i in full for i in range(total)]
        yield ["full attention" if each else "recurrent" for each in attends], config.evidence("full_attn_idxs", full)
    for key, offset in (("attn_layer_period", text.get("attn_layer_offset", 0)), ("full_attention_interval", -1)):
        period = text.get(key)
        if isinstance(period, int) and period > 0 and isinstance(offset, int) and total:
            attends = [i % period == offset % period for i in range(total)]
            yield ["full attention" if each else "recurrent" for each in attends], config.evidence(key, period)


def _windowed(
    config: Config, total: int, evidence: tuple[Evidence, ...]
) -> tuple[Mapping[LayerKind, int], tuple[Evidence, ...]]:
    """Attention only: how many of the layers see a window."""
    text, span = config.text, window(config)
    if span is None:
        chunk = text.get("attention_chunk_size")
        if isinstance(chunk, int) and chunk:
            return {"chunked attention": total}, (*evidence, config.evidence("attention_chunk_size", chunk))
        return {"full attention": total}, evidence
    pattern = text.get("sliding_window_pattern", text.get("_sliding_window_pattern"))
    if isinstance(pattern, int) and pattern > 1:
        full = total // pattern
        kinds: Mapping[LayerKind, int] = {"sliding window": total - full, "full attention": full}
        return kinds, (*evidence, config.evidence("sliding_window_pattern", pattern))
    first = text.get("max_window_layers")
    if isinstance(first, int) and 0 < first < total:
        kinds = {"full attention": first, "sliding window": total - first}
        return kinds, (*evidence, config.evidence("max_window_layers", first))
    named = str(text.get("model_type", ""))
    every = WINDOWED.get(named.removesuffix("_text").replace("_", "-"))
    if every is not None:
        full = total // every
        kinds = {"sliding window": total - full, "full attention": full}
        return kinds, (*evidence, *span.evidence, config.evidence("model_type", named))
    return {"sliding window": total}, (*evidence, *span.evidence)


def window(config: Config) -> Found[int] | None:
    """Tokens that a sliding window holds; None where every layer sees everything."""
    span = config.text.get("sliding_window")
    if type(span) is not int or span <= 0 or config.text.get("use_sliding_window") is False:
        return None
    kinds = config.text.get("layer_types")
    if isinstance(kinds, list) and kinds and not any(_KINDS.get(str(kind)) == "sliding window" for kind in kinds):
        return None
    return Found(span, (config.evidence("sliding_window", span),))


def experts(config: Config) -> Found[Experts] | None:
    """The mixture of experts; None for a dense model."""
    total = _first(config.text, _EXPERTS)
    if total is None or total[1] < 2:
        return None
    used = _first(config.text, _USED)
    evidence = tuple(config.evidence(*each) for each in (total, used) if each is not None)
    return Found(Experts(total[1], None if used is None else used[1]), evidence)


def objections(config: Config) -> tuple[Objection, ...]:
    """What the configuration says against any runtime."""
    direction = of_direction(bool(config.whole.get("is_encoder_decoder")), config.model_type or "this model")
    if direction is not None:
        return (Objection(direction, (Evidence(config.file, "is_encoder_decoder", "true"),)),)
    names = config.whole.get("architectures")
    names = [str(name) for name in names] if isinstance(names, list) else []
    found = of_architectures(names)
    return () if found is None else (Objection(found, (Evidence(config.file, "architectures", shown(names)),)),)


def lookup(config: Config) -> tuple[Found[Lookup], str]:
    """Whether drafts looked up in the prompt can be right at all, and why."""
    kind, whole = config.model_type.lower(), config.whole
    of_type = (Evidence(config.file, "model_type", config.model_type),)
    if whole.get("is_encoder_decoder"):
        why = "an encoder reads the prompt: what is written is not among the tokens that the decoder has seen"
        return Found("cannot work", (Evidence(config.file, "is_encoder_decoder", "true"),)), why
    if any(word in kind for word in _NO_PICTURE_TEXT):
        return Found("cannot work", of_type), "it reads text off a picture, and none of that is in the prompt's tokens"
    if any(word in kind for word in _SPEECH):
        return Found("cannot work", of_type), "it hears or speaks, and none of that is in the prompt's tokens"
    for key, what in (("vision_config", "a picture (OCR)"), ("audio_config", "sound (speech)")):
        if isinstance(whole.get(key), Mapping):
            why = f"look-up works for text; what is read off {what} is not in the prompt's tokens"
            return Found("text only", (Evidence(config.file, key, "given"),)), why
    return Found("can work", of_type), "what is written may repeat the prompt"


def _number(config: Config, names: Sequence[str]) -> Found[int] | None:
    found = _first(config.text, names)
    return None if found is None or found[1] <= 0 else Found(found[1], (config.evidence(*found),))


def _first(part: Mapping[str, Any], names: Sequence[str]) -> tuple[str, int] | None:
    """The first of these keys that holds a whole number."""
    return next(((name, value) for name in names if type(value := part.get(name)) is int), None)


def _summary(kinds: Sequence[str]) -> str:
    return ", ".join(f"{count} x {kind}" for kind, count in Counter(kinds).items())
