"""Whether a drafter may be asked: a moving average closes the gate, and probing opens it again."""

from __future__ import annotations

from dataclasses import dataclass

MEMORY = 0.9
"""Source: the moving average of CoreML-LLM's DrafterUnion takes a tenth of each new value."""


@dataclass(frozen=True, slots=True)
class Rule:
    """When a gate closes and opens. Source of the values: CoreML-LLM's DrafterUnion for prompt lookup.

    They are shares of first draft tokens that held: unlike the share of all tokens this does not fall as drafts get
    longer. The distance between the two keeps a gate from flapping.
    """

    close_below: float = 0.08
    open_above: float = 0.2
    probe_every: int = 32
    starts_open: bool = True


class Gate:
    """A drafter's gate. Holds changing state: the moving average, and rounds since it was last asked."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self.rate = 1.0 if rule.starts_open else 0.0
        self.is_open = rule.starts_open
        self._idle = 0

    @property
    def wants_probe(self) -> bool:
        """Whether nothing has been learned for so long that it should be asked for once, whatever is known."""
        return 0 < self._rule.probe_every <= self._idle

    def pass_by(self, asked: bool) -> None:
        """A round in which drafts were wanted."""
        self._idle = 0 if asked else self._idle + 1

    def learn(self, held: bool) -> None:
        """Whether the first token of a draft was the one that was written, scored or not."""
        self.rate = MEMORY * self.rate + (1 - MEMORY) * held
        if self.rate < self._rule.close_below:
            self.is_open = False
        elif self.rate > self._rule.open_above:
            self.is_open = True
