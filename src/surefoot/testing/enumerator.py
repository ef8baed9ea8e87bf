"""The branch enumerator: the exact distribution of whatever a random procedure returns.

A `Walker` stands in for chance. It answers every question (draw a token, accept with this chance) with one branch and
writes down the others; `outcomes` runs the procedure again and again, each time down the next branch, until all were
walked. Nothing is estimated, so laws can be compared to 1e-12.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence

from surefoot.core.law import Law


class Walker:
    """A sampler for one walk: follows a prefix of branches, then the first branch of every new choice.

    Holds changing state: the choices so far. Implements core.noise.Sampler, for judges, and serves drafters that draw.
    """

    def __init__(self, prefix: Sequence[int] = ()) -> None:
        self._prefix = list(prefix)
        self._taken: list[int] = []
        self._chances: list[list[float]] = []

    def choose(self, chances: Sequence[float]) -> int:
        """The index of one branch; branches of chance 0 are never walked."""
        place = len(self._taken)
        branch = self._prefix[place] if place < len(self._prefix) else _next_possible(chances, 0)
        assert branch is not None, "the chances of a choice are all 0"
        self._taken.append(branch)
        self._chances.append(list(chances))
        return branch

    def draw(self, law: Law, n: int) -> int:
        """A token of the law, one branch each."""
        return law.token(self.choose(law.probs().tolist()))

    def accept(self, chance: float, n: int, attempt: int) -> bool:
        """Both answers, one branch each."""
        return self.choose([chance, 1.0 - chance]) == 0

    @property
    def probability(self) -> float:
        """Of this walk."""
        return math.prod(chances[branch] for branch, chances in zip(self._taken, self._chances, strict=True))

    def next_prefix(self) -> list[int] | None:
        """The branches up to and with the next one not walked yet; None when this was the last walk."""
        for place in range(len(self._taken) - 1, -1, -1):
            branch = _next_possible(self._chances[place], self._taken[place] + 1)
            if branch is not None:
                return [*self._taken[:place], branch]
        return None


def _next_possible(chances: Sequence[float], start: int) -> int | None:
    return next((branch for branch in range(start, len(chances)) if chances[branch] > 0), None)


def outcomes(procedure: Callable[[Walker], Hashable], most: int = 1_000_000) -> dict[Hashable, float]:
    """The probability of every outcome of a procedure whose only chance is the walker's.

    Given the same answers the procedure must ask the same questions.
    Raises: AssertionError after `most` walks, or when the probabilities do not sum to 1.
    """
    weights: dict[Hashable, list[float]] = defaultdict(list)
    prefix: list[int] | None = []
    walks = 0
    while prefix is not None:
        if walks == most:
            raise AssertionError(f"more than {most} walks; take a smaller vocabulary or fewer tokens")
        walker = Walker(prefix)
        outcome = procedure(walker)
        weights[outcome].append(walker.probability)
        prefix = walker.next_prefix()
        walks += 1
    law = {outcome: math.fsum(parts) for outcome, parts in weights.items()}
    total = math.fsum(law.values())
    if abs(total - 1) > 1e-12:
        raise AssertionError(f"the probabilities of all walks sum to {total!r}; some law did not sum to 1")
    return law
