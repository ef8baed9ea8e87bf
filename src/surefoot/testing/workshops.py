"""A workshop of toys: what the engine lends to drafters, for tests without an engine."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeVar, cast

from surefoot.core.errors import ConfigError
from surefoot.core.ports import Clock, Companion, Drafter, Session, Target
from surefoot.core.sampling import Sampling
from surefoot.core.types import Vocabulary
from surefoot.engine import parts
from surefoot.engine.guarded import Guarded

T = TypeVar("T")


def numbered(vocab_size: int) -> Vocabulary:
    """A vocabulary in which every token spells its own number."""
    return Vocabulary([b"<%d>" % token for token in range(vocab_size)])


class ToyWorkshop:
    """Lends the companions it was given, by name. Holds changing state: what it opened, kept and was told.

    guarded: whether the drafters that it builds may fail, as those of the engine may; if not, a test sees the error.
    """

    def __init__(
        self,
        target: Target,
        companions: Mapping[str, Companion],
        *,
        sampling: Sampling | None = None,
        judge: str = "match",
        vocabulary: Vocabulary | None = None,
        identity: str = "toy",
        clock: Clock = lambda: 0.0,
        guarded: bool = False,
    ) -> None:
        self.guarded = guarded
        self.row_class = target.caps.row_class
        self.identity = identity
        self.clock = clock
        self.endings: list[Callable[[], None]] = []
        self.target = target
        self.companions = dict(companions)
        self.sampling = sampling or Sampling()
        self.judge = judge
        self.vocabulary = vocabulary or numbered(target.caps.vocab_size)
        self.notes: list[str] = []
        self.pauses: list[float] = []
        self.sessions: list[Session] = []
        self._made: dict[Hashable, Any] = {}

    def companion(self, model: str, settings: Mapping[str, Any]) -> Companion:
        """The companion of this name. Raises: ConfigError when there is none."""
        if model not in self.companions:
            raise ConfigError(parts.unknown("companion", model, self.companions))
        return self.companions[model]

    def open(self, target: Target) -> Session:
        """A new session of it."""
        self.sessions.append(target.open())
        return self.sessions[-1]

    def drafter(self, name: str, options: Mapping[str, Any]) -> Drafter:
        """An installed drafter for the same target and text."""
        plugin = parts.find("drafter", name)
        lent = (self,) if plugin.workshop else ()
        drafter: Drafter = plugin.build(parts.make_options(plugin, options, "drafts"), self.target, *lent)
        return Guarded(drafter, name, self.target, self.note) if self.guarded else drafter

    def kept(self, key: Hashable, make: Callable[[], T]) -> T:
        """What `make` gave when `key` first came up."""
        if key not in self._made:
            self._made[key] = make()
        return cast(T, self._made[key])

    def at_end(self, action: Callable[[], None]) -> None:
        """Remember the action; `end` does it."""
        self.endings.append(action)

    def end(self) -> None:
        """Do what was to be done at the end of the text."""
        while self.endings:
            self.endings.pop(0)()

    def pause(self, seconds: float) -> None:
        """Write the pause down and go on."""
        self.pauses.append(seconds)

    def note(self, sentence: str) -> None:
        """Write the sentence down."""
        self.notes.append(sentence)
