"""What drafters borrow from the engine: second models, other drafters, what outlives a text."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeVar, cast

from surefoot.core.errors import ConfigError
from surefoot.core.ports import Companion, Drafter, Session, Target
from surefoot.core.sampling import Sampling
from surefoot.core.types import Vocabulary
from surefoot.engine import parts
from surefoot.engine.config import Config, load_config
from surefoot.engine.tokenizer import Tokenizer

T = TypeVar("T")
Load = Callable[[str, Config], tuple[Target, Tokenizer]]


def _no_loader(model: str, config: Config) -> tuple[Target, Tokenizer]:
    raise ConfigError(f"{model} cannot be loaded beside a model that was not loaded by name; use surefoot.load.")


class Shelf:
    """What is kept as long as a model is loaded, for all its texts. Holds changing state: what was made so far."""

    def __init__(self, load: Load = _no_loader) -> None:
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
    """What is lent for one text: the `Workshop` of core/ports.py. Holds changing state: the sessions it opened.

    Raises: whatever making a part raises; `close` frees the sessions.
    """

    def __init__(self, shelf: Shelf, target: Target, tokenizer: Tokenizer, sampling: Sampling, judge: str) -> None:
        self._shelf = shelf
        self._target = target
        self._tokenizer = tokenizer
        self._sampling = sampling
        self._judge = judge
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
        return self._tokenizer.vocabulary

    def companion(self, model: str, settings: Mapping[str, Any]) -> Companion:
        return self._shelf.companion(model, settings)

    def open(self, target: Target) -> Session:
        session = target.open()
        self._sessions.append(session)
        return session

    def drafter(self, name: str, options: Mapping[str, Any]) -> Drafter:
        plugin = parts.find("drafter", name)
        made = parts.make_options(plugin, options, "drafts")
        lent = (self,) if plugin.workshop else ()
        drafter: Drafter = plugin.build(made, self._target, *lent)
        return drafter

    def kept(self, key: Hashable, make: Callable[[], T]) -> T:
        return self._shelf.kept(key, make)

    def pause(self, seconds: float) -> None:
        time.sleep(seconds)

    def note(self, sentence: str) -> None:
        if sentence not in self.notes:
            self.notes.append(sentence)

    def close(self) -> None:
        """Free the sessions that were opened here; twice is fine."""
        for session in self._sessions:
            session.close()
        self._sessions.clear()
