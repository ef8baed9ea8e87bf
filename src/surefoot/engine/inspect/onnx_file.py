"""What an ONNX file says: inputs, outputs, operators and where the weights are; no weight is read.

Source: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto, the numbers of the fields.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from surefoot.core.eligibility import OPEN, Refusal, Shape, growing_axis, of_head, of_rows, of_states, spelled
from surefoot.core.errors import ConfigError, DamagedModel
from surefoot.engine.bounded import json_object
from surefoot.engine.inspect import wire
from surefoot.engine.inspect.checkpoint import with_config
from surefoot.engine.inspect.findings import Evidence, Experts, Facts, Found, Head, Objection, Rows, Size, State
from surefoot.engine.inspect.wire import Message

NAMES = (
    "model.onnx",
    "decoder_model_merged.onnx",
    "decoder_with_past_model.onnx",
    "decoder_model.onnx",
    "onnx/model.onnx",
    "onnx/decoder_model_merged.onnx",
)
"""Source: what Optimum, ONNX Runtime GenAI and transformers.js call the file of a decoder."""

_GENAI = "genai_config.json"
_TYPES = {1: "F32", 2: "U8", 3: "I8", 6: "I32", 7: "I64", 10: "F16", 11: "F64", 16: "BF16", 21: "U4", 22: "I4"}
_CACHED = ("past_key_values", "past_key", "past_value", "past.", "cache", "key_cache", "value_cache", "past_seq")
_CUMULATIVE = ("conv", "ssm", "state", "recurrent", "mamba")
_WALKED = ("Cast", "Add", "Sub", "Mul", "Div", "Tanh")
_CUTS = ("Slice", "Gather", "GatherND", "Split")
_EXTERNAL = 1
_MOST_DEPTH = 4
"""chosen: the branches of Optimum's merged decoder are one deep."""

_MOST_NODES = 100_000
"""chosen: twice those of a mixture of 6,000 experts, each written out in eight operations."""


@dataclass(slots=True)
class Graph:
    """Holds changing state while it is read. inputs, outputs: shapes by name. made_by: kind and first input of the
    operation that makes a value. tensors, items: of the weights, by number format. outside: bytes by file.
    """

    inputs: dict[str, Shape] = field(default_factory=dict)
    outputs: dict[str, Shape] = field(default_factory=dict)
    kinds: Counter[str] = field(default_factory=Counter)
    made_by: dict[str, tuple[str, str]] = field(default_factory=dict)
    weights: set[str] = field(default_factory=set)
    tensors: Counter[str] = field(default_factory=Counter)
    parameters: int = 0
    outside: dict[str, int] = field(default_factory=dict)
    window: int = 0
    producer: str = ""


def find(folder: Path) -> Path | None:
    """The file of the decoder in a folder; the only ONNX file where none has a usual name."""
    for name in NAMES:
        if (folder / name).is_file():
            return folder / name
    files = sorted(folder.glob("*.onnx"))
    return files[0] if len(files) == 1 else None


def read(path: Path) -> Facts:
    """What the file says. Raises: DamagedModel where it is damaged or weights of it
    are missing; ConfigError where they are outside of its folder."""
    graph = _read(path)
    outside = _outside(path, graph)
    ids = graph.inputs.get("input_ids")
    logits = graph.outputs.get("logits", next(iter(graph.outputs.values()), ()))
    caches = {name: shape for name, shape in graph.inputs.items() if _is_cache(name)}
    stated = _objections(graph, ids, logits, caches, path)
    sizes = path.stat().st_size + sum(n for _, n in outside)
    evidence = [Evidence(path.name, "graph", f"{graph.kinds.total()} operations")]
    evidence += [Evidence(each.name, "size", f"{n} bytes") for each, n in outside[:3]]
    folder = path.parent.parent if path.parent.name == "onnx" else path.parent
    facts = Facts(
        format="onnx",
        path=path,
        files=(path, *(each for each, _ in outside)),
        size=Found(Size(sizes, graph.parameters or None, dict(graph.tensors)), tuple(evidence)),
        rows=None
        if ids is None or len(ids) != 2
        else Found(Rows(() if ids[1] == OPEN else (ids[1],)), (Evidence(path.name, "input_ids", spelled(ids)),)),
        head=_head(graph, logits, path),
        vocabulary=Found(logits[2], (Evidence(path.name, "logits", spelled(logits)),))
        if len(logits) == 3 and logits[2] > 0
        else None,
        states=Found(tuple(_summed(caches)), tuple(_evidence_of(caches, path))) if caches else None,
        window=Found(graph.window, (Evidence(path.name, "local_window_size", str(graph.window)),))
        if graph.window > 0
        else None,
        experts=_experts(graph, path),
        stated=stated,
    )
    return _with_genai(with_config(facts, folder), path.parent)


