"""A Ctrl-C at every line of a session's code, one after the other, and what must be true after each."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType, ModuleType
from typing import Any

import numpy as np

from surefoot.core.types import as_ids

Step = tuple[str, Sequence[int], dict[str, Any]]
"""A verb and what it is given: ids for prefill and extend, kept tail places for commit, (length,) for reset."""

CHAINS: tuple[Step, ...] = (
    ("prefill", (5, 6, 7, 8, 9, 10, 11, 12, 13), {}),
    ("extend", (21, 22, 23), {}),
    ("commit", (0,), {}),
    ("extend", (31, 32), {"width": 4}),
    ("extend", (33,), {}),
    ("commit", (0, 1), {}),
    ("reset", (7,), {}),
    ("prefill", (41, 42), {}),
    ("extend", (51, 52), {}),
    ("commit", (), {}),
)
TREES: tuple[Step, ...] = (
    *CHAINS,
    ("extend", (61, 62, 63, 64), {"parents": [-1, -1, 1, 0]}),
    ("commit", (1, 2), {}),
    ("extend", (71,), {}),
    ("commit", (0,), {}),
)


@contextmanager
def at_line(n: int, files: set[str]) -> Iterator[None]:
    """A KeyboardInterrupt at the n-th line that is run in these files."""
    seen = 0

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal seen
        if frame.f_code.co_filename not in files:
            return None
        if event == "line":
            seen += 1
            if seen == n:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


def check_every_line(
    target: Any, modules: Sequence[ModuleType], script: Sequence[Step], fresh: Callable[[list[int]], np.ndarray],
    tolerance: float,
) -> int:  # fmt: skip
    """How many lines were interrupted. After each, the session holds what it did before the verb or what it does
    after it, and its next row is `fresh(ids)`, the last row of a forward over just those ids.
    """
    files = {str(module.__file__) for module in modules}
    for line in range(1, 5000):
        session = target.open()
        states, tail = [list[int]()], list[int]()
        try:
            with at_line(line, files):
                for verb, given, named in script:
                    states = [states[-1], after(verb, given, states[-1], tail)]
                    tail = [*tail, *given] if verb == "extend" else []
                    play(session, verb, given, named)
        except KeyboardInterrupt:
            held = next((ids for ids in states if len(ids) == session.length), None)
            assert held is not None, f"line {line}: {session.length} tokens, neither {[len(ids) for ids in states]}"
            session.commit(0)
            row = session.extend(as_ids([3])).logits(0)
            assert np.abs(row - fresh([*held, 3])).max() < tolerance, f"line {line}, in {verb}"
            session.close()
        else:
            return line - 1
    raise AssertionError("the script never ran through")


def after(verb: str, given: Sequence[int], committed: list[int], tail: list[int]) -> list[int]:
    """The committed ids when the verb has done its work."""
    if verb == "prefill":
        return [*committed, *given]
    if verb == "commit":
        return [*committed, *(tail[place] for place in given)]
    return committed[: given[0]] if verb == "reset" else committed


def play(session: Any, verb: str, given: Sequence[int], named: dict[str, Any]) -> None:
    if verb == "reset":
        session.reset(given[0])
    elif verb == "commit":
        session.commit(list(given))
    else:
        getattr(session, verb)(as_ids(given), **named)
