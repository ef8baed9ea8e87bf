"""The Llama family as a graph: embedding, layers, head. Where its cache lives is another module's.

The node shapes follow what the runtime's own fusions look for: rotary embedding and normalisation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from surefoot.targets.openvino.nodes import ints, number, result
from surefoot.targets.openvino.spec import ModelSpec, Source
from surefoot.targets.openvino.weights import Weights

EMBED, LAYER, FINAL = "embed", "layer.{}", "final"
"""Friendly names of the hidden states: what enters layer 0, what leaves each layer, what enters the head."""


class Cache(Protocol):
    """The inputs of a graph, and attention over what is cached."""

    ids: Any
    position_ids: Any
    parameters: list[Any]
    sinks: list[Any]
    results: list[Any]

    def attend(self, layer: int, query: Any, key: Any, value: Any) -> Any:
        """(batch, heads, n, head_dim) from a query of that shape and this layer's new keys and values."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """What every layer is made from: weights, cache, and the rotary tables of the positions."""

    source: Source
    weights: Weights
    cache: Cache
    cos: Any
    sin: Any


def build(source: Source, weights: Weights, cache: Cache) -> Any:
    """The whole model: input_ids and position_ids (batch, n) and what `cache` reads, to logits (batch, n, V)."""
    import openvino as ov
    from openvino import opset13 as ops

    spec = source.spec
    parts = Parts(source, weights, cache, *_rotary(spec, cache))
    table = weights.matrix("model.embed_tokens.weight")
    x = ops.gather(table, ops.convert(cache.ids, "i32"), ints(0, np.int32))
    x.set_friendly_name(EMBED)
    for layer in range(spec.layers):
        x = _layer(parts, layer, x)
        x.set_friendly_name(LAYER.format(layer))
    x = rms_norm(x, weights.vector("model.norm.weight", (1, 1, spec.hidden)), spec.eps)
    x.set_friendly_name(FINAL)
    head = table if spec.tied else weights.matrix("lm_head.weight")
    logits = result(ops.matmul(x, head, False, True), "logits")
    model = ov.Model([logits, *cache.results], cache.sinks, cache.parameters, "surefoot")
    model.validate_nodes_and_infer_types()
    return model


def _rotary(spec: ModelSpec, cache: Cache) -> tuple[Any, Any]:
    """Cosine and sine (batch, 1, n, head_dim) of every position."""
    from openvino import opset13 as ops

    batch = ops.gather(ops.shape_of(cache.ids), ints([0]), ints(0))
    freq = ops.constant(spec.rope.inv_freq.reshape(1, -1, 1).astype(np.float32))
    freq = ops.broadcast(freq, ops.concat([batch, ints([1]), ints([1])], 0), broadcast_spec="BIDIRECTIONAL")
    places = ops.convert(ops.unsqueeze(cache.position_ids, ints(1)), "f32")
    angles = ops.transpose(ops.matmul(freq, places, False, False), ints([0, 2, 1], np.int32))
    angles = ops.concat([angles, angles], -1)
    tables = (ops.cos(angles), ops.sin(angles))
    if spec.rope.scale != 1.0:
        tables = (ops.multiply(tables[0], number(spec.rope.scale)), ops.multiply(tables[1], number(spec.rope.scale)))
    return ops.unsqueeze(tables[0], ints(1)), ops.unsqueeze(tables[1], ints(1))


def rms_norm(x: Any, gamma: Any, eps: float) -> Any:
    """x / sqrt(mean(x^2) + eps) * gamma over the last axis."""
    from openvino import opset13 as ops

    mean = ops.reduce_mean(ops.power(x, number(2.0)), ints([-1], np.int32), keep_dims=True)
    inverse = ops.divide(number(1.0), ops.sqrt(ops.add(mean, number(eps))))
    return ops.multiply(ops.multiply(inverse, x), gamma)


def _layer(parts: Parts, layer: int, x: Any) -> Any:
    from openvino import opset13 as ops

    spec, weights, prefix = parts.source.spec, parts.weights, f"model.layers.{layer}"
    norm = weights.vector(f"{prefix}.input_layernorm.weight", (1, 1, spec.hidden))
    attended = _attention(parts, layer, rms_norm(x, norm, spec.eps))
    x = ops.add(x, attended)
    norm = weights.vector(f"{prefix}.post_attention_layernorm.weight", (1, 1, spec.hidden))
    flat = rms_norm(x, norm, spec.eps)
    gate = ops.swish(_linear(parts, f"{prefix}.mlp.gate_proj", flat))
    up = _linear(parts, f"{prefix}.mlp.up_proj", flat)
    return ops.add(x, _linear(parts, f"{prefix}.mlp.down_proj", ops.multiply(gate, up)))


def _linear(parts: Parts, name: str, x: Any) -> Any:
    from openvino import opset13 as ops

    source, weights = parts.source, parts.weights
    y = ops.matmul(x, weights.matrix(f"{name}.weight"), False, True)
    if source.has(f"{name}.bias"):
        y = ops.add(y, weights.vector(f"{name}.bias", (1, 1, source.shape(f"{name}.bias")[0])))
    return y


def _attention(parts: Parts, layer: int, x: Any) -> Any:
    from openvino import opset13 as ops

    source, weights, prefix = parts.source, parts.weights, f"model.layers.{layer}.self_attn"
    spec = source.spec

    def heads(part: str, count: int) -> Any:
        y = _linear(parts, f"{prefix}.{part}_proj", x)
        y = ops.reshape(y, ints([0, 0, count, spec.head_dim]), special_zero=True)
        if source.has(f"{prefix}.{part}_norm.weight"):
            gamma = weights.vector(f"{prefix}.{part}_norm.weight", (1, 1, 1, spec.head_dim))
            y = rms_norm(y, gamma, spec.eps)
        return ops.transpose(y, ints([0, 2, 1, 3], np.int32))

    query, key = _rotate(parts, heads("q", spec.heads)), _rotate(parts, heads("k", spec.kv_heads))
    y = parts.cache.attend(layer, query, key, heads("v", spec.kv_heads))
    y = ops.transpose(y, ints([0, 2, 1, 3], np.int32))
    y = ops.reshape(y, ints([0, 0, spec.heads * spec.head_dim]), special_zero=True)
    return _linear(parts, f"{prefix}.o_proj", y)


def _rotate(parts: Parts, x: Any) -> Any:
    """x * cos + (-second half, first half) * sin."""
    from openvino import opset13 as ops

    head_dim = parts.source.spec.head_dim
    half, end, step, axis = ints([head_dim // 2]), ints([np.iinfo(np.int64).max]), ints([1]), ints([3])
    second = ops.multiply(ops.slice(x, half, end, step, axis), number(-1.0))
    first = ops.slice(x, ints([0]), half, step, axis)
    return ops.add(ops.multiply(x, parts.cos), ops.multiply(ops.concat([second, first], -1), parts.sin))