def _read(path: Path) -> Graph:
    found = Graph()
    with wire.opened(path) as model:
        graph = model.message(7)
        if graph is None:
            raise model.refusal("holds no graph")
        found.producer = model.first_text(2)
        _fill(found, graph, 0)
    if not found.outputs:
        raise DamagedModel(f"{path} is no ONNX model: its graph has no output")
    return found


def _fill(found: Graph, graph: Message, depth: int) -> None:
    """Adds a graph, and the graphs inside its operations."""
    for number, value in graph.fields():
        if not isinstance(value, Message):
            continue
        if number == 1:
            _node(found, value, depth)
        elif number == 5:
            _weight(found, value)
        elif number in (11, 12) and not depth:
            name, shape = value.first_text(1), _shape(value)
            (found.inputs if number == 11 else found.outputs)[name] = shape
    if not depth:
        # Old files list their weights among the inputs.
        found.inputs = {name: shape for name, shape in found.inputs.items() if name not in found.weights}


def _node(found: Graph, node: Message, depth: int) -> None:
    kind, first, outputs = "", "", []
    for number, value in node.fields():
        if not isinstance(value, Message):
            continue
        if number == 4:
            kind = value.text()
        elif number == 1 and not first:
            first = value.text()
        elif number == 2:
            outputs.append(value.text())
        elif number == 5:
            _attribute(found, value, depth)
    found.kinds[kind] += 1
    if found.kinds.total() > _MOST_NODES:
        raise node.refusal(f"has more than {_MOST_NODES} operations")
    if outputs:
        found.made_by[outputs[0]] = kind, first


def _attribute(found: Graph, attribute: Message, depth: int) -> None:
    """Of the attributes only graphs, and the window of an attention, are looked at."""
    for graph in attribute.messages(6):
        if depth >= _MOST_DEPTH:
            raise attribute.refusal(f"nests graphs deeper than {_MOST_DEPTH}")
        _fill(found, graph, depth + 1)
    if len(attribute) < 64 and attribute.first_text(1) == "local_window_size":
        span = attribute.number(3)
        found.window = span if 0 < span < 1 << 31 else found.window


def _weight(found: Graph, tensor: Message) -> None:
    dims: list[int] = []
    kind, external, entries, name = 0, 0, {}, ""
    for number, value in tensor.fields():
        if number == 1:
            dims += [value] if isinstance(value, int) else _packed(value)
        elif number == 2 and isinstance(value, int):
            kind = value
        elif number == 8 and isinstance(value, Message):
            name = value.text()
        elif number == 14 and isinstance(value, int):
            external = value
        elif number == 13 and isinstance(value, Message):
            entries[value.first_text(1)] = value.first_text(2)
    found.weights.add(name)
    found.tensors[_TYPES.get(kind, f"type {kind}")] += 1
    found.parameters += math.prod(dims) if len(dims) > 1 else 0
    if external == _EXTERNAL:
        location = entries.get("location", "")
        try:
            end = int(entries.get("offset") or 0) + int(entries.get("length") or 0)
        except ValueError:
            raise tensor.refusal("says where weights lie in words that are no numbers") from None
        found.outside[location] = max(found.outside.get(location, 0), end)


def _packed(value: Message) -> list[int]:
    """Dimensions written one behind the other."""
    if len(value) > 128:
        raise value.refusal(f"claims a tensor of {len(value)} dimensions")
    at, found = value.start, []
    while at < value.end:
        number, at = value._varint(at)
        found.append(number)
    return found


def _shape(info: Message) -> Shape:
    """The shape of an input or output; () where it is not told."""
    kind = info.message(2)
    tensor = None if kind is None else kind.message(1)
    shape = None if tensor is None else tensor.message(2)
    if shape is None:
        return ()
    found = []
    for dim in shape.messages(1):
        value = dim.number(1, OPEN)
        found.append(value if 0 < value < 1 << 62 else OPEN)
        if len(found) > 16:
            raise info.refusal("has an input of more than 16 dimensions")
    return tuple(found)


def _outside(path: Path, graph: Graph) -> list[tuple[Path, int]]:
    """The files of the weights that lie beside the graph, with their sizes."""
    files = []
    for location, end in sorted(graph.outside.items()):
        relative = Path(location)
        inside = location and not relative.is_absolute() and ".." not in relative.parts and "\\" not in location
        if not inside or ":" in location:
            raise ConfigError(
                f"{path} wants weights from {location[:80]!r}, outside of its folder: they are not opened"
            )
        file = path.parent / relative
        try:
            n_bytes = file.stat().st_size
        except (OSError, ValueError):
            raise DamagedModel(
                f"{path} keeps weights in {location[:80]}, which is not in {path.parent}: fetch it"
            ) from None
        if end > n_bytes:
            raise DamagedModel(
                f"{file} is cut off: {path.name} needs {end} bytes of it and it has {n_bytes}: fetch it again"
            )
        files.append((file, n_bytes))
    return files


