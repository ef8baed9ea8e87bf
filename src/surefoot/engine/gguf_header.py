"""The header of a GGUF file, read in bounded time and memory, whatever the file claims.

gguf.GGUFReader trusts the counts in the file and maps the tensors at once: a lying header makes it loop or
fail far from the cause, and a truncated file shows up as a reshape error. So the header is checked here.
"""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from surefoot.core.errors import ConfigError, DamagedModel

# Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, the value types and their widths.
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_LENGTH = struct.Struct("<Q")
_VERSIONS = (2, 3)
_MAX_DIMS = 4  # GGML_MAX_DIMS

# What follows was chosen by the largest real headers. measured: 2-core x86, 2026-12-01: a file full of one of them is
# inspected in 0.6 s of processor time at most, and one full of all that count something in 1.3 s and 153 MiB. The most
# are 336 MiB, for one text that Python spreads to four bytes a letter because a letter of it needs as many.
MAX_ITEMS = 2_000_000
"""chosen: the largest vocabulary, 262,144 tokens with their scores and types, and as many merges as it has, make
1,300,000."""
MAX_TEXTS = 1_000_000
"""chosen: 262,144 tokens and 514,906 merges, of Gemma's tokenizer, are 777,050; GLM-4.5 has 469,640, Llama 3
408,403."""
MAX_TEXT_BYTES = 48 * 2**20
"""chosen: the longest text is a whole tokenizer.json, 33 MB for that vocabulary, beside 10 MB of tokens and merges."""
MAX_KEYS = 8192
"""chosen: real files have thirty to sixty."""
MAX_TENSORS = 50_000
"""chosen: a model of 60 layers of 256 experts, each with three matrices of its own, has 46,080."""


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """Where one tensor lies. Units: offset in bytes from `GgufHeader.data_start`; shape fastest axis first."""

    name: str
    shape: tuple[int, ...]
    ggml_type: int
    offset: int


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """What a GGUF file says of itself. Units: `data_start` and `size_bytes` in bytes."""

    path: Path
    metadata: Mapping[str, Any]
    tensors: tuple[GgufTensor, ...]
    data_start: int
    size_bytes: int

    @property
    def architecture(self) -> str:
        return str(self.metadata["general.architecture"])


def read_header(path: Path) -> GgufHeader:
    """The header of the GGUF file at `path`, every tensor inside the file.

    Raises: DamagedModel when it is not a GGUF file, is cut off, or makes impossible claims; ConfigError when it cannot
    be read.
    """
    try:
        with path.open("rb") as file:
            if file.read(4) != b"GGUF":
                raise DamagedModel(f"{path} is not a GGUF file: it does not begin with the four bytes GGUF")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                header = _Reader(path, data).header()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from error
    _check_tensors(header)
    return header


