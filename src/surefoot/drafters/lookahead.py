"""Lookahead without a drafter: what the model itself said behind the last accepted token is the next guess."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from surefoot.core.errors import ConfigError
from surefoot.core.ports import Needs, Plugin, Scores
from surefoot.core.types import EMPTY_DRAFT, Draft, Ids, as_ids
from surefoot.drafters.ngram import LIMIT_N, NgramDrafter
from surefoot.drafters.ngram import Options as NgramOptions

NAME = "lookahead"
LOOKUP = "lookahead-ngram"
"""The source of a draft that begins with what lookup found; its chances are others than those of the guesses."""

LIMIT_WINDOW = 256


@dataclass(frozen=True, slots=True)
class Options:
    """How many guesses are kept, and what is looked up before any is used.

    Source: CoreML-LLM's LookaheadEngine: K = 8, a root and seven guesses; lookup with n = 3, then 2.
    """

    window: int = field(
        default=7, metadata={"help": "guesses that are kept, in tokens: the longest draft without a match"}
    )
    max_n: int = field(
        default=3, metadata={"help": "longest n-gram that is looked up before guesses are used; 0 never looks up"}
    )
    min_n: int = field(default=2, metadata={"help": "shortest n-gram that is looked up"})

    def __post_init__(self) -> None:
        if not 1 <= self.window <= LIMIT_WINDOW:
            raise ConfigError(f"lookahead window must be from 1 to {LIMIT_WINDOW} guesses; got {self.window}")
        if self.max_n and not 1 <= self.min_n <= self.max_n <= LIMIT_N:
            raise ConfigError(
                f"lookahead max_n = {self.max_n} does not go with min_n = {self.min_n}: choose max_n from min_n to "
                f"{LIMIT_N}, or 0 to look nothing up"
            )


class LookaheadDrafter:
    """Guesses by Jacobi iteration on one line. Holds changing state: the text, the newest root, and the guesses.

    A forward over a draft says something about every row. Behind the accepted prefix that was said of a text that will
    not be, yet much of it comes true: a guess that depends on its neighbours settles in a few rounds. So each round
    refreshes the guesses, and the guesses are the next draft. Nothing is learned from rows that were not scored: a
    policy that cuts drafts to nothing leaves the guesses as they are.
    Source: arXiv 2305.10427 (Jacobi decoding); the refresh rule of CoreML-LLM's LookaheadEngine, whose drafts have one
    length, extended to drafts that were cut.
    """

    needs = Needs(history_only=False)

    def __init__(self, options: Options) -> None:
        self._options = options
        lookup = NgramOptions(max_n=options.max_n, min_n=options.min_n) if options.max_n else None
        self._lookup = NgramDrafter(lookup) if lookup else None
        self._root = 0
        self._guesses: list[int] = []

    def begin(self, prompt: Ids, root: int, scores: Scores) -> None:
        """Forget everything; there is no guess yet."""
        self._root, self._guesses = root, []
        if self._lookup is not None:
            self._lookup.begin(prompt, root, scores)

    def propose(self, budget: int) -> Draft:
        """What lookup finds, and the guesses where it finds nothing."""
        found = self._lookup.propose(budget) if self._lookup is not None else EMPTY_DRAFT
        if len(found):
            return replace(found, source=LOOKUP)
        length = min(budget, self._options.window)
        if length <= 0:
            return EMPTY_DRAFT
        # Before the first forward there is nothing to guess from, and any token will do to ask the model for more.
        guesses = [*self._guesses, *[self._root] * length]
        return Draft(as_ids(guesses[:length]), source=NAME)

    def observe(self, new_ids: Sequence[int], scores: Scores) -> None:
        """Take in what was emitted, and what the model said behind it."""
        self._root = new_ids[-1]
        self._guesses = refreshed(self._guesses, self._said(new_ids, scores), len(new_ids), self._options.window)
        if self._lookup is not None:
            self._lookup.observe(new_ids, scores)

    def _said(self, new_ids: Sequence[int], scores: Scores) -> list[int]:
        """The model's choice after each row behind the one that gave the new root."""
        if scores.rows <= len(new_ids):
            return []
        said: list[int] = scores.argmax()[len(new_ids) :].tolist()
        return said


def refreshed(guesses: Sequence[int], said: Sequence[int], emitted: int, window: int) -> list[int]:
    """The next guesses: what was said; then, in its new place, what was guessed further ahead than anything was
    scored; then what stood in the same places before, which is stale and better than nothing."""
    fresh = [*said, *guesses[emitted + len(said) :]]
    return [*fresh, *guesses[len(fresh) :]][:window]


def _build(options: Options, _target: object) -> LookaheadDrafter:
    return LookaheadDrafter(options)


PLUGIN = Plugin(
    name=NAME,
    summary="looks up, and where nothing matches drafts what the model itself said behind the last accepted token",
    options=Options,
    build=_build,
)
