"""Several drafters at once: each guesses, one guess is scored, all of them learn."""

from __future__ import annotations

from collections.abc import Sequence

from surefoot.core.ports import Clock, Needs, Scores
from surefoot.core.types import EMPTY_DRAFT, Draft, Ids
from surefoot.drafters.union.along import Along, rows_along
from surefoot.drafters.union.member import Member
from surefoot.drafters.union.options import Choice

CHEAP = 0.01
"""chosen: a member whose proposals take less than this share of a round is always asked, so that its gate opens by
itself; as the policy goodput calls a drafter cheap."""

PROBE_LEN = 2
"""chosen: shows whether the first token holds, and whether the second then does; as goodput probes."""

ROUND_MEMORY = 0.95
"""chosen: what a round and a token of the text take is the mean of about the last 20 rounds."""


class Union:
    """One draft out of those of its members. Holds changing state: theirs, and what each gave and took so far.

    Losers are not told that they lost: every member observes what was emitted, which is what rolls it back.
    clock: where costs are measured; None where they are as stated.
    """

    def __init__(self, members: Sequence[Member], choice: Choice, clock: Clock | None) -> None:
        self.members = tuple(members)
        self._choice = choice
        self._clock = clock
        self._scored = EMPTY_DRAFT
        self._asked_at: float | None = None
        self._rounds = self._round_s = self._round_tokens = 0.0

    @property
    def needs(self) -> Needs:
        needs = [member.drafter.needs for member in self.members]
        taps = dict.fromkeys(tap for each in needs for tap in each.taps)
        dearest = max((member.seat.cost for member in self.members), default=0.0)
        return Needs(tuple(taps), any(each.trees for each in needs), history_only=False, token_cost=dearest)

    def begin(self, prompt: Ids, root: int, scores: Scores) -> None:
        """Forget everything, what the members gave in the text before included."""
        self._scored, self._asked_at = EMPTY_DRAFT, None
        self._rounds = self._round_s = self._round_tokens = 0.0
        for member in self.members:
            member.forget()
            member.drafter.begin(prompt, root, scores)

    def propose(self, budget: int) -> Draft:
        """The draft of one member; empty where none has one that may be used."""
        self._scored = EMPTY_DRAFT
        if budget <= 0:
            return EMPTY_DRAFT
        for member in self.members:
            member.asked = False
        self._scored = self._by_value(budget) if self._choice == "value" else self._by_order(budget)
        for member in self.members:
            member.gate.pass_by(member.asked)
        if self._clock is not None:
            self._asked_at = self._clock()
        return self._scored

    def observe(self, new_ids: Sequence[int], scores: Scores) -> None:
        """Every member learns what was emitted, and what became of its own draft."""
        if self._clock is not None and self._asked_at is not None:
            self._rounds = self._rounds * ROUND_MEMORY + 1
            self._round_s = self._round_s * ROUND_MEMORY + self._clock() - self._asked_at
            self._round_tokens = self._round_tokens * ROUND_MEMORY + len(new_ids)
            self._asked_at = None
        rows = rows_along(self._scored, new_ids, scores.rows) if self._scored.parents is not None else None
        shown = scores if rows is None else Along(scores, rows)
        self._scored = EMPTY_DRAFT
        for member in self.members:
            member.learn(new_ids)
            member.drafter.observe(new_ids, shown)

    def _by_order(self, budget: int) -> Draft:
        """The longest draft, of equals that of the first member; or simply the first draft."""
        best = EMPTY_DRAFT
        for member in self.members:
            if member.gate.is_open or member.gate.wants_probe or self._is_cheap(member, budget):
                usable = member.gate.is_open or member.gate.wants_probe
                draft = self._ask(member, budget, budget)
                if usable and len(draft) > len(best):
                    best = draft
                    if self._choice == "first":
                        break
        return best

    def _by_value(self, budget: int) -> Draft:
        """The draft of most expected tokens. Those that cost nothing are looked at first; one that costs is asked when
        it is expected to bring more than the best so far, its cost taken off, or to learn whether it would."""
        cheap = [member for member in self.members if self._is_cheap(member, budget)]
        found = [(member, self._ask(member, budget, budget)) for member in cheap]
        found = [(member, draft) for member, draft in found if len(draft)]
        if len({int(draft.ids[0]) for _, draft in found}) > 1:
            for member, _ in found:
                member.contest()
        usable = [(member, draft) for member, draft in found if member.gate.is_open]
        best, worth = _most(usable, len(cheap) < len(self.members))
        dear = [member for member in self.members if member not in cheap]
        outlooks = {id(member): member.outlook(budget) if member.gate.is_open else (0.0, 0) for member in dear}
        for member in sorted(dear, key=lambda each: -outlooks[id(each)][0]):
            expected, length = outlooks[id(member)]
            if expected <= worth:
                if not member.gate.wants_probe:
                    continue
                length = min(PROBE_LEN, budget)
            draft = self._ask(member, length, budget)
            if len(draft) and (value := member.value(draft)) > worth:
                best, worth = draft, value
        return best

    def _is_cheap(self, member: Member, budget: int) -> bool:
        return member.whole_cost(budget) <= CHEAP

    def _ask(self, member: Member, length: int, budget: int) -> Draft:
        if self._clock is None:
            return member.ask(length)
        start = self._clock()
        draft = member.ask(length)
        took_s = self._clock() - start
        if self._round_s > 0:
            whole = took_s * budget / length * self._rounds / self._round_s
            member.pay(took_s * self._round_tokens / self._round_s, len(draft), whole)
        return draft


def _most(found: Sequence[tuple[Member, Draft]], needs_worth: bool) -> tuple[Draft, float]:
    """The draft of most expected tokens, of equals that of the longest match, then the first, and how many they are.

    Where all say the same there is nothing to choose but the length, and nothing is worked out unless it is needed.
    """
    if not found:
        return EMPTY_DRAFT, 0.0
    longest = max((draft for _, draft in found), key=len)
    if not needs_worth and all(_begins(longest, draft) for _, draft in found):
        return longest, 0.0
    values = [member.value(draft) for member, draft in found]
    best = max(range(len(found)), key=lambda number: (values[number], found[number][1].match_len))
    return found[best][1], values[best]


def _begins(longest: Draft, draft: Draft) -> bool:
    """Whether both are chains and one goes on where the other ends."""
    if longest.parents is not None or draft.parents is not None:
        return longest is draft
    return bool((longest.ids[: len(draft)] == draft.ids).all())
