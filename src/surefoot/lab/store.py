"""A run record as a file of JSON Lines: what was appended is on the disk, and a torn tail costs its own line only."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from surefoot.core.errors import ConfigError
from surefoot.lab import codec
from surefoot.lab.append import AppendFile, sync_directory
from surefoot.lab.records import Counted, End, Gate, Pair, Record, Reference, Resumed, Run

MAX_LINE_BYTES = 64 * 2**20
"""chosen: a pair of texts of 10,000 tokens each is under 6 MB, so a longer line is another kind of file."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a record file holds.

    gates: every outcome, in order; the last one of a name counts. end: None where the run did not come to its end, or
    went on after it. cut: the file ends in the middle of a line, which was left out.
    """

    run: Run
    gates: tuple[Gate, ...]
    references: tuple[Reference, ...]
    pairs: tuple[Pair, ...]
    resumed: tuple[Resumed, ...]
    end: End | None
    cut: bool
    counted: tuple[Counted, ...] = ()


def load(path: Path) -> Loaded:
    """The record, up to its last whole line.

    Raises: ConfigError, one sentence that names the file and the line.
    """
    try:
        with path.open("rb") as file:
            return _read(file, path)[0]
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error


def check_new(path: Path) -> None:
    """Nothing, where a record can be made there; asked before minutes of preparation.

    Raises: ConfigError when something is there already, or no folder for it.
    """
    if path.exists():
        raise _taken(path)
    if not path.parent.is_dir():
        raise ConfigError(f"{path} cannot be made: {path.parent} is no folder")


def _taken(path: Path) -> ConfigError:
    return ConfigError(f"{path} is there already: resume that run, or give another file name")


class Store:
    """A record file open for appending; holds its lock until `close`.

    `loaded` is what the file held when it was opened, its torn tail taken off.
    """

    def __init__(self, file: AppendFile, loaded: Loaded) -> None:
        self._file = file
        self.path = file.path
        self.loaded = loaded

    @classmethod
    def create(cls, path: Path, run: Run) -> Store:
        """A new record that begins with `run`.

        Raises: ConfigError when the file is there already or cannot be made.
        """
        try:
            file = io.FileIO(path, "x+")
        except FileExistsError as error:
            raise _taken(path) from error
        except OSError as error:
            raise ConfigError(f"{path} cannot be made: {error.strerror}") from error
        store = cls(AppendFile(file, path), Loaded(run, (), (), (), (), None, False))
        try:
            store._file.append(codec.encode(run))
            sync_directory(path.parent)
        except BaseException:
            store.close()
            raise
        return store

    @classmethod
    def open(cls, path: Path) -> Store:
        """The record, to go on with. A torn last line is cut off the file.

        Raises: ConfigError when it cannot be read, holds something else, or another process writes it.
        """
        try:
            file = AppendFile(io.FileIO(path, "r+"), path)
        except OSError as error:
            raise ConfigError(f"{path} cannot be opened: {error.strerror}") from error
        try:
            with file.reading() as content:
                loaded, size = _read(content, path)
            file.keep(size)
            return cls(file, loaded)
        except BaseException:
            file.close()
            raise

    def append(self, record: Record) -> None:
        """Nothing; when it returns, the record is on the disk.

        Raises: LawError when it could not be read again; ConfigError when the disk refuses, and then the file ends
        where it ended before.
        """
        if isinstance(record, Run):
            raise ConfigError(f"{self.path} holds a run already: a record file has one")
        self._file.append(codec.encode(record))

    def close(self) -> None:
        """Nothing; the lock is given back."""
        self._file.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _read(file: BinaryIO, path: Path) -> tuple[Loaded, int]:
    """What the file holds, and the bytes of its whole lines."""
    run: Run | None = None
    gates: list[Gate] = []
    references: list[Reference] = []
    pairs: list[Pair] = []
    counted: dict[tuple[str, str, str, float], Counted] = {}
    resumed: list[Resumed] = []
    end: End | None = None
    size, cut = 0, False
    for number, line in enumerate(_lines(file, path), 1):
        if not line.endswith(b"\n"):
            cut = True
            break
        where = f"line {number} of {path}"
        record = codec.decode(line, where)
        if run is None:
            if not isinstance(record, Run):
                raise ConfigError(f"{where} is a {type(record).__name__.lower()}: a run record begins with a run")
            run = record
        else:
            codec.check_in_run(record, run, pairs[-1] if pairs else None, end, where)
        size += len(line)
        match record:
            case Gate():
                gates.append(record)
            case Reference():
                references.append(record)
            case Pair():
                pairs.append(record)
            case Counted():
                key = (record.mode, record.arm, record.prompt, record.temperature)
                if key in counted:
                    raise ConfigError(f"{where} counts a text once more that was counted before")
                counted[key] = record
            case Resumed():
                resumed.append(record)
                end = None
            case End():
                end = record
    if run is None:
        raise ConfigError(f"{path} holds no run: it is {'cut in its first line' if cut else 'empty'}; start a new one")
    found = Loaded(
        run, tuple(gates), tuple(references), tuple(pairs), tuple(resumed), end, cut, tuple(counted.values())
    )
    return found, size


def _lines(file: BinaryIO, path: Path) -> Iterator[bytes]:
    """The lines with their ends, none of them longer than a record can be."""
    while line := file.readline(MAX_LINE_BYTES + 1):
        if len(line) > MAX_LINE_BYTES:
            raise ConfigError(f"{path} has a line of more than {MAX_LINE_BYTES // 2**20} MiB: it is no run record")
        yield line
