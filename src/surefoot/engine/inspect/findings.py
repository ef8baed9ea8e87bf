"""What the files of a model say, each finding with the place where it was read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from surefoot.core.eligibility import Refusal

Format = Literal["safetensors", "mlx", "gguf", "openvino", "onnx", "coreml", "coreai"]

FORMATS: Mapping[Format, str] = {
    "safetensors": "transformers' folder (safetensors)",
    "mlx": "MLX folder (safetensors)",
    "gguf": "GGUF",
    "openvino": "OpenVINO IR",
    "onnx": "ONNX",
    "coreml": "Core ML package",
    "coreai": "Core AI bundle",
}
"""The name of each format, in the order in which a folder is searched for them."""

LayerKind = Literal["full attention", "sliding window", "chunked attention", "indexed attention", "recurrent", "other"]
Head = Literal["all rows", "last row"]
Lookup = Literal["can work", "text only", "cannot work"]


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Evidence:
    """Where something was read: the file's name, the key in it, and what stands there."""

    file: str
    key: str
    value: str


@dataclass(frozen=True, slots=True)
class Found(Generic[T]):
    """A finding and where it comes from."""

    value: T
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True, slots=True)
class Rows:
    """How many rows a forward can score. counts: those that it is made for; empty where any number will do."""

    counts: tuple[int, ...] = ()

    @property
    def dynamic(self) -> bool:
        return not self.counts


@dataclass(frozen=True, slots=True)
class Experts:
    """A mixture of experts: how many there are in a layer, and how many a token goes through; None where not told."""

    total: int
    used: int | None


@dataclass(frozen=True, slots=True)
class State:
    """An array that a forward leaves for the next. shape: -1 where it is open. held: in the model, or by its caller."""

    name: str
    shape: tuple[int, ...]
    held: Literal["inside", "by the caller"]


@dataclass(frozen=True, slots=True)
class Size:
    """Of the weights. bytes: of their files. parameters: None where the files do not say. types: bytes or tensors by
    number format.
    """

    bytes: int
    parameters: int | None
    types: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Facts:
    """What the files say; None where they are silent.

    path: the folder or file that was read. architecture: as the format names the family. layers: how many of each kind.
    stated: reasons why not that the reader found itself, beside those that follow from the facts. settings: the raw
    configuration, for rules that a runtime has of its own. others: formats that the folder holds as well.
    """

    format: Format
    path: Path
    files: tuple[Path, ...]
    size: Found[Size]
    architecture: Found[str] | None = None
    layers: Found[Mapping[LayerKind, int]] | None = None
    window: Found[int] | None = None
    experts: Found[Experts] | None = None
    vocabulary: Found[int] | None = None
    context: Found[int] | None = None
    head: Found[Head] | None = None
    rows: Found[Rows] | None = None
    states: Found[tuple[State, ...]] | None = None
    lookup: Found[Lookup] | None = None
    lookup_text: str = ""
    stated: tuple[Objection, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    others: tuple[Format, ...] = ()


@dataclass(frozen=True, slots=True)
class Objection:
    """A reason why not, and where it was read."""

    refusal: Refusal
    evidence: tuple[Evidence, ...] = ()


Answer = Literal["yes", "no", "not known"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether drafts can be verified by a runtime (or at all). text: the answer in words; objections where it is no."""

    runtime: str
    answer: Answer
    text: str
    objections: tuple[Objection, ...] = ()


def shown(value: object) -> str:
    """The value as evidence shows it, no longer than a line."""
    text = " ".join(str(value).split())
    return text if len(text) <= 80 else f"{text[:77]}..."
