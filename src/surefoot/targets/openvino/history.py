"""The committed keys and values of one sequence, in arrays that the graph reads in place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from surefoot.targets.openvino.pages import PAGE, Pages, Port
from surefoot.targets.openvino.runner import Runner

Array = npt.NDArray[np.float32]


class History:
    """Pages of rows, one array for each side of each layer. Holds changing state: the arrays, which grow.

    It does not know how many rows count: the session does, and what lies behind them is never looked at.
    """

    def __init__(self, pages: Pages, longest: int) -> None:
        """`longest` is the most rows that will ever be asked for."""
        self._pages, self._most = pages, _pages_of(longest)
        self._ports = tuple(pages.ports())
        # Zeros and not just any memory: a hidden row is multiplied by 0, which leaves nothing only of finite numbers.
        self._arrays = [np.zeros(pages.history(port, 0), np.float32) for port in self._ports]
        self._bound = 0

    def reserve(self, rows: int) -> None:
        """Make room for that many rows.

        An array doubles, so that growing copies each row about once in a text of any length, one array at a time.
        """
        needed = _pages_of(rows)
        for i, port in enumerate(self._ports):
            old = self._arrays[i]
            if len(old) < needed:
                self._bound = 0  # whatever happens next, the runtime will not look at the old array again
                wider = np.zeros(self._pages.history(port, min(max(needed, 2 * len(old)), self._most)), np.float32)
                wider[: len(old)] = old
                self._arrays[i] = wider

    def bind(self, runner: Runner, rows: int) -> None:
        """Let the runtime read the pages that hold the first `rows` rows, one page at least."""
        count = max(1, _pages_of(rows))
        if count == self._bound:
            return
        self._bound = 0
        for port, array in zip(self._ports, self._arrays, strict=True):
            runner.bind(port.history, array[:count])
        self._bound = count

    def write(self, start: int, path: Sequence[int], source: Callable[[Port], Array]) -> None:
        """Put the rows `path`, ascending, of what `source` gives for each port behind the first `start` rows.

        Shapes: source(port) (1, kv_heads, t, head_dim).
        """
        places = list(_places(start, path))
        for port, array in zip(self._ports, self._arrays, strict=True):
            rows = source(port)[0]
            for page, to, taken in places:
                if port.side == "key":
                    array[page, :, :, to] = rows[:, taken].swapaxes(1, 2)
                else:
                    array[page, :, to] = rows[:, taken]


def _pages_of(rows: int) -> int:
    return -(-rows // PAGE)


def _places(start: int, path: Sequence[int]) -> Iterator[tuple[int, slice, slice | list[int]]]:
    """(page, places in it, rows that go there) for rows that are put behind the first `start`."""
    done = 0
    while done < len(path):
        page, first = divmod(start + done, PAGE)
        taken = list(path[done : done + PAGE - first])
        gapless = taken[-1] - taken[0] == len(taken) - 1
        yield page, slice(first, first + len(taken)), slice(taken[0], taken[-1] + 1) if gapless else taken
        done += len(taken)
