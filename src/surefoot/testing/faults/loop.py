"""Faults of the loop, of the limits, and of the figures about what they wrote."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from surefoot.core import loop as loop_module
from surefoot.core.limits import Limits
from surefoot.core.ports import Scan
from surefoot.core.types import Finish, Round
from surefoot.drafters.ngram import NgramDrafter
from surefoot.lab.metrics import Acceptance
from surefoot.testing.faults.patching import replaced


def carry_emitted_twice(rounds: Iterator[Round]) -> Iterator[Round]:
    """The rounds of a loop that shows the root again at the beginning of the next round."""
    root: tuple[int, ...] = ()
    for round_ in rounds:
        shown = (*root, *round_.new_ids)
        root = round_.new_ids[-1:]
        yield _with_ids(round_, shown)


def _with_ids(round_: Round, new_ids: tuple[int, ...]) -> Round:
    return Round(new_ids, round_.drafted, round_.cut, round_.accepted, round_.depth, round_.rows, round_.width,
                 round_.source, round_.match_len, finish=round_.finish)  # fmt: skip


@dataclass(frozen=True, slots=True)
class LimitBeforeStop:
    """Limits that test the output limit first, so that a stop at the last token is called a limit."""

    max_tokens: int
    stop_ids: frozenset[int] = frozenset()
    scan: Scan | None = None

    def clip(self, new_ids: Sequence[int], room: int, room_ends: Finish) -> tuple[int, Finish | None]:
        """The limit; only below it the stops."""
        if len(new_ids) >= room:
            return room, room_ends
        return Limits(self.max_tokens, self.stop_ids, self.scan).clip(new_ids, room, room_ends)


def loop_emits_carry_twice() -> AbstractContextManager[None]:
    """The loop itself is that one."""
    good = loop_module.generate

    def generate(*given: Any, **named: Any) -> Generator[Round, None, Finish]:
        yield from carry_emitted_twice(good(*given, **named))
        return "length"

    return replaced(loop_module, "generate", generate)


def stale_drafter_position() -> AbstractContextManager[None]:
    """Lookup goes on behind what it proposed, as a draft model does whose cache is not rolled back."""
    good = NgramDrafter.propose

    def propose(self: NgramDrafter, budget: int) -> Any:
        draft = good(self, budget)
        self._append(draft.ids.tolist())
        return draft

    return replaced(NgramDrafter, "propose", propose)


def conditional_sum() -> AbstractContextManager[None]:
    """Accepted per round is the sum of conditional acceptance, where only survival adds up to tokens.

    Source: a published bench that reports it as expected tokens, 2.01 where 1.01 were accepted.
    """

    def accepted_per_round(self: Acceptance) -> float | None:
        return sum(position.conditional or 0.0 for position in self.positions)

    return replaced(Acceptance, "accepted_per_round", property(accepted_per_round))
