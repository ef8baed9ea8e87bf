"""Draft models of toys: what the tests of the drafters with a second model share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from surefoot.core.noise import KeyedSampler, Sampler
from surefoot.core.ports import Clock, Session, Target
from surefoot.core.sampling import Sampling
from surefoot.core.types import Caps, Ids, Round
from surefoot.drafters.model.follower import Follower, Reading, Style
from surefoot.drafters.model.same import Same

SURE = Style("model")


def follow(
    second: Target,
    vocab_size: int,
    *,
    sampling: Sampling | None = None,
    sampler: Sampler | None = None,
    style: Style = SURE,
    reading: Reading | None = None,
    pause: Callable[[float], None] = lambda seconds: None,
    clock: Clock = lambda: 0.0,
    note: Callable[[str], None] = lambda sentence: None,
) -> Follower:
    """A drafter that follows `second`, which never hesitates unless `style` says so."""
    sampling = sampling or Sampling()
    return Follower(
        second,
        vocab_size,
        reading or Same(vocab_size, second.caps.vocab_size),
        style,
        sampling,
        sampler or KeyedSampler(sampling.seed),
        open_session=lambda target: target.open(),
        pause=pause,
        clock=clock,
        note=note,
    )


def with_q(style: Style = SURE) -> Style:
    return replace(style, with_q=True)


def survival(rounds: Sequence[Round]) -> list[float]:
    """The share of rounds in which the draft at each position was accepted, of those that drafted so far."""
    longest = max(round_.evaluated for round_ in rounds)
    return [
        sum(round_.accepted >= k for round_ in rounds) / sum(round_.evaluated >= k for round_ in rounds)
        for k in range(1, longest + 1)
    ]


class Counted:
    """A target whose sessions write down what they are fed. Holds the blocks of all its sessions."""

    def __init__(self, inner: Target) -> None:
        self.inner = inner
        self.fed: list[list[int]] = []

    @property
    def caps(self) -> Caps:
        return self.inner.caps

    def open(self, taps: Sequence[str] = ()) -> Session:
        session = self.inner.open(taps)
        for verb in ("prefill", "extend"):
            setattr(session, verb, self._counted(getattr(session, verb)))
        return session

    def _counted(self, verb: Callable[..., object]) -> Callable[..., object]:
        def counted(ids: Ids) -> object:
            self.fed.append(ids.tolist())
            return verb(ids)

        return counted
