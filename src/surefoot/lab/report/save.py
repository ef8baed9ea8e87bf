"""Writing reports: whole or not at all, and never over a file that is something else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from surefoot.core.errors import ConfigError
from surefoot.engine.whole import write_whole
from surefoot.lab.report.rows import COLUMN, MARK

_HEAD_BYTES = 1024
"""chosen: the mark of every format stands within its first 200 bytes."""


def save(files: Mapping[Path, str], records: Sequence[Path], force: bool) -> None:
    """Nothing; every file holds its text. Nothing is written where one of them may not be.

    records: what the reports are made from, never written over. force: write over files that are no reports.
    Raises: ConfigError.
    """
    for path in files:
        _check(path, records, force)
    for path, text in files.items():
        write_whole(path.resolve(), text)


def is_report(path: Path) -> bool:
    """Whether a file was written by us as a report, or holds nothing."""
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    return not head or MARK.encode() in head or COLUMN.encode() in head


def _check(path: Path, records: Sequence[Path], force: bool) -> None:
    try:
        if not path.parent.is_dir():
            raise ConfigError(
                f"the folder {path.parent} for {path.name} does not exist; make it first, or name another"
            )
        if not path.exists():
            return
        if not path.is_file():
            raise ConfigError(f"{path} is not a file: give another name with --out")
        if any(path.samefile(record) for record in records):
            raise ConfigError(f"{path} is the record that the report is made from: give another name with --out")
        if not force and not is_report(path):
            raise ConfigError(f"{path} is there and is no report of Surefoot: give another --out, or --force")
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from error
