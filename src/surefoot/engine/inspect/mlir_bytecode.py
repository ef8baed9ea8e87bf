"""The signatures of the functions in a Core AI program, out of its MLIR bytecode; its weights are stepped over.

Source: https://mlir.llvm.org/docs/BytecodeFormat for sections, strings and numbers. The codes of types and attributes
inside are those of the program's own dialect and are not published. measured: coreai-core 1.0.0b3, coreai-torch 0.4.3,
2026-11-30, dialect `aicode` of version 2, on programs of known signature; of another version nothing is claimed.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from surefoot.core.eligibility import OPEN, Shape
from surefoot.core.errors import ConfigError, DamagedModel

_MAGIC = b"ML\xefR"
_STRINGS, _DIALECTS, _ENTRIES, _OFFSETS = 0, 1, 2, 3
_DIALECT, _VERSION = "aicode", 2

# What the dialect calls things. measured: see above.
_TEXT_ATTRIBUTE, _LIST_ATTRIBUTE, _NAMED_ATTRIBUTE = 1, 5, 9
_TENSOR, _FUNCTION, _HANDLE = 2, 30, 31
_NAME = "aicode.name"

_DYNAMIC = -(1 << 63)  # Source: mlir::ShapedType::kDynamic
_MAX_ENTRIES = 1_000_000
"""chosen: a program of 64 layers with debug information has 100,000."""

_MAX_NUMBERS = 1_000_000
"""chosen: of all lists together; those of such a program that are looked at, names of arguments and functions, hold a
tenth."""

_MAX_NAMES = 64
_MAX_STRINGS = 1_000_000
_MAX_RANK = 16
_MAX_PORTS = 4096


@dataclass(frozen=True, slots=True)
class Signature:
    """A function. Shapes by name; OPEN where a size is open. states are handed in and changed in place."""

    inputs: Mapping[str, Shape]
    states: Mapping[str, Shape]
    outputs: Mapping[str, Shape]


def read(path: Path) -> tuple[Signature, ...] | None:
    """The signatures in the program; None where it is of a version of which nothing is known.

    Raises: DamagedModel where it is cut off or no program.
    """
    try:
        if not path.stat().st_size:
            raise DamagedModel(f"{path} is empty: fetch it again")
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            if data[:4] != _MAGIC:
                raise DamagedModel(f"{path} is no Core AI program: it does not begin with the bytes of MLIR")
            return _Bytecode(path, data).signatures()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from error


class _Bytecode:
    """Sections, strings and entries of one file. Holds changing state: what was decoded so far."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self._path, self._data, self._numbers_left = path, data, _MAX_NUMBERS
        self._sections = self._find_sections()
        self._places = self._find_strings()

    def signatures(self) -> tuple[Signature, ...] | None:
        if not self._is_known():
            return None
        entries, n_attributes = self._find_entries()
        attributes, types = entries[:n_attributes], entries[n_attributes:]
        named = list(self._name_lists(attributes))
        found = []
        for code, start, end in types:
            if code != _FUNCTION:
                continue
            results, inputs = self._function(start, end, len(types))
            for names in named:
                if len(names) == len(inputs):
                    outputs = next((each for each in named if len(each) == len(results) and each is not names), ())
                    found.append(self._signature(names, inputs, outputs, results, types))
        return tuple(found)

    def _find_sections(self) -> dict[int, tuple[int, int]]:
        """Start and end of each section."""
        _, at = self._number(4)
        end = self._data.find(b"\0", at, at + 256)
        if end < 0:
            raise self._refusal("names no producer")
        at, sections = end + 1, {}
        while at < len(self._data):
            head = self._data[at]
            length, at = self._number(at + 1)
            if head & 0x80:
                alignment, at = self._number(at)
                if not 0 < alignment <= 1 << 20:
                    raise self._refusal(f"claims an alignment of {alignment}")
                at += -at % alignment
            if length > len(self._data) - at:
                raise self._refusal(f"is cut off: a section at byte {at} claims {length} bytes")
            if head & 0x7F in sections:
                raise self._refusal(f"holds the section {head & 0x7F} twice")
            sections[head & 0x7F] = at, at + length
            at += length
        if not {_STRINGS, _DIALECTS, _ENTRIES, _OFFSETS} <= sections.keys():
            raise self._refusal("lacks a section that every program has")
        return sections

    def _find_strings(self) -> list[tuple[int, int]]:
        """Start and end of each text. The lengths are written from the last to the first, each with its zero byte."""
        at, end = self._sections[_STRINGS]
        count, at = self._number(at)
        if count > min(_MAX_STRINGS, end - at):
            raise self._refusal(f"claims {count} texts")
        places = []
        for _ in range(count):
            length, at = self._number(at)
            if not 0 < length <= end - at:
                raise self._refusal(f"claims a text of {length} bytes")
            places.append((end - length, end - 1))
            end -= length
        return places[::-1]

    def _string(self, number: int) -> str:
        if number >= len(self._places):
            raise self._refusal(f"names the text {number} of {len(self._places)}")
        start, end = self._places[number]
        return self._data[start : min(end, start + 256)].decode(errors="replace")

    def _is_known(self) -> bool:
        """Whether the program is of the one dialect and version whose codes are known."""
        at, end = self._sections[_DIALECTS]
        count, at = self._number(at)
        name, at = self._number(at)
        if count != 1 or not name & 1 or self._string(name >> 1) != _DIALECT:
            return False
        length, at = self._number(at + 1)
        version, _ = self._number(at)
        return length <= end - at and version == _VERSION

    def _find_entries(self) -> tuple[list[tuple[int, int, int]], int]:
        """Code, start and end of each attribute, then of each type; -1 where it is written as text."""
        at, end = self._sections[_OFFSETS]
        start, last = self._sections[_ENTRIES]
        n_attributes, at = self._number(at)
        n_types, at = self._number(at)
        if n_attributes + n_types > min(_MAX_ENTRIES, end - at):
            raise self._refusal(f"claims {n_attributes} attributes and {n_types} types")
        entries: list[tuple[int, int, int]] = []
        while len(entries) < n_attributes + n_types:
            _, at = self._number(at)
            count, at = self._number(at)
            if not 0 < count <= n_attributes + n_types - len(entries):
                raise self._refusal(f"claims a group of {count} entries")
            for _ in range(count):
                size, at = self._number(at)
                stop = start + (size >> 1)
                if stop > last or at > end:
                    raise self._refusal("claims entries past the end of their section")
                code, inside = self._number(start) if size & 1 and stop > start else (-1, start)
                entries.append((code, inside, stop))
                start = stop
        return entries, n_attributes

    def _numbers(self, start: int, end: int, most: int) -> list[int]:
        found = []
        while start < end:
            number, start = self._number(start)
            found.append(number)
            if len(found) > most:
                raise self._refusal(f"holds an entry of more than {most} numbers")
        self._numbers_left -= len(found)
        if self._numbers_left < 0:
            raise self._refusal(f"holds more than {_MAX_NUMBERS} numbers in its lists")
        return found

    def _name_lists(self, attributes: Sequence[tuple[int, int, int]]) -> Iterator[tuple[str, ...]]:
        """The names of arguments: lists of lists, each of which has one of the attributes that name an argument."""
        name_of: dict[int, str] = {}
        for number, (code, start, end) in enumerate(attributes):
            if code == _NAMED_ATTRIBUTE and end - start <= 30:
                key, *rest = self._numbers(start, end, 3)
                if rest and self._string(key) == _NAME and rest[-1] < len(attributes):
                    code, start, end = attributes[rest[-1]]
                    if code == _TEXT_ATTRIBUTE:
                        name_of[number] = self._string(self._number(start)[0])
        arguments: dict[int, str] = {}
        for number, (code, start, end) in enumerate(attributes):
            if code == _LIST_ATTRIBUTE and end - start <= 10 * _MAX_NAMES:
                for each in self._numbers(start, end, _MAX_NAMES)[1:]:
                    if each in name_of:
                        arguments[number] = name_of[each]
        for code, start, end in attributes:
            if code == _LIST_ATTRIBUTE and end - start <= 10 * _MAX_PORTS:
                count, *items = self._numbers(start, end, _MAX_PORTS) or [0]
                if items and count == len(items) and all(item in arguments for item in items):
                    yield tuple(arguments[item] for item in items)

    def _function(self, start: int, end: int, n_types: int) -> tuple[list[int], list[int]]:
        """The types of the results and of the inputs."""
        numbers = self._numbers(start, end, 2 * _MAX_PORTS)
        n_results = numbers[0] if numbers else 0
        results, rest = numbers[1 : 1 + n_results], numbers[1 + n_results :]
        if not rest or rest[0] != len(rest) - 1 or any(each >= n_types for each in (*results, *rest[1:])):
            raise self._refusal("holds a function that does not fit its version")
        return results, rest[1:]

    def _signature(
        self,
        names: Sequence[str],
        inputs: Sequence[int],
        result_names: Sequence[str],
        results: Sequence[int],
        types: Sequence[tuple[int, int, int]],
    ) -> Signature:
        taken: dict[str, Shape] = {}
        states: dict[str, Shape] = {}
        for name, number in zip(names, inputs, strict=True):
            code, start, _ = types[number]
            if code == _HANDLE:
                inner = self._number(start)[0]
                states[name] = self._shape(types[inner]) if inner < len(types) else ()
            else:
                taken[name] = self._shape(types[number])
        given = {name: self._shape(types[number]) for name, number in zip(result_names, results, strict=False)}
        return Signature(taken, states, {name: shape for name, shape in given.items() if name not in states})

    def _shape(self, entry: tuple[int, int, int]) -> Shape:
        """The shape of a tensor; () of anything else."""
        code, start, end = entry
        if code != _TENSOR:
            return ()
        rank, *sizes = self._numbers(start, end, _MAX_RANK + 2)
        if len(sizes) <= rank:
            raise self._refusal("holds a tensor whose sizes are cut off")
        signed = [(size >> 1) ^ -(size & 1) for size in sizes[:rank]]
        return tuple(OPEN if size == _DYNAMIC or size < 0 else size for size in signed)

    def _number(self, at: int) -> tuple[int, int]:
        """A number and where it ends. Source: the format's variable-width integers: the zeros at the end of the first
        byte count the bytes that follow.
        """
        if not 0 <= at < len(self._data):
            raise self._refusal(f"is cut off at {len(self._data)} bytes")
        first = self._data[at]
        width = 9 if not first else (first & -first).bit_length()
        if at + width > len(self._data):
            raise self._refusal(f"is cut off at {len(self._data)} bytes")
        if width == 9:
            return int.from_bytes(self._data[at + 1 : at + 9], "little"), at + 9
        return int.from_bytes(self._data[at : at + width], "little") >> width, at + width

    def _refusal(self, what: str) -> DamagedModel:
        return DamagedModel(f"{self._path} {what}: it is damaged, or no Core AI program")
