"""What a plan says: the cost curve, what a row of a block is worth, and what drafts bring on each workload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from surefoot.core.cost import CostCurve
from surefoot.core.plateaus import highest_top
from surefoot.core.types import RowClass
from surefoot.engine.config import AUTO, WITHOUT_PLAN, Part
from surefoot.engine.plans.owner import Owner
from surefoot.policies.goodput.policy import unsaid_draft_ms

SCHEMA = 2
"""Raised whenever the meaning of a field changes. A reader refuses what it does not know."""

GOODPUT = "goodput"
ADDITIVE = "additive"

_ORDER: Sequence[RowClass] = ("row-dependent", "near-tie", "identical")


@dataclass(frozen=True, slots=True)
class RowFinding:
    """What is known of rows here. claimed: by the target for its settings; row_class: the weakest that was ever found.

    text: what was seen, in words. found_by: the command or gate.
    """

    row_class: RowClass
    claimed: RowClass
    text: str
    found_by: str


@dataclass(frozen=True, slots=True)
class SweepFacts:
    """How the curve was measured. turns: passes over all row counts; samples: rounds in all. Seconds of wall clock.

    load_s: of loading, converting and compiling before; warm_s: of the rounds that were not counted; seconds: of all
    steps after loading. machine: what it did meanwhile, in words. wide: rows and depth of the points whose interval
    stayed wide. quick: a first look only.
    """

    quick: bool
    turns: int
    samples: int
    load_s: float
    warm_s: float
    seconds: float
    steady: bool
    machine: str
    wide: Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """A verdict in words. gain: of goodput by plain decoding, with its 95 % interval; draft_len: the best of fixed
    lengths, 0 where drafts should stay off."""

    kind: Literal["draft", "undecided", "do not speculate", "never speculate"]
    draft_len: int
    gain: float
    low: float
    high: float
    text: str
    reasons: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Workload:
    """What drafts bring on one kind of text.

    depth: tokens of context that the verdict is for. tokens, rounds: replayed to count it, of one text that this model
    wrote and of those that ship with Surefoot. offered: the share of rounds in which the drafter had something.
    survival[i]: the chance that draft token i + 1 and all before it hold, where it had. fixed_gain: of the best fixed
    length against plain decoding, on the curve; oracle_share: the speed of goodput by that of the best schedule with
    hindsight. above: from this depth on no fixed length pays any more; None where one pays as far as the context
    reaches, or the verdict is not to draft.
    """

    name: str
    depth: int
    tokens: int
    rounds: int
    offered: float
    survival: Sequence[float]
    outcome: Outcome
    fixed_gain: float
    oracle_share: float
    above: int | None


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan. curve, sweep: None where only the class of the rows is known (a gate has run, and no sweep).

    when: UTC, ISO 8601. command: the arguments that made it. drafter: what the workloads were counted with.
    allow_near_ties: the user has said that near ties may swap. The curve holds no raw samples.
    """

    schema: int
    surefoot: str
    when: str
    command: Sequence[str]
    owner: Owner
    rows: RowFinding
    allow_near_ties: bool
    drafter: str
    curve: CostCurve | None
    sweep: SweepFacts | None
    workloads: Sequence[Workload]

    @property
    def kind(self) -> str:
        """In a word for people: what it holds."""
        return "rows only" if self.curve is None else "quick" if self.sweep and self.sweep.quick else "full"


def weaker(one: RowClass, other: RowClass) -> RowClass:
    """The class that promises less."""
    return min(one, other, key=_ORDER.index)


def policy_in_use(asked: Part, curve: CostCurve | None, row_class: RowClass) -> Part:
    """The policy that `asked` stands for, its options as they are used. curve: what was measured, if it was.

    Auto is goodput where a curve was measured, else additive. Additive ends at the highest plateau top of the curve,
    unless the user said otherwise. Where rows are known to be identical, goodput goes by the clock too, unless the user
    said otherwise: its rounds may differ from run to run and the text cannot.
    """
    options: Mapping[str, object] = asked.options
    name = asked.name
    if name == AUTO:
        name = GOODPUT if curve is not None else WITHOUT_PLAN
    if name == GOODPUT:
        options = {"reproducible": row_class != "identical", **options}
    elif name == ADDITIVE and curve is not None and "draft_len" not in options:
        top = highest_top(curve)
        options = options if top is None else {"draft_len": top, **options}
    return Part(name, options)


def told_cost(used: Part, token_cost: float, curve: CostCurve | None) -> Part:
    """`used`, told what the drafter is taken to cost where it goes by no clock and nobody has said it.

    Taken to be free, a draft model would be asked for the longest draft in every round, whatever became of it.
    """
    if not token_cost or used.name != GOODPUT or not used.options["reproducible"] or "draft_ms" in used.options:
        return used
    return Part(GOODPUT, {**used.options, "draft_ms": unsaid_draft_ms(token_cost, curve)})
