"""What tuning has measured so far, on the disk turn by turn, so that an interruption costs the turn in progress only.

A file of JSON Lines: first what is measured (`Begin`), then turns of the sweep, the finding about rows, and texts, as
they come. One that was begun for something else is begun anew. It goes when the plan is there, or is put where the user
wants the samples.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from surefoot.core.errors import ConfigError
from surefoot.engine.plans import Owner, RowFinding
from surefoot.lab.append import AppendFile
from surefoot.lab.steadiness import Sample

SCHEMA = 1

MAX_AGE_S = 86_400.0
"""chosen: a day; what is older is of another mood of the machine, and measured again sooner than explained."""

MAX_BYTES = 64 * 2**20
"""chosen: a sweep of 40 points and 60 turns is under 200 kB, so a larger file is another kind of file."""


@dataclass(frozen=True, slots=True)
class Begin:
    """What is being measured. at: seconds since 1970."""

    owner: Owner
    rows: tuple[int, ...]
    depths: tuple[int, ...]
    quick: bool
    at: float

    def same(self, other: Begin) -> bool:
        """Whether the samples of one serve the other."""
        return (self.owner, self.rows, self.depths, self.quick) == (other.owner, other.rows, other.depths, other.quick)


@dataclass(frozen=True, slots=True)
class KeptText:
    """A plain text that was written. prompt: its length, which tells whether the prompt is still the same."""

    workload: str
    prompt: int
    ids: tuple[int, ...]
    host_s: float


class Kept:
    """The file, open for appending; holds its lock until `close`, and what it held when it was opened.

    samples: of whole turns, ascending. began: when they were begun, seconds since 1970.
    """

    def __init__(self, path: Path, begin: Begin) -> None:
        """Raises: ConfigError where the file cannot be used, or another process is measuring the same."""
        self.path = path
        self.samples: list[Sample] = []
        self.rows: RowFinding | None = None
        self.texts: dict[str, KeptText] = {}
        self.began = begin.at
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0)
            self._file = AppendFile(io.FileIO(os.open(path, flags, 0o644), "r+"), path)
        except OSError as error:
            raise ConfigError(f"{path} cannot be written: {error.strerror or error}") from error
        with self._file.reading() as content:
            size = self._take_up(content, begin)
        self._file.keep(size)
        if not size:
            self._append({"kind": "begin", "schema": SCHEMA, **asdict(begin)})

    @property
    def resumed(self) -> bool:
        """Whether something was there to go on with."""
        return bool(self.samples or self.texts or self.rows)

    def has_text(self, workload: str, prompt: int) -> bool:
        """Whether the text after a prompt of this length is there."""
        return workload in self.texts and self.texts[workload].prompt == prompt

    def keep_turn(self, samples: Sequence[Sample]) -> None:
        """Nothing; when it returns, the turn is on the disk."""
        self.samples += samples
        self._append({"kind": "turn", "samples": [[s.turn, s.rows, s.depth, s.at_s, s.seconds] for s in samples]})

    def keep_rows(self, finding: RowFinding) -> None:
        """Nothing; when it returns, what is known of rows is on the disk."""
        self.rows = finding
        self._append({"kind": "rows", **asdict(finding)})

    def keep_text(self, text: KeptText) -> None:
        """Nothing; when it returns, the text is on the disk."""
        self.texts[text.workload] = text
        self._append({"kind": "text", **asdict(text)})

    def finish(self, samples_to: Path | None, took: Mapping[str, Any]) -> None:
        """Nothing; the file is gone, or lies at `samples_to` with a last line about what each step `took`.

        Raises: ConfigError where it cannot be put there.
        """
        if samples_to is not None:
            try:
                with self._file.reading() as content:
                    samples_to.write_bytes(content.read() + _line({"kind": "seconds", **took}))
            except OSError as error:
                raise ConfigError(f"the samples {samples_to} cannot be written: {error.strerror or error}") from error
        self.drop()

    def drop(self) -> None:
        """Nothing; the file is gone, and so is what it held."""
        self.close()
        self.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Nothing; the lock is given back."""
        self._file.close()

    def __enter__(self) -> Kept:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _append(self, record: Mapping[str, Any]) -> None:
        self._file.append(_line(record))

    def _take_up(self, content: BinaryIO, begin: Begin) -> int:
        """Bytes of the whole lines that serve `begin`; 0 where none do. What cannot be read is measured again."""
        held = content.read(MAX_BYTES + 1)
        if len(held) > MAX_BYTES:
            return 0
        size = 0
        for number, line in enumerate(held.splitlines(keepends=True)):
            if not line.endswith(b"\n"):
                break
            try:
                record = json.loads(line)
                if number == 0:
                    before = _begin(record)
                    if not before.same(begin) or not 0 <= begin.at - before.at < MAX_AGE_S:
                        return 0
                    self.began = before.at
                else:
                    self._take(record, begin)
            except (ValueError, KeyError, TypeError, RecursionError):
                break
            size += len(line)
        return size

    def _take(self, record: Mapping[str, Any], begin: Begin) -> None:
        """Add what a line holds. Raises: ValueError, KeyError or TypeError for a line that is none of ours."""
        kind = record["kind"]
        if kind == "turn":
            turn = [
                Sample(int(t), int(r), int(d), float(at), float(s)) for t, r, d, at, s in record["samples"]
            ]  # fmt: skip
            places = {(each.rows, each.depth) for each in turn}
            expected = self.samples[-1].turn + 1 if self.samples else 0
            if (
                {each.turn for each in turn} != {expected}
                or not places <= {(rows, depth) for rows in begin.rows for depth in begin.depths}
                or not all(0 < each.seconds < 1e9 for each in turn)
            ):
                raise ValueError("a turn of another sweep")
            self.samples += turn
        elif kind == "rows":
            self.rows = RowFinding(record["row_class"], record["claimed"], record["text"], record["found_by"])
            if self.rows.row_class not in ("identical", "near-tie", "row-dependent"):
                raise ValueError("a class that does not exist")
        elif kind == "text":
            ids = tuple(int(each) for each in record["ids"])
            text = KeptText(str(record["workload"]), int(record["prompt"]), ids, float(record["host_s"]))
            self.texts[text.workload] = text
        else:
            raise ValueError(f"a line of the kind {kind}")


def _line(record: Mapping[str, Any]) -> bytes:
    return json.dumps(record, separators=(",", ":"), allow_nan=False).encode("ascii") + b"\n"


def _begin(record: Mapping[str, Any]) -> Begin:
    if record["kind"] != "begin" or record["schema"] != SCHEMA:
        raise ValueError("no beginning")
    return Begin(
        Owner(**record["owner"]), tuple(record["rows"]), tuple(record["depths"]), record["quick"], float(record["at"])
    )
