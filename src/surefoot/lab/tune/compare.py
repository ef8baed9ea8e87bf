"""Several runtimes, weights and settings of one model beside each other: which is the fastest on each workload."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from surefoot.core.plateaus import staircase
from surefoot.core.types import RowClass
from surefoot.engine.plans import Plan


@dataclass(frozen=True, slots=True)
class Speed:
    """What a configuration is expected to do on a workload. draft_len 0: plain decoding, which is then the fastest."""

    workload: str
    tokens_per_s: float
    draft_len: int


@dataclass(frozen=True, slots=True)
class Row:
    """One configuration. plain: tokens per second without drafts at the shallowest depth of its sweep.

    tops: draft lengths at the tops of its plateaus. drafts: whether drafts may be used at all, by the class of its rows
    and the user's word. why: why there are no figures, "" where there are.
    """

    name: str
    row_class: RowClass | None
    one_row_ms: float | None
    plain: float | None
    tops: tuple[int, ...]
    drafts: bool
    speeds: tuple[Speed, ...]
    why: str = ""


@dataclass(frozen=True, slots=True)
class Fastest:
    """The configuration of most expected tokens per second on a workload; lead: its speed by that of the next one."""

    workload: str
    name: str
    tokens_per_s: float
    draft_len: int
    lead: float | None


def row(name: str, plan: Plan) -> Row:
    """What a plan expects. Raises: AssertionError for a plan without a curve, which tuning does not write."""
    curve = plan.curve
    assert curve is not None
    depth = curve.depths[0]
    drafts = plan.rows.row_class == "identical" or (plan.rows.row_class == "near-tie" and plan.allow_near_ties)
    speeds = []
    for each in plan.workloads:
        pays = drafts and each.outcome.kind == "draft"
        plain = 1 / curve.round_s(1, each.depth)
        speed = plain * each.outcome.gain if pays else plain
        speeds.append(Speed(each.name, speed, each.outcome.draft_len if pays else 0))
    return Row(
        name, plan.rows.row_class, 1e3 * curve.direct_s(1, depth), 1 / curve.round_s(1, depth),
        staircase(curve, depth).tops, drafts, tuple(speeds),
    )  # fmt: skip


def missing(name: str, why: str) -> Row:
    """A configuration that could not be tuned."""
    return Row(name, None, None, None, (), False, (), why)


def fastest(rows: Sequence[Row]) -> tuple[Fastest, ...]:
    """The fastest configuration of each workload, in the order in which workloads come."""
    found = []
    for workload in dict.fromkeys(speed.workload for each in rows for speed in each.speeds):
        known = [(speed, each.name) for each in rows for speed in each.speeds if speed.workload == workload]
        known.sort(key=lambda pair: -pair[0].tokens_per_s)
        best, name = known[0]
        lead = best.tokens_per_s / known[1][0].tokens_per_s if len(known) > 1 else None
        found.append(Fastest(workload, name, best.tokens_per_s, best.draft_len, lead))
    return tuple(found)
