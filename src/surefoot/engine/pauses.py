"""A pause before each draft, for machines where drafting at once takes something from the target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from surefoot.core.ports import Drafter, Needs, Scores
from surefoot.core.types import Draft, Ids


@dataclass(frozen=True, slots=True)
class Paused:
    """The drafter `inner`, asked for a draft `gap_s` seconds after it could have been."""

    inner: Drafter
    gap_s: float
    sleep: Callable[[float], None]

    @property
    def needs(self) -> Needs:
        return self.inner.needs

    def begin(self, prompt: Ids, root: int, scores: Scores) -> None:
        """As the drafter does it."""
        self.inner.begin(prompt, root, scores)

    def propose(self, budget: int) -> Draft:
        """What the drafter proposes after the pause."""
        self.sleep(self.gap_s)
        return self.inner.propose(budget)

    def observe(self, new_ids: Sequence[int], scores: Scores) -> None:
        """As the drafter does it."""
        self.inner.observe(new_ids, scores)
