"""Plans as tests need them: any that could be made, and a small one of a known model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from surefoot.core.cost import CostCurve, fit_curve, point, published
from surefoot.engine.plans import SCHEMA, Outcome, Owner, Plan, RowFinding, SweepFacts, Workload

OWNER = Owner(
    model="tiny", path="/models/tiny", weights="0123456789abcdef", runtime="toy", device="cpu", discipline="mask",
    settings={"threads": "2", "weights": "fp16"}, versions={"surefoot": "1.0", "openvino": "2026.4"},
    machine="fedcba9876543210", cpu="a processor", cores=2,
)  # fmt: skip
SWEEP = SweepFacts(False, 9, 342, 1.5, 0.7, 12.0, True, "the machine kept its pace", ((3, 200),))
OUTCOME = Outcome("draft", 7, 1.6, 1.4, 1.8, "draft 7 (8 rows): expect 1.60x (1.40 to 1.80)", ("a reason",))
WORKLOAD = Workload("code", 200, 96, 40, 0.9, (0.8, 0.7), OUTCOME, 1.7, 0.9, 8192)
STAIRS = {1: 1.0, 2: 1.02, 3: 1.05, 4: 1.6, 5: 1.62, 6: 1.66}


def curve(rows: dict[int, float] = STAIRS, *, can_pad: bool = False) -> CostCurve:
    return fit_curve((*published(rows, 200), *published({n: 1.1 * s for n, s in rows.items()}, 850)), can_pad=can_pad)


def plan(**changes: Any) -> Plan:
    base = Plan(
        SCHEMA, "1.0", "2026-11-30T12:00:00Z", ("tune", "tiny"), OWNER,
        RowFinding("identical", "identical", "identical: 0 of 200 rows differ", "tune"), False, "ngram", curve(), SWEEP,
        (WORKLOAD,),
    )  # fmt: skip
    return replace(base, **changes)


seconds = st.floats(1e-6, 1e3)
texts = st.text(st.characters(codec="utf-8"), max_size=20)
tables = st.dictionaries(texts, texts, max_size=4)


@st.composite
def curves(draw: st.DrawFn) -> CostCurve:
    rows = sorted({1, *draw(st.sets(st.integers(2, 64), max_size=8))})
    depths = draw(st.lists(st.integers(1, 10**5), min_size=1, max_size=3, unique=True))
    points = [point(n, d, draw(st.lists(seconds, min_size=1, max_size=8))) for n in rows for d in depths]
    return replace(
        fit_curve(points, host_s=draw(st.floats(0, 1)), can_pad=draw(st.booleans())), served=draw(st.integers(0, 99))
    )


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    classes = st.sampled_from(["identical", "near-tie", "row-dependent"])
    share = st.floats(0, 1)
    outcomes = st.builds(
        Outcome, st.sampled_from(["draft", "undecided", "do not speculate", "never speculate"]), st.integers(0, 64),
        seconds, seconds, seconds, texts, st.lists(texts, max_size=3).map(tuple),
    )  # fmt: skip
    workloads = st.builds(
        Workload, texts, st.integers(1, 10**5), st.integers(0, 999), st.integers(0, 999), share,
        st.lists(share, max_size=5).map(tuple), outcomes, seconds, share, st.none() | st.integers(1, 10**6),
    )  # fmt: skip
    owner = replace(OWNER, model=draw(texts), settings=draw(tables), versions=draw(tables))
    sweep = draw(st.none() | st.just(SWEEP))
    return plan(
        when=draw(texts), command=tuple(draw(st.lists(texts, max_size=3))), owner=owner,
        rows=draw(st.builds(RowFinding, classes, classes, texts, texts)), allow_near_ties=draw(st.booleans()),
        curve=draw(st.none() | curves()), sweep=sweep, workloads=tuple(draw(st.lists(workloads, max_size=3))),
    )  # fmt: skip
