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

_BUCKETS = tuple(max(number for number, bound in enumerate(_BOUNDS) if bound <= length) for length in range(34))


class _Count:
    """Tokens judged and accepted, as of the token count `at`. Holds changing state: all three."""

    __slots__ = ("accepted", "at", "judged")

    def __init__(self) -> None:
        self.judged = self.accepted = 0.0
        self.at = 0


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
        self._whole: dict[str, _Count] = {}
        self._agreed: dict[tuple[str, int], _Count] = {}
        self._exact: dict[tuple[str, int, int, int], _Count] = {}

    def pass_by(self, tokens: int) -> None:
        """So many tokens were written: what was counted before them fades."""
        self._now += tokens

    def survival(self, source: str, match_len: int, streak: int, draft_len: int) -> list[float]:
        """The chance of each position from 1 on to be accepted with all before it, up to draft_len or `HOPELESS`."""
        whole = self._believe(self._whole.get(source), PRIOR, PRIOR_WEIGHT)
        match, held, before = _bucket(match_len), _bucket(streak), max(match_len, streak)
        lived, chances = 1.0, []
        for position in range(1, draft_len + 1):
            agreed = self._believe(self._agreed.get((source, _bucket(before + position - 1))), whole, PARENT_WEIGHT)
            lived *= self._believe(self._exact.get((source, match, held, _bucket(position))), agreed, PARENT_WEIGHT)
            chances.append(lived)
            if lived < HOPELESS:
                break
        return chances

    def learn(self, source: str, match_len: int, streak: int, position: int, accepted: bool) -> None:
        """Count a token whose fate is known and all before which were accepted."""
        for count in (
            self._whole.setdefault(source, _Count()),
            self._agreed.setdefault((source, _bucket(max(match_len, streak) + position - 1)), _Count()),
            self._exact.setdefault((source, _bucket(match_len), _bucket(streak), _bucket(position)), _Count()),
        ):
            faded = MEMORY ** (self._now - count.at)
            count.judged = count.judged * faded + 1.0
            count.accepted = count.accepted * faded + accepted
            count.at = self._now

    def _believe(self, count: _Count | None, prior: float, weight: float) -> float:
        """The mean of the Beta law that began at the prior."""
        if count is None:
            return prior
        faded = MEMORY ** (self._now - count.at)
        return (count.accepted * faded + weight * prior) / (count.judged * faded + weight)


def _bucket(length: int) -> int:
    """Lengths that are counted together have the same number."""
    return _BUCKETS[length] if length < len(_BUCKETS) else _BUCKETS[-1]
