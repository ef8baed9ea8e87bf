"""Earlier outputs of a model, remembered across texts and runs: what it wrote once it may write again."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from surefoot.core.errors import ConfigError
from surefoot.core.types import Ids, as_ids
from surefoot.drafters.suffix.automaton import Automaton

FORMAT = 1

SEPARATOR = 2**31 - 1
"""Stands between two outputs in the automaton; no vocabulary has as many tokens."""

BYTES_PER_TOKEN = 4
"""Source: ids and the ends of outputs are int32; an end has the place that the separator of its output counts for."""

OVERHEAD_BYTES = 1024
"""Source: the zip and array headers of a file of three arrays take 872 bytes with an identity of 16 characters."""

STALE_S = 3600.0
"""chosen: writing a few megabytes takes less than a second, so that what is an hour old was left by a kill."""

STATES_PER_TOKEN = 2
"""Source: an automaton of n tokens has fewer than 2n states (Blumer and others 1985)."""

SPARE = 0.75
"""chosen: when a cap is reached, outputs are dropped down to three quarters of it, so that the index is made anew once
in many outputs and not for each."""


@dataclass(frozen=True, slots=True)
class Caps:
    """Most bytes of the file, and most states of the index in memory."""

    file_bytes: int
    nodes: int

    @property
    def tokens(self) -> int:
        """Tokens that keep both caps, whatever they are."""
        return max(0, min((self.file_bytes - OVERHEAD_BYTES) // BYTES_PER_TOKEN, self.nodes // STATES_PER_TOKEN))


class Corpus:
    """Outputs of one model in a file, and their automaton. Holds changing state: both grow with `learn`; texts in
    several threads may share it.

    A file belongs to one model: `identity` is in it, and a file of another model is refused. What is evicted are the
    oldest outputs. Two processes may share a file: each adds to what the file holds when it saves, and the file is
    replaced as a whole, so that a reader sees the old one or the new one and a crash leaves one of them.
    """

    def __init__(self, path: Path, identity: str, caps: Caps, vocab_size: int) -> None:
        self._path = path
        self._identity = identity
        self._vocab_size = vocab_size
        self._caps = caps
        self._outputs: list[Ids] = []
        self._new: list[Ids] = []
        self._lock = threading.Lock()
        self.automaton = Automaton()
        self._index(kept(read(path, identity, vocab_size), caps.tokens))

    @property
    def n_outputs(self) -> int:
        return len(self._outputs)

    @property
    def n_tokens(self) -> int:
        return sum(map(len, self._outputs))

    def learn(self, ids: Sequence[int]) -> None:
        """Remember one output, in memory only: its end, where it is too long. One that is there counts again."""
        room = int(self._caps.tokens * SPARE)
        output = as_ids(ids)[max(0, len(ids) - room + 1) :]
        if not 0 < len(output) < room:
            return
        with self._lock:
            self._new.append(output)
            self._outputs.append(output)
            if self.automaton.size + len(output) + 1 > self._caps.tokens:
                self._index(kept(self._outputs, room))
            else:
                self._take(output)

    def save(self) -> None:
        """Put what was learned into the file, which only its owner may read.

        Raises: ConfigError when the file cannot be written.
        """
        with self._lock:
            if not self._new:
                return
            held = read(self._path, self._identity, self._vocab_size)
            self._replace(kept([*held, *self._new], self._caps.tokens))
            self._new.clear()

    def _replace(self, outputs: Sequence[Ids]) -> None:
        try:
            write(self._path, self._identity, outputs)
        except OSError as error:
            raise ConfigError(
                f"the corpus {self._path} cannot be written: {error.strerror}; choose another folder for "
                "drafts.corpus, or leave it out"
            ) from error

    def _index(self, outputs: list[Ids]) -> None:
        """The automaton of these outputs alone."""
        self._outputs = outputs
        self.automaton = Automaton()
        for output in outputs:
            self._take(output)

    def _take(self, output: Ids) -> None:
        self.automaton.extend(output.tolist())
        self.automaton.extend((SEPARATOR,))


def kept(outputs: Sequence[Ids], tokens: int) -> list[Ids]:
    """The latest outputs that have at most so many tokens together, a separator each; of equal ones the latest."""
    newest: list[Ids] = []
    seen: set[bytes] = set()
    left = tokens
    for output in reversed(outputs):
        key = output.tobytes()
        if key in seen:
            continue
        left -= len(output) + 1
        if left < 0:
            break
        seen.add(key)
        newest.append(output)
    return newest[::-1]


def read(path: Path, identity: str, vocab_size: int) -> list[Ids]:
    """The outputs in a file, oldest first; none where there is no file.

    Raises: ConfigError for a file that is no corpus, that of another model, or one with tokens that this one lacks.
    """
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            header, ids, ends = (np.asarray(arrays[name]) for name in ("header", "ids", "ends"))
            found = [str(each) for each in header.tolist()]
    except FileNotFoundError:
        return []
    except Exception as error:  # numpy and zipfile let through whatever their decoders raise at damaged bytes
        what = type(error).__name__
        raise ConfigError(f"the corpus {path} cannot be read ({what}); move it away to start anew") from None
    if found != [str(FORMAT), identity]:
        raise ConfigError(
            f"the corpus {path} belongs to another model, or to another Surefoot; move it away to start anew"
        )
    if not (_are_tokens(ids, vocab_size) and _is_split(ends, len(ids))):
        raise ConfigError(f"the corpus {path} does not hold whole outputs of this model; move it away to start anew")
    return [as_ids(output) for output in np.split(ids, ends[:-1])] if len(ends) else []


def _are_tokens(ids: npt.NDArray[Any], vocab_size: int) -> bool:
    if ids.dtype != np.int32 or ids.ndim != 1:
        return False
    return bool(np.all((ids >= 0) & (ids < vocab_size)))


def _is_split(ends: npt.NDArray[Any], size: int) -> bool:
    """Whether these are the ends of outputs that make up so many tokens."""
    if ends.dtype != np.int32 or ends.ndim != 1:
        return False
    return bool(np.all(np.diff(ends, prepend=0) > 0)) and (int(ends[-1]) if len(ends) else 0) == size


def write(path: Path, identity: str, outputs: Sequence[Ids]) -> None:
    """Replace the file as a whole, readable by its owner alone, and remove what killed processes left beside it.

    Raises: OSError.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mkstemp: for the owner alone
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(
                file,
                header=np.asarray([str(FORMAT), identity]),
                ids=np.concatenate([as_ids(()), *outputs]),
                ends=np.cumsum([len(output) for output in outputs], dtype=np.int32),
            )
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    _remove_leftovers(path)


def _remove_leftovers(path: Path) -> None:
    """Remove files that were never put in the place of this one; what cannot be removed is tried again next time.

    Their age is told by the file that was written just now, so that no clock is read.
    """
    newest_s = path.stat().st_mtime
    for left in path.parent.glob(f".{escape(path.name)}.*"):
        with suppress(OSError):
            if newest_s - left.stat().st_mtime > STALE_S:
                left.unlink()
