"""Gate lossless: whole texts are the same with drafts on and off, and the figures about them add up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from surefoot.core.ports import Drafter, Policy
from surefoot.core.types import RowClass
from surefoot.engine.config import Part
from surefoot.engine.generator import Model
from surefoot.lab import metrics
from surefoot.lab.gates.alone import alone
from surefoot.lab.gates.inputs import Input, inputs
from surefoot.lab.gates.progress import Progress
from surefoot.lab.gates.texts import Divergence, divergence, first_difference
from surefoot.lab.gates.writing import (
    LONGEST_DRAFT,
    Adversary,
    Written,
    drafter,
    drafts_in_use,
    plain,
    policy,
    policy_in_use,
    write,
)
from surefoot.lab.records import Gate
from surefoot.lab.sides import step


@dataclass(frozen=True, slots=True)
class Case:
    """One text with drafts on against the same without.

    way: which drafts. failed: the two were seen to differ. divergence: where, once it was looked for. again: the
    outcome when it was run once more, alone; None where that was not needed. account: what does not add up, or "".
    """

    label: str
    way: str
    n_tokens: int
    failed: bool
    divergence: Divergence | None
    accepted: int
    rejected: int
    account: str = ""
    again: Case | None = None

    @property
    def counted(self) -> Case:
        """The outcome that counts: the one alone, where there is one."""
        return self.again or self


@dataclass(frozen=True, slots=True)
class Way:
    """Drafts of one kind. parts(plain text) gives a new drafter and a new policy."""

    name: str
    parts: Callable[[Sequence[int]], tuple[Drafter, Policy]]


def judge(cases: Sequence[Case], row_class: RowClass, tolerance: float) -> Gate:
    """Passed when no text differs beyond a near tie, where those are allowed at all, and all accounts are right.

    Units: tolerance in logits; a difference at a top-two gap below it is a near tie.
    """
    ended = [case.counted for case in cases]
    impossible = [case for case in ended if case.failed and case.divergence is None]
    different = [case for case in ended if case.divergence is not None]
    ties = [case for case in different if row_class == "near-tie" and _gap(case) < tolerance]
    wrong = [case for case in different if case not in ties]
    unbalanced = [case for case in ended if case.account]
    unsteady = [case for case in cases if case.failed and case.again is not None and not case.again.failed]
    accepted, rejected = sum(case.accepted for case in ended), sum(case.rejected for case in ended)
    idle = not (accepted and rejected)
    words = [_count(cases, accepted, rejected)]
    if impossible:
        case = impossible[0]
        words.append(
            f"impossible evidence: {_name(case)} is recorded as failed and no token differs, so the record is wrong, "
            "not the text"
        )
    if wrong:
        words.append(f"{len(wrong)} differ, first {_name(wrong[0])} {_where(wrong[0])}")
    if unbalanced:
        words.append(f"the figures of {_name(unbalanced[0])} do not add up: {unbalanced[0].account}")
    if idle:
        words.append("no draft was accepted, or none rejected, so this proves nothing: try another drafter or model")
    if ties:
        words.append(f"{len(ties)} differ in near ties, first {_name(ties[0])} {_where(ties[0])}")
    if unsteady:
        words.append(f"{len(unsteady)} differed beside other work and not alone, first {_name(unsteady[0])}")
    return Gate(
        name="lossless",
        passed=not (impossible or wrong or unbalanced or idle),
        figure=float(len(wrong) + len(impossible) + len(unbalanced)),
        limit=0.0,
        unit="texts that differ",
        text="; ".join(words),
        details={
            "texts": len(cases),
            "ways": sorted({case.way for case in cases}),
            "lengths": sorted({case.n_tokens for case in cases}),
            "accepted": accepted,
            "rejected": rejected,
            "near_ties": len(ties),
            "gaps": [_gap(case) for case in different if case.divergence is not None],
            "near_tie_below": tolerance,
            "unsteady": len(unsteady),
            "failures": [_describe(case) for case in cases if case.failed or case.account],
        },
    )


def _gap(case: Case) -> float:
    return float("inf") if case.divergence is None else case.divergence.gap


def _count(cases: Sequence[Case], accepted: int, rejected: int) -> str:
    lengths = sorted({case.n_tokens for case in cases})
    span = " and ".join(map(str, lengths))
    return f"{len(cases)} texts of {span} tokens, {accepted} drafts accepted and {rejected} rejected"


def _name(case: Case) -> str:
    return f"{case.label} with {case.way} over {case.n_tokens} tokens"


def _where(case: Case) -> str:
    if case.divergence is None:
        return ""
    at = case.divergence
    return f"at token {at.index} (top-two gap {at.gap:.2g}) after {at.before!r}"


def _describe(case: Case) -> dict[str, object]:
    return {
        "input": case.label,
        "drafts": case.way,
        "tokens": case.n_tokens,
        "failed": case.failed,
        "divergence": case.divergence.describe() if case.divergence else None,
        "account": case.account,
        "again": _describe(case.again) if case.again else None,
    }


# --- gathering -------------------------------------------------------------------------------------------------------


def gather(model: Model, quick: bool, cache_dir: Path, progress: Progress) -> list[Case]:
    """Texts of several inputs, lengths and ways to draft; what differs was run again, alone."""
    n_inputs, wanted = (2, (16, 64)) if quick else (4, (32, 256))
    room = min(wanted[-1], model.target.caps.max_length // 2)
    texts = inputs(model, n_inputs, room)
    lengths = tuple(dict.fromkeys(min(length, room) for length in wanted))
    kinds = ways(model)
    total = len(texts) * (len(lengths) * len(kinds) + 1)
    cases: list[Case] = []
    for number, text in enumerate(texts):
        off = plain(model, text.ids, lengths[-1])
        for n_tokens in lengths:
            for way in kinds:
                case = _compare(model, text, way, n_tokens, off)
                if case.failed:
                    with alone(cache_dir):
                        again = plain(model, text.ids, lengths[-1])
                        case = replace(case, again=_compare(model, text, way, n_tokens, again))
                cases.append(case)
                progress(len(cases) + number + 1, total)
    return cases


def ways(model: Model) -> tuple[Way, ...]:
    """What drafts: the parts in use, long drafts on the shortest match, and an adversary that is often wrong."""
    used, chooser = drafts_in_use(model), policy_in_use(model)
    long = Part("fixed", {"draft_len": LONGEST_DRAFT})
    eager = Part("ngram", {"min_n": 1})
    vocab_size = model.target.caps.vocab_size
    return (
        Way(f"{used.name}/{chooser.name}", lambda off: (drafter(model, used), policy(chooser, model.curve))),
        Way(f"ngram min_n=1/fixed {LONGEST_DRAFT}", lambda off: (drafter(model, eager), policy(long))),
        Way("an adversary/fixed 6", lambda off: (Adversary(off, vocab_size), policy(Part("fixed", {"draft_len": 6})))),
    )


def _compare(model: Model, text: Input, way: Way, n_tokens: int, off: Sequence[int]) -> Case:
    guesser, chooser = way.parts(off)
    on = write(model, text.ids, guesser, chooser, n_tokens)
    wanted = off[:n_tokens]
    found = divergence(model, text.ids, wanted, on.ids)
    return Case(
        label=text.label,
        way=way.name,
        n_tokens=n_tokens,
        failed=first_difference(wanted, on.ids) is not None,
        divergence=found,
        accepted=on.accepted,
        rejected=on.evaluated - on.accepted,
        account=account(on),
    )


def account(written: Written) -> str:
    """What does not add up in the figures of a text; "" where all does.

    Each round emits the drafts that it accepts and one token of the model's own, which a stop or the limit may cut off.
    So accepted per round, times the rounds, plus the tokens of the model's own, are the tokens of the text.
    """
    rounds = written.rounds[1:]
    if not rounds:
        return ""
    per_round = metrics.acceptance([step(round_) for round_ in rounds]).accepted_per_round or 0.0
    emitted = len(written.ids) - len(written.rounds[0].new_ids)
    own = sum(len(round_.new_ids) > round_.accepted for round_ in rounds)
    told = per_round * len(rounds) + own
    if abs(told - emitted) < 0.5:
        return ""
    return (
        f"{per_round:.2f} accepted per round over {len(rounds)} rounds and {own} tokens of the model's own are "
        f"{told:.1f} tokens, and the text has {emitted} after its first"
    )