def _is_cache(name: str) -> bool:
    lower = name.lower()
    return lower.startswith(_CACHED) or any(f"past_{word}" in lower or f"{word}_state" in lower for word in _CUMULATIVE)


def _objections(
    graph: Graph, ids: Shape | None, logits: Shape, caches: Mapping[str, Shape], path: Path
) -> tuple[Objection, ...]:
    """What stands against verification in the graph itself."""
    if ids is None:
        text = f"is no language model: it reads {_listed(graph) or 'nothing'}"
        return (Objection(Refusal("no language model", text), (Evidence(path.name, "input", _listed(graph)),)),)
    found: list[Objection] = []
    shaped = of_rows(ids) if len(ids) != 2 else None
    if shaped is not None:
        found.append(Objection(shaped, (Evidence(path.name, "input_ids", spelled(ids)),)))
    # With one row there is one row of logits, too: that says nothing about the head.
    headless = of_head(logits) if ids[-1:] != (1,) else None
    if headless is not None:
        found.append(Objection(headless, (Evidence(path.name, "logits", spelled(logits)),)))
    if not caches:
        found.append(Objection(Refusal("no cache", "has no cache"), (Evidence(path.name, "input", _listed(graph)),)))
    else:
        # A cache of open shape, or one of the longest context that is filled from its start, can be overwritten.
        cumulative = {name: shape for name, shape in caches.items() if _is_cumulative(name, shape)}
        for name, shape in list(cumulative.items())[:1]:
            refusal = of_states([shape]) or Refusal(
                "cumulative state", f"has a state {name}, which cannot be rolled back"
            )
            found.append(Objection(refusal, (Evidence(path.name, name, spelled(shape)),)))
    return tuple(found)


def _is_cumulative(name: str, shape: Shape) -> bool:
    if "key" in name or "value" in name:
        return False
    return growing_axis(shape) is None or any(word in name.lower() for word in _CUMULATIVE)


def _listed(graph: Graph) -> str:
    return ", ".join(sorted(graph.inputs)[:6])


def _head(graph: Graph, logits: Shape, path: Path) -> Found[Head] | None:
    if len(logits) != 3:
        return None
    here = (Evidence(path.name, "logits", spelled(logits)),)
    ids = graph.inputs.get("input_ids", ())
    if logits[1] == 1 and ids[1:2] == (OPEN,):
        return Found("last row", here)
    at, steps = "logits", 0
    while at in graph.made_by and steps < 16:
        kind, before = graph.made_by[at]
        if kind in _CUTS:
            return None
        if kind not in (*_WALKED, "MatMul", "MatMulNBits", "Gemm"):
            break
        at, steps = before, steps + 1
        if kind not in _WALKED:  # the head; what stands just before it matters, too
            return None if graph.made_by.get(at, ("", ""))[0] in _CUTS else Found("all rows", here)
    return Found("all rows", here)


def _summed(caches: Mapping[str, Shape]) -> Iterator[State]:
    for shape, n in Counter(caches.values()).items():
        yield State(f"{n} arrays", shape, "by the caller")


def _evidence_of(caches: Mapping[str, Shape], path: Path) -> Iterator[Evidence]:
    first: dict[Shape, str] = {}
    for name, shape in caches.items():
        first.setdefault(shape, name)
    return (Evidence(path.name, name, spelled(shape)) for shape, name in list(first.items())[:4])


def _experts(graph: Graph, path: Path) -> Found[Experts] | None:
    for kind in ("MoE", "QMoE"):
        if graph.kinds[kind]:
            return Found(Experts(0, None), (Evidence(path.name, "operations", f"{graph.kinds[kind]} x {kind}"),))
    return None


def _with_genai(facts: Facts, folder: Path) -> Facts:
    """Completed by the settings of ONNX Runtime GenAI."""
    model = json_object(folder / _GENAI).get("model")
    if not isinstance(model, dict):
        return facts

    def number(key: str) -> Found[int] | None:
        value = model.get(key)
        if type(value) is not int or value <= 0:
            return None
        return Found(value, (Evidence(_GENAI, f"model.{key}", str(value)),))

    kind = model.get("type")
    named = Found(kind, (Evidence(_GENAI, "model.type", kind),)) if isinstance(kind, str) and kind else None
    return replace(
        facts,
        architecture=facts.architecture or named,
        vocabulary=facts.vocabulary or number("vocab_size"),
        context=facts.context or number("context_length"),
    )
