"""A text, drafters that know it or get it wrong, and unions of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from surefoot.core.ports import Drafter
from surefoot.core.sampling import Sampling
from surefoot.core.types import EMPTY_DRAFT, Draft, as_ids
from surefoot.drafters.union.drafter import Union
from surefoot.drafters.union.member import Member
from surefoot.drafters.union.options import Seat
from surefoot.targets.toy import Options as ToyOptions
from surefoot.targets.toy import ToyTarget
from surefoot.testing.drafter_suite import run, written
from surefoot.testing.drafters import Guesser, scripted

TOY = ToyTarget(ToyOptions(order=1))
PROMPT = as_ids([1, 2, 3, 1, 2, 3, 1])
NO_SCORES: Any = None


def plain_text(n: int = 60, sampling: Sampling | None = None) -> list[int]:
    return written(run(Guesser(scripted([])), TOY, PROMPT, n, lengths=(0,), sampling=sampling))


RIGHT = (*PROMPT.tolist(), *plain_text(140))


class Counted(Guesser):
    """A drafter that counts how often it was asked, and for how much."""

    def __init__(self, guess: Callable[[tuple[int, ...], int], Draft], *, trees: bool = False) -> None:
        super().__init__(guess, trees=trees)
        self.asked: list[int] = []

    def propose(self, budget: int) -> Draft:
        self.asked.append(budget)
        return super().propose(budget)


class Machine:
    """A clock that moves when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def named(source: str, guess: Callable[[tuple[int, ...], int], Draft]) -> Counted:
    def draft(known: tuple[int, ...], budget: int) -> Draft:
        found = guess(known, budget)
        return Draft(found.ids, source=source, match_len=found.match_len) if len(found) else EMPTY_DRAFT

    return Counted(draft)


def wrong(known: tuple[int, ...], budget: int) -> Draft:
    ids = as_ids([*RIGHT[len(known) : len(known) + budget], *[0] * budget])[:budget]
    return Draft((ids + 1) % 16, source="wrong")


def union(
    *members: Drafter, choice: Any = "value", clock: Callable[[], float] | None = None, **seats: Sequence[Any]
) -> Union:
    made = []
    for number, drafter in enumerate(members):
        values = {key: value[number] for key, value in seats.items()}
        made.append(Member(Seat(f"member{number}", {}, **values), drafter))
    return Union(made, choice, clock)


def sources(drafter: Drafter, n: int = 60, length: int = 4) -> list[str]:
    """Whose draft was scored in each round of n tokens; later rounds, where little room is left, do not count."""
    rounds = run(drafter, TOY, PROMPT, n + 10, lengths=(length,))
    assert written(rounds) == plain_text(n + 10)
    return [round_.source for round_ in rounds[1:] if round_.depth < len(PROMPT) + n]
