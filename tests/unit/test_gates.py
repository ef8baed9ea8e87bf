"""What a gate says of given facts: who passes, who fails, and in which words."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from surefoot.core.types import Caps, RowClass
from surefoot.lab.gates import baseline, contamination, lossless, rows
from surefoot.lab.gates.contamination import Proposals, Row
from surefoot.lab.gates.lossless import Case
from surefoot.lab.gates.rows import Rows
from surefoot.lab.gates.texts import Divergence
from surefoot.lab.records import Gate, Side
from surefoot.lab.stats import Interval


def caps(row_class: RowClass, backend: str = "openvino") -> Caps:
    settings = {"KV_CACHE_PRECISION": "u8", "threads": "2"}
    return Caps(backend, 100, 512, 32, "mask", row_class=row_class, settings=settings)


def some_rows(*moved: tuple[float, float], delta: float = 0.0, n: int = 200) -> Rows:
    """`n` rows that move by `delta`, and more that turn over: (delta, gap) each."""
    deltas = [delta] * n + [d for d, _ in moved]
    gaps = [5.0] * n + [gap for _, gap in moved]
    turned = [False] * n + [True] * len(moved)
    size = len(deltas)
    return Rows(np.full(size, 3), np.array(deltas), np.array(gaps), np.full(size, 30.0), np.array(turned),
                np.zeros(size), 2)  # fmt: skip


ROUNDED, EXACT = some_rows(delta=1e-4), some_rows()
NUDGED = some_rows(delta=0.2)
NEAR = some_rows((0.2, 0.05), delta=0.1)
FAR = some_rows((0.2, 0.5), delta=0.1)
WILD = some_rows((0.9, 0.1), delta=0.6)


@pytest.mark.parametrize(
    ("found", "row_class"),
    [(EXACT, "identical"), (ROUNDED, "identical"), (NUDGED, "near-tie"), (NEAR, "near-tie"), (FAR, "row-dependent"),
     (WILD, "row-dependent"), (some_rows(delta=math.nan), "row-dependent"), (some_rows(n=0), "row-dependent")],
)  # fmt: skip
def test_the_class_of_rows(found: Rows, row_class: RowClass) -> None:
    assert rows.class_of(found) == row_class


def test_a_gap_below_twice_the_99th_percentile_is_a_near_tie_and_one_at_it_is_not() -> None:
    assert rows.class_of(some_rows((0.1, 0.19), delta=0.1)) == "near-tie"
    assert rows.class_of(some_rows((0.1, 0.2), delta=0.1)) == "row-dependent"


@pytest.mark.parametrize(
    ("found", "claimed", "passed", "words"),
    [
        (EXACT, "identical", True, ["identical: 0 of 200 rows differ"]),
        (NUDGED, "identical", False, ["near-tie", "more than rounding", "taken for identical", "--allow-near-ties"]),
        (NEAR, "identical", False, ["near-tie: 1 of 201", "KV_CACHE_PRECISION u8", "--allow-near-ties"]),
        (FAR, "identical", False, ["row-dependent", "--drafts off"]),
        (EXACT, "near-tie", True, ["identical", "still need --allow-near-ties"]),
        (NEAR, "near-tie", True, ["near-tie", "need --allow-near-ties", "identical are runtime.cache_precision=f32"]),
        (FAR, "near-tie", False, ["row-dependent", "choose other settings", "runtime.activation_group=0"]),
        (EXACT, "row-dependent", True, ["identical"]),
    ],
)
def test_rows_pass_when_they_keep_what_the_target_claims(
    found: Rows, claimed: RowClass, passed: bool, words: list[str]
) -> None:
    gate = rows.judge(found, caps(claimed))
    assert gate.passed is passed
    for word in words:
        assert word in gate.text
    assert "threads" not in gate.text, "only the settings that decide are named"
    assert (gate.figure <= gate.limit) or not gate.passed


# --- lossless --------------------------------------------------------------------------------------------------------

CLOSE = Divergence(7, 1, 2, 0.01, "a b")
APART = Divergence(7, 1, 2, 3.0, "a b")
SAME = Case("chat", "ngram/additive", 64, False, None, accepted=9, rejected=4)


def different(at: Divergence | None, again: Case | None = None) -> Case:
    return replace(SAME, failed=True, divergence=at, again=again)


def judged(*cases: Case, row_class: RowClass = "identical", tolerance: float = 0.0) -> Gate:
    return lossless.judge(cases, row_class, tolerance)


def test_equal_texts_are_lossless() -> None:
    gate = judged(SAME, SAME)
    assert gate.passed
    assert gate.text == "2 texts of 64 tokens, 18 drafts accepted and 8 rejected"


@pytest.mark.parametrize(
    ("row_class", "tolerance", "at", "passed"),
    [("identical", 0.0, CLOSE, False), ("near-tie", 0.2, CLOSE, True), ("near-tie", 0.2, APART, False),
     ("near-tie", 0.005, CLOSE, False), ("identical", 9.0, CLOSE, False)],
)  # fmt: skip
def test_a_difference_counts_unless_near_ties_are_allowed(
    row_class: RowClass, tolerance: float, at: Divergence, passed: bool
) -> None:
    case = different(at, again=different(at))
    gate = judged(SAME, case, row_class=row_class, tolerance=tolerance)
    assert gate.passed is passed
    assert ("near ties" in gate.text) is passed
    assert f"at token 7 (top-two gap {at.gap:.2g}) after 'a b'" in gate.text


def test_a_failure_without_a_divergence_is_impossible_evidence_and_not_wrong_text() -> None:
    gate = judged(SAME, different(None, again=different(None)))
    assert not gate.passed
    assert "impossible evidence" in gate.text
    assert "the record is wrong, not the text" in gate.text
    assert "differ, first" not in gate.text


def test_what_differs_beside_other_work_and_not_alone_is_told_and_does_not_count() -> None:
    gate = judged(SAME, different(APART, again=SAME))
    assert gate.passed
    assert "1 differed beside other work and not alone, first chat with ngram/additive over 64 tokens" in gate.text
    assert gate.details["failures"]


def test_figures_that_do_not_add_up_fail() -> None:
    gate = judged(SAME, replace(SAME, account="2.01 accepted per round are too many"))
    assert not gate.passed
    assert "do not add up: 2.01" in gate.text


@pytest.mark.parametrize("idle", [{"accepted": 0}, {"rejected": 0}])
def test_texts_without_accepted_and_rejected_drafts_prove_nothing(idle: dict[str, int]) -> None:
    gate = judged(replace(SAME, **idle))  # type: ignore[arg-type]
    assert not gate.passed
    assert "proves nothing" in gate.text


# --- contamination ---------------------------------------------------------------------------------------------------

CLEAN = Row(0, 0, 1, 0.0, moved=False, spread=20.0, gap=1.0)
AFTER = replace(CLEAN, draft_len=4)
FAITHFUL = Proposals("ngram", 6, 0, None)


def cleaned(*found: Row, proposals: Proposals = FAITHFUL, row_class: RowClass = "identical") -> Gate:
    return contamination.judge(found, proposals, row_class)


@pytest.mark.parametrize(
    ("noise", "delta", "row_class", "passed"),
    [
        (0.0, 0.0, "identical", True),
        (0.0, 1e-9, "identical", False),  # where single rows are exact, everything has to be
        (1e-5, 0.019, "identical", True),
        (1e-5, 0.021, "identical", False),
        (1e-5, 0.9, "near-tie", True),
        (1e-5, 1.1, "near-tie", False),
        (5.0, 0.001, "identical", False),  # a fault that single rows have too
        (1e-5, math.inf, "identical", False),
    ],
)
def test_how_far_a_row_may_be_from_a_fresh_prefill(
    noise: float, delta: float, row_class: RowClass, passed: bool
) -> None:
    gate = cleaned(replace(CLEAN, delta=noise), replace(AFTER, delta=delta), row_class=row_class)
    assert gate.passed is passed
    assert math.isfinite(gate.figure)
    assert ("the cache does not hold what was committed" in gate.text) is not passed


@pytest.mark.parametrize(
    ("row_class", "gap", "passed"), [("identical", 0.01, False), ("near-tie", 0.01, True), ("near-tie", 3.0, False)]
)
def test_another_argmax_fails_but_for_near_ties(row_class: RowClass, gap: float, passed: bool) -> None:
    row = replace(AFTER, delta=1e-5, moved=True, gap=gap)
    assert cleaned(replace(CLEAN, delta=1e-5), row, row_class=row_class).passed is passed


def test_a_drafter_that_remembers_what_was_rejected_fails() -> None:
    gate = cleaned(CLEAN, AFTER, proposals=Proposals("ngram", 6, 2, 31))
    assert not gate.passed
    assert "first after 31 tokens: it kept what was rejected" in gate.text


def test_a_drafter_that_goes_by_its_rounds_is_not_compared_and_that_is_said() -> None:
    gate = cleaned(CLEAN, AFTER, proposals=Proposals("union", 0, 0, None, comparable=False))
    assert gate.passed
    assert "union is not compared with a new one, as its drafts depend on how the rounds fell" in gate.text


# --- baseline --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "middle", "high", "word"),
    [
        (0.98, 1.0, 1.02, "good"),
        (0.97, 0.98, 0.99, "good"),
        (0.90, 0.93, 0.96, "slower"),
        (0.90, 1.0, 1.1, "undecided"),
        (0.96, 0.98, 1.0, "good"),
        (0.95, 0.96, 0.98, "slower"),
        (0.10, 0.2, 0.96, "slower"),
    ],
)
def test_the_verdict_on_the_speed(low: float, middle: float, high: float, word: str) -> None:
    assert baseline.verdict(Interval(middle, low, high, 9)) == word


def side(tokens_per_second: float, ids: tuple[int, ...] = (1, 2, 3)) -> Side:
    return Side(ids, len(ids), "length", 0.1, (len(ids) - 1) / tokens_per_second, None)


def compared(ratio: float, **more: Any) -> baseline.Comparison:
    pairs = [baseline.Pair("chat", side(50 * ratio), side(50))] * 8
    return baseline.Comparison("the vendor", {"threads": "2"}, pairs, more)


def test_baseline_passes_with_the_same_text_and_speed_and_keeps_the_vendors_settings() -> None:
    gate = baseline.judge(compared(1.01), "identical", 0.0)
    assert gate.passed
    assert gate.figure == pytest.approx(1.01)
    assert gate.text == ("1.010 of the tokens per second of the vendor [1.010, 1.010], 8 pairs; same text")
    assert gate.details["settings"] == {"threads": "2"}


def test_baseline_fails_when_slower() -> None:
    assert not baseline.judge(compared(0.95), "identical", 0.0).passed


@pytest.mark.parametrize(("row_class", "tolerance", "passed"), [("identical", 1.0, False), ("near-tie", 1.0, True)])
def test_baseline_fails_when_the_text_is_another(row_class: RowClass, tolerance: float, passed: bool) -> None:
    gate = baseline.judge(compared(1.0, chat=CLOSE), row_class, tolerance)
    assert gate.passed is passed
    assert ("1 texts differ, first chat at token 7" in gate.text) is not passed


def test_too_few_pairs_decide_nothing() -> None:
    found = compared(1.2)
    gate = baseline.judge(replace(found, pairs=found.pairs[:3]), "identical", 0.0)
    assert not gate.passed
    assert "run it again" in gate.text