class _Reader:
    """Holds changing state: the place in the file, and how much more it will read."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self._path, self._data, self._at, self._items_left = path, data, 4, MAX_ITEMS
        self._texts_left, self._text_bytes_left = MAX_TEXTS, MAX_TEXT_BYTES

    def header(self) -> GgufHeader:
        (version,) = self._unpack("I")
        if version not in _VERSIONS:
            raise self._refusal(f"is version {version} in this byte order; versions 2 and 3, little-endian, are read")
        n_tensors, n_keys = self._unpack("QQ")
        if n_keys > MAX_KEYS or n_tensors > MAX_TENSORS:
            raise self._refusal(f"claims {n_keys} metadata keys and {n_tensors} tensors")
        metadata: dict[str, Any] = {}
        for _ in range(n_keys):
            key = self._string()
            if key in metadata:
                raise self._refusal(f"holds the metadata key {key!r} twice")
            metadata[key] = self._value(*self._unpack("I"))
        # Of shards, the first has all metadata, and the others, as llama-gguf-split writes them, their number only.
        if not metadata.get("split.no") and not isinstance(metadata.get("general.architecture"), str):
            raise self._refusal("does not name its architecture (metadata key general.architecture)")
        tensors = tuple(self._tensor() for _ in range(n_tensors))
        align = metadata.get("general.alignment", 32)
        if not isinstance(align, int) or align < 1 or align & (align - 1):
            raise self._refusal(f"claims an alignment of {align!r}, which is not a power of two")
        return GgufHeader(self._path, metadata, tensors, -(-self._at // align) * align, len(self._data))

    def _value(self, kind: int) -> Any:
        if kind in _SCALARS:
            return self._unpack(_SCALARS[kind])[0]
        if kind == _STRING:
            return self._string()
        if kind != _ARRAY:
            raise self._refusal(f"holds a metadata value of unknown type {kind}")
        item_kind, count = self._unpack("IQ")
        self._items_left -= count
        if self._items_left < 0:
            raise self._refusal(f"claims an array of {count} items in its metadata")
        if item_kind in _SCALARS:
            return list(self._unpack(f"{count}{_SCALARS[item_kind]}"))
        if item_kind == _STRING:
            self._texts_left -= count
            if self._texts_left < 0:
                raise self._refusal(f"claims an array of {count} texts in its metadata")
            return self._strings(count)
        raise self._refusal(f"holds an array of items of unknown type {item_kind}")

    def _tensor(self) -> GgufTensor:
        name = self._string()
        (n_dims,) = self._unpack("I")
        if n_dims > _MAX_DIMS:
            raise self._refusal(f"claims {n_dims} dimensions for the tensor {name!r}")
        *shape, kind, offset = self._unpack(f"{n_dims}QIQ")
        return GgufTensor(name, tuple(shape), kind, offset)

    def _string(self) -> str:
        start, self._at = self._at, self._at + 8
        if self._at > len(self._data):
            raise self._cut_off()
        length = int.from_bytes(self._data[start : self._at], "little")
        start, self._at = self._at, self._at + length
        if self._at > len(self._data):
            raise self._cut_off()
        self._text_bytes_left -= length
        if self._text_bytes_left < 0:
            raise self._refusal(f"claims a text of {length} bytes, more than all texts of a header")
        try:
            return self._data[start : self._at].decode()
        except UnicodeDecodeError as error:
            raise self._refusal(f"holds text that is not UTF-8 at byte {start + error.start}") from error

    def _strings(self, count: int) -> list[str]:
        """So many texts, one behind the other. Vocabularies are long, so this is written for speed."""
        data, at, end, found = self._data, self._at, len(self._data), []
        length_at = _LENGTH.unpack_from
        try:
            for _ in range(count):
                start = at + 8
                if start > end:
                    raise self._cut_off()
                at = start + length_at(data, at)[0]
                if at > end:
                    raise self._cut_off()
                if at - self._at > self._text_bytes_left:
                    raise self._refusal(f"claims texts of {at - self._at} bytes, more than all texts of a header")
                found.append(data[start:at].decode())
        except UnicodeDecodeError as error:
            raise self._refusal(f"holds text that is not UTF-8 at byte {start + error.start}") from error
        self._text_bytes_left -= at - self._at
        self._at = at
        return found

    def _unpack(self, kinds: str) -> tuple[Any, ...]:
        layout = "<" + kinds
        start, self._at = self._at, self._at + struct.calcsize(layout)
        if self._at > len(self._data):
            raise self._cut_off()
        return struct.unpack_from(layout, self._data, start)

    def _refusal(self, claim: str) -> DamagedModel:
        return DamagedModel(f"{self._path} {claim}: the file is damaged or of a kind that is not supported")

    def _cut_off(self) -> DamagedModel:
        return DamagedModel(f"{self._path} is cut off inside its header, at {len(self._data)} bytes: fetch it again")


def _check_tensors(header: GgufHeader) -> None:
    """Every tensor lies inside the file. A type that the gguf package does not know is checked by its start only."""
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

    block_of = {int(kind): GGML_QUANT_SIZES[kind] for kind in GGMLQuantizationType}
    end = header.data_start
    for tensor in header.tensors:
        items, item_bytes = block_of.get(tensor.ggml_type, (1, 0))
        end = max(end, header.data_start + tensor.offset + math.prod(tensor.shape) // items * item_bytes)
    if header.tensors and end > header.size_bytes:
        raise DamagedModel(
            f"{header.path} is cut off: its tensors need {end} bytes and it has {header.size_bytes}: fetch it again"
        )
