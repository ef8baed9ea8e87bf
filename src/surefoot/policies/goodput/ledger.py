"""Seconds lost and won against plain decoding, and how many more may be lost."""

from __future__ import annotations

FLOOR = 0.01
"""Source: the promise itself: time with drafts <= 1.01 * time without, plus one worst-case round, for any drafter."""

PROBES = 0.005
"""chosen: half of what may be lost is left for drafts that were expected to win."""


class Ledger:
    """What drafting has cost and brought so far. Holds changing state: the balance.

    plain_s: seconds that the text would have taken so far without drafts. lost_s: seconds that it took more than that;
    negative where drafts won. A round may be entered when the text would still keep the floor if none of its drafts
    held. So what was lost never passes the floor by more than the surprise of a single round (a drafter slower than
    ever before).
    """

    def __init__(self) -> None:
        self.plain_s = 0.0
        self.lost_s = 0.0
        self.probes_s = 0.0

    def may_lose(self, seconds: float, worst_round_s: float) -> bool:
        """Whether a round that could lose so much keeps the floor."""
        return self.lost_s + seconds <= FLOOR * self.plain_s + worst_round_s

    def may_probe(self, seconds: float, plain_round_s: float) -> bool:
        """Whether this much may be spent to learn whether drafts would hold by now; a plain round's worth at the
        start."""
        return self.probes_s + seconds <= PROBES * self.plain_s + plain_round_s

    def enter(self, round_s: float, plain_s: float, probe_s: float = 0.0) -> None:
        """A round that took so long, for tokens that plain decoding writes in plain_s; probe_s of it was a probe."""
        self.plain_s += plain_s
        self.lost_s += round_s - plain_s
        self.probes_s += probe_s
