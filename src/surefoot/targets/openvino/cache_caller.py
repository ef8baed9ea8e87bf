"""The cache in the caller's arrays: the graph reads committed rows and gives out the new ones.

Of the history (pages.py) the first `history_rows` rows count. block_mask (n, t + n) says which of the t staged rows and
of its own block each row sees; the outputs are the staged rows with the new ones behind them.

History and block are multiplied apart and joined by maxima and sums, because joining them first would copy the whole
history in every forward. Pages, because more of them need neither another compiled model nor another order of the rows.
Source: studies/openvino-form-b.md; parts of a softmax are joined as in arXiv 2205.14135, section 3.1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from surefoot.targets.openvino.nodes import additive, ints, number, parameter, result
from surefoot.targets.openvino.pages import BLOCK_MASK, HISTORY_ROWS, PAGE, Pages, Port
from surefoot.targets.openvino.spec import ModelSpec


class CallerCache:
    """Attention over arrays of the caller. Holds the outputs made so far."""

    def __init__(self, spec: ModelSpec) -> None:
        self._spec = spec
        types = {"input_ids": np.int64, "position_ids": np.int64, HISTORY_ROWS: np.int64, BLOCK_MASK: np.bool_}
        pages = Pages(spec.layers, spec.kv_heads, spec.head_dim)
        self._inputs = {
            name: parameter(list(shape), types.get(name, np.float32), name) for name, shape in pages.inputs().items()
        }
        self.ids, self.position_ids = self._inputs["input_ids"], self._inputs["position_ids"]
        self.parameters = list(self._inputs.values())
        self.sinks: list[Any] = []
        self.results: list[Any] = []
        self._shown, self._seen = self._line(), self._square()

    def attend(self, layer: int, query: Any, key: Any, value: Any) -> Any:
        """(1, heads, n, head_dim): what the rows take from the history and from each other.

        The query heads that share a key head are rows of one product, so that no key is repeated.
        """
        from openvino import opset13 as ops

        heads, dim = self._spec.kv_heads, self._spec.head_dim
        keys, values = Port(layer, "key"), Port(layer, "value")
        key, value = self._behind_staged(keys, key), self._behind_staged(values, value)
        query = ops.multiply(query, number(dim**-0.5))
        query = ops.reshape(query, ints([0, heads, -1, dim]), special_zero=True)
        old = ops.add(ops.matmul(query, self._inputs[keys.history], False, False), self._shown)
        own = ops.add(ops.matmul(query, key, False, True), self._seen)
        across, last = ints([0, 3]), ints([3])
        top = ops.maximum(ops.reduce_max(old, across, True), ops.reduce_max(own, last, True))
        old, own = ops.exp(ops.subtract(old, top)), ops.exp(ops.subtract(own, top))
        total = ops.add(ops.reduce_sum(old, across, True), ops.reduce_sum(own, last, True))
        taken = ops.reduce_sum(ops.matmul(old, self._inputs[values.history], False, False), ints([0]), True)
        y = ops.divide(ops.add(taken, ops.matmul(own, value, False, False)), total)
        return ops.reshape(y, ints([0, self._spec.heads, -1, dim]), special_zero=True)

    def _behind_staged(self, port: Port, new: Any) -> Any:
        """The staged rows with the new ones behind them; also given out."""
        from openvino import opset13 as ops

        whole = ops.concat([self._inputs[port.staged], new], 2)
        self.results.append(result(whole, port.rows))
        return whole

    def _line(self) -> Any:
        """(pages, 1, 1, PAGE): 0 for the rows of the history that count."""
        from openvino import opset13 as ops

        pages = ops.gather(ops.shape_of(self._inputs[Port(0, "key").history]), ints(0), ints(0))
        places = ops.range(ints(0), ops.multiply(pages, ints(PAGE)), ints(1), "i64")
        line = additive(ops.less(places, self._inputs[HISTORY_ROWS]))
        return ops.reshape(line, ints([-1, 1, 1, PAGE]), special_zero=False)

    def _square(self) -> Any:
        """(times * n, t + n): 0 where a row sees another, for each query head that shares a key head."""
        from openvino import opset13 as ops

        times = self._spec.heads // self._spec.kv_heads
        return ops.tile(additive(self._inputs[BLOCK_MASK]), ints([times, 1]))
