"""The chance that a draft token is accepted, learned while writing, with no training before."""

from __future__ import annotations

PRIOR = 0.5
"""chosen: nothing is known of a drafter before its first draft."""

PRIOR_WEIGHT = 2.0
"""chosen: the first two tokens judged weigh as much as the prior."""

PARENT_WEIGHT = 6.0
"""chosen: a cell is believed more than what it is a part of once six tokens were judged in it."""

MEMORY = 0.99
"""chosen: what was judged a hundred written tokens ago counts a third of what is judged now; texts change their
subject, and a drafter that is not asked any more is not condemned for ever."""

HOPELESS = 0.01
"""chosen: tokens behind a position that is reached this seldom are worth less than any sweep can tell."""

_BOUNDS = (0, 1, 2, 3, 4, 5, 7, 9, 13, 17, 33)
"""chosen: single lengths while they are common, then ranges that double."""

_N = len(_BOUNDS)
_LONGEST = 512
_BUCKETS = tuple(max(number for number, bound in enumerate(_BOUNDS) if bound <= n) for n in range(2 * _LONGEST))
"""Lengths that are counted together have the same number. A table, because every round asks some fifty times."""


class _Count:
    """Tokens judged and accepted, as of the token count `at`. Holds changing state: all three."""

    __slots__ = ("accepted", "at", "judged")

    def __init__(self) -> None:
        self.judged = self.accepted = 0.0
        self.at = 0


class _Drafter:
    """What was counted of one drafter. Holds changing state: the counts.

    agreed: by the bucket of the tokens that agreed before; exact: by match, streak and position, as one number.
    """

    __slots__ = ("agreed", "exact", "whole")

    def __init__(self) -> None:
        self.whole = _Count()
        self.agreed = [_Count() for _ in _BOUNDS]
        self.exact: dict[int, _Count] = {}


class Acceptance:
    """Conditional acceptance by drafter, match length and position. Holds changing state: counts that fade.

    Three levels, each a Beta estimate whose prior is the level above: the drafter as a whole; the tokens that agreed
    before this one (the match or the streak, and the draft so far, which is a longer match once it was accepted); this
    match length, streak and position. The streak counts draft tokens that held since one last did not: a drafter that
    looks at no more than a few tokens does not know how long the text has been following it.
    Source: shrinkage towards a common mean (B. Efron and C. Morris, JASA 70:311, 1975), with exponential forgetting.
    """

    def __init__(self) -> None:
        self._now = 0
        self._drafters: dict[str, _Drafter] = {}
        self._unknown = _Drafter()  # nothing is ever counted here

    def pass_by(self, tokens: int) -> None:
        """So many tokens were written: what was counted before them fades."""
        self._now += tokens

    def survival(self, source: str, match_len: int, streak: int, draft_len: int) -> list[float]:
        """The chance of each position from 1 on to be accepted with all before it, up to draft_len or `HOPELESS`."""
        drafter = self._drafters.get(source, self._unknown)
        match_len, streak = min(match_len, _LONGEST), min(streak, _LONGEST)
        whole = self._believe(drafter.whole, PRIOR, PRIOR_WEIGHT)
        cells, before = _cells(match_len, streak), max(match_len, streak)
        lived, chances = 1.0, []
        for position in range(1, draft_len + 1):
            chance = self._believe(drafter.agreed[_BUCKETS[before + position - 1]], whole, PARENT_WEIGHT)
            count = drafter.exact.get(cells + _BUCKETS[position])
            lived *= chance if count is None else self._believe(count, chance, PARENT_WEIGHT)
            chances.append(lived)
            if lived < HOPELESS:
                break
        return chances

    def chance(self, source: str, match_len: int, streak: int, position: int, rank: int = 0) -> float:
        """The chance of the token of this rank at this position, all before it accepted; nobody knows how often the
        second choice of a drafter holds before it was seen, but it is less often than the first."""
        drafter = self._drafters.get(_ranked(source, rank), self._unknown)
        match_len, streak = min(match_len, _LONGEST), min(streak, _LONGEST)
        chance = self._believe(drafter.whole, PRIOR ** (rank + 1), PRIOR_WEIGHT)
        agreed = drafter.agreed[_BUCKETS[min(max(match_len, streak) + position, 2 * _LONGEST) - 1]]
        chance = self._believe(agreed, chance, PARENT_WEIGHT)
        count = drafter.exact.get(_cells(match_len, streak) + _BUCKETS[position])
        return chance if count is None else self._believe(count, chance, PARENT_WEIGHT)

    def learn(self, source: str, match_len: int, streak: int, position: int, accepted: bool, rank: int = 0) -> None:
        """Count a token whose fate is known and all before which were accepted."""
        source = _ranked(source, rank)
        if source not in self._drafters:
            self._drafters[source] = _Drafter()
        drafter = self._drafters[source]
        match_len, streak = min(match_len, _LONGEST), min(streak, _LONGEST)
        cell = _cells(match_len, streak) + _BUCKETS[position]
        for count in (
            drafter.whole,
            drafter.agreed[_BUCKETS[max(match_len, streak) + position - 1]],
            drafter.exact.get(cell) or drafter.exact.setdefault(cell, _Count()),
        ):
            faded = MEMORY ** (self._now - count.at)
            count.judged = count.judged * faded + 1.0
            count.accepted = count.accepted * faded + accepted
            count.at = self._now

    def _believe(self, count: _Count, prior: float, weight: float) -> float:
        """The mean of the Beta law that began at the prior."""
        faded = MEMORY ** (self._now - count.at)
        return (count.accepted * faded + weight * prior) / (count.judged * faded + weight)


def _ranked(source: str, rank: int) -> str:
    """Under which name the tokens of this rank are counted."""
    return source if rank == 0 else f"{source}#{rank + 1}"


def _cells(match_len: int, streak: int) -> int:
    """The number of the first cell of this match length and streak."""
    return (_BUCKETS[match_len] * _N + _BUCKETS[streak]) * _N
