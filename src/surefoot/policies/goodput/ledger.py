"""Seconds lost and won against plain decoding, and how many more may be lost."""

from __future__ import annotations

FLOOR = 0.01
"""Source: the promise itself: time with drafts <= 1.01 * time without, plus one worst-case round, for any drafter."""

PROBES = 0.005
"""chosen: half of what may be lost is left for drafts that were expected to win."""


class Ledger:
    """What drafting has cost and brought so far. Holds changing state: what was spent, and what plain decoding would
    have.

    A round may be entered when the text would still keep the floor if none of its drafts held. So what was lost never
    passes the floor by more than the surprise of a single round (a drafter slower than ever before).
    scale: how many times slower plain decoding is by now believed to be than the sweep said. It is asked for each time
    and not booked, so that what was believed at first does not stay in the books.
    """

    def __init__(self) -> None:
        self._plain_s = 0.0
        self._spent_s = 0.0
        self._owed_s = 0.0
        self._probes_s = 0.0

    def off_s(self, scale: float = 1.0) -> float:
        """Seconds that the text so far would have taken without drafts."""
        return self._plain_s + scale * self._owed_s

    def lost_s(self, scale: float = 1.0) -> float:
        """Seconds that it took more than that; negative where drafts won."""
        return self._spent_s - scale * self._owed_s

    def purse_s(self, worst_round_s: float, scale: float = 1.0) -> float:
        """Seconds that may still be lost before the floor is reached."""
        return FLOOR * self.off_s(scale) + worst_round_s - self.lost_s(scale)

    def may_probe(self, seconds: float, plain_round_s: float, scale: float = 1.0) -> bool:
        """Whether this much may be spent to learn whether drafts would hold by now; a plain round's worth at the
        start."""
        return self._probes_s + seconds <= PROBES * self.off_s(scale) + plain_round_s

    def enter_plain(self, round_s: float, draft_s: float, probe_s: float) -> None:
        """A round that scored no draft: it took what plain decoding takes, and the drafter's time; a probe's is
        noted."""
        self._plain_s += round_s
        self._spent_s += draft_s
        self._probes_s += probe_s

    def enter_scored(self, round_s: float, swept_s: float, probe_s: float) -> None:
        """A round that scored drafts, all of its seconds, for tokens that plain decoding writes in swept_s by the
        sweep."""
        self._spent_s += round_s
        self._owed_s += swept_s
        self._probes_s += probe_s
