"""Where writing ends, applied to a verdict before it is counted, committed or shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from surefoot.core.errors import ConfigError, LawError
from surefoot.core.ports import Scan
from surefoot.core.types import Finish


@dataclass(frozen=True, slots=True)
class Limits:
    """The output limit, the ids that end the text, and the injected search for stop strings.

    A stop id is emitted and counted, as transformers does; nothing after it is.
    """

    max_tokens: int
    stop_ids: frozenset[int] = frozenset()
    scan: Scan | None = None

    def __post_init__(self) -> None:
        if self.max_tokens < 1:
            raise ConfigError(f"max_tokens must be at least 1; got {self.max_tokens}.")

    def clip(self, new_ids: Sequence[int], room: int, room_ends: Finish) -> tuple[int, Finish | None]:
        """How many of `new_ids` are emitted, and why writing ends there, if it does.

        `room` is how many tokens may still be emitted, `room_ends` what it means to use them up. The first cause in
        token order wins; at the same token a stop comes before the limit.
        """
        kept = min(len(new_ids), room)
        finish: Finish | None = room_ends if kept == room else None
        if not self.stop_ids.isdisjoint(new_ids):
            stops = (place for place, token in enumerate(new_ids[:kept], 1) if token in self.stop_ids)
            first = next(stops, None)
            if first is not None:
                kept, finish = first, "stop"
        if self.scan is not None:
            stopped = self.scan(new_ids[:kept])
            if stopped is not None:
                if not 1 <= stopped <= kept:
                    raise LawError(f"the scanner keeps {stopped} of the {kept} tokens that it was shown")
                kept, finish = stopped, "stop"
        return kept, finish
