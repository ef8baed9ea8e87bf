"""What a GGUF file, or the first of its shards, says: metadata and the names of tensors, no weights."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from surefoot.core.eligibility import of_direction
from surefoot.engine.gguf_header import GgufHeader, read_header
from surefoot.engine.inspect.config_json import WINDOWED
from surefoot.engine.inspect.findings import (
    Evidence,
    Experts,
    Facts,
    Found,
    LayerKind,
    Lookup,
    Objection,
    Rows,
    Size,
    State,
    shown,
)

_BLOCK = re.compile(r"blk\.(\d+)\.(.+)")
_ATTENTION = re.compile(r"attn_(q|qkv|kv|k|q_a|kv_a_mqa)(\.|$)")
_RECURRENT = re.compile(r"ssm_|shortconv|time_mix|conv1d")
_SPEECH = ("whisper", "wavtokenizer")


def read(files: Sequence[Path]) -> Facts:
    """What these files, all parts of one model, say. Raises: DamagedModel where one is damaged."""
    headers = [read_header(path) for path in files]
    first = headers[0]
    names = {tensor.name: tensor for header in headers for tensor in header.tensors}
    kind = first.architecture
    layers = _layers(first, names)
    encoder = next((name for name in names if name.startswith("enc.")), None)
    lookup, why = _lookup(first, encoder)
    vocabulary, head = _vocabulary(first, names), _head(first, names)
    stated = []
    direction = of_direction(encoder is not None and any(name.startswith("dec.") for name in names), kind)
    if direction is not None:
        stated.append(Objection(direction, (Evidence(first.path.name, str(encoder), "a tensor of the encoder"),)))
    return Facts(
        format="gguf",
        path=files[0],
        files=tuple(files),
        size=_size(headers, names),
        architecture=Found(kind, (_evidence(first, "general.architecture"),)),
        layers=layers,
        window=_count(first, "attention.sliding_window"),
        experts=_experts(first),
        vocabulary=vocabulary,
        context=_count(first, "context_length"),
        head=head,
        rows=Found(Rows(), (_evidence(first, "general.architecture"),)),
        states=_states(first, layers),
        lookup=lookup,
        lookup_text=why,
        stated=tuple(stated),
        settings=first.metadata,
    )


def field(metadata: Mapping[str, Any], key: str) -> Any:
    """The value that the file's own architecture has under this key."""
    return metadata.get(f"{metadata.get('general.architecture')}.{key}")


def _evidence(header: GgufHeader, key: str) -> Evidence:
    return Evidence(header.path.name, key, shown(header.metadata.get(key)))


def _count(header: GgufHeader, key: str) -> Found[int] | None:
    """A number above 0 of the architecture's own."""
    value = field(header.metadata, key)
    if type(value) is not int or value <= 0:
        return None
    return Found(value, (_evidence(header, f"{header.architecture}.{key}"),))


def _layers(header: GgufHeader, names: Mapping[str, Any]) -> Found[Mapping[LayerKind, int]] | None:
    """By the tensors that each block has."""
    blocks: dict[int, set[str]] = {}
    for name in names:
        found = _BLOCK.fullmatch(name)
        if found and len(found[1]) < 6:
            blocks.setdefault(int(found[1]), set()).add(found[2])
    if not blocks:
        told = _count(header, "block_count")
        return None if told is None else Found({"other": told.value}, told.evidence)
    kinds: Counter[LayerKind] = Counter()
    shown_by: dict[LayerKind, str] = {}
    for number, parts in sorted(blocks.items()):
        kind, part = _kind(parts)
        kinds[kind] += 1
        shown_by.setdefault(kind, f"blk.{number}.{part}")
    evidence = [
        Evidence(header.path.name, name, f"and the like in {kinds[kind]} blocks") for kind, name in shown_by.items()
    ]
    full = kinds.get("full attention", 0)
    windowed, why = _windowed(header, full)
    if windowed:
        kinds["sliding window"], kinds["full attention"] = windowed, full - windowed
        evidence.append(why)
    return Found({kind: n for kind, n in kinds.items() if n}, tuple(evidence))


def _kind(parts: set[str]) -> tuple[LayerKind, str]:
    recurrent = next((part for part in sorted(parts) if _RECURRENT.search(part)), None)
    if recurrent is not None:
        return "recurrent", recurrent
    attends = next((part for part in sorted(parts) if _ATTENTION.match(part)), None)
    return ("full attention", attends) if attends is not None else ("other", min(parts))


