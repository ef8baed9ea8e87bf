"""Forwards that took far longer than the others: an accelerator that stalls when a draft follows a verification."""

from __future__ import annotations

from statistics import median

LONG_S = 0.1
TIMES = 10.0
"""Source: Forge reports stalls of 300 to 700 ms for forwards of a few; chosen: a third of that, and ten times the
usual, so that a slow model on a slow machine is not called stalled."""

USUAL = 64
"""chosen: forwards that the usual time is taken from, the latest; a context that grows makes them slower."""


class Stalls:
    """Tells a stalled forward from a slow one. Holds changing state: how long the last ones took, in seconds."""

    def __init__(self) -> None:
        self.count = 0
        self._taken_s: list[float] = []

    def told(self, seconds: float) -> str | None:
        """A sentence for the first forward that stalled, after at least five others; None otherwise."""
        usual = median(self._taken_s) if len(self._taken_s) >= 5 else None
        if usual is None or seconds < max(LONG_S, TIMES * usual):
            self._taken_s = [*self._taken_s, seconds][-USUAL:]
            return None
        self.count += 1
        if self.count > 1:
            return None
        return (
            f"the draft model stalled: one of its forwards took {1000 * seconds:.0f} ms, and {1000 * usual:.0f} ms are "
            "usual; where that happens often, wait before each draft with drafts.gap_ms = 3."
        )
