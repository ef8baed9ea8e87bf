"""The sweep: what a round of every row count costs at several depths, measured as it will be used."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from surefoot.core.cost import CostCurve, fit_curve, point
from surefoot.core.errors import ConfigError
from surefoot.core.ports import Clock, Session
from surefoot.core.types import Ids
from surefoot.lab.steadiness import SAME, Place, Sample, Steadiness, corrected, steadiness, turn_paces

ROWS = (*range(1, 18), 24, 32)
"""Source: every row count, because a sweep of powers of two sees a smooth curve; 24 and 32 show how it goes on."""

DEPTHS = (200, 850)
"""chosen: a short chat and one of a few turns; those of the curves in tests/data."""

WARM = 2
"""chosen: the first round of a shape compiles or allocates, the second is the first that is like all others."""

LEAST_TURNS = 7
"""Source: six values have an interval of their median (Thompson 1936); one more, as one of them may stall."""

MOST_TURNS = 60
"""chosen: what is not narrow then will not become so."""

NARROW = 0.02
"""chosen: one standard deviation of a median; sweeps of one machine differ by as much."""

SPAN = 32
"""chosen: tokens by which a depth may grow while it is measured, before it is set back outside of the clock."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """samples: all of them, as measured. warm_s: seconds of the rounds before any was counted, compiling included.

    stopped: why no more were taken: every interval is narrow, the time was up, or `MOST_TURNS` were done. wide: row
    count and depth of those whose interval is still wide.
    """

    samples: tuple[Sample, ...]
    rows: tuple[int, ...]
    depths: tuple[int, ...]
    warm_s: float
    seconds: float
    stopped: Literal["narrow", "time", "turns"]
    wide: tuple[Place, ...]

    def steadiness(self) -> Steadiness:
        """What the machine did meanwhile."""
        return steadiness(self.samples)

    def curve(self, *, host_s: float = 0.0, can_pad: bool = False) -> CostCurve:
        """The curve that all samples say."""
        return curve_of(self.samples, host_s=host_s, can_pad=can_pad)


def curve_of(samples: Sequence[Sample], *, host_s: float = 0.0, can_pad: bool = False) -> CostCurve:
    """The curve that samples say, each by the pace of its turn."""
    by_place = corrected(samples, turn_paces(samples))
    points = [point(rows, depth, seconds) for (rows, depth), seconds in sorted(by_place.items())]
    return fit_curve(points, host_s=host_s, can_pad=can_pad)


@dataclass(frozen=True, slots=True)
class Progress:
    """turn: full passes done, 0 while the shapes are warmed up. wide: points whose interval is still wide.

    left_s: seconds to the end of the sweep, at the most; None before a turn has told what one takes.
    """

    turn: int
    wide: int
    left_s: float | None


def measure(
    open_session: Callable[[], Session],
    text: Ids,
    clock: Clock,
    *,
    rows: Sequence[int] = ROWS,
    depths: Sequence[int] = DEPTHS,
    limit_s: float = 60.0,
    seed: int = 0,
    used_rows: int = 0,
    before: Sequence[Sample] = (),
    keep: Callable[[Sequence[Sample]], None] = lambda samples: None,
    show: Callable[[Progress], None] = lambda progress: None,
) -> Sweep:
    """A sweep over every row count and depth, in random order, until every interval is narrow or the time is up.

    A round is: score so many tokens of real text, read the choices on the host, keep one row and roll the others back.
    Each depth has a session of its own, so that the depths are measured side by side and not one after the other. A
    turn has one round of each that is not narrow yet, and always one of a single row, which tells the pace of the
    machine. The first `WARM` rounds of each shape are not counted; one fewer where blocks of up to used_rows rows were
    scored just before.
    keep: is given the samples of each turn when it is done. before: those of an earlier sweep of the same
    places that was cut short; this one goes on with the turn that follows.
    Raises: ConfigError for a text that is too short, or no single row among the row counts.
    """
    rows, depths = tuple(sorted(set(rows))), tuple(sorted(set(depths)))
    if not rows or rows[0] != 1 or not depths or depths[0] < 1:
        raise ConfigError(
            f"a sweep needs the row count 1 and depths of at least 1; got rows {rows} and depths {depths}"
        )
    needed = depths[-1] + SPAN + rows[-1] + 1
    if len(text) < needed:
        raise ConfigError(
            f"a sweep of {rows[-1]} rows at {depths[-1]} tokens needs a text of {needed}; got {len(text)}"
        )
    sessions: dict[int, Session] = {}
    began = clock()
    try:
        for depth in depths:
            sessions[depth] = open_session()
            sessions[depth].prefill(text[:depth])
        bench = _Bench(sessions, text, clock, began)
        for number in range(WARM):
            for depth in depths:
                show(Progress(0, len(rows) * len(depths), None))
                for each in rows:
                    if number or each > used_rows:
                        bench.round(-1, (each, depth))
        return _sweep(bench, rows, depths, began + limit_s, seed, before, keep, show)
    finally:
        for session in sessions.values():
            session.close()


@dataclass(frozen=True, slots=True)
class _Bench:
    """What a round is measured with."""

    sessions: dict[int, Session]
    text: Ids
    clock: Clock
    began: float

    def round(self, turn: int, place: Place) -> Sample:
        """One round, the clock stopped when the host has the result and the cache is rolled back."""
        rows, depth = place
        session = self.sessions[depth]
        if session.length > depth + SPAN:
            session.reset(depth)
        block = self.text[session.length : session.length + rows]
        start = self.clock()
        session.extend(block).argmax()
        session.commit(1)
        return Sample(turn, rows, depth, start - self.began, self.clock() - start)


def _sweep(
    bench: _Bench,
    rows: tuple[int, ...],
    depths: tuple[int, ...],
    until: float,
    seed: int,
    before: Sequence[Sample],
    keep: Callable[[Sequence[Sample]], None],
    show: Callable[[Progress], None],
) -> Sweep:
    places = [(each, depth) for depth in depths for each in rows]
    warm_s = bench.clock() - bench.began
    samples = list(before)
    first = max((each.turn for each in before), default=-1) + 1
    order = random.Random(seed + first)
    wide = _wide(samples) if first >= LEAST_TURNS else places
    stopped: Literal["narrow", "time", "turns"] = "turns" if wide else "narrow"
    turn_s, begun = 0.0, bench.clock()
    for turn in range(first, max(MOST_TURNS, first + 1) if wide else first):
        todo = [place for place in places if place[0] == 1 or place in wide]
        order.shuffle(todo)
        fresh = [bench.round(turn, place) for place in todo]
        keep(fresh)
        samples += fresh
        if turn + 1 >= LEAST_TURNS:
            wide = _wide(samples)
        now = bench.clock()
        turn_s, begun = max(turn_s, now - begun), now
        show(Progress(turn + 1, len(wide), _left_s(LEAST_TURNS - turn - 1, turn_s, until - now) if wide else 0.0))
        if not wide:
            stopped = "narrow"
            break
        # The turns that the medians cannot do without are done whatever the time.
        if now >= until and turn + 1 >= LEAST_TURNS:
            stopped = "time"
            break
    return Sweep(tuple(samples), rows, depths, warm_s, bench.clock() - bench.began, stopped, tuple(wide))


def _left_s(least_turns: int, turn_s: float, time_s: float) -> float:
    """Seconds to the end of a sweep, at the most: the turns it cannot do without, or the time and the turn it ends in.

    turn_s: of the longest turn so far, which the next may exceed by what is noise on one machine.
    """
    turns_s = max(0, least_turns) * turn_s * SAME
    return max(turns_s, time_s + turn_s * SAME) if time_s > 0 else turns_s


def _wide(samples: Sequence[Sample]) -> list[Place]:
    """Row counts and depths whose interval is not narrow yet."""
    by_place = corrected(samples, turn_paces(samples))
    return [place for place, seconds in by_place.items() if point(*place, seconds).error > NARROW]
