"""The graph of an OpenVINO IR file, read in bounded time and memory: no entities, no document type, nothing nested
deeper than the format nests.

The runtime's own reader builds the whole model, weights mapped; what is wanted here are names, kinds and shapes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.parsers import expat

from surefoot.core.eligibility import OPEN, Shape
from surefoot.core.errors import ConfigError, DamagedModel

_CHUNK = 64 * 1024

MAX_ELEMENTS = 700_000
MAX_ATTRIBUTES = 1_200_000
MAX_LAYERS = 60_000
MAX_EDGES = 120_000
MAX_BYTES = 64 * 2**20
"""chosen: SmolLM2 has 49,135 elements, 64,212 attributes, 4,127 operations and 4,971 edges in 1.8 MB. A mixture of
experts that is written out expert by expert has 50,000 operations, and so twelve times all of that; names of ports,
which count as attributes, make 100,000 more.
measured: 2-core x86, 2026-12-01: a file full of one of them is read in 1.0 s of processor time at most, one full of
elements, operations and edges in 1.2 s and 95 MiB. The most are 254 MiB, for names that Python spreads to four bytes a
letter because a letter of each needs as many."""

MAX_DEPTH = 64
"""chosen: net/layers/layer/output/port/dim are six, and each loop in a loop adds four."""

MAX_TAG = 2**20
"""chosen: attributes hold names and lists of numbers; a mebibyte of one is no attribute. It also bounds the time of old
parsers, which look at an unfinished tag again with every piece of it."""

KEPT = ("Parameter", "Result", "ReadValue", "Const")
CUTS = ("Slice", "StridedSlice", "Gather", "VariadicSplit", "Split")
"""Operations that may keep fewer rows than they get; all their inputs are kept in mind, of others the first."""


@dataclass(slots=True)
class Layer:
    """One operation. Holds changing state while it is read. outputs: shapes by port; names: of the outputs."""

    id: str
    kind: str
    name: str
    data: Mapping[str, str] = field(default_factory=dict)
    outputs: dict[str, Shape] = field(default_factory=dict)
    names: dict[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Graph:
    """layers by id: of every operation its kind, of inputs, outputs and variables also shapes and names. edges: where
    the port (layer, port) gets its value from. ports: of each operation, its inputs in order.
    """

    name: str
    version: str
    layers: Mapping[str, Layer]
    edges: Mapping[tuple[str, str], tuple[str, str]]
    ports: Mapping[str, list[str]]

    def source(self, layer: Layer, number: int = 0) -> tuple[Layer, str] | None:
        """The layer and port that an input of this layer comes from, the first one or, of a cut, any."""
        ports = self.ports.get(layer.id, ())
        found = self.edges.get((layer.id, ports[number])) if number < len(ports) else None
        return None if found is None or found[0] not in self.layers else (self.layers[found[0]], found[1])


def read(path: Path) -> Graph:
    """The graph in the file. Raises: DamagedModel, in one sentence, for anything that is not an IR."""
    reader = _Reader(path)
    parser: Any = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = reader.start, reader.end
    parser.CharacterDataHandler = reader.text
    parser.StartDoctypeDeclHandler = reader.doctype
    try:
        with path.open("rb") as file:
            n_bytes, open_tag = 0, 0
            while chunk := file.read(_CHUNK):
                n_bytes += len(chunk)
                last = chunk.rfind(b">")
                open_tag = open_tag + len(chunk) if last < 0 else len(chunk) - last
                if n_bytes > MAX_BYTES:
                    raise reader.refusal(f"is larger than {MAX_BYTES // 2**20} MiB")
                if open_tag > MAX_TAG:
                    raise reader.refusal(f"holds {MAX_TAG // 2**20} MiB without the end of a tag")
                parser.Parse(chunk, False)
            parser.Parse(b"", True)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from error
    except (expat.ExpatError, UnicodeError, LookupError, ValueError) as error:
        raise DamagedModel(f"{path} is no OpenVINO model: {error}") from error
    return reader.graph()


class _Reader:
    """Holds changing state: how deep it is, what is open of the operation at hand, and what was found."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._elements = self._attributes = self._depth = 0
        self._net: Mapping[str, str] = {}
        self._layers: dict[str, Layer] = {}
        self._edges: dict[tuple[str, str], tuple[str, str]] = {}
        self._ports: dict[str, list[str]] = {}
        self._layer: Layer | None = None
        self._inner = 0
        self._port: tuple[str, tuple[str, ...], list[int]] | None = None
        self._side = ""
        self._dim: str | None = None

    def refusal(self, what: str) -> DamagedModel:
        return DamagedModel(f"{self._path} {what}: it is damaged, or no OpenVINO model")

    def doctype(self, *_: object) -> None:
        raise self.refusal("declares a document type, which no OpenVINO model does")

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Every element comes by here: the frequent ones first, and as little as can be done for each."""
        self._elements += 1
        self._depth += 1
        if self._elements > MAX_ELEMENTS:
            raise self.refusal(f"has more than {MAX_ELEMENTS} elements")
        if self._elements == 1:
            self._root(tag, attributes)
        if attributes:
            self._attributes += len(attributes)
            if self._attributes > MAX_ATTRIBUTES:
                raise self.refusal(f"has more than {MAX_ATTRIBUTES} attributes and names")
        if self._inner:  # the graph inside of a loop has layers of its own
            self._inner += 1
        elif tag == "dim":
            self._dim = "" if self._port is not None else None
        elif tag == "port" and self._layer is not None:
            self._begin_port(self._layer, attributes)
        elif tag == "body":
            self._inner = 1
        else:
            self._begin(tag, attributes)
        if self._depth > MAX_DEPTH:
            raise self.refusal(f"is nested deeper than {MAX_DEPTH} elements")

    def _root(self, tag: str, attributes: dict[str, str]) -> None:
        if tag != "net":
            raise DamagedModel(f"{self._path} is no OpenVINO model: it begins with {tag[:40]!r} where net is expected")
        self._net = attributes

    def _begin_port(self, layer: Layer, attributes: dict[str, str]) -> None:
        names = attributes.get("names")
        self._port = attributes.get("id", ""), _names(names) if names else (), []
        self._attributes += len(self._port[1])
        if self._side == "input" and (layer.kind in CUTS or layer.id not in self._ports):
            self._ports.setdefault(layer.id, []).append(self._port[0])

    def _begin(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == "edge":
            if len(self._edges) >= MAX_EDGES:
                raise self.refusal(f"has more than {MAX_EDGES} edges")
            to = attributes.get("to-layer", ""), attributes.get("to-port", "")
            self._edges[to] = attributes.get("from-layer", ""), attributes.get("from-port", "")
        elif tag == "layer":
            if len(self._layers) >= MAX_LAYERS:
                raise self.refusal(f"has more than {MAX_LAYERS} operations")
            self._layer = Layer(attributes.get("id", ""), attributes.get("type", ""), attributes.get("name", ""))
        elif tag in ("input", "output"):
            self._side = tag
        elif tag == "data" and self._layer is not None and self._layer.kind in KEPT:
            self._layer.data = attributes

    def text(self, text: str) -> None:
        if self._dim is not None and len(self._dim) < 40:
            self._dim += text

    def end(self, tag: str) -> None:
        self._depth -= 1
        if self._inner:
            self._inner -= 1
        elif tag == "dim":
            if self._dim is not None and self._port is not None:
                self._port[2].append(self._size(self._dim))
            self._dim = None
        elif tag == "port" and self._port is not None and self._layer is not None:
            number, names, shape = self._port
            if self._side == "output":
                self._layer.outputs[number], self._layer.names[number] = tuple(shape), names
            self._port = None
        elif tag == "layer" and self._layer is not None:
            if self._layer.id in self._layers:
                raise self.refusal(f"has two layers of the number {self._layer.id[:40]!r}")
            self._layers[self._layer.id] = self._layer
            self._layer, self._side = None, ""

    def _size(self, text: str) -> int:
        try:
            return max(OPEN, int(text))
        except ValueError:
            raise self.refusal(f"has a dimension {text[:40]!r}") from None

    def graph(self) -> Graph:
        if not self._layers:
            raise self.refusal("holds no layer")
        return Graph(self._net.get("name", ""), self._net.get("version", ""), self._layers, self._edges, self._ports)


def _names(text: str) -> tuple[str, ...]:
    """The names of a port. Source: OpenVINO separates them by commas, and writes a backslash before one in a name."""
    parts = text.replace("\\,", "\0").split(",")
    return tuple(part.replace("\0", ",") for part in parts if part)