def _windowed(header: GgufHeader, attends: int) -> tuple[int, Evidence]:
    """How many of the attention layers see a window only, and where that was read."""
    span = _count(header, "attention.sliding_window")
    if span is None:
        return 0, Evidence("", "", "")
    pattern = field(header.metadata, "attention.sliding_window_pattern")
    key = f"{header.architecture}.attention.sliding_window_pattern"
    if isinstance(pattern, list) and len(pattern) >= attends:
        return sum(map(bool, pattern[:attends])), _evidence(header, key)
    every = pattern if type(pattern) is int and pattern > 0 else WINDOWED.get(header.architecture)
    if every is None:
        return attends, span.evidence[0]
    where = _evidence(header, key) if type(pattern) is int else span.evidence[0]
    return attends - attends // every, where


def _experts(header: GgufHeader) -> Found[Experts] | None:
    total, used = _count(header, "expert_count"), _count(header, "expert_used_count")
    if total is None or total.value < 2:
        return None
    evidence = (*total.evidence, *(used.evidence if used else ()))
    return Found(Experts(total.value, used.value if used else None), evidence)


def _vocabulary(header: GgufHeader, names: Mapping[str, Any]) -> Found[int] | None:
    """Rows of the head, which are those of the embedding where both are one tensor."""
    for name in ("output.weight", "token_embd.weight"):
        if name in names and len(names[name].shape) == 2:
            return Found(int(names[name].shape[1]), (Evidence(header.path.name, name, shown(names[name].shape)),))
    tokens = header.metadata.get("tokenizer.ggml.tokens")
    if isinstance(tokens, list) and tokens:
        return Found(len(tokens), (Evidence(header.path.name, "tokenizer.ggml.tokens", f"{len(tokens)} tokens"),))
    return _count(header, "vocab_size")


def _head(header: GgufHeader, names: Mapping[str, Any]) -> Any:
    """llama.cpp computes logits of every row that is asked for; an embedding model has no head at all."""
    name = next((name for name in ("output.weight", "token_embd.weight") if name in names), None)
    return None if name is None else Found("all rows", (Evidence(header.path.name, name, "the head"),))


def _states(header: GgufHeader, layers: Found[Mapping[LayerKind, int]] | None) -> Found[tuple[State, ...]] | None:
    heads = _count(header, "attention.head_count_kv") or _count(header, "attention.head_count")
    if layers is None:
        return None
    attends = sum(n for kind, n in layers.value.items() if kind not in ("recurrent", "other"))
    width = _count(header, "attention.key_length")
    hidden, all_heads = _count(header, "embedding_length"), _count(header, "attention.head_count")
    size = width.value if width else hidden.value // all_heads.value if hidden and all_heads else -1
    found = []
    if attends:
        shape = (1, heads.value if heads else -1, -1, size)
        found.append(State(f"keys and values of {attends} layers", shape, "inside"))
    recurrent = layers.value.get("recurrent", 0)
    if recurrent:
        inner = _count(header, "ssm.state_size")
        found.append(State(f"recurrent state of {recurrent} layers", (inner.value,) if inner else (), "inside"))
    return Found(tuple(found), heads.evidence if heads else layers.evidence)


def _lookup(header: GgufHeader, encoder: str | None) -> tuple[Found[Lookup], str]:
    kind = _evidence(header, "general.architecture")
    if encoder is not None:
        why = "an encoder reads the prompt: what is written is not among the tokens that the decoder has seen"
        return Found("cannot work", (Evidence(header.path.name, encoder, "a tensor of the encoder"),)), why
    if any(word in header.architecture for word in _SPEECH):
        return Found("cannot work", (kind,)), "it hears or speaks, and none of that is in the prompt's tokens"
    return Found("can work", (kind,)), "what is written may repeat the prompt"


def _size(headers: Sequence[GgufHeader], names: Mapping[str, Any]) -> Found[Size]:
    types = Counter(_type_name(tensor.ggml_type) for tensor in names.values())
    parameters = sum(math.prod(tensor.shape) for tensor in names.values())
    size = Size(sum(header.size_bytes for header in headers), parameters, dict(types))
    evidence = tuple(Evidence(header.path.name, "header", f"{len(header.tensors)} tensors") for header in headers[:3])
    return Found(size, evidence)


def _type_name(number: int) -> str:
    """The number format of a tensor as llama.cpp calls it."""
    from gguf import GGMLQuantizationType

    try:
        return str(GGMLQuantizationType(number).name)
    except ValueError:
        return f"type {number}"
