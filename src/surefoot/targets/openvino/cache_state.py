"""The cache inside the model, as variables: the layout that Optimum Intel and OpenVINO GenAI share.

Inputs attention_mask and beam_idx; keys and values are variables (batch, kv_heads, past, head_dim). The node shapes
follow what the runtime's fusion of attention over a growing cache looks for.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from surefoot.targets.openvino.nodes import additive, ints, number, parameter
from surefoot.targets.openvino.spec import ModelSpec


class StateCache:
    """Attention over variables of the graph. Holds the assignments made so far."""

    def __init__(self, spec: ModelSpec, trees: bool) -> None:
        """With `trees`, attention_mask is (batch, 1, n, past + n) boolean: the slots each row sees."""
        from openvino import opset13 as ops

        self._spec = spec
        self.ids = parameter([-1, -1], np.int64, "input_ids")
        mask_shape, mask_type = ([-1, 1, -1, -1], np.bool_) if trees else ([-1, -1], np.int64)
        attention_mask = parameter(mask_shape, mask_type, "attention_mask")
        self.position_ids = parameter([-1, -1], np.int64, "position_ids")
        self._beam_idx = parameter([-1], np.int32, "beam_idx")
        self._batch = ops.gather(ops.shape_of(self.ids), ints([0]), ints(0))
        self._mask = additive(attention_mask if trees else _causal(self.ids, attention_mask))
        self.parameters = [self.ids, attention_mask, self.position_ids, self._beam_idx]
        self.sinks: list[Any] = []
        self.results: list[Any] = []

    def attend(self, layer: int, query: Any, key: Any, value: Any) -> Any:
        """(batch, heads, n, head_dim): what the rows take from the cache and from each other."""
        from openvino import opset13 as ops

        key = self._remember(key, f"past_key_values.{layer}.keypresent.{layer}.key")
        value = self._remember(value, f"past_key_values.{layer}.valuepresent.{layer}.value")
        return ops.scaled_dot_product_attention(query, self._repeat(key), self._repeat(value), self._mask, causal=False)

    def _remember(self, new: Any, variable_id: str) -> Any:
        """The variable with the new rows behind its old ones; also what is stored in it."""
        import openvino as ov
        from openvino import op
        from openvino import opset13 as ops

        spec = self._spec
        info = op.util.VariableInfo()
        info.data_shape = ov.PartialShape([-1, spec.kv_heads, -1, spec.head_dim])
        info.data_type = ov.Type.f32
        info.variable_id = variable_id
        variable = op.util.Variable(info)
        empty = ops.concat([self._batch, ints([spec.kv_heads]), ints([0]), ints([spec.head_dim])], 0)
        old = op.read_value(ops.broadcast(number(0.0), empty), variable)
        whole = ops.concat([ops.gather(old, self._beam_idx, ints(0)), new], 2)
        self.sinks.append(op.assign(whole, variable))
        return whole

    def _repeat(self, x: Any) -> Any:
        """Each key or value head as often as query heads share it."""
        from openvino import opset13 as ops

        spec = self._spec
        times = spec.heads // spec.kv_heads
        if times == 1:
            return x
        shape = [self._batch, ints([spec.kv_heads]), ints([times]), ints([1]), ints([spec.head_dim])]
        wide = ops.broadcast(ops.unsqueeze(x, ints(2)), ops.concat(shape, 0), broadcast_spec="BIDIRECTIONAL")
        return ops.reshape(wide, ints([0, spec.heads, -1, spec.head_dim]), special_zero=True)


def _causal(ids: Any, attention_mask: Any) -> Any:
    """(batch, 1, n, past + n): slots up to the row's own that attention_mask shows."""
    from openvino import opset13 as ops

    total = ops.gather(ops.shape_of(attention_mask), ints(1), ints(0))
    rows = ops.gather(ops.shape_of(ids), ints(1), ints(0))
    columns = ops.range(ints(0), total, ints(1), "i64")
    own = ops.range(ops.subtract(total, rows), total, ints(1), "i64")
    past = ops.less_equal(ops.unsqueeze(columns, ints(0)), ops.unsqueeze(own, ints(1)))
    shown = ops.convert(ops.unsqueeze(attention_mask, ints([1, 2])), "boolean")
    return ops.logical_and(ops.unsqueeze(past, ints([0, 1])), shown)
