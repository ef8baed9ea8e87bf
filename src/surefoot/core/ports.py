"""The five contracts. One sequence at a time: no array here has a batch axis.

V vocabulary, R rows, D hidden width, n drafted tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from surefoot.core.sampling import Sampling
from surefoot.core.types import Caps, Draft, Floats, Ids, Round, RowClass, State, Vocabulary

T = TypeVar("T")


class Scores(Protocol):
    """What a forward predicted. Row i predicts what follows block[i].

    Valid until the next prefill, extend, reset or close of its own session; a commit, or another
    session, never invalidates it.
    """

    @property
    def rows(self) -> int:
        """R, padding not counted."""
        ...

    @property
    def width(self) -> int:
        """Rows that were computed, padding included; at least `rows`."""
        ...

    def argmax(self) -> Ids:
        """(R,) int32, the first index among equals. The only thing copied to the host."""
        ...

    def logits(self, row: int) -> Floats:
        """(V,) float32 on the host, before any processor. The caller must not write to it."""
        ...

    def tap(self, name: str) -> Any:
        """The hidden state asked for at `open`: (R, D), or (m, D) for the m tokens of a prefill; device-native."""
        ...


class Session(Protocol):
    """One sequence and its cache. Holds changing state; not for two threads at once."""

    @property
    def length(self) -> int:
        """Committed tokens."""
        ...

    def prefill(self, ids: Ids) -> Scores:
        """Scores after the last of `ids`, which are appended and committed at once; R = 1.

        Shapes: ids (m,) int32, m >= 1.
        Raises: CapacityError when length + m > caps.max_length; LawError with an uncommitted tail.
        """
        ...

    def extend(self, block: Ids, parents: Sequence[int] | None = None, width: int | None = None) -> Scores:
        """Scores of every token of `block`, appended to the provisional tail.

        Shapes: block (R,) int32; parents (R,), indices into this block, -1 = after the last committed token.
        A tree is the only extend before its commit; chains may extend several times. `width >= R` asks for
        padding up to that many rows where `caps.can_pad`; nothing outside can see it.
        Raises: CapacityError when R > caps.max_rows or the tail would pass caps.max_length.
        """
        ...

    def commit(self, keep: int | Sequence[int]) -> None:
        """Keep the first `keep` tail tokens (0 drops all), or those at the ascending tail indices `keep`."""
        ...

    def reset(self, keep: int = 0) -> None:
        """Drop the tail and all but the first `keep` committed tokens."""
        ...

    def close(self) -> None:
        """Free the cache. Calling it twice is fine; any other verb afterwards raises TargetError."""
        ...


class Target(Protocol):
    """A loaded model. Its sessions share the weights."""

    @property
    def caps(self) -> Caps: ...

    def open(self, taps: Sequence[str] = ()) -> Session:
        """A new empty session that records the named taps. Raises: NotEligible for an unknown tap."""
        ...


@dataclass(frozen=True, slots=True)
class Needs:
    """What a drafter wants from the target: hidden states by name, and whether it proposes trees.

    history_only: whether its drafts depend on the tokens so far and on nothing else; where they also depend on how the
    rounds fell (on what was proposed, or on scores), the text cannot be replayed round by round. token_cost: what a
    drafted token is taken to cost where no clock may count, as a share of a plain round; 0 for a look-up.
    """

    taps: tuple[str, ...] = ()
    trees: bool = False
    history_only: bool = True
    token_cost: float = 0.0


class Drafter(Protocol):
    """Guesses what comes next. Holds changing state: the tokens it was shown."""

    @property
    def needs(self) -> Needs: ...

    def begin(self, prompt: Ids, root: int, scores: Scores) -> None:
        """Forget everything and start on this prompt; `root` is the first emitted token."""
        ...

    def propose(self, budget: int) -> Draft:
        """At most `budget` tokens that may follow the root; an empty draft when it has no idea."""
        ...

    def observe(self, new_ids: Sequence[int], scores: Scores) -> None:
        """Learn what was emitted: accepted drafts, then the correction or bonus, the new root."""
        ...


class Policy(Protocol):
    """The only one who chooses a draft length. Holds changing state: what past rounds gave."""

    def budget(self, state: State) -> int:
        """Tokens to ask the drafter for; the loop clamps it to `state.room`. 0 is plain decoding."""
        ...

    def cut(self, draft: Draft) -> int:
        """How many of the drafted tokens to score, now that the draft is seen; not asked about an empty one."""
        ...

    def learn(self, round: Round) -> None:
        """Look at a finished round."""
        ...


Scan = Callable[[Sequence[int]], int | None]
"""scan(new_ids) -> how many of them are kept when a stop string ends in them, that token included; else None.

It is called once per round, in order, with ids that already respect every other limit."""

Clock = Callable[[], float]
"""Seconds that never run backwards."""


@dataclass(frozen=True, slots=True)
class Companion:
    """A second model that a drafter guesses with."""

    name: str
    target: Target
    vocabulary: Vocabulary


class Workshop(Protocol):
    """What the engine lends to a drafter that needs more than its target: for one text, or while the model is loaded.

    A part may import no other part and not the engine, so second models and other drafters reach it this way.
    """

    @property
    def sampling(self) -> Sampling:
        """The law of the text, its seed and its end ids included."""
        ...

    @property
    def judge(self) -> str:
        """The name of the judge."""
        ...

    @property
    def vocabulary(self) -> Vocabulary:
        """That of the target."""
        ...

    def companion(self, model: str, settings: Mapping[str, Any]) -> Companion:
        """The model called `model`, loaded when it is first asked for and kept as long as the target.

        `settings` are those of a configuration by place: {"runtime": "llamacpp", "runtime.threads": 2}.
        Raises: ConfigError for a model or setting that does not hold; NotEligible where no runtime can run it.
        """
        ...

    def open(self, target: Target) -> Session:
        """A new session of a companion's target, closed when the text ends."""
        ...

    def drafter(self, name: str, options: Mapping[str, Any]) -> Drafter:
        """A new drafter for the same target and text. An exception in it costs a plain round, and is noted.

        Raises: as its options and its `build` do.
        """
        ...

    def kept(self, key: Hashable, make: Callable[[], T]) -> T:
        """What `make` gave when `key` first came up; kept as long as the target, and shared by its texts."""
        ...

    @property
    def identity(self) -> str:
        """The same for texts of the same model, also in another run; "" where nobody knows which model it is."""
        ...

    @property
    def row_class(self) -> RowClass:
        """What is known of the target's rows: what it claims, or less where a gate has found less."""
        ...

    @property
    def clock(self) -> Clock:
        """The clock of the text."""
        ...

    def at_end(self, action: Callable[[], None]) -> None:
        """Have `action` called once the text has ended, however it did."""
        ...

    def pause(self, seconds: float) -> None:
        """Return that much later."""
        ...

    def note(self, sentence: str) -> None:
        """Tell the user, once a text."""
        ...


@dataclass(frozen=True, slots=True)
class Plugin:
    """A part behind an entry point: what it is called, its options (a frozen dataclass) and how it is built.

    `build` takes the validated options first; what follows depends on the kind of part:
    targets   build(options, model)   a path or name that the target understands
    drafters  build(options, target)  the target it guesses for; with `workshop`, build(options, target, workshop)
    policies  build(options, curve)   a CostCurve, or None where nothing was measured
    """

    name: str
    summary: str
    options: type
    build: Callable[..., Any]
    workshop: bool = False
