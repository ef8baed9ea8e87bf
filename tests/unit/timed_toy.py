"""A model whose time is counted and not read: the toy, and a clock that only its forwards move."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tiny_tokenizers import byte_level

from surefoot.core.types import Caps, Ids
from surefoot.engine.config import Config
from surefoot.engine.generator import Model
from surefoot.engine.models import ModelFiles
from surefoot.engine.tokenizer import Tokenizer
from surefoot.targets.toy import Options, ToySession, ToyTarget

ROW_S = (0.0, 0.010, 0.011, 0.012, 0.016, 0.017, 0.018, 0.019, 0.020, 0.030)
"""Seconds of a forward by its rows: a staircase."""
TOKEN_S = 0.001
"""Seconds of a prefill, for each token."""


@dataclass
class VirtualClock:
    """Seconds that only `spend` moves. `slow` says how many times slower everything is at a moment."""

    now: float = 100.0
    slow: Callable[[float], float] = lambda now: 1.0
    slept: list[float] = field(default_factory=list)

    def __call__(self) -> float:
        return self.now

    def spend(self, seconds: float) -> None:
        self.now += seconds * self.slow(self.now)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


class TimedSession:
    """A toy session that spends the time of its forwards."""

    def __init__(self, inner: ToySession, clock: VirtualClock) -> None:
        self._inner, self._clock = inner, clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def prefill(self, ids: Ids) -> Any:
        self._clock.spend(TOKEN_S * len(ids))
        return self._inner.prefill(ids)

    def extend(self, block: Ids, parents: Sequence[int] | None = None, width: int | None = None) -> Any:
        self._clock.spend(ROW_S[min(len(block), len(ROW_S) - 1)])
        return self._inner.extend(block, parents, width)


class TimedTarget:
    """A toy whose sessions spend time."""

    def __init__(self, clock: VirtualClock, **options: Any) -> None:
        self._toy, self._clock = ToyTarget(Options(**options)), clock

    @property
    def caps(self) -> Caps:
        return self._toy.caps

    def open(self, taps: Sequence[str] = ()) -> TimedSession:
        return TimedSession(self._toy.open(taps), self._clock)


def timed_model(clock: VirtualClock, **options: Any) -> Model:
    """A toy of few tokens, so that it soon repeats itself, with a tokenizer that has more of them; ready to write."""
    tokenizer = Tokenizer("toy", byte_level(), frozenset())
    sizes = {"vocab_size": 24, "order": 1, "max_length": 4096, **options}
    files = ModelFiles("toy", Path("toy"), "safetensors", ())
    return Model(files, files.path, TimedTarget(clock, **sizes), tokenizer, Config())
