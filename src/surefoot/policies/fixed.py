"""The same draft length every round."""

from __future__ import annotations

from dataclasses import dataclass, field

from surefoot.core.errors import ConfigError
from surefoot.core.ports import Plugin
from surefoot.core.types import Draft, Round, State

# chosen: eight times the widest row sweep (32 rows), so that only a slip of the finger is refused.
LIMIT_DRAFT_LEN = 256


@dataclass(frozen=True, slots=True)
class Options:
    """The draft length.

    Source: default measured: 30B int4 on an M4 Max, where rows 1 to 3 cost the same; draft_len 2 is the top of that
    plateau and the only fixed length of 1, 2, 3, 4 and 8 that was best on chat, on code and on tool calls.
    """

    draft_len: int = field(default=2, metadata={"help": "tokens to draft each round; 0 is plain decoding"})

    def __post_init__(self) -> None:
        if not 0 <= self.draft_len <= LIMIT_DRAFT_LEN:
            raise ConfigError(
                f"fixed draft_len must be from 0 (plain decoding) to {LIMIT_DRAFT_LEN} tokens; got {self.draft_len}"
            )


class FixedPolicy:
    """Always asks for the same number of tokens. Holds no changing state: past rounds teach it nothing."""

    def __init__(self, options: Options) -> None:
        self._draft_len = options.draft_len

    def budget(self, state: State) -> int:
        """The draft length, whatever the state."""
        return self._draft_len

    def cut(self, draft: Draft) -> int:
        """All of the draft."""
        return len(draft)

    def learn(self, round: Round) -> None:
        """Nothing."""


def _build(options: Options, _curve: object) -> FixedPolicy:
    return FixedPolicy(options)


PLUGIN = Plugin(name="fixed", summary="the same draft length every round", options=Options, build=_build)
