"""The Llama family as a stateful graph in the layout that Optimum Intel and OpenVINO GenAI share.

Inputs input_ids, attention_mask, position_ids (batch, n) and beam_idx (batch); output logits (batch, n, V);
keys and values are variables (batch, kv_heads, past, head_dim). The node shapes follow what the runtime's own
fusions look for: rotary embedding, normalisation, and attention over a growing cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from surefoot.targets.openvino.spec import ModelSpec, Source
from surefoot.targets.openvino.weights import Weights

EMBED, LAYER, FINAL = "embed", "layer.{}", "final"
"""Friendly names of the hidden states: what enters layer 0, what leaves each layer, what enters the head."""

MASKED = -65504.0
"""The lowest 16-bit float, which every inference precision can hold; adds exactly 0 after the softmax."""


@dataclass(frozen=True, slots=True, eq=False)
class Inputs:
    """The graph's parameters and what is computed from them once."""

    ids: Any
    attention_mask: Any
    position_ids: Any
    beam_idx: Any
    batch: Any
    mask: Any
    cos: Any
    sin: Any

    @property
    def parameters(self) -> list[Any]:
        return [self.ids, self.attention_mask, self.position_ids, self.beam_idx]


def build(source: Source, weights: Weights, trees: bool) -> Any:
    """The whole model. With `trees`, attention_mask is (batch, 1, n, past + n) boolean: the slots each row sees."""
    import openvino as ov
    from openvino import opset13 as ops

    spec = source.spec
    inputs = make_inputs(spec, trees)
    table = weights.matrix("model.embed_tokens.weight")
    x = ops.gather(table, ops.convert(inputs.ids, "i32"), _ints(0, np.int32))
    x.set_friendly_name(EMBED)
    sinks: list[Any] = []
    for layer in range(spec.layers):
        x = _layer(source, weights, inputs, layer, x, sinks)
        x.set_friendly_name(LAYER.format(layer))
    x = rms_norm(x, weights.vector("model.norm.weight", (1, 1, spec.hidden)), spec.eps)
    x.set_friendly_name(FINAL)
    head = table if spec.tied else weights.matrix("lm_head.weight")
    logits = ops.result(ops.matmul(x, head, False, True), name="logits")
    logits.output(0).get_tensor().set_names({"logits"})
    model = ov.Model([logits], sinks, inputs.parameters, "surefoot")
    model.validate_nodes_and_infer_types()
    return model


def make_inputs(spec: ModelSpec, trees: bool) -> Inputs:
    """Parameters, batch size, additive mask and rotary tables."""
    from openvino import opset13 as ops

    ids = _parameter([-1, -1], np.int64, "input_ids")
    mask_shape, mask_type = ([-1, 1, -1, -1], np.bool_) if trees else ([-1, -1], np.int64)
    attention_mask = _parameter(mask_shape, mask_type, "attention_mask")
    position_ids = _parameter([-1, -1], np.int64, "position_ids")
    beam_idx = _parameter([-1], np.int32, "beam_idx")
    batch = ops.gather(ops.shape_of(ids), _ints([0]), _ints(0))
    seen = attention_mask if trees else _causal(ids, attention_mask)
    mask = ops.select(seen, _float(0.0), _float(MASKED))
    cos, sin = _rotary(spec, batch, position_ids)
    return Inputs(ids, attention_mask, position_ids, beam_idx, batch, mask, cos, sin)


def _causal(ids: Any, attention_mask: Any) -> Any:
    """(batch, 1, n, past + n): slots up to the row's own that attention_mask shows."""
    from openvino import opset13 as ops

    total = ops.gather(ops.shape_of(attention_mask), _ints(1), _ints(0))
    rows = ops.gather(ops.shape_of(ids), _ints(1), _ints(0))
    columns = ops.range(_ints(0), total, _ints(1), "i64")
    own = ops.range(ops.subtract(total, rows), total, _ints(1), "i64")
    past = ops.less_equal(ops.unsqueeze(columns, _ints(0)), ops.unsqueeze(own, _ints(1)))
    shown = ops.convert(ops.unsqueeze(attention_mask, _ints([1, 2])), "boolean")
    return ops.logical_and(ops.unsqueeze(past, _ints([0, 1])), shown)


def _rotary(spec: ModelSpec, batch: Any, position_ids: Any) -> tuple[Any, Any]:
    """Cosine and sine (batch, 1, n, head_dim) of every position."""
    from openvino import opset13 as ops

    freq = ops.constant(spec.rope.inv_freq.reshape(1, -1, 1).astype(np.float32))
    freq = ops.broadcast(freq, ops.concat([batch, _ints([1]), _ints([1])], 0), broadcast_spec="BIDIRECTIONAL")
    places = ops.convert(ops.unsqueeze(position_ids, _ints(1)), "f32")
    angles = ops.transpose(ops.matmul(freq, places, False, False), _ints([0, 2, 1], np.int32))
    angles = ops.concat([angles, angles], -1)
    tables = (ops.cos(angles), ops.sin(angles))
    if spec.rope.scale != 1.0:
        tables = (ops.multiply(tables[0], _float(spec.rope.scale)), ops.multiply(tables[1], _float(spec.rope.scale)))
    return ops.unsqueeze(tables[0], _ints(1)), ops.unsqueeze(tables[1], _ints(1))


def rms_norm(x: Any, gamma: Any, eps: float) -> Any:
    """x / sqrt(mean(x^2) + eps) * gamma over the last axis."""
    from openvino import opset13 as ops

    mean = ops.reduce_mean(ops.power(x, _float(2.0)), _ints([-1], np.int32), keep_dims=True)
    inverse = ops.divide(_float(1.0), ops.sqrt(ops.add(mean, _float(eps))))
    return ops.multiply(ops.multiply(inverse, x), gamma)


