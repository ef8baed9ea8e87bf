"""A folder in transformers' layout, or MLX's: config.json and safetensors, of which only the headers are read."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from surefoot.core.errors import DamagedModel
from surefoot.engine import safetensors_header
from surefoot.engine.inspect import config_json
from surefoot.engine.inspect.config_json import Config
from surefoot.engine.inspect.findings import Evidence, Facts, Format, Found, LayerKind, Rows, Size, State, shown
from surefoot.engine.safetensors_header import SafetensorsHeader

_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks|block)\.(\d+)\.(.+)")
_RECURRENT = re.compile(
    r"mamba|linear_attn|\bssm|A_log|dt_bias|\bconv1d\b|(?<!\w)conv\.|time_mix|rwkv|recurrent|rg_lru|gated_delta|time_decay"
)
"""Names of tensors that only a layer with a cumulative state has. Source: the families of transformers 5.24."""

_EXPERT = re.compile(r"experts\.(\d+)\.")


def read(folder: Path) -> Facts:
    """What the folder says. Raises: DamagedModel where a file of it is damaged or missing."""
    weights = safetensors_header.weights_in(folder)
    return _facts(folder, [safetensors_header.read_header(path) for path in weights])


def read_settings(folder: Path, weights: Mapping[str, int]) -> Facts:
    """What the settings in a folder say, while its weights are elsewhere: bytes of each file by name."""
    facts = _facts(folder, [])
    read = tuple(Evidence(name, "size on the Hub", f"{n} bytes") for name, n in list(weights.items())[:3])
    return replace(facts, size=Found(Size(sum(weights.values()), None, {}), read))


def _facts(folder: Path, headers: Sequence[SafetensorsHeader]) -> Facts:
    config = config_json.read(folder)
    if config is None:
        raise DamagedModel(f"{folder} holds weights but no config.json, which says what they mean: fetch it again")
    weights = [header.path for header in headers]
    names = {name for header in headers for name in header.tensors}
    format_: Format = "mlx" if _is_mlx(config, headers) else "safetensors"
    lookup, why = config_json.lookup(config)
    architectures = config.whole.get("architectures")
    classes = shown(architectures) if architectures else "not given"
    layers = _layers(config, names)
    return Facts(
        format=format_,
        path=folder,
        files=(folder / config_json.NAME, *weights),
        size=_size(config, headers, format_),
        architecture=Found(config.model_type, (Evidence(config.file, "model_type", config.model_type),))
        if config.model_type
        else None,
        layers=layers,
        window=config_json.window(config),
        experts=config_json.experts(config),
        vocabulary=config_json.vocabulary(config),
        context=config_json.context(config),
        head=Found("all rows", (Evidence(config.file, "architectures", classes),)),
        rows=Found(Rows(), (Evidence(config.file, "architectures", classes),)),
        states=_states(config, layers),
        lookup=lookup,
        lookup_text=why,
        stated=config_json.objections(config),
        settings=config.whole,
    )


def with_config(facts: Facts, folder: Path) -> Facts:
    """The facts of a graph, completed by the config.json that lies beside it, where there is one."""
    config = config_json.read(folder)
    if config is None:
        return facts
    lookup, why = config_json.lookup(config)
    kind = config.model_type
    return replace(
        facts,
        architecture=facts.architecture
        or (Found(kind, (Evidence(config.file, "model_type", kind),)) if kind else None),
        layers=facts.layers or config_json.layers(config),
        window=facts.window or config_json.window(config),
        experts=facts.experts or config_json.experts(config),
        vocabulary=facts.vocabulary or config_json.vocabulary(config),
        context=facts.context or config_json.context(config),
        lookup=lookup,
        lookup_text=why,
        stated=(*facts.stated, *config_json.objections(config)),
        settings=config.whole,
    )


def _is_mlx(config: Config, headers: Sequence[SafetensorsHeader]) -> bool:
    quantised = config.whole.get("quantization")
    if isinstance(quantised, Mapping) and "bits" in quantised and "group_size" in quantised:
        return True
    return any(header.metadata.get("format") == "mlx" for header in headers)


def _layers(config: Config, names: Collection[str]) -> Found[Mapping[LayerKind, int]] | None:
    """By the configuration, unless the weights know of more recurrent layers than that."""
    told = config_json.layers(config)
    recurrent: dict[int, str] = {}
    for name in sorted(names):
        found = _LAYER.search(name)
        if found and len(found[1]) < 6 and _RECURRENT.search(found[2]):
            recurrent.setdefault(int(found[1]), name)
    known = told.value.get("recurrent", 0) if told else 0
    if len(recurrent) <= known:
        return told
    total = sum(told.value.values()) if told else len(recurrent)
    kinds: dict[LayerKind, int] = {"recurrent": len(recurrent)}
    if total > len(recurrent):
        kinds["full attention"] = total - len(recurrent)
    seen = Evidence("safetensors", next(iter(recurrent.values())), f"a recurrent state in {len(recurrent)} layers")
    return Found(kinds, (seen, *(told.evidence if told else ())))


def _states(config: Config, layers: Found[Mapping[LayerKind, int]] | None) -> Found[tuple[State, ...]] | None:
    """The cache that the runtime makes of this configuration: keys and values of each layer that attends."""
    heads = (
        config.text.get("num_key_value_heads") or config.text.get("num_attention_heads") or config.text.get("n_head")
    )
    if layers is None or type(heads) is not int or heads < 1:
        return None
    width = config.text.get("head_dim")
    hidden, all_heads = config.text.get("hidden_size"), config.text.get("num_attention_heads")
    if type(width) is not int and type(hidden) is int and type(all_heads) is int and all_heads > 0:
        width = hidden // all_heads
    if type(width) is not int:
        return None
    attends = sum(n for kind, n in layers.value.items() if kind not in ("recurrent", "other"))
    found = [State(f"keys and values of {attends} layers", (1, heads, -1, width), "inside")] if attends else []
    recurrent = layers.value.get("recurrent", 0)
    if recurrent:
        found.append(State(f"recurrent state of {recurrent} layers", (), "inside"))
    evidence = config.evidence("num_key_value_heads", heads), config.evidence("head_dim", width)
    return Found(tuple(found), evidence)


def _size(config: Config, headers: Sequence[SafetensorsHeader], format_: Format) -> Found[Size]:
    types: Counter[str] = Counter()
    parameters, packed = 0, False
    bits = _bits(config, format_)
    for header in headers:
        for name, (kind, shape) in header.tensors.items():
            types[kind] += 1
            items = math.prod(shape)
            if bits and kind == "U32":
                parameters += items * 32 // bits
            elif bits and name.endswith((".scales", ".biases")):
                continue
            else:
                packed = packed or kind in ("I32", "U32", "U8", "I8")
                parameters += items
    size = Size(sum(header.size_bytes for header in headers), None if packed else parameters, dict(types))
    evidence = [Evidence(header.path.name, "header", f"{len(header.tensors)} tensors") for header in headers[:3]]
    quantised: Any = config.whole.get("quantization_config") or config.whole.get("quantization")
    if quantised:
        evidence.append(Evidence(config.file, "quantization", shown(quantised)))
    return Found(size, tuple(evidence))


def _bits(config: Config, format_: Format) -> int:
    """Bits of a packed weight of MLX; 0 where nothing is packed, or not by MLX."""
    quantised = config.whole.get("quantization")
    if format_ != "mlx" or not isinstance(quantised, Mapping):
        return 0
    bits = quantised.get("bits")
    return bits if type(bits) is int and 1 <= bits <= 32 else 0
