"""What an OpenVINO folder says: the graph in the XML, the settings beside it, and how large the weights are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from surefoot.core.eligibility import OPEN, Shape, spelled
from surefoot.core.errors import DamagedModel
from surefoot.engine.bounded import json_object
from surefoot.engine.inspect import ir_xml
from surefoot.engine.inspect.checkpoint import with_config
from surefoot.engine.inspect.findings import Evidence, Facts, Found, Head, Objection, Rows, Size, State
from surefoot.engine.inspect.ir_xml import Graph, Layer
from surefoot.targets.openvino.names import MODEL_FILE, RECORD_FILE
from surefoot.targets.openvino.rules import Ports, refusal, sentence

_WALKED = ("Convert", "Add", "Subtract", "Multiply", "Divide", "Tanh", "Result")
_ROWS = 1  # the axis of the rows in (batch, n, width)
_FEW = 64
"""chosen: bytes of a constant that says where a slice begins; longer ones are weights."""


def read(folder: Path) -> Facts:
    """What the folder says. Raises: DamagedModel where a file of it is damaged or missing."""
    file, weights = folder / MODEL_FILE, (folder / MODEL_FILE).with_suffix(".bin")
    graph = ir_xml.read(file)
    try:
        n_bytes = weights.stat().st_size
    except OSError:
        raise DamagedModel(f"{folder} holds {MODEL_FILE} without its weights {weights.name}: fetch it again") from None
    record = json_object(folder / RECORD_FILE)
    ports, states = ports_of(graph, weights), list(_states(graph))
    found = refusal(ports, bool(record.get("trees", False)))
    facts = Facts(
        format="openvino",
        path=folder,
        files=(file, weights),
        size=_size(graph, file, weights, n_bytes),
        rows=_rows(ports, file),
        head=_head(graph, ports, file),
        vocabulary=_vocabulary(ports, file),
        states=Found(tuple(_summed(states, ports)), _evidence_of_states(states, ports, file)),
        stated=() if found is None else (Objection(found, (_evidence(found.kind, ports, file),)),),
    )
    own = record.get("max_length")
    if isinstance(own, int) and own > 0:
        facts = _with_context(facts, own)
    return with_config(facts, folder)


def told(folder: Path, facts: Facts) -> str | None:
    """What the runtime would say of this folder; None where it has nothing against it."""
    return next((sentence(folder, each.refusal) for each in facts.stated), None)


def ports_of(graph: Graph, weights: Path) -> Ports:
    """What the graph reads, keeps and writes. weights: the file of its constants."""
    parameters = [layer for layer in graph.layers.values() if layer.kind == "Parameter"]
    results = list(_results(graph))
    named = [shape for names, shape in results if "logits" in names]
    names = [tuple(name for each in layer.names.values() for name in each) or (layer.name,) for layer in parameters]
    shapes = [next(iter(layer.outputs.values()), ()) for layer in parameters]
    return Ports(
        inputs={name: shape for group, shape in zip(names, shapes, strict=True) for name in group},
        names=names,
        states=[shape for _, shape in _states(graph)],
        logits=(named or [shape for _, shape in results] or [()])[0],
        most_rows=1 if _keeps_the_last(graph, _cut_before_the_head(graph), weights) else None,
        outputs={name for group, _ in results for name in group},
    )


def _results(graph: Graph) -> Iterator[tuple[Sequence[str], Shape]]:
    """Names and shape of each output: those of the port that it comes from."""
    for layer in graph.layers.values():
        if layer.kind == "Result":
            source = graph.source(layer)
            if source is not None:
                yield source[0].names.get(source[1], ()), source[0].outputs.get(source[1], ())


def _states(graph: Graph) -> Iterator[tuple[str, Shape]]:
    """Name and shape of each variable."""
    for layer in graph.layers.values():
        if layer.kind == "ReadValue":
            yield layer.data.get("variable_id", layer.name), next(iter(layer.outputs.values()), ())


def _head(graph: Graph, ports: Ports, file: Path) -> Found[Head] | None:
    """By the shape of the logits, and where that leaves it open by what stands before the head."""
    if len(ports.logits) != 3:
        return None
    here = Evidence(file.name, "logits", spelled(ports.logits))
    if ports.logits[1] in (0, 1) and ports.inputs.get("input_ids", ())[1:2] == (OPEN,):
        return Found("last row", (here,))
    cut = _cut_before_the_head(graph)
    if cut is None:
        return Found("all rows", (here,))
    kept = Evidence(file.name, cut.name, f"a {cut.kind} before the head")
    return Found("last row", (kept, here)) if ports.most_rows == 1 else None


def _cut_before_the_head(graph: Graph) -> Layer | None:
    """A slice between the head and the logits, or just before the head, which may keep fewer rows than there are."""
    for layer in graph.layers.values():
        source = graph.source(layer) if layer.kind == "Result" else None
        if source is None or "logits" not in source[0].names.get(source[1], ()):
            continue
        at, steps = source[0], 0
        while at.kind in _WALKED and steps < len(graph.layers):
            before = graph.source(at)
            if before is None:
                return None
            at, steps = before[0], steps + 1
        if at.kind in ir_xml.CUTS:
            return at
        before = graph.source(at) if at.kind == "MatMul" else None
        return before[0] if before is not None and before[0].kind in ir_xml.CUTS else None
    return None


def _keeps_the_last(graph: Graph, cut: Layer | None, weights: Path) -> bool:
    """Whether this cut is known to keep the last row and no other."""
    if cut is None or cut.kind not in ("Slice", "Gather"):
        return False
    given = []
    for number in range(1, 5 if cut.kind == "Slice" else 3):
        source = graph.source(cut, number)
        given.append(None if source is None else _constant(source[0], weights))
    if cut.kind == "Gather":
        return given == [(-1,), (_ROWS,)]
    start, stop, step, axis = given
    return start == (-1,) and stop is not None and stop[0] >= 2**31 - 1 and (step, axis) == ((1,), (_ROWS,))


def _constant(layer: Layer, weights: Path) -> tuple[int, ...] | None:
    """The whole numbers of a small constant; None of anything else."""
    widths = {"i64": 8, "i32": 4}
    width = widths.get(layer.data.get("element_type", ""))
    if layer.kind != "Const" or width is None:
        return None
    try:
        offset, size = int(layer.data["offset"]), int(layer.data["size"])
        if offset < 0 or not 0 < size <= _FEW or size % width:
            return None
        with weights.open("rb") as file:
            file.seek(offset)
            data = file.read(size)
    except (KeyError, ValueError, OSError, OverflowError):
        return None
    return tuple(int.from_bytes(data[i : i + width], "little", signed=True) for i in range(0, len(data), width))


def _rows(ports: Ports, file: Path) -> Found[Rows] | None:
    ids = ports.inputs.get("input_ids")
    if ids is None or len(ids) != 2:
        return None
    counts = () if ids[1] == OPEN else (ids[1],)
    return Found(Rows(counts), (Evidence(file.name, "input_ids", spelled(ids)),))


def _vocabulary(ports: Ports, file: Path) -> Found[int] | None:
    if len(ports.logits) != 3 or ports.logits[2] < 1:
        return None
    return Found(ports.logits[2], (Evidence(file.name, "logits", spelled(ports.logits)),))


def _summed(states: Sequence[tuple[str, Shape]], ports: Ports) -> Iterator[State]:
    """States of one shape as one line."""
    for shape, n in Counter(shape for _, shape in states).items():
        yield State(f"{n} variables", shape, "inside")
    kept = {name: shape for name, shape in ports.inputs.items() if name.startswith(("past_key_values", "history."))}
    for shape, n in Counter(kept.values()).items():
        yield State(f"{n} arrays", shape, "by the caller")


def _evidence_of_states(states: Sequence[tuple[str, Shape]], ports: Ports, file: Path) -> tuple[Evidence, ...]:
    first: dict[Shape, str] = {}
    kept = [(name, shape) for name, shape in ports.inputs.items() if name.startswith(("past_key_values", "history."))]
    for name, shape in (*states, *kept):
        first.setdefault(shape, name)
    return tuple(Evidence(file.name, name, spelled(shape)) for shape, name in list(first.items())[:4])


def _evidence(kind: str, ports: Ports, file: Path) -> Evidence:
    """Where the reason was read."""
    if kind == "head on the last row":
        return Evidence(file.name, "logits", spelled(ports.logits))
    if kind == "cumulative state":
        return Evidence(file.name, "ReadValue", "; ".join(spelled(shape) for shape in dict.fromkeys(ports.states)))
    if kind == "static rows":
        return Evidence(file.name, "input_ids", spelled(ports.inputs["input_ids"]))
    return Evidence(file.name, "Parameter", ", ".join(sorted(ports.inputs)[:6]))


def _size(graph: Graph, file: Path, weights: Path, n_bytes: int) -> Found[Size]:
    kinds = Counter(layer.kind for layer in graph.layers.values())
    evidence = Evidence(weights.name, "size", f"{n_bytes} bytes"), Evidence(file.name, "layers", f"{kinds.total()}")
    return Found(Size(n_bytes, None, {}), evidence)


def _with_context(facts: Facts, longest: int) -> Facts:
    return replace(facts, context=Found(longest, (Evidence(RECORD_FILE, "max_length", str(longest)),)))
