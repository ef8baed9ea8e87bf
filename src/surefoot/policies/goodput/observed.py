"""What a clock says while a text is written: today's prices, the drafter's own time, and when to look again."""

from __future__ import annotations

from collections import defaultdict, deque
from statistics import median

from surefoot.core.cost import CostCurve
from surefoot.core.served import ENOUGH, Served, reestimated
from surefoot.core.types import Round

REACH = 2
FIRST_REACH = 8
"""chosen: a round has at most twice the rows of the widest one served so far, and eight at first, so that a sweep that
was wrong costs a few rows and not sixteen before it is corrected. Fewer at first would be a trap: measured 2026-12-01,
llama.cpp in Q8_0 on a 2-core EPYC, two and four rows lose where eight win, and are never served on the way there."""

PATIENCE = (4, 64)
"""chosen: rounds in a row that may score drafts before one is left plain, at first and, doubled each time, at the most:
without a plain round now and then nobody knows what drafting is compared with. It costs under 1 %."""

GROWTH = 0.5
LOOK_AGAIN = 64
KEPT = 48
"""chosen: the curve is corrected after `ENOUGH` served rounds (the machine may be in another mood than during the
sweep), and again whenever there are half as many more, six at the least and 64 at the most; by how many of each row
count."""

SURPRISE = 1.25
IN_A_ROW = 3
"""chosen: a round that takes this much more or less than expected calls for a correction at once where its row count is
new; of one that is known, three in a row do, the same way: they are no stalls. The machine has changed, and what was
served before is of another one. Single rounds of known row counts would call for one all the time where the machine is
never still: measured 2026-12-01, llama.cpp in Q8_0 on a 2-core EPYC, in every sixth round."""

TOGETHER = 8
"""chosen: rounds that are gone through at once, for what runs behind a forward finds the caches cold, and takes 25
microseconds of each round alone: measured on the same machine, 0.3 % of a text that has nothing to draft."""

DRAFT_MEMORY = 0.98
"""chosen: the drafter's time is learned from about its last 50 proposals."""

SPREAD = 0.05
"""chosen: one proposal of another length in twenty is enough to tell a proposal's time from that of its tokens."""


class DraftTime:
    """What a drafter takes, as a line over the tokens that it proposed. Holds changing state: weighted sums.

    The seconds before a forward also hold what the policy itself takes, in every round; those without a proposal show
    how much that is.
    """

    def __init__(self) -> None:
        self._idle = self._idle_s = 0.0
        self._n = self._tokens = self._squares = self._s = self._products = 0.0

    @property
    def known(self) -> bool:
        """Whether anything was ever proposed."""
        return self._tokens > 0

    def learn(self, asked: bool, tokens: int, seconds: float) -> None:
        """A round: whether the drafter was asked, what it proposed, and what that took."""
        if not asked:
            self._idle = self._idle * DRAFT_MEMORY + 1
            self._idle_s = self._idle_s * DRAFT_MEMORY + seconds
            return
        self._n = self._n * DRAFT_MEMORY + 1
        self._tokens = self._tokens * DRAFT_MEMORY + tokens
        self._squares = self._squares * DRAFT_MEMORY + tokens * tokens
        self._s = self._s * DRAFT_MEMORY + seconds
        self._products = self._products * DRAFT_MEMORY + tokens * seconds

    @property
    def spread(self) -> float:
        """The variance of the tokens of a proposal. Where it is small, the line has no slope that can be believed."""
        mean = self._tokens / self._n if self._n else 0.0
        return self._squares / self._n - mean * mean if self._n else 0.0

    def line(self) -> tuple[float, float] | None:
        """Seconds of a proposal, and of each of its tokens more; None before the first.

        Where all proposals are of one length, nothing tells the two apart, and all counts as the tokens'.
        """
        if not self._n:
            return None
        whole_s, mean_tokens = self._s / self._n, self._tokens / self._n
        mean_s = max(0.0, whole_s - self._idle_s / self._idle) if self._idle else whole_s
        if not mean_tokens:
            return mean_s, 0.0
        token_s = steepest = mean_s / mean_tokens
        if self.spread > SPREAD:
            slope = (self._products / self._n - mean_tokens * whole_s) / self.spread
            token_s = min(steepest, max(0.0, slope))
        return mean_s - token_s * mean_tokens, token_s


class Observed:
    """Served rounds by row count, and what they say. Holds changing state: all of it.

    draft: what the drafter takes, as far as the rounds were gone through.
    """

    def __init__(self, swept: CostCurve) -> None:
        self._swept = swept
        self._served: defaultdict[int, deque[Served]] = defaultdict(lambda: deque(maxlen=KEPT))
        self._new: list[tuple[bool, Round]] = []  # not gone through yet
        self._n_served, self._next_look = 0, ENOUGH
        self._widest = FIRST_REACH // REACH
        self._patience, self._in_a_row = PATIENCE[0], 0
        self._surprises: dict[int, int] = {}  # by row count: how many rounds in a row, below 0 where they were cheaper
        self.draft = DraftTime()

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
    def digested(self) -> bool:
        """Whether all rounds were gone through, so that `draft` may say something new."""
        return not self._new

    def learn(self, round: Round, asked: bool, expected_s: float) -> CostCurve | None:
        """The curve that is to be used from now on, or None where it stays what it was.

        asked: whether the drafter was. expected_s: what the forward was expected to take. It counts as a sweep counts
        it: until the host has the result, which some runtimes give to the judge only, and the cache is rolled back.
        """
        self._new.append((asked, round))
        forward_s = _forward_s(round)
        if forward_s > 0:
            self._n_served += 1
            self._widest = max(self._widest, round.width)
            self._count(round.evaluated > 0)
            if self._surprised(round.width, forward_s, expected_s):
                self._digest()
                self._forget(round.width)
                return self._corrected()
            if self._n_served >= self._next_look:
                self._next_look += max(ENOUGH, min(LOOK_AGAIN, int(GROWTH * self._n_served)))
                self._digest()
                return self._corrected()
        if len(self._new) >= TOGETHER or not self.draft.known:
            self._digest()
        return None

    def _digest(self) -> None:
        """Go through the rounds since the last time."""
        for asked, each in self._new:
            self.draft.learn(asked, each.drafted, each.draft_s)
            forward_s = _forward_s(each)
            if forward_s > 0:
                self._served[each.width].append(Served(each.width, each.depth, forward_s, each.host_s))
        self._new.clear()

    def _corrected(self) -> CostCurve:
        return reestimated(self._swept, [each for width in self._served.values() for each in width])

    def _surprised(self, width: int, forward_s: float, expected_s: float) -> bool:
        """Whether what was last served of this row count was all dearer, or all cheaper, than expected."""
        if expected_s <= 0:
            return False
        before = self._surprises.get(width)
        if expected_s < SURPRISE * forward_s and forward_s < SURPRISE * expected_s:
            self._surprises[width] = 0
            return False
        sign = 1 if forward_s > expected_s else -1
        now = self._surprises[width] = sign * (1 + max(0, sign * (before or 0)))
        return before is None or abs(now) >= IN_A_ROW

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

    def _count(self, scored: bool) -> None:
        """Rounds in a row; a plain one that was wanted doubles the patience."""
        if scored:
            self._in_a_row += 1
            return
        if self.wants_plain:
            self._patience = min(2 * self._patience, PATIENCE[1])
        self._in_a_row = 0


def _forward_s(round: Round) -> float:
    return round.extend_s + round.judge_s + round.commit_s
