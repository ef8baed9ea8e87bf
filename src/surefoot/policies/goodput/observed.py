"""What a clock says while a text is written: today's prices, the drafter's own time, and when to look again."""

from __future__ import annotations

from collections import defaultdict, deque
from statistics import median

from surefoot.core.cost import CostCurve
from surefoot.core.served import ENOUGH, Served, reestimated
from surefoot.core.types import Round

REACH = 2
"""chosen: a round has at most twice the rows of the widest one served so far, so that a sweep that was wrong costs a
few rows and not sixteen before it is corrected; a right one is at its longest in five rounds."""

PATIENCE = (4, 64)
"""chosen: rounds in a row that may score drafts before one is left plain, at first and, doubled each time, at the most:
without a plain round now and then nobody knows what drafting is compared with. It costs under 1 %."""

LOOK_AGAIN = 32
KEPT = 48
"""chosen: served rounds between two corrections of the curve (at the start `ENOUGH`, for the machine may be in another
mood than during the sweep), and how many of each row count it is corrected by."""

SURPRISE = 1.25
IN_A_ROW = 3
"""chosen: a round that takes this much more or less than expected calls for a correction at once; three of one row
count, the same way, are no stalls: the machine has changed, and what was served before is of another one."""

DRAFT_MEMORY = 0.98
"""chosen: the drafter's time is the mean of about its last 50 proposals."""

IDLE = 0.01
"""chosen: a proposal of nothing that takes less than this share of a round says nothing about a drafter's time."""


class Observed:
    """Served rounds by row count, and what they say. Holds changing state: all of it.

    token_s: seconds of the drafter for a token; known: whether any of them was seen.
    """

    def __init__(self, swept: CostCurve) -> None:
        self._swept = swept
        self._served: defaultdict[int, deque[Served]] = defaultdict(lambda: deque(maxlen=KEPT))
        self._n_served = 0
        self._widest = 1
        self._patience, self._in_a_row = PATIENCE[0], 0
        self._draft_s = self._draft_tokens = 0.0

    @property
    def told(self) -> bool:
        """Whether enough rounds were served to know today's pace."""
        return self._n_served >= ENOUGH

    @property
    def reach(self) -> int:
        """The longest draft that may be scored now."""
        return REACH * self._widest - 1

    @property
    def wants_plain(self) -> bool:
        """Whether too many rounds in a row scored drafts."""
        return self._in_a_row >= self._patience

    @property
    def token_s(self) -> float | None:
        """Seconds of the drafter for a token; None before its first proposal."""
        return self._draft_s / self._draft_tokens if self._draft_tokens else None

    def learn(self, round: Round, expected_s: float, host_s: float) -> CostCurve | None:
        """The curve that is to be used from now on, or None where it stays what it was.

        A forward counts as a sweep counts it: until the host has the result, which some runtimes give to the judge
        only, and the cache is rolled back. expected_s: what it was expected to take; host_s: the rest of such a round.
        """
        self._draft(round)
        forward_s = round.extend_s + round.judge_s + round.commit_s - host_s
        if forward_s <= 0:
            return None
        self._served[round.width].append(Served(round.width, round.depth, forward_s, 0.0))
        self._n_served += 1
        self._widest = max(self._widest, round.width)
        self._count(round.evaluated > 0)
        self._forget(round.width)
        ratio = forward_s / expected_s if expected_s > 0 else 1.0
        surprised = not 1 / SURPRISE < ratio < SURPRISE
        period = LOOK_AGAIN if self._n_served >= LOOK_AGAIN else ENOUGH
        if self._n_served % period and not surprised:
            return None
        return reestimated(self._swept, [each for width in self._served.values() for each in width])

    def _forget(self, width: int) -> None:
        """Drop what was served before the machine changed, where the last rounds of this row count agree that it
        did."""
        served = list(self._served[width])
        before, latest = served[:-IN_A_ROW], served[-IN_A_ROW:]
        if not before:
            return
        usual = median(each.extend_s for each in before)
        if min(each.extend_s for each in latest) > SURPRISE * usual or (
            max(each.extend_s for each in latest) < usual / SURPRISE
        ):
            self._served[width] = deque(latest, maxlen=KEPT)

    def _draft(self, round: Round) -> None:
        if round.drafted or round.draft_s > IDLE * round.extend_s:
            self._draft_s = self._draft_s * DRAFT_MEMORY + round.draft_s
            self._draft_tokens = self._draft_tokens * DRAFT_MEMORY + max(1, round.drafted)

    def _count(self, scored: bool) -> None:
        """Rounds in a row; a plain one that was wanted doubles the patience."""
        if scored:
            self._in_a_row += 1
            return
        if self.wants_plain:
            self._patience = min(2 * self._patience, PATIENCE[1])
        self._in_a_row = 0
