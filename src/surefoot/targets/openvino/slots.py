"""Which rows of the cache count: committed, provisional, or stale until they are removed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

COPY_COST = 13
"""What removing stale rows costs, per cached row, in the cost of one stale row to one scored row.

Source: measured 2026-11-30, 2-core x86 with AVX-512, OpenVINO 2026.4, SmolLM2 fp16 weights, 32-bit cache, processor
time of one thread at 200, 850 and 4,000 cached rows: 11 with one scored row, 15 with eight;
studies/openvino-compaction.md.
"""


class Slots:
    """The rows of one cache. Holds changing state: what each slot is worth, and the cost of carrying stale ones."""

    def __init__(self) -> None:
        self._mask = np.ones((1, 1024), np.int64)  # 1 also where no slot is used yet, so that a round need not write it
        self.used = 0
        self.stale = 0
        self.tail: list[int] = []
        self._debt = 0

    def append(self, rows: int, width: int) -> None:
        """`width` rows behind the last, of which the first `rows` join the tail. The forward has to carry the stale."""
        start, end = self.used, self.used + width
        if end > self._mask.shape[1]:
            self._grow(end)
        self.tail.extend(range(start, start + rows))
        self.used = end
        self._debt += self.stale * width

    def hide(self, padding: int) -> None:
        """Make the last `padding` slots stale, which the forward before needed to see itself."""
        self._mask[0, self.used - padding : self.used] = 0
        self.stale += padding

    def commit(self, path: Sequence[int]) -> None:
        """Keep these rows of the tail; the others become stale."""
        dropped = len(self.tail) - len(path)
        if dropped:
            kept = {self.tail[row] for row in path}
            for slot in self.tail:
                if slot not in kept:
                    self._mask[0, slot] = 0
            self.stale += dropped
        self.tail.clear()

    def keep(self, count: int) -> None:
        """Keep the first `count` rows that are not stale; there is no tail."""
        live = self.live()
        self._mask[0, live[count:]] = 0
        self.stale += len(live) - count

    def live(self) -> npt.NDArray[np.intp]:
        """Every slot that is not stale, in order."""
        return np.flatnonzero(self._mask[0, : self.used])

    def line(self) -> npt.NDArray[np.int64]:
        """(1, capacity) int64, 1 where a slot may be seen, `used` of them in use."""
        return self._mask

    def removal_pays(self) -> bool:
        """Whether carrying the stale rows has cost by now what removing them costs.

        Source: the ski-rental rule, which never costs more than twice the best choice made with hindsight.
        """
        return self.stale > 0 and self._debt >= COPY_COST * self.used

    def removed(self) -> None:
        """Note that exactly the live slots remain, packed; the tail is behind them all."""
        used = self.used - self.stale
        self.tail = list(range(used - len(self.tail), used))
        self._settle_to(used)

    def clear(self) -> None:
        """Note that the cache is empty."""
        self.tail.clear()
        self._settle_to(0)

    def _settle_to(self, used: int) -> None:
        self._mask[0, : self.used] = 1
        self.used, self.stale, self._debt = used, 0, 0

    def _grow(self, size: int) -> None:
        wider = np.ones((1, max(size, 2 * self._mask.shape[1])), np.int64)
        wider[:, : self.used] = self._mask[:, : self.used]
        self._mask = wider
