"""Which OpenVINO graphs can be rolled back: from names and shapes alone, so that a graph's file can be asked, too."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from surefoot.core.eligibility import Refusal, Shape, of_head, of_rows, of_states, spelled
from surefoot.targets.openvino.pages import HISTORY_ROWS, Pages, Port

INPUTS = ("input_ids", "attention_mask", "position_ids", "beam_idx")

_EXPORT = "surefoot export MODEL --to openvino --out FOLDER"
ALL_ROWS = f"; export it with all rows: {_EXPORT}"
"""What helps where the head is computed on the last row only."""
_REMEDY = {
    "no cache": f"; export it with a cache that can be rolled back: {_EXPORT}",
    "cache handed in and out": f"; export it with a cache that can be rolled back: {_EXPORT}",
    # Nothing helps a recurrent layer; a window is kept by an export of ours as a context that ends there.
    "cumulative state": f"; if all its layers are attention, export it with a cache that grows: {_EXPORT}",
    "head on the last row": ALL_ROWS,
    "static rows": f": {_EXPORT}",
    "input missing": f": {_EXPORT}",
    "input shape": f": {_EXPORT}",
    "output shape": f": {_EXPORT}",
    "format": f": {_EXPORT} --cache caller",
}
"""What helps, by the kind of refusal."""


@dataclass(frozen=True, slots=True)
class Ports:
    """What a graph reads, keeps and writes. Open dimensions are -1; a shape of open rank is ().

    inputs: shape by name. names: of each input, all it goes by. states: of the variables. logits: of the output of that
    name, or the only one. most_rows: that it can have, where its shape leaves the rows open. outputs: every name.
    """

    inputs: Mapping[str, Shape]
    names: Sequence[Collection[str]]
    states: Sequence[Shape]
    logits: Shape
    most_rows: int | None
    outputs: Collection[str]

    @property
    def keeps_no_cache(self) -> bool:
        """Whether it is one of ours whose cache is kept by its caller."""
        return HISTORY_ROWS in self.inputs


def refusal(ports: Ports, trees: bool) -> Refusal | None:
    """Why drafts cannot be verified on such a graph; None where they can. `trees`: the mask is one of ours."""
    if ports.keeps_no_cache:
        return _caller_refusal(ports) or of_head(ports.logits, ports.most_rows)
    if "input_ids" not in ports.inputs:
        return Refusal(
            "no language model", f"is no language model: it reads {', '.join(sorted(ports.inputs)) or 'nothing'}"
        )
    if not ports.states:
        if any(name.startswith("past_key_values") for name in ports.inputs):
            return Refusal("cache handed in and out", "hands its whole cache in and out with every forward")
        return Refusal("no cache", "has no cache")
    return (
        _missing(ports)
        or _unknown(ports)
        or of_rows(ports.inputs["input_ids"])
        or _mask(ports.inputs["attention_mask"], 4 if trees else 2)
        or of_head(ports.logits, ports.most_rows)
        or of_states(ports.states)
    )


def sentence(name: object, found: Refusal) -> str:
    """The reason with the model's name before it and what helps behind it."""
    return f"{name} {found.text}{_REMEDY.get(found.kind, '')}"


def pages_of(ports: Ports) -> Pages:
    """The sizes of the arrays that the caller keeps, as the first of them has them."""
    layers = sum(name.startswith("history.") and name.endswith(".key") for name in ports.inputs)
    return Pages(layers, *ports.inputs.get(Port(0, "value").history, (0, 0, 0, 0))[1::2])


def _caller_refusal(ports: Ports) -> Refusal | None:
    """Whether it is what this version writes."""
    if len(ports.inputs.get(Port(0, "value").history, (0, 0, 0, 0))) != 4:
        wrong = [Port(0, "value").history]
    else:
        pages = pages_of(ports)
        due = pages.inputs()
        wrong = [name for name in sorted(due.keys() | ports.inputs.keys()) if due.get(name) != ports.inputs.get(name)]
        wrong += [port.rows for port in pages.ports() if port.rows not in ports.outputs]
    if wrong:
        return Refusal("format", f"keeps its cache with the caller, and its {wrong[0]} does not fit")
    return None


def _missing(ports: Ports) -> Refusal | None:
    for name, why in (
        ("attention_mask", "rejected rows could not be hidden"),
        ("position_ids", "rows could not be placed"),
    ):
        if name not in ports.inputs:
            return Refusal("input missing", f"has no input {name}, without which {why}")
    return None


def _unknown(ports: Ports) -> Refusal | None:
    for names in ports.names:
        if not set(names) & set(INPUTS):
            return Refusal("input unknown", f"wants an input {min(names)} that a language model does not have")
    return None


def _mask(shape: Shape, rank: int) -> Refusal | None:
    if len(shape) == rank:
        return None
    return Refusal("input shape", f"reads an attention_mask of shape {spelled(shape)}, and rank {rank} is expected")
