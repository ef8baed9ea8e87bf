"""Faults of any session, as wrappers around it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from surefoot.core.ports import Scores, Session, Target
from surefoot.core.types import Caps, Ids


class CommitsOneTooMany:
    """A session that keeps one token more than it was asked to, where the tail has one. Holds the session inside."""

    def __init__(self, inner: Session) -> None:
        self._inner = inner
        self._tail = 0

    @property
    def length(self) -> int:
        """As the session inside counts."""
        return self._inner.length

    def prefill(self, ids: Ids) -> Scores:
        """As the good session."""
        return self._inner.prefill(ids)

    def extend(self, block: Ids, parents: Sequence[int] | None = None, width: int | None = None) -> Scores:
        """As the good session."""
        self._tail += len(block)
        return self._inner.extend(block, parents, width)

    def commit(self, keep: int | Sequence[int]) -> None:
        """One more, unless nothing is kept."""
        more = min(keep + 1, self._tail) if isinstance(keep, int) and keep else keep
        self._inner.commit(more)
        self._tail = 0

    def reset(self, keep: int = 0) -> None:
        """As the good session."""
        self._inner.reset(keep)
        self._tail = 0

    def close(self) -> None:
        """As the good session."""
        self._inner.close()


@dataclass(frozen=True, slots=True)
class WithSessions:
    """A target whose sessions are wrapped: `WithSessions(target, CommitsOneTooMany)`."""

    inner: Target
    wrap: Callable[[Session], Session]

    @property
    def caps(self) -> Caps:
        """As the good target."""
        return self.inner.caps

    def open(self, taps: Sequence[str] = ()) -> Session:
        """A session of the good target in the wrapper."""
        return self.wrap(self.inner.open(taps))


class TrimsWrong:
    """A session that trims one token too few or too many and counts as if it had not. Holds the session inside.

    `off` 1 leaves one rejected token in the cache, -1 drops the last token that was to be kept. Nothing fails: the
    tokens that follow stand in wrong places, which only their scores show.
    """

    def __init__(self, inner: Session, off: int) -> None:
        self._inner = inner
        self._off = off
        self._tail = 0
        self._extra = 0

    @property
    def length(self) -> int:
        """What it would be if every trim had been right."""
        return self._inner.length - self._extra

    def prefill(self, ids: Ids) -> Scores:
        """As the good session."""
        return self._inner.prefill(ids)

    def extend(self, block: Ids, parents: Sequence[int] | None = None, width: int | None = None) -> Scores:
        """As the good session."""
        self._tail += len(block)
        return self._inner.extend(block, parents, width)

    def commit(self, keep: int | Sequence[int]) -> None:
        """One more or one less where something is dropped."""
        if isinstance(keep, int) and 0 < keep < self._tail:
            self._inner.commit(keep + self._off)
            self._extra += self._off
        else:
            self._inner.commit(keep)
        self._tail = 0

    def reset(self, keep: int = 0) -> None:
        """As the good session."""
        self._inner.reset(keep + self._extra if keep else 0)
        self._tail = 0
        self._extra = self._extra if keep else 0

    def close(self) -> None:
        """As the good session."""
        self._inner.close()
