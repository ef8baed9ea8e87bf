"""A second model that reads along and says how it would go on, in the ids of the target."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np

from surefoot.core.errors import LawError
from surefoot.core.history import History
from surefoot.core.law import Law, best, next_law
from surefoot.core.noise import Sampler
from surefoot.core.ports import Clock, Needs, Scores, Session, Target
from surefoot.core.sampling import Sampling
from surefoot.core.types import EMPTY_DRAFT, Doubles, Draft, Floats, Ids, as_ids
from surefoot.drafters.model.stalls import Stalls

Draws = Literal["shared", "greedy"]

NEVER = np.float32(-1e9)
"""chosen: the logit of an id that the second model does not have; no draw reaches it, and no processor overflows."""


class Reading(Protocol):
    """How the ids of the target and those of the second model belong together. V of the target, V2 of the second."""

    @property
    def start(self) -> tuple[int, ...]:
        """What the second model reads before the prompt."""
        ...

    def read(self, tokens: Iterable[int]) -> list[int]:
        """Ids of the target as the second model reads them: any number for each, none where it has nothing like it."""
        ...

    def named(self, its_id: int) -> int | None:
        """The target's id for one of the second model's; None for a miss. `read` gives one id back for it."""
        ...

    def row(self, logits: Floats) -> Floats:
        """Its logits by the ids of the target. Shapes: (V2,) -> (V + m,), the last m for what has no id there."""
        ...


UNSAID_COST = 0.5
"""chosen: a drafted token by a plain round, three times what was measured on one machine (see the union): the floor is
kept in it, for dear draft models too."""


@dataclass(frozen=True, slots=True)
class Style:
    """How a second model guesses: see the options of the drafter `model`. `with_q` says what its draws followed."""

    source: str
    draws: Draws = "shared"
    confidence: float = 0.0
    gap_s: float = 0.0
    with_q: bool = False


class Follower:
    """Drafts what a second model would write. Holds changing state: the text so far, and that model's session.

    The session holds a beginning of the text as it reads it; the root is never part of that, so that each draft starts
    with a forward over what is missing: the root alone, or with it what rounds without drafts emitted, or the last
    draft of a round in which all were accepted. The guesses stay in the provisional tail until the round is judged.
    Cost: a forward of the second model for each drafted token.
    """

    needs = Needs(token_cost=UNSAID_COST)

    def __init__(
        self,
        target: Target,
        vocab_size: int,
        reading: Reading,
        style: Style,
        sampling: Sampling,
        sampler: Sampler,
        *,
        open_session: Callable[[Target], Session],
        pause: Callable[[float], None],
        clock: Clock,
        note: Callable[[str], None],
    ) -> None:
        """`target` is the second model, `vocab_size` that of the model it guesses for; the others as in `Workshop`."""
        if style.draws == "greedy":
            sampling = replace(sampling, temperature=0.0, top_k=0, top_p=1.0, min_p=0.0)
        self._target = target
        self._vocab_size = vocab_size
        self._reading = reading
        self._style = style
        self._sampling = sampling
        self._sampler = sampler
        self._open = open_session
        self._pause = pause
        self._clock = clock
        self._note = note
        self._stalls = Stalls()
        self._session: Session | None = None
        self._history = History(as_ids([]))
        self._known: list[int] = []
        self._held = 0
        self._tail: list[int] = []

    def begin(self, prompt: Ids, root: int, scores: Scores) -> None:
        """Start on this prompt; the second model computes nothing before the first proposal."""
        if self._session is not None:
            self._session.reset()
        self._held, self._tail = 0, []
        self._history = History(prompt)
        self._known = [*self._reading.start, *self._reading.read(prompt.tolist())]
        self._take((root,))

    def propose(self, budget: int) -> Draft:
        """What the second model would write, until it is not sure, has ended the text, or lacks the target's words."""
        if budget < 1 or not 0 < len(self._known) <= self._target.caps.max_length:
            return EMPTY_DRAFT
        if self._style.gap_s:
            self._pause(self._style.gap_s)
        session = self._ready()
        scores, row = self._caught_up(session)
        # Without processors nothing looks at what the history holds, so that the one of the text will do.
        history = self._history.fork() if self._sampling.edits_logits else self._history
        first = self._history.n_output
        ids: list[int] = []
        laws: list[Doubles] = []
        while (choice := self._choose(scores, row, history, first + len(ids))) is not None:
            token, law = choice
            ids.append(token)
            if law is not None and self._style.with_q:
                laws.append(self._q(law))
            block = self._reading.read((token,))
            if len(ids) == budget or token in self._sampling.end_ids or not self._fits(block):
                break
            if history is not self._history:
                history.push(token)
            scores, row = session.extend(as_ids(block)), len(block) - 1
            self._tail += block
        if not ids:
            return EMPTY_DRAFT
        return Draft(as_ids(ids), np.stack(laws) if laws else None, source=self._style.source)

    def observe(self, new_ids: Sequence[int], scores: Scores) -> None:
        """Keep the guesses that were emitted, drop the others."""
        read = self._take(new_ids)
        if self._session is not None and self._tail:
            # What stands for the new root is read in the next round, for its scores.
            kept = min(agreed(self._tail, read), max(0, len(read) - 1))
            self._session.commit(kept)
            self._held += kept
            self._tail = []

    def _take(self, new_ids: Sequence[int]) -> list[int]:
        """Append what was emitted; as the second model reads it."""
        for token in new_ids:
            self._history.push(token)
        read = self._reading.read(new_ids)
        self._known += read
        return read

    def _ready(self) -> Session:
        """The session, without the guesses of a proposal that no round came of."""
        if self._session is None:
            self._session = self._open(self._target)
        elif self._tail:
            self._session.commit(0)
            self._tail = []
        if self._session.length != self._held:
            raise LawError(f"the second model's cache has {self._session.length} tokens where {self._held} are due")
        return self._session

    def _caught_up(self, session: Session) -> tuple[Scores, int]:
        """Scores after all that is known, and the row that says what follows; the cache then holds all of it."""
        if self._held == len(self._known):
            # Nothing new can be read, as where the root spells nothing; the last token gives its scores once more.
            session.reset(self._held - 1)
            self._held -= 1
        missing = as_ids(self._known[self._held :])
        start = self._clock()
        if len(missing) > self._target.caps.max_rows:
            scores, row = session.prefill(missing), 0
        else:
            scores, row = session.extend(missing), len(missing) - 1
            session.commit(len(missing))
            # The first forward after a verification is the one that stalls; on the host of a runtime without a queue
            # the time is that of the forward, elsewhere that of handing it over, which is what a stall holds up.
            if told := self._stalls.told(self._clock() - start):
                self._note(told)
        self._held = len(self._known)
        return scores, row

    def _fits(self, block: Sequence[int]) -> bool:
        """Whether these ids are any, and can be read in one forward before the context is full."""
        caps = self._target.caps
        return 0 < len(block) <= min(caps.max_rows, caps.max_length - self._held - len(self._tail))

    def _choose(self, scores: Scores, row: int, history: History, n: int) -> tuple[int, Law | None] | None:
        """The token for output position n and the law it was drawn from (None: greedy); None where the draft ends.

        Whether there is to be a token is decided by the law before the draw, or by the draw being none of the target's
        tokens; so those that are drafted follow the law, given that they are tokens of the target.
        """
        style, sampling = self._style, self._sampling
        if sampling.greedy:
            if style.confidence and sureness(scores.logits(row)) < style.confidence:
                return None
            if sampling.edits_logits:
                token: int | None = best(self._reading.row(scores.logits(row)), sampling, history)
            else:
                token = self._reading.named(int(scores.argmax()[row]))
            return None if token is None or token >= self._vocab_size else (token, None)
        law = next_law(self._reading.row(scores.logits(row)), sampling, history)
        if float(law.weights.max()) < style.confidence * law.mass:
            return None
        token = self._sampler.draw(law, n)
        return None if token >= self._vocab_size else (token, law)

    def _q(self, law: Law) -> Doubles:
        """(V,) the law of a draft that is a token of the target."""
        size = self._vocab_size if law.ids is None else max(self._vocab_size, int(law.ids[-1]) + 1)
        q = law.dense(size)[: self._vocab_size]
        return np.asarray(q / q.sum())


def sureness(logits: Floats) -> float:
    """The probability of the likeliest token. Shapes: (V,)."""
    return float(1.0 / np.exp(logits - logits.max(), dtype=np.float32).sum(dtype=np.float64))


def agreed(tail: Sequence[int], emitted: Sequence[int]) -> int:
    """How many tokens at the beginning of both are the same."""
    pairs = enumerate(zip(tail, emitted, strict=False))
    return next((place for place, (one, other) in pairs if one != other), min(len(tail), len(emitted)))
