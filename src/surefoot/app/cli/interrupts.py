"""Ctrl-C: one press ends the work in good order, another one ends it now."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType


class Interrupts:
    """Listens for SIGINT while it is entered. Holds changing state: whether it came, and who can stop by themselves.

    Somebody may swallow a KeyboardInterrupt, or turn it into another error (extension modules do, while they are
    imported), so `seen` and not the exception says whether the user pressed Ctrl-C. With `owns_process`, Ctrl-C ends
    the process without a word once this is left: nothing but Python's shutdown comes after.
    """

    def __init__(self, owns_process: bool = False) -> None:
        self.seen = False
        self._owns_process = owns_process
        self._stop: Callable[[], None] | None = None
        self._before: signal.Handlers | Callable[[int, FrameType | None], object] | int | None = None

    def __enter__(self) -> Interrupts:
        # Where SIGINT is ignored (nohup, background jobs of a shell) it stays ignored; other threads get no signals.
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
            self._before = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, signal.SIG_DFL if self._owns_process else self._before)

    def stop_by(self, stop: Callable[[], None]) -> None:
        """Call `stop` at the first Ctrl-C instead of raising KeyboardInterrupt; now, where it was pressed already."""
        self._stop = None if self.seen else stop
        if self.seen:
            stop()

    def check(self) -> None:
        """Raises: KeyboardInterrupt when Ctrl-C was pressed and nobody has stopped for it."""
        if self.seen:
            raise KeyboardInterrupt

    def _handle(self, number: int, frame: FrameType | None) -> None:
        stop, self._stop = self._stop, None
        self.seen = True
        if stop is not None:
            stop()
            return
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        raise KeyboardInterrupt
