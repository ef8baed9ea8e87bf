"""What a run of the bench uses of this process and this machine: clocks, the watch, the record, the terminal."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

from surefoot.app.cli.command import Context
from surefoot.lab.bench import Progress, World
from surefoot.lab.gates.alone import alone
from surefoot.lab.machine import Watch
from surefoot.lab.records import Conditions, Record, Side
from surefoot.lab.store import Store


def defer_interrupts(context: Context) -> None:
    """From here on a first Ctrl-C raises nothing by itself: it is looked for between two rounds and two texts.

    An exception in the middle of a forward can take a runtime's memory from under its threads (OpenVINO 2026.4 ends the
    process then).
    """
    context.interrupts.stop_by(lambda: None)


def open_world(context: Context, store: Store) -> World:
    """The world of this process, its record `store`."""
    watch = Watch()

    def watched(action: Callable[[], Side]) -> tuple[Side, Conditions]:
        watch.start()
        side = action()
        conditions = watch.stop()
        context.interrupts.check()  # a text that Ctrl-C ended early is not kept
        return side, conditions

    def sleep(seconds: float) -> None:
        time.sleep(seconds)
        context.interrupts.check()

    def append(record: Record) -> None:
        store.append(record)
        context.interrupts.check()

    return World(
        clock=time.perf_counter,
        sleep=sleep,
        watched=watched,
        append=append,
        now=now,
        note=partial(tell, context),
        show=lambda progress: context.console.status(line(progress)),
        alone=partial(alone, context.cache_dir),
    )


def now() -> str:
    """The time of day, UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def tell(context: Context, sentence: str) -> None:
    """A line on stderr, in the place of the progress that may stand there."""
    context.console.status("")
    context.console.note(sentence)


def line(progress: Progress) -> str:
    """How far the run is, as a terminal shows it."""
    if not progress.total:
        return progress.what
    left = "" if progress.left_s is None else f", {spelled(progress.left_s)} left"
    return f"pair {progress.done + 1} of {progress.total}{left} ({progress.what})"


def spelled(seconds: float) -> str:
    """A time as people say it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
