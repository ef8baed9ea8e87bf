"""A drafter and a policy that another engine asks: it shows all tokens so far, and gets a draft."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from surefoot.core.errors import NotEligible
from surefoot.core.ports import Clock, Drafter, Policy, Session
from surefoot.core.sampling import Sampling
from surefoot.core.types import EMPTY_DRAFT, Caps, Floats, Ids, Round, State, as_ids
from surefoot.engine import parts
from surefoot.engine.workshop import Shelf, TextWorkshop

LONGEST = 16
"""chosen: past the tops of every plateau measured so far; the policy asks for less where that pays."""


class Elsewhere:
    """The target of another engine, of which only sizes are known here. Holds no state."""

    def __init__(self, engine: str, vocab_size: int, max_length: int) -> None:
        self.caps = Caps(engine, vocab_size, max_length, LONGEST + 1, discipline="unknown")

    def open(self, taps: Sequence[str] = ()) -> Session:
        """Nothing. Raises: NotEligible."""
        raise NotEligible(f"{self.caps.backend} computes its own rows; no session of it can be opened here.")


class _Unseen:
    """The scores of another engine, which it does not show. Holds no state."""

    def __init__(self, rows: int) -> None:
        self.rows = self.width = rows

    def argmax(self) -> Ids:
        raise self._refusal("argmax")

    def logits(self, row: int) -> Floats:
        raise self._refusal("logits")

    def tap(self, name: str) -> Any:
        raise self._refusal(name)

    def _refusal(self, what: str) -> NotEligible:
        return NotEligible(f"a drafter asked for {what} of an engine that only shows its tokens; use another drafter.")


class Handed:
    """Drafts for a text that another engine writes. Holds changing state: that text, and what drafts gave so far.

    The engine calls it with all tokens so far, the last of which it has not computed yet, and scores what it gets. What
    was accepted is seen from the tokens of the next call, so nothing else has to be told. Tokens that do not go on from
    those of the last call, or by more than one round can write, are a new text. The time between two calls is taken for
    that of the forward, except the first of a text, which may hold the prompt. `rounds` are those of this text.
    `notes` are what the drafter has to tell the user, such as that it failed; each is also a warning, once.
    """

    def __init__(
        self, drafter: Drafter, policy: Policy, clock: Clock = time.perf_counter, notes: Sequence[str] = ()
    ) -> None:
        """notes: those of the workshop that built the drafter, which writes further ones into them."""
        if drafter.needs.taps or drafter.needs.trees:
            raise NotEligible(
                "this drafter wants hidden states or proposes trees, which no other engine takes from here; use "
                "another drafter, such as ngram."
            )
        self._drafter = drafter
        self._policy = policy
        self._clock = clock
        self._known = as_ids([])
        self._n_prompt = 0
        self._draft = EMPTY_DRAFT
        self._proposed = 0
        self._draft_s = 0.0
        self._returned_at = 0.0
        self.rounds: list[Round] = []
        self.notes = notes
        self._n_told = 0

    def __call__(self, ids: Ids, room: int = LONGEST, end_ids: frozenset[int] = frozenset()) -> Ids:
        """At most `room` tokens that may follow `ids`, none of them in `end_ids`. Shapes: (n,) int32 -> (k,) int32."""
        now = self._clock()
        self._follow(ids, now)
        emitted = len(ids) - self._n_prompt
        budget = max(0, min(self._policy.budget(State(room, len(ids) - 1, emitted)), room))
        draft = self._drafter.propose(budget) if budget else EMPTY_DRAFT
        self._proposed = len(draft)
        draft = draft.head(self._policy.cut(draft) if len(draft) else 0)
        self._draft = draft.head(
            next((n for n, token in enumerate(draft.ids.tolist()) if token in end_ids), len(draft))
        )
        self._returned_at = self._clock()
        self._draft_s = self._returned_at - now
        self._tell()
        return self._draft.ids

    def _follow(self, ids: Ids, now: float) -> None:
        """Take in what was written since the last call."""
        known = self._known
        self._known = ids.astype(np.int32, copy=True)
        more = len(ids) - len(known)
        if not (len(known) and 0 <= more <= len(self._draft) + 1 and np.array_equal(ids[: len(known)], known)):
            self._n_prompt = len(ids) - 1
            self.rounds = []
            self._drafter.begin(self._known[:-1], int(ids[-1]), _Unseen(1))
        elif more:
            new_ids = self._known[len(known) :].tolist()
            self.rounds.append(self._round(new_ids, len(known) - 1, now))
            if len(self.rounds) > 1:
                self._policy.learn(self.rounds[-1])
            self._drafter.observe(new_ids, _Unseen(len(self._draft) + 1))

    def _tell(self) -> None:
        """Warn of what was noted since the last time."""
        new, self._n_told = self.notes[self._n_told :], len(self.notes)
        for note in new:
            warnings.warn(note, RuntimeWarning, stacklevel=3)

    def _round(self, new_ids: Sequence[int], depth: int, now: float) -> Round:
        """What came of the last draft."""
        same = np.cumprod(self._draft.ids[: len(new_ids) - 1] == new_ids[: min(len(self._draft), len(new_ids) - 1)])
        rows = len(self._draft) + 1
        return Round(
            tuple(new_ids), self._proposed, self._proposed - len(self._draft), int(same.sum()), depth, rows, rows,
            self._draft.source, self._draft.match_len, self._draft_s, now - self._returned_at,
        )  # fmt: skip


def hand(
    engine: str,
    vocab_size: int,
    max_length: int,
    *,
    drafts: str = "ngram",
    draft_options: Mapping[str, Any] | None = None,
    policy: str = "goodput",
    policy_options: Mapping[str, Any] | None = None,
    clock: Clock = time.perf_counter,
) -> Handed:
    """The installed drafter and policy of these names, for one text of another engine at a time.

    goodput goes by the clock here unless told otherwise: it learns while it writes what rows cost in that engine.
    Raises: ConfigError for a part or option that does not exist; NotEligible for a drafter that needs more than tokens.
    """
    workshop = TextWorkshop(Shelf(), Elsewhere(engine, vocab_size, max_length), None, Sampling(), "match", clock)
    drafter = workshop.drafter(drafts, draft_options or {})
    _try_out(drafter, workshop)
    plugin = parts.find("policy", policy)
    options = dict(policy_options or {})
    if policy == "goodput":
        options.setdefault("reproducible", False)
    chooser: Policy = plugin.build(parts.make_options(plugin, options, "policy"), None)
    return Handed(drafter, chooser, clock, workshop.notes)


def _try_out(drafter: Drafter, workshop: TextWorkshop) -> None:
    """Raises: NotEligible for a drafter that looks at scores, which would fail unseen in every text."""
    before = len(workshop.notes)
    drafter.begin(as_ids([0, 1]), 0, _Unseen(1))
    drafter.propose(2)
    drafter.observe((1,), _Unseen(3))
    failed = workshop.notes[before:]
    if failed:
        raise NotEligible(f"no other engine can be drafted for by this: {failed[0]}.")
