"""Several runtimes, weights and settings of one model beside each other: which is the fastest on each workload."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from surefoot.core.cost import CostCurve
from surefoot.core.plateaus import staircase
from surefoot.core.types import RowClass
from surefoot.engine.plans import Plan

PACE = 1.45
"""measured: studies/sweeps.md, 2026-11-30: 65 minutes later the same configurations were 1.10 to 1.45 times slower."""

_Z = 1.96


@dataclass(frozen=True, slots=True)
class Speed:
    """What a configuration is expected to do on a workload. draft_len 0: plain decoding, which is then the fastest.

    low, high: the 95 % interval of tokens_per_s, at the pace that the machine had.
    """

    workload: str
    tokens_per_s: float
    low: float
    high: float
    draft_len: int


@dataclass(frozen=True, slots=True)
class Row:
    """One configuration. plain: tokens per second without drafts at the shallowest depth of its sweep.

    tops: draft lengths at the tops of its plateaus. drafts: whether drafts may be used at all, by the class of its rows
    and the user's word. reused: measured at another time than the others. why: why there are no figures, "" where there
    are.
    """

    name: str
    row_class: RowClass | None
    one_row_ms: float | None
    plain: float | None
    tops: tuple[int, ...]
    drafts: bool
    speeds: tuple[Speed, ...]
    reused: bool = False
    why: str = ""


@dataclass(frozen=True, slots=True)
class Fastest:
    """The configuration of most expected tokens per second on a workload; lead: its speed by that of the next one.

    level: others that may be as fast, for all that was measured; doubt: why, in words, "" where there are none.
    """

    workload: str
    name: str
    tokens_per_s: float
    low: float
    high: float
    draft_len: int
    lead: float | None
    level: tuple[str, ...]
    doubt: str


def row(name: str, plan: Plan, *, reused: bool = False) -> Row:
    """What a plan expects. Raises: AssertionError for a plan without a curve, which tuning does not write."""
    curve = plan.curve
    assert curve is not None
    depth = curve.depths[0]
    drafts = plan.rows.row_class == "identical" or (plan.rows.row_class == "near-tie" and plan.allow_near_ties)
    speeds = []
    for each in plan.workloads:
        speed, said = _plain(each.name, curve, each.depth), each.outcome
        if drafts and said.kind == "draft":
            by, low, high = (speed.tokens_per_s * gain for gain in (said.gain, said.low, said.high))
            speed = Speed(each.name, by, low, high, said.draft_len)
        speeds.append(speed)
    return Row(
        name, plan.rows.row_class, 1e3 * curve.direct_s(1, depth), 1 / curve.round_s(1, depth),
        staircase(curve, depth).tops, drafts, tuple(speeds), reused,
    )  # fmt: skip


def plain_row(name: str, curve: CostCurve, depths: Mapping[str, int]) -> Row:
    """A configuration whose rows depend on each other, so that it writes plainly. depths: by workload, where to compare
    it with others."""
    depth = curve.depths[0]
    speeds = tuple(_plain(workload, curve, each) for workload, each in depths.items())
    return Row(
        name, "row-dependent", 1e3 * curve.direct_s(1, depth), 1 / curve.round_s(1, depth), (), False, speeds
    )  # fmt: skip


def missing(name: str, why: str) -> Row:
    """A configuration that could not be tuned."""
    return Row(name, None, None, None, (), False, (), why=why)


def depths_of(plans: Sequence[Plan]) -> dict[str, int]:
    """The depth of each workload, by the first plan that has it."""
    found: dict[str, int] = {}
    for plan in plans:
        for each in plan.workloads:
            found.setdefault(each.name, each.depth)
    return found


def fastest(rows: Sequence[Row]) -> tuple[Fastest, ...]:
    """The fastest configuration of each workload, in the order in which workloads come."""
    found = []
    for workload in dict.fromkeys(speed.workload for each in rows for speed in each.speeds):
        known = [(speed, each) for each in rows for speed in each.speeds if speed.workload == workload]
        known.sort(key=lambda pair: -pair[0].tokens_per_s)
        (best, its), rest = known[0], known[1:]
        lead = best.tokens_per_s / rest[0][0].tokens_per_s if rest else None
        near = [other.name for speed, other in rest if speed.high >= best.low]
        paced = [
            other.name
            for speed, other in rest
            if (its.reused or other.reused) and best.tokens_per_s < PACE * speed.tokens_per_s and other.name not in near
        ]
        doubts = [
            *(["the intervals overlap"] if near else []),
            *([f"from one time to another the pace of a machine alone makes up to {PACE} times"] if paced else []),
        ]
        found.append(
            Fastest(
                workload, its.name, best.tokens_per_s, best.low, best.high, best.draft_len, lead,
                tuple(other.name for _, other in rest if other.name in (*near, *paced)), "; ".join(doubts),
            )
        )  # fmt: skip
    return tuple(found)


def _plain(workload: str, curve: CostCurve, depth: int) -> Speed:
    speed, spread = 1 / curve.round_s(1, depth), math.exp(_Z * curve.error(1))
    return Speed(workload, speed, speed / spread, speed * spread, 0)
