"""Where output goes: results to stdout, everything else to stderr, colour and progress to a terminal only."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TextIO

from surefoot.core.errors import ConfigError

_PATIENCE_S = 2.0  # Source: the promise of progress on everything that takes longer than that
_BEAT_S = 0.5  # chosen: a figure that counts seconds


class ReaderGone(Exception):
    """Nobody reads stdout any more, as after `| head -1`. No error: the reader has all it wants."""


@dataclass(frozen=True, slots=True)
class Console:
    """The streams of the program and what may be written to them."""

    out: TextIO
    err: TextIO
    quiet: bool = False
    color: bool = False

    def write(self, text: str) -> None:
        """Show `text` on stdout at once.

        Raises: ReaderGone when stdout was closed by its reader; ConfigError when it cannot be written to.
        """
        try:
            self.out.write(text)
            self.out.flush()
        except BrokenPipeError:
            raise ReaderGone from None
        except OSError as error:
            raise ConfigError(f"stdout cannot be written to: {error.strerror}; what is missing was not kept") from error

    def note(self, line: str) -> None:
        """One line on stderr, unless the user wants quiet."""
        if not self.quiet:
            self.complain(line)

    def complain(self, line: str) -> None:
        """One line on stderr. A closed stderr ends nothing."""
        try:
            self.err.write(f"surefoot: {line}\n")
            self.err.flush()
        except (OSError, ValueError):
            return

    @property
    def shows_progress(self) -> bool:
        return not self.quiet and self.err.isatty() and find_spec("tqdm") is not None

    def status(self, line: str) -> None:
        """One line on a terminal in the place of the last one; an empty one takes it away.

        It changes only here, so that nothing runs beside what is being measured.
        """
        if not self.shows_progress:
            return
        width = shutil.get_terminal_size().columns - 1
        try:
            self.err.write("\r\x1b[2K" + (f"surefoot: {line}"[:width] if line else ""))
            self.err.flush()
        except (OSError, ValueError):
            return

    def styled(self, text: str, code: str) -> str:
        """`text` in an ANSI style where colour is wanted."""
        return f"\x1b[{code}m{text}\x1b[0m" if self.color else text

    @contextmanager
    def working(self, what: str) -> Iterator[Callable[[int, int], None]]:
        """Shows that something takes time, from the third second on: seconds, or a bar once told (bytes done, all)."""
        if not self.shows_progress:
            yield lambda done, total: None
            return
        from tqdm import tqdm

        with tqdm(
            desc=f"surefoot: {what}", file=self.err, unit="B", unit_scale=True, unit_divisor=1000, leave=False,
            bar_format="{desc} {elapsed}", delay=_PATIENCE_S,
        ) as bar:  # fmt: skip
            ended = threading.Event()

            def beat() -> None:
                pause = _PATIENCE_S
                while not ended.wait(pause):
                    bar.refresh()
                    pause = _BEAT_S

            def tell(done: int, total: int) -> None:
                bar.bar_format = None if done < total else "{desc} {elapsed}"
                bar.total, bar.n = total, done

            ticker = threading.Thread(target=beat, daemon=True)
            ticker.start()
            try:
                yield tell
            finally:
                ended.set()
                ticker.join()


def open_console(*, quiet: bool, no_color: bool) -> Console:
    """The console of this process. Text for a pipe or a file is UTF-8 whatever the locale says."""
    for stream in (sys.stdout, sys.stderr):
        # Programs may be started with closed streams, and tests replace them by ones that are always UTF-8.
        if hasattr(stream, "reconfigure"):
            if stream.isatty():
                stream.reconfigure(errors="replace")
            else:
                stream.reconfigure(encoding="utf-8", errors="replace")
    out, err = sys.stdout or _nowhere(), sys.stderr or _nowhere()
    return Console(out, err, quiet, not no_color and out.isatty())


def abandon_stdout() -> None:
    """Nothing more goes to stdout, also not what Python would still flush at its end."""
    if hasattr(sys.stdout, "fileno"):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _nowhere() -> TextIO:
    return open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123 - lives as long as the process
