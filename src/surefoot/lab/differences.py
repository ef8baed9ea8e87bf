"""Pairs whose two texts differ: written again alone before they count, and what the lossless gate says of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from surefoot.core.errors import ConfigError
from surefoot.lab.records import Gate, Pair, Run, Side

Again = Literal["same", "other", "none"]
"""What writing both texts once more showed: the same difference, another one, or none."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Two texts of a pair that should be one. index: the first token that differs, counted from 0; an id is None where
    that text had ended. gap: logits between the two likeliest tokens there, None where nobody looked. near_tie: it is
    small enough for rows that are known to swap such tokens, and the user allowed that.
    """

    pair: int
    arm: str
    prompt: str
    budget: int
    index: int
    off_id: int | None
    on_id: int | None
    again: Again
    gap: float | None = None
    near_tie: bool = False

    @property
    def counts(self) -> bool:
        """A difference that was not seen again is no evidence against the drafts; it is told all the same."""
        return self.again != "none" and not self.near_tie


def look_again(
    pair: Pair, off: Callable[[], Side], on: Callable[[], Side], gap: Callable[[int], float], near_tie_below: float
) -> Difference:
    """The difference in `pair`, after both texts were written once more with nothing between them.

    gap: logits between the two likeliest tokens after so many of the text. near_tie_below: 0 where none is allowed.
    """
    index, off_id, on_id = first_difference(pair.off.ids, pair.on.ids)
    off_ids, on_ids = list(off().ids), list(on().ids)
    again: Again = "none"
    if off_ids != on_ids:
        seen = first_difference(off_ids, on_ids)
        again = "same" if seen == (index, off_id, on_id) else "other"
    apart = gap(index)
    return Difference(
        pair.number, pair.arm, pair.prompt, pair.budget, index, off_id, on_id, again, apart, apart < near_tie_below
    )


def first_difference(off: Sequence[int], on: Sequence[int]) -> tuple[int, int | None, int | None]:
    """Where two different texts part, and the ids there."""
    short = min(len(off), len(on))
    index = next((i for i in range(short) if off[i] != on[i]), short)
    ids = [text[index] if index < len(text) else None for text in (off, on)]
    return index, ids[0], ids[1]


def may_differ(run: Run) -> frozenset[str]:
    """The arms whose texts are another engine's, which promises nothing to ours, or those of drafts with a lossy
    judge."""
    kinds = ("peer", "drafts") if run.lossy else ("peer",)
    return frozenset(arm.label for arm in run.arms if arm.kind in kinds)


def recorded(gates: Iterable[Gate]) -> tuple[Difference, ...]:
    """The differences that the record knows of, written again already. Raises: ConfigError when it was not ours."""
    last = [gate for gate in gates if gate.name == "lossless"][-1:]
    try:
        return tuple(Difference(**each) for gate in last for each in gate.details.get("differences", ()))
    except TypeError as error:
        raise ConfigError(f"the gate lossless of the record lists differences that cannot be read: {error}") from error


def gate(run: Run, pairs: Iterable[Pair], found: Sequence[Difference]) -> Gate:
    """The lossless gate over the pairs so far: every text with drafts is that without. A lossy judge fails it."""
    if run.lossy:
        return _lossy(run, pairs)
    exempt = may_differ(run)
    n_texts = sum(pair.arm not in exempt for pair in pairs)
    real = [each for each in found if each.counts]
    if real:
        first = real[0]
        text = (
            f"{len(real)} of {n_texts} texts with drafts differ from those without: {first.arm} on {first.prompt} from "
            f"token {first.index} on (without {_spelled(first.off_id)}, with {_spelled(first.on_id)}), seen again alone"
        )
    else:
        text = f"{n_texts} texts with drafts equal those without, token for token"
    ties = sum(each.near_tie and each.again != "none" for each in found)
    vanished = sum(each.again == "none" for each in found)
    if not real and (ties or vanished):
        text = f"{n_texts} texts with drafts, none of them wrong"
    if ties:
        text += f"; {ties} differ where the two likeliest tokens nearly tie, which was allowed"
    if vanished:
        text += f"; {vanished} differed once and not when written again alone"
    gaps = [each.gap for each in found if each.again != "none" and each.gap is not None]
    details = {"texts": n_texts, "gaps": gaps, "differences": [asdict(each) for each in found]}
    return Gate("lossless", not real, float(len(real)), 0.0, "texts that differ", text, details)


def _lossy(run: Run, pairs: Iterable[Pair]) -> Gate:
    """What the texts are, and that nothing follows from it: equal ones are luck."""
    ours = {arm.label for arm in run.arms if arm.kind != "peer"}
    same = [pair.same_ids for pair in pairs if pair.arm in ours]
    differ = same.count(False)
    text = f"lossy: {run.lossy}; {differ} of {len(same)} texts with drafts differ from those without"
    return Gate("lossless", False, float(differ), 0.0, "texts that differ", text, {"texts": len(same), "lossy": True})


def _spelled(token: int | None) -> str:
    return "the end" if token is None else f"id {token}"
