"""A drafter in the union: what its drafts gave and took so far, and whether it is worth asking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from surefoot.core.acceptance import Acceptance
from surefoot.core.ports import Drafter
from surefoot.core.types import Draft
from surefoot.core.watched import Watched, survivals
from surefoot.drafters.union.gate import MEMORY, Gate
from surefoot.drafters.union.options import Seat

WATCHED = 4
"""chosen: drafts of a member that are followed at once; in a long copy that nobody scores each round brings one."""

COST_MEMORY = 0.95
"""chosen: what a token and what a proposal costs is the mean of about the last 20 proposals."""

CONTESTED = " (contested)"
"""Where others say something else, a draft is counted apart: a drafter may be right mostly where all are."""


class Member:
    """One drafter with its record. Holds changing state: the drafts that are still followed, the gate, the cost.

    What it proposed and nobody scored is judged for nothing by the text that follows, so losers learn as winners do.
    """

    def __init__(self, seat: Seat, drafter: Drafter) -> None:
        self.seat = seat
        self.drafter = drafter
        self.forget()

    def forget(self) -> None:
        """Nothing is known any more."""
        self.gate = Gate(self.seat.rule)
        self.acceptance = Acceptance()
        self.asked = False
        self._contested = False
        self._streak = 0
        self._watched: list[Watched] = []
        self._last = ("", 0)
        self._answers = 1.0
        self._paid = self._tokens = self._paid_whole = self._asks = 0.0

    def ask(self, budget: int) -> Draft:
        """Its draft as a point mass: the union chooses among drafts that it has seen, so q would not be honest."""
        self.asked, self._contested = True, False
        draft = self.drafter.propose(budget)
        self._answers = MEMORY * self._answers + (1 - MEMORY) * (len(draft) > 0)
        if draft.q is not None or (len(draft) and self.seat.label):
            draft = replace(draft, q=None, source=self.seat.label or draft.source)
        if len(draft):
            self._last = (draft.source, draft.match_len)
            self._watched = [*self._watched, Watched(draft, self._streak)][-WATCHED:]
        elif self.seat.cost > 0:  # it was paid for, and no text that follows will tell
            self.gate.learn(False)
        return draft

    def contest(self) -> None:
        """Its draft of this round begins otherwise than that of another member."""
        self._contested = True
        self._watched[-1].source += CONTESTED

    def pay(self, cost: float, tokens: int, whole: float) -> None:
        """A proposal of so many tokens took so much, in plain rounds. whole: for all of the budget, as a share of a
        round: one that was asked for less is taken to cost more in proportion, as a draft model does."""
        self._paid = self._paid * COST_MEMORY + cost
        self._tokens = self._tokens * COST_MEMORY + max(1, tokens)
        self._paid_whole = self._paid_whole * COST_MEMORY + whole
        self._asks = self._asks * COST_MEMORY + 1

    @property
    def token_cost(self) -> float:
        """Of a drafted token, in plain rounds: as measured, or as stated where nothing was."""
        return self._paid / self._tokens if self._tokens else self.seat.cost

    def whole_cost(self, budget: int) -> float:
        """Of a proposal for the whole budget, as a share of a round: as measured, or as stated where nothing was.

        Not that of its tokens: a lookup takes as long for none as for many, and most often it has none.
        """
        return self._paid_whole / self._asks if self._asks else self.seat.cost * budget

    def value(self, draft: Draft) -> float:
        """Tokens of this draft that are expected to hold."""
        if self._contested:
            draft = replace(draft, source=draft.source + CONTESTED)
        return sum(survivals(self.acceptance, draft, self._streak))

    def outlook(self, budget: int) -> tuple[float, int]:
        """What asking now is expected to bring for its cost, in plain rounds, and the length to ask for; at most 0
        where no length pays. As often as it lately had no draft, what a token costs is lost."""
        best, length, tokens = 0.0, 0, 0.0
        for n, lived in enumerate(self.acceptance.survival(*self._last, self._streak, budget), 1):
            tokens += lived
            if tokens - self.token_cost * n > best:
                best, length = tokens - self.token_cost * n, n
        return self._answers * best - (1 - self._answers) * self.token_cost, length

    def learn(self, new_ids: Sequence[int]) -> None:
        """What became of its drafts, scored or not."""
        self.acceptance.pass_by(len(new_ids))
        going_on = []
        fates: list[tuple[int, bool]] = []
        for watched in self._watched:
            fates, more = watched.follow(new_ids)
            watched.teach(self.acceptance)
            for held in [held for position, held in fates if position == 1]:
                self.gate.learn(held)
            if more:
                going_on.append(watched)
        self._watched = going_on
        for _, held in fates:
            self._streak = self._streak + 1 if held else 0
