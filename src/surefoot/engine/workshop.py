"""What drafters borrow from the engine: second models, other drafters, what outlives a text."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from contextlib import ExitStack
from typing import Any, TypeVar, cast

from surefoot.core.errors import ConfigError, LawError, SurefootError
from surefoot.core.ports import Clock, Companion, Drafter, Session, Target
from surefoot.core.sampling import Sampling
from surefoot.core.types import RowClass, Vocabulary
from surefoot.engine import parts
from surefoot.engine.config import Config, load_config
from surefoot.engine.guarded import Guarded, told
from surefoot.engine.tokenizer import Tokenizer

T = TypeVar("T")
Load = Callable[[str, Config], tuple[Target, Tokenizer]]


def _no_loader(model: str, config: Config) -> tuple[Target, Tokenizer]:
    raise ConfigError(f"{model} cannot be loaded beside a model that was not loaded by name; use surefoot.load.")


class Shelf:
    """What is kept as long as a model is loaded, for all its texts. Holds changing state: what was made so far.

    identity: of the model, "" where it was put together by hand.
    """

    def __init__(self, load: Load = _no_loader, identity: str = "") -> None:
        self.identity = identity
        self._load = load
        self._made: dict[Hashable, Any] = {}
        self._lock = threading.RLock()

    def kept(self, key: Hashable, make: Callable[[], T]) -> T:
        """What `make` gave when `key` first came up. Texts in other threads wait until it is there."""
        with self._lock:
            if key not in self._made:
                self._made[key] = make()
            return cast(T, self._made[key])

    def companion(self, model: str, settings: Mapping[str, Any]) -> Companion:
        """The second model of these settings. Raises: ConfigError, NotEligible."""
        config = load_config(overrides={"drafts": "off", **settings})

        def load() -> Companion:
            target, tokenizer = self._load(model, config)
            return Companion(model, target, tokenizer.vocabulary)

        return self.kept(("companion", model, json.dumps(dict(settings), sort_keys=True, default=str)), load)


class TextWorkshop:
    """What is lent for one text: the `Workshop` of core/ports.py. Holds changing state: what is due when it ends.

    Raises: whatever making a part raises; `close` frees the sessions.
    """

    def __init__(
        self,
        shelf: Shelf,
        target: Target,
        tokenizer: Tokenizer | None,
        sampling: Sampling,
        judge: str,
        clock: Clock = time.perf_counter,
        row_class: RowClass | None = None,
    ) -> None:
        """`row_class`: what a gate has found of the target's rows; None where none has run."""
        self._shelf = shelf
        self._target = target
        self._tokenizer = tokenizer
        self._sampling = sampling
        self._judge = judge
        self._clock = clock
        self._row_class = row_class or target.caps.row_class
        self._endings: list[Callable[[], None]] = []
        self._sessions: list[Session] = []
        self.notes: list[str] = []

    @property
    def sampling(self) -> Sampling:
        return self._sampling

    @property
    def judge(self) -> str:
        return self._judge

    @property
    def vocabulary(self) -> Vocabulary:
        if self._tokenizer is None:
            raise ConfigError("the words of this model are not known here, and this drafter compares them.")
        return self._tokenizer.vocabulary

    def companion(self, model: str, settings: Mapping[str, Any]) -> Companion:
        return self._shelf.companion(model, settings)

    def open(self, target: Target) -> Session:
        session = target.open()
        self._sessions.append(session)
        return session

    def drafter(self, name: str, options: Mapping[str, Any]) -> Drafter:
        # Looking through the installed packages takes milliseconds, and a union does it for each member and text.
        plugin = self._shelf.kept(("drafter", name), lambda: parts.find("drafter", name))
        made = parts.make_options(plugin, options, "drafts")
        lent = (self,) if plugin.workshop else ()
        return Guarded(plugin.build(made, self._target, *lent), name, self._target, self.note)

    def kept(self, key: Hashable, make: Callable[[], T]) -> T:
        return self._shelf.kept(key, make)

    @property
    def identity(self) -> str:
        return self._shelf.identity

    @property
    def row_class(self) -> RowClass:
        return self._row_class

    @property
    def clock(self) -> Clock:
        return self._clock

    def at_end(self, action: Callable[[], None]) -> None:
        self._endings.append(action)

    def pause(self, seconds: float) -> None:
        time.sleep(seconds)

    def note(self, sentence: str) -> None:
        if sentence not in self.notes:
            self.notes.append(sentence)

    def close(self) -> None:
        """Do what is due at the end and free the sessions that were opened here; twice is fine.

        What cannot be done is noted, whatever the error: the text is written. One of the law is raised as ever.
        """
        endings, self._endings = self._endings, []
        sessions, self._sessions = self._sessions, []
        with ExitStack() as closing:
            for session in sessions:
                closing.callback(session.close)
            for action in endings:
                self._end(action)

    def _end(self, action: Callable[[], None]) -> None:
        try:
            action()
        except LawError:
            raise
        except SurefootError as error:
            self.note(f"{error}")
        except Exception as error:
            self.note(f"what a drafter had to do at the end of the text failed ({told(error)})")
