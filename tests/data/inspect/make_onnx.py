"""Writes the .onnx files beside this file. Needs onnx 1.23.

    python make_onnx.py

dynamic: as Optimum exports, cache in and out, weights in a file of their own. single: one row. last: logits of the last
row only. window: ONNX Runtime's fused attention with a sliding window. conv: a state of a convolution. merged: two
branches, one without a cache, as in Optimum's merged decoders.
"""

from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

VOCAB, WIDTH, HEADS = 32, 8, 2
HERE = Path(__file__).parent


def decoder(rows="n", logits="n", extra=(), operator="Identity", attributes=None):  # type: ignore[no-untyped-def]
    """A graph of the inputs and outputs of a decoder; what it computes is no language."""
    cache = ("batch", HEADS, "past", WIDTH // HEADS)
    inputs = [("input_ids", TensorProto.INT64, ("batch", rows))]
    inputs += [("attention_mask", TensorProto.INT64, ("batch", "all"))]
    inputs += [(f"past_key_values.0.{side}", TensorProto.FLOAT, cache) for side in ("key", "value")]
    inputs += [(name, TensorProto.FLOAT, shape) for name, shape in extra]
    outputs = [("logits", TensorProto.FLOAT, ("batch", logits, VOCAB))]
    outputs += [(f"present.0.{side}", TensorProto.FLOAT, cache) for side in ("key", "value")]
    chance = np.random.default_rng(0)
    embed = numpy_helper.from_array(chance.standard_normal((VOCAB, WIDTH)).astype(np.float32), "embed")
    head = numpy_helper.from_array(chance.standard_normal((WIDTH, VOCAB)).astype(np.float32), "head")
    last = numpy_helper.from_array(np.array([-1]), "last")
    nodes = [helper.make_node("Gather", ["embed", "input_ids"], ["x"])]
    domain = "com.microsoft" if operator == "GroupQueryAttention" else ""
    nodes.append(helper.make_node(operator, ["x"], ["y"], domain=domain, **(attributes or {})))
    if logits == 1 and rows != 1:
        nodes.append(helper.make_node("Gather", ["y", "last"], ["z"], axis=1))
    nodes.append(helper.make_node("MatMul", ["z" if logits == 1 and rows != 1 else "y", "head"], ["logits"]))
    nodes += [helper.make_node("Identity", [f"past_key_values.0.{s}"], [f"present.0.{s}"]) for s in ("key", "value")]
    infos = [[helper.make_tensor_value_info(*each) for each in group] for group in (inputs, outputs)]
    graph = helper.make_graph(nodes, "decoder", *infos, [embed, head, last])
    return helper.make_model(graph, producer_name="surefoot-tests", opset_imports=[helper.make_opsetid("", 21)])


def merged():  # type: ignore[no-untyped-def]
    """The decoder with an If around a part of it."""
    model = decoder()
    branch = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["inner"])], "branch", [],
        [helper.make_tensor_value_info("inner", TensorProto.FLOAT, None)],
    )  # fmt: skip
    node = helper.make_node("If", ["use_cache_branch"], ["y"], then_branch=branch, else_branch=branch)
    model.graph.node.remove(model.graph.node[1])
    model.graph.node.insert(1, node)
    model.graph.input.append(helper.make_tensor_value_info("use_cache_branch", TensorProto.BOOL, (1,)))
    return model


if __name__ == "__main__":
    (HERE / "dynamic.onnx.data").unlink(missing_ok=True)
    save(
        decoder(), HERE / "dynamic.onnx", save_as_external_data=True, location="dynamic.onnx.data", size_threshold=64
    )  # fmt: skip
    save(decoder(rows=1, logits=1), HERE / "single.onnx")
    save(decoder(logits=1), HERE / "last.onnx")
    window = {"num_heads": 2, "kv_num_heads": 2, "local_window_size": 128}
    save(decoder(operator="GroupQueryAttention", attributes=window), HERE / "window.onnx")
    save(decoder(extra=[("past_conv.1", ("batch", WIDTH, 3))]), HERE / "conv.onnx")
    save(merged(), HERE / "merged.onnx")
