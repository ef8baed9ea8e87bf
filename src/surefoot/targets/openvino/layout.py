"""What an OpenVINO graph must look like to be rolled back, and the changes made to it before it is compiled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.core.errors import NotEligible
from surefoot.targets.openvino.pages import BLOCK_MASK, HISTORY_ROWS, Pages, Port

INPUTS = ("input_ids", "attention_mask", "position_ids", "beam_idx")
ROWS_INPUT = "surefoot_rows"

_EXPORT = "surefoot export MODEL --to openvino --out FOLDER"
_EXPORT_CALLER = f"{_EXPORT} --cache caller"
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
    inputs = {name: port for port in graph.inputs for name in port.get_names()}
    if HISTORY_ROWS in inputs:
        return _caller_layout(graph, inputs, folder)
    states = [op for op in graph.get_ops() if op.get_type_name() == "ReadValue"]
    if "input_ids" not in inputs:
        raise NotEligible(f"{folder} is no language model: it reads {', '.join(sorted(inputs)) or 'nothing'}")
    if not states:
        cached = any(name.startswith("past_key_values") for name in inputs)
        found = "hands its whole cache in and out with every forward" if cached else "has no cache"
        raise NotEligible(f"{folder} {found}; export it with a cache that can be rolled back: {_EXPORT}")
    _check_inputs(graph, inputs, folder, 4 if trees else 2)
    head = find_head(graph)
    return Layout(
        vocab=_vocab(graph, folder),
        trees=trees,
        has_beam="beam_idx" in inputs,
        slot_axis=_slot_axis(states, folder),
        tap_names=_tap_names(graph, head),
        head=None if head is None else head.get_friendly_name(),
    )


def _caller_layout(graph: Any, inputs: Mapping[str, Any], folder: Path) -> Layout:
    """The layout of a graph of ours whose cache its caller keeps. Raises: NotEligible where it is another version's."""
    layers = sum(name.startswith("history.") and name.endswith(".key") for name in inputs)
    shapes = {name: _open_shape(port) for name, port in inputs.items()}
    pages = Pages(layers, *shapes.get(Port(0, "value").history, (0, 0, 0, 0))[1::2])
    due, given = pages.inputs(), {name for port in graph.outputs for name in port.get_names()}
    wrong = [name for name in sorted(due.keys() | shapes.keys()) if due.get(name) != shapes.get(name)]
    wrong += [port.rows for port in pages.ports() if port.rows not in given]
    if wrong:
        raise NotEligible(
            f"{folder} keeps its cache with the caller, and its {wrong[0]} does not fit: {_EXPORT_CALLER}"
        )
    head = find_head(graph)
    return Layout(
        vocab=_vocab(graph, folder),
        trees=True,
        has_beam=False,
        slot_axis=0,
        tap_names=_tap_names(graph, head),
        head=None if head is None else head.get_friendly_name(),
        pages=pages,
    )


def _open_shape(port: Any) -> tuple[int, ...]:
    """The shape with -1 where it is open."""
    shape = port.get_partial_shape()
    return () if shape.rank.is_dynamic else tuple(-1 if size.is_dynamic else size.get_length() for size in shape)


def _check_inputs(graph: Any, inputs: dict[str, Any], folder: Path, mask_rank: int) -> None:
    for name in ("attention_mask", "position_ids"):
        if name not in inputs:
            why = "rejected rows could not be hidden" if name == "attention_mask" else "rows could not be placed"
            raise NotEligible(f"{folder} has no input {name}, without which {why}: {_EXPORT}")
    for port in graph.inputs:
        if not port.get_names() & set(INPUTS):
            raise NotEligible(f"{folder} wants an input {port.get_any_name()} that a language model does not have")
    ids = inputs["input_ids"].get_partial_shape()
    if ids.rank.is_dynamic or ids.rank.get_length() != 2:
        raise NotEligible(f"{folder} reads input_ids of shape {ids}, and (batch, n) is needed: {_EXPORT}")
    if ids[1].is_static:
        rows = ids[1].get_length()
        found = "a single row" if rows == 1 else f"{rows} rows, no more and no fewer,"
        raise NotEligible(f"{folder} scores {found} a forward (static shapes), so drafts cannot be checked: {_EXPORT}")
    rank = inputs["attention_mask"].get_partial_shape().rank
    if rank.is_dynamic or rank.get_length() != mask_rank:
        raise NotEligible(f"{folder} reads an attention_mask of rank {rank}, and {mask_rank} is expected: {_EXPORT}")


def _vocab(graph: Any, folder: Path) -> int | None:
    shape = logits_port(graph).get_partial_shape()
    if shape.rank.is_dynamic or shape.rank.get_length() != 3:
        raise NotEligible(f"{folder} writes {shape} where logits (batch, n, vocabulary) are needed: {_EXPORT}")
    # A slice that takes the last row has 0 or 1 of them as far as the runtime can tell.
    if shape[1].get_max_length() in (0, 1):
        raise NotEligible(
            f"{folder} computes its head on the last row only, so drafts cannot be checked; export it with all rows:"
            f" {_EXPORT}"
        )
    return int(shape[2].get_length()) if shape[2].is_static else None


def _slot_axis(states: Sequence[Any], folder: Path) -> int:
    """The one axis after the batch that grows, the same in every state."""
    axes = set()
    for state in states:
        shape = state.get_output_partial_shape(0)
        grows = [] if shape.rank.is_dynamic else [i for i in range(1, shape.rank.get_length()) if shape[i].is_dynamic]
        if len(grows) != 1:
            raise NotEligible(
                f"{folder} has a state of shape {shape} that does not grow by one row a token (a recurrent layer or a"
                " fixed window), so rejected rows cannot be hidden in it"
            )
        axes.add(grows[0])
    if len(axes) != 1:
        raise NotEligible(f"{folder} has states that grow along different axes, which is not supported")
    return int(axes.pop())


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
