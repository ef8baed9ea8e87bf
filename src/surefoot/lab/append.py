"""A file of lines that one process adds to: what was added is on the disk, and survives whatever happens next."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from surefoot.core.errors import ConfigError


class AppendFile:
    """An open file, and how much of it counts. Holds changing state: that size, and the lock until `close`."""

    def __init__(self, file: io.FileIO, path: Path) -> None:
        """Raises: ConfigError where another process adds to it; `file` is closed then."""
        _lock(file, path)
        self.path = path
        self._file = file
        self._size = 0

    @contextmanager
    def reading(self) -> Iterator[BinaryIO]:
        """The file, from its beginning on."""
        self._file.seek(0)
        reader = io.BufferedReader(self._file)
        try:
            yield reader
        finally:
            reader.detach()

    def keep(self, size: int) -> None:
        """Nothing; the file goes on after its first `size` bytes, and what stood behind them is gone."""
        if os.fstat(self._file.fileno()).st_size != size:
            self._file.truncate(size)
            os.fsync(self._file.fileno())
        self._size = size

    def append(self, line: bytes) -> None:
        """Nothing; when it returns, the line is on the disk.

        Raises: ConfigError when the disk refuses, and then the file ends where it ended before.
        """
        try:
            self._file.seek(self._size)
            rest = memoryview(line)
            while rest:
                rest = rest[self._file.write(rest) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            self._file.truncate(self._size)
            raise ConfigError(f"{self.path} cannot be written: {error.strerror}; what it held is kept") from error
        self._size += len(line)

    def close(self) -> None:
        """Nothing; the lock is given back."""
        self._file.close()


def sync_directory(folder: Path) -> None:
    """Nothing; the name of a new file survives a power cut. Windows has no such call and needs none."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _lock(file: io.FileIO, path: Path) -> None:
    """Nothing; no other process can hold this file open for adding until it is closed or the process ends."""
    try:
        if os.name == "nt":
            import msvcrt

            # A lock on Windows keeps readers from the bytes it covers, and its position has 31 bits: past any content.
            file.seek(2**31 - 2)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
            file.seek(0)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise ConfigError(f"{path} is being written by another process: wait for it, or end it") from error
