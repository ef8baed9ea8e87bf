"""Constants, parameters and named results of a graph."""

from __future__ import annotations

from typing import Any

import numpy as np

MASKED = -65504.0
"""The lowest 16-bit float, which every inference precision can hold; adds exactly 0 after the softmax."""


def parameter(shape: list[int], dtype: Any, name: str) -> Any:
    """An input called `name`; -1 leaves a dimension open."""
    from openvino import opset13 as ops

    node = ops.parameter(shape, dtype, name=name)  # OpenVINO's paged attention looks for this name of the node
    node.output(0).get_tensor().set_names({name})
    return node


def result(node: Any, name: str) -> Any:
    """An output called `name`."""
    from openvino import opset13 as ops

    node = ops.result(node, name=name)
    node.output(0).get_tensor().set_names({name})
    return node


def ints(value: Any, dtype: Any = np.int64) -> Any:
    """A constant of whole numbers."""
    from openvino import opset13 as ops

    return ops.constant(np.array(value, dtype))


def number(value: float) -> Any:
    """A float32 constant without dimensions."""
    from openvino import opset13 as ops

    return ops.constant(np.float32(value))


def additive(seen: Any) -> Any:
    """0 where the boolean node is true, and what hides a score where it is not."""
    from openvino import opset13 as ops

    return ops.select(seen, number(0.0), number(MASKED))
