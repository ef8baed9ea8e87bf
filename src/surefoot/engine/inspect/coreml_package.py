"""What a Core ML package says: its manifest, and the functions of the model specification; no weight is read.

Source: https://github.com/apple/coremltools, mlmodel/format: Model.proto, FeatureTypes.proto, MIL.proto.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from surefoot.core.eligibility import OPEN, Refusal, Shape
from surefoot.core.errors import ConfigError, DamagedModel
from surefoot.engine.bounded import json_object
from surefoot.engine.inspect import programs, wire
from surefoot.engine.inspect.checkpoint import with_config
from surefoot.engine.inspect.findings import Evidence, Facts, Found, Objection, Size
from surefoot.engine.inspect.programs import Program
from surefoot.engine.inspect.wire import Message

_DATA = "Data"
_MOST_OPERATIONS = 200_000
_MOST_FUNCTIONS = 256
_UNBOUNDED = -1


def read(path: Path) -> Facts:
    """What the package, or the bare specification, says. Raises: DamagedModel where it is damaged or incomplete."""
    if path.suffix == ".mlmodelc":
        raise ConfigError(f"{path} is compiled for one machine: give the .mlpackage that it was made from")
    model = path if path.is_file() else _model(path)
    functions, kind = _functions(model)
    file = model.name
    head = programs.head_of(functions, file)
    stated = list(programs.objections_of(functions, head, file))
    if kind == "pipeline":
        text = "is a pipeline of several models, which have to be looked at one by one"
        stated.insert(0, Objection(Refusal("format", text), (Evidence(file, "type", kind),)))
    states = programs.states_of(functions, file)
    n_bytes, kinds = programs.size_of(path) if path.is_dir() else (path.stat().st_size, {})
    facts = Facts(
        format="coreml",
        path=path,
        files=(model,),
        size=Found(Size(n_bytes, None, kinds), (Evidence(path.name, "files", f"{n_bytes} bytes"),)),
        rows=programs.rows_of(functions, file),
        head=head,
        vocabulary=programs.vocabulary_of(functions, file),
        layers=programs.layers_of(states),
        states=states,
        stated=tuple(stated),
    )
    return with_config(facts, path.parent)


def _model(package: Path) -> Path:
    """The specification that the manifest names."""
    manifest = json_object(package / "Manifest.json")
    if not manifest:
        raise DamagedModel(f"{package} holds no Manifest.json, which says what is in it: fetch it again")
    entries, root = manifest.get("itemInfoEntries"), manifest.get("rootModelIdentifier")
    entry = entries.get(root) if isinstance(entries, Mapping) and isinstance(root, str) else None
    place = entry.get("path") if isinstance(entry, Mapping) else None
    if not isinstance(place, str) or not place:
        raise DamagedModel(f"{package / 'Manifest.json'} does not say where the model is: fetch it again")
    relative = Path(place)
    if relative.is_absolute() or ".." in relative.parts or ":" in place or "\\" in place or "\0" in place:
        raise ConfigError(f"{package / 'Manifest.json'} names {place[:80]!r}, outside of the package: it is not opened")
    model = package / _DATA / relative
    inside = model.resolve().is_relative_to(package.resolve())
    if not inside or not model.is_file():
        raise DamagedModel(f"{package} lacks {place[:80]}, which its manifest names: fetch it again")
    return model


def _functions(path: Path) -> tuple[list[Program], str]:
    """The functions of the model, and what kind of model it is."""
    with wire.opened(path) as model:
        description = model.message(2)
        if description is None:
            raise model.refusal("holds no description of a model")
        kind = "pipeline" if any(model.message(number) for number in (200, 201, 202)) else "model"
        functions = []
        for place, function in enumerate(description.messages(20)):
            if place >= _MOST_FUNCTIONS:
                raise model.refusal(f"has more than {_MOST_FUNCTIONS} functions")
            functions.append(_function(function, function.first_text(1), 2, 3, 6))
        if not functions:
            functions = [_function(description, "main", 1, 10, 13)]
        program = model.message(502)
        shapes = dict(_outputs(program)) if program is not None else {}
        return [_completed(each, shapes.get(each.name, {})) for each in functions], kind


def _completed(program: Program, shapes: Mapping[str, Shape]) -> Program:
    """With the shapes of outputs that the description leaves open and the program knows."""
    outputs = {name: shape or shapes.get(name, ()) for name, shape in program.outputs.items()}
    return replace(program, outputs=outputs)


def _function(message: Message, name: str, inputs: int, outputs: int, states: int) -> Program:
    """The function whose features are in the fields of these numbers."""
    counts: tuple[int, ...] = ()
    taken = {}
    for feature in message.messages(inputs):
        key, shape, listed = _feature(feature)
        taken[key] = shape
        if key.lower() in programs.IDS:
            counts = listed
    return Program(
        name,
        taken,
        {key: shape for key, shape, _ in map(_feature, message.messages(outputs))},
        {key: shape for key, shape, _ in map(_feature, message.messages(states))},
        counts,
    )


def _feature(feature: Message) -> tuple[str, Shape, tuple[int, ...]]:
    """Name, shape, and the lengths of the last axis that it is made for, where they are listed."""
    name, kind = feature.first_text(1), feature.message(3)
    array = None if kind is None else kind.message(5)
    if array is None and kind is not None:
        state = kind.message(8)
        array = None if state is None else state.message(1)
    if array is None:
        return name, (), ()
    shape = [_size(size) for size in array.numbers(1)]
    if len(shape) > 16:
        raise feature.refusal("has an array of more than 16 dimensions")
    listed = array.message(21)
    if listed is not None:
        ends = sorted({each.numbers(1)[-1] for each in listed.messages(1) if each.numbers(1)})
        return name, tuple(shape), tuple(end for end in ends if end > 0)
    ranges = array.message(31)
    if ranges is not None:
        for axis, limits in enumerate(ranges.messages(1)):
            low, high = limits.number(1), _signed(limits.number(2))
            if axis < len(shape) and (high == _UNBOUNDED or high > low):
                shape[axis] = OPEN
    return name, tuple(shape), ()


def _outputs(program: Message) -> Iterator[tuple[str, Mapping[str, Shape]]]:
    """Of each function, the shapes of the values that it gives back."""
    for entry in program.messages(2):
        name, function = entry.first_text(1), entry.message(2)
        if function is None:
            continue
        for specialised in function.messages(3):
            block = specialised.message(2)
            if block is not None:
                yield name, _given_back(block)


def _given_back(block: Message) -> Mapping[str, Shape]:
    """Shapes by name of the block's outputs, as the operations that make them have them."""
    wanted = set(block.texts(2))
    found: dict[str, Shape] = {}
    for place, operation in enumerate(block.messages(3)):
        if place > _MOST_OPERATIONS:
            raise block.refusal(f"has more than {_MOST_OPERATIONS} operations")
        for output in operation.messages(3):
            name = output.first_text(1)
            if name in wanted:
                found[name] = _tensor(output.message(2))
    return found


def _tensor(kind: Message | None) -> Shape:
    tensor = None if kind is None else kind.message(1)
    if tensor is None:
        return ()
    sizes = []
    for dimension in tensor.messages(3):
        constant = dimension.message(1)
        sizes.append(OPEN if constant is None else _size(constant.number(1)))
        if len(sizes) > 16:
            raise tensor.refusal("has an array of more than 16 dimensions")
    return tuple(sizes)


def _size(value: int) -> int:
    return value if 0 < value < 1 << 62 else OPEN


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