def _layer(source: Source, weights: Weights, inputs: Inputs, layer: int, x: Any, sinks: list[Any]) -> Any:
    from openvino import opset13 as ops

    spec, prefix = source.spec, f"model.layers.{layer}"
    norm = weights.vector(f"{prefix}.input_layernorm.weight", (1, 1, spec.hidden))
    attended = _attention(source, weights, inputs, layer, rms_norm(x, norm, spec.eps), sinks)
    x = ops.add(x, attended)
    norm = weights.vector(f"{prefix}.post_attention_layernorm.weight", (1, 1, spec.hidden))
    flat = rms_norm(x, norm, spec.eps)
    gate = ops.swish(_linear(source, weights, f"{prefix}.mlp.gate_proj", flat))
    up = _linear(source, weights, f"{prefix}.mlp.up_proj", flat)
    return ops.add(x, _linear(source, weights, f"{prefix}.mlp.down_proj", ops.multiply(gate, up)))


def _linear(source: Source, weights: Weights, name: str, x: Any) -> Any:
    from openvino import opset13 as ops

    y = ops.matmul(x, weights.matrix(f"{name}.weight"), False, True)
    if source.has(f"{name}.bias"):
        y = ops.add(y, weights.vector(f"{name}.bias", (1, 1, source.shape(f"{name}.bias")[0])))
    return y


def _attention(source: Source, weights: Weights, inputs: Inputs, layer: int, x: Any, sinks: list[Any]) -> Any:
    from openvino import opset13 as ops

    spec, prefix = source.spec, f"model.layers.{layer}.self_attn"

    def heads(part: str, count: int) -> Any:
        y = _linear(source, weights, f"{prefix}.{part}_proj", x)
        y = ops.reshape(y, _ints([0, 0, count, spec.head_dim]), special_zero=True)
        if source.has(f"{prefix}.{part}_norm.weight"):
            gamma = weights.vector(f"{prefix}.{part}_norm.weight", (1, 1, 1, spec.head_dim))
            y = rms_norm(y, gamma, spec.eps)
        return ops.transpose(y, _ints([0, 2, 1, 3], np.int32))

    query = _rotate(heads("q", spec.heads), inputs, spec.head_dim)
    key = _rotate(heads("k", spec.kv_heads), inputs, spec.head_dim)
    key = _remember(spec, inputs, key, f"past_key_values.{layer}.keypresent.{layer}.key", sinks)
    value = heads("v", spec.kv_heads)
    value = _remember(spec, inputs, value, f"past_key_values.{layer}.valuepresent.{layer}.value", sinks)
    y = ops.scaled_dot_product_attention(
        query, _repeat(spec, inputs, key), _repeat(spec, inputs, value), inputs.mask, causal=False
    )
    y = ops.transpose(y, _ints([0, 2, 1, 3], np.int32))
    y = ops.reshape(y, _ints([0, 0, spec.heads * spec.head_dim]), special_zero=True)
    return _linear(source, weights, f"{prefix}.o_proj", y)


def _rotate(x: Any, inputs: Inputs, head_dim: int) -> Any:
    """x * cos + (-second half, first half) * sin."""
    from openvino import opset13 as ops

    half, end, step, axis = _ints([head_dim // 2]), _ints([np.iinfo(np.int64).max]), _ints([1]), _ints([3])
    second = ops.multiply(ops.slice(x, half, end, step, axis), _float(-1.0))
    first = ops.slice(x, _ints([0]), half, step, axis)
    return ops.add(ops.multiply(x, inputs.cos), ops.multiply(ops.concat([second, first], -1), inputs.sin))


def _remember(spec: ModelSpec, inputs: Inputs, new: Any, variable_id: str, sinks: list[Any]) -> Any:
    """The variable with the new rows behind its old ones; also what is stored in it."""
    import openvino as ov
    from openvino import op
    from openvino import opset13 as ops

    info = op.util.VariableInfo()
    info.data_shape = ov.PartialShape([-1, spec.kv_heads, -1, spec.head_dim])
    info.data_type = ov.Type.f32
    info.variable_id = variable_id
    variable = op.util.Variable(info)
    empty = ops.concat([inputs.batch, _ints([spec.kv_heads]), _ints([0]), _ints([spec.head_dim])], 0)
    old = op.read_value(ops.broadcast(_float(0.0), empty), variable)
    whole = ops.concat([ops.gather(old, inputs.beam_idx, _ints(0)), new], 2)
    sinks.append(op.assign(whole, variable))
    return whole


def _repeat(spec: ModelSpec, inputs: Inputs, x: Any) -> Any:
    """Each key or value head as often as query heads share it."""
    from openvino import opset13 as ops

    times = spec.heads // spec.kv_heads
    if times == 1:
        return x
    shape = [inputs.batch, _ints([spec.kv_heads]), _ints([times]), _ints([1]), _ints([spec.head_dim])]
    wide = ops.broadcast(ops.unsqueeze(x, _ints(2)), ops.concat(shape, 0), broadcast_spec="BIDIRECTIONAL")
    return ops.reshape(wide, _ints([0, spec.heads, -1, spec.head_dim]), special_zero=True)


def _parameter(shape: list[int], dtype: Any, name: str) -> Any:
    from openvino import opset13 as ops

    node = ops.parameter(shape, dtype, name)
    node.output(0).get_tensor().set_names({name})
    return node


def _ints(value: Any, dtype: Any = np.int64) -> Any:
    from openvino import opset13 as ops

    return ops.constant(np.array(value, dtype))


def _float(value: float) -> Any:
    from openvino import opset13 as ops

    return ops.constant(np.float32(value))
