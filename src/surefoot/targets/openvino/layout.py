"""What an OpenVINO graph must look like to be rolled back, and the changes made to it before it is compiled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.core.eligibility import OPEN, Shape, growing_axis
from surefoot.core.errors import NotEligible
from surefoot.targets.openvino.pages import BLOCK_MASK, Pages
from surefoot.targets.openvino.rules import Ports, pages_of, refusal, sentence

ROWS_INPUT = "surefoot_rows"

_WALKED = ("Convert", "Add", "Subtract", "Multiply", "Divide", "Tanh")


@dataclass(frozen=True, slots=True)
class Layout:
    """What the graph offers. `vocab` is None where its shape leaves it open; `slot_axis` counts the cached rows of a
    model with state, and `pages` are the arrays of one without.
    """

    vocab: int | None
    trees: bool
    has_beam: bool
    slot_axis: int
    tap_names: tuple[str, ...]
    head: str | None
    pages: Pages | None = None

    @property
    def mask_input(self) -> str:
        """The input that says which rows are seen."""
        return "attention_mask" if self.pages is None else BLOCK_MASK

    @property
    def discipline(self) -> str:
        """What becomes of rejected rows."""
        return "stale rows hidden by the mask" if self.pages is None else "staged rows, written after acceptance"


def read_layout(graph: Any, folder: Path, trees: bool) -> Layout:
    """The layout of a graph that can be rolled back: one with state, or one of ours whose cache the caller keeps.

    Raises: NotEligible with the reason and the export that would help.
    """
    ports = ports_of(graph)
    found = refusal(ports, trees)
    if found is not None:
        raise NotEligible(sentence(folder, found))
    head = find_head(graph)
    own = ports.keeps_no_cache
    return Layout(
        vocab=None if ports.logits[2] == OPEN else ports.logits[2],
        trees=trees or own,
        has_beam="beam_idx" in ports.inputs,
        slot_axis=0 if own else growing_axis(ports.states[0]) or 0,
        tap_names=_tap_names(graph, head),
        head=None if head is None else head.get_friendly_name(),
        pages=pages_of(ports) if own else None,
    )


def ports_of(graph: Any) -> Ports:
    """What the graph reads, keeps and writes."""
    logits = logits_port(graph).get_partial_shape()
    rows = logits[1] if not logits.rank.is_dynamic and logits.rank.get_length() == 3 else None
    # A dimension without an upper end says -1 for it.
    most = rows.get_max_length() if rows is not None and rows.is_dynamic else -1
    return Ports(
        inputs={name: _open_shape(port.get_partial_shape()) for port in graph.inputs for name in port.get_names()},
        names=[port.get_names() for port in graph.inputs],
        states=[
            _open_shape(op.get_output_partial_shape(0)) for op in graph.get_ops() if op.get_type_name() == "ReadValue"
        ],
        logits=_open_shape(logits),
        most_rows=most if most >= 0 else None,
        outputs={name for port in graph.outputs for name in port.get_names()},
    )


def _open_shape(shape: Any) -> Shape:
    """The shape with -1 where it is open."""
    return () if shape.rank.is_dynamic else tuple(OPEN if size.is_dynamic else size.get_length() for size in shape)


def logits_port(graph: Any) -> Any:
    """The output called logits, or the only one."""
    named = [port for port in graph.outputs if "logits" in port.get_names()]
    return (named or graph.outputs)[0]


def find_head(graph: Any) -> Any:
    """The matrix product that makes the logits, or None where something unusual stands in between."""
    node = logits_port(graph).get_node()
    node = node.input_value(0).get_node() if node.get_type_name() == "Result" else node
    while node.get_type_name() in _WALKED:
        node = node.input_value(0).get_node()
    return node if node.get_type_name() == "MatMul" else None


def _tap_names(graph: Any, head: Any) -> tuple[str, ...]:
    """embed, layer.N and final, as far as the graph has them; `final` enters the head."""
    names = {op.get_friendly_name() for op in graph.get_ops()}
    layers = sum(1 for name in names if name.startswith("layer.") and name[6:].isdigit())
    own = [n for n in ("embed", *(f"layer.{i}" for i in range(layers))) if n in names] if layers else []
    return (*own, "final") if head is not None else tuple(own)


def prepare(graph: Any, layout: Layout, taps: Sequence[str]) -> Any:
    """A copy of the graph with the taps as outputs and a head that computes the last `surefoot_rows` rows only.

    The last rows are all that a prefill needs; logits of a long prompt would take more memory than the model.
    """
    import openvino as ov
    from openvino import opset13 as ops

    graph = graph.clone()
    nodes = {op.get_friendly_name(): op for op in graph.get_ops()}
    head = nodes[layout.head] if layout.head is not None else None
    for name in taps:
        port = head.input_value(0) if name == "final" and head is not None else nodes[name].output(0)
        result = ops.result(port)
        result.output(0).get_tensor().set_names({tap_output(name)})
        graph.add_results([result])
    if head is not None:
        rows = ops.parameter([1], np.int64, ROWS_INPUT)
        rows.output(0).get_tensor().set_names({ROWS_INPUT})
        start = ops.multiply(rows, ops.constant(np.array([-1], np.int64)))
        ends = [ops.constant(np.array([n], np.int64)) for n in (np.iinfo(np.int64).max, 1, 1)]
        head.input(0).replace_source_output(ops.slice(head.input_value(0), start, *ends).output(0))
        graph.add_parameters([rows])
    graph.validate_nodes_and_infer_types()
    if not isinstance(graph, ov.Model):
        raise TypeError("the runtime's clone of a model is no model")
    return graph


def tap_output(name: str) -> str:
    """The output that carries the tap."""
    return f"tap.{name}"
