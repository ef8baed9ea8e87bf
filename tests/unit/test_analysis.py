"""What a record says: a speed-up only where everything that it rests on is there, and the reason where it is not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import lab_records as make
import pytest
from simulated_machine import Machine, bench

from surefoot.lab.analysis import Row, analyse
from surefoot.lab.records import Arm, End, Gate, Pair, Resumed, Side
from surefoot.lab.store import Loaded, Store, load

LOSSLESS = Gate("lossless", True, 0, 0, "texts that differ", "all equal")


def loaded(pairs: Sequence[Pair], gates: Sequence[Gate] = (make.BASELINE,), **changed: Any) -> Loaded:
    """A record without references."""
    return Loaded(make.run(**changed), tuple(gates), (), tuple(pairs), (), None, False)


def pairs(n: int, start: int = 0, **changed: Any) -> list[Pair]:
    return [make.pair(start + number, **changed) for number in range(n)]


def twice(pair: Pair, ids: Sequence[int] | None = None) -> Pair:
    """The pair with an arm that is twice as fast as plain decoding."""
    on = make.side((make.step(1, 1),) * 10, decode_s=0.2)
    return replace(pair, on=on if ids is None else replace(on, ids=ids))


def only(record: Loaded) -> Row:
    (row,) = analyse(record).rows
    return row


def test_a_row_says_what_was_measured() -> None:
    row = only(loaded([twice(pair) for pair in pairs(8)]))
    assert (row.workload, row.budget, row.arm, row.kind) == ("chat", 64, "ngram", "drafts")
    assert (row.pairs_used, row.pairs_left_out, row.prompts, row.same_ids, row.all_pairs) == (8, 0, 1, 8, 8)
    assert row.baseline_tps is not None
    assert row.arm_tps is not None
    assert row.ratio is not None
    assert (row.baseline_tps.estimate, row.arm_tps.estimate, row.ratio.estimate) == pytest.approx((50, 100, 2))
    assert (row.ratio.low, row.ratio.high, row.ratio.n) == pytest.approx((2, 2, 8))
    assert (row.verdict, row.why) == ("faster", "")
    assert row.text == "faster: 2.000 to 2.000 times the baseline, on this prompt only"
    assert (row.prompt_tokens.median, row.prompt_tokens.low, row.prompt_tokens.high) == (40, 40, 40)
    assert (row.output_tokens.low, row.output_tokens.high) == (21, 21)
    assert row.drafts is not None
    assert (row.drafts.rounds, row.drafts.accepted_per_round, row.drafts.tokens_per_round) == (80, 1.0, 2.0)
    assert row.phases is not None
    assert row.phases.extend == pytest.approx(8 * 10 * 0.016 / (8 * 0.2))
    assert row.host_share == pytest.approx(0.2)
    assert row.baseline_phases is not None
    assert row.baseline_phases.extend == pytest.approx(0.8)


def test_rows_come_by_workload_budget_and_arm_and_never_averaged() -> None:
    record = bench(Machine(), turns=6, workloads=("chat", "code"), budgets=(24, 32))
    rows = analyse(record).rows
    assert [(row.workload, row.budget) for row in rows] == [("chat", 24), ("chat", 32), ("code", 24), ("code", 32)]
    assert sum(row.all_pairs for row in rows) == len(record.pairs) == 24
    names = {row.workload for row in rows}
    assert names == set(record.run.workloads)


def test_a_workload_of_six_prompts_is_judged_by_prompt() -> None:
    row = analyse(bench(Machine(), turns=12, workloads=("chat",), budgets=(24,))).rows[0]
    assert (row.pairs_used, row.prompts) == (12, 6)
    assert row.ratio is not None
    assert row.ratio.n == 6
    assert "only" not in row.text


def failed(**changed: Any) -> Gate:
    return replace(make.BASELINE, passed=False, text="ours 15.5 tok/s, the runtime's own 27.6 tok/s", **changed)


@pytest.mark.parametrize(
    ("gates", "why"),
    [
        ((), "our plain decoding was not compared with the runtime's own (the baseline gate)"),
        ((LOSSLESS,), "our plain decoding was not compared with the runtime's own (the baseline gate)"),
        ((failed(),), "the baseline gate failed: ours 15.5 tok/s, the runtime's own 27.6 tok/s"),
        ((make.BASELINE, failed()), "the baseline gate failed: ours 15.5 tok/s, the runtime's own 27.6 tok/s"),
        ((failed(), make.BASELINE), ""),
    ],
)
def test_no_speed_up_without_a_sound_baseline(gates: Sequence[Gate], why: str) -> None:
    row = only(loaded([twice(pair) for pair in pairs(8)], gates))
    assert row.why == why
    assert (row.ratio is None, row.verdict == "none") == (bool(why), bool(why))
    assert row.text == (why or "faster: 2.000 to 2.000 times the baseline, on this prompt only")


def test_no_speed_up_where_too_few_pairs_survive() -> None:
    busy = replace(make.QUIET, others_cpu=0.5)
    spoilt = [replace(pair, on_conditions=busy) for pair in pairs(3, start=5)]
    record = loaded([twice(pair) for pair in [*pairs(5), *spoilt]])
    row = only(record)
    assert (row.pairs_used, row.pairs_left_out) == (5, 3)
    assert row.why == "5 of 8 pairs are left, and 6 are the least"
    assert (row.ratio, row.verdict) == (None, "none")
    analysis = analyse(record)
    assert [pair.number for pair in analysis.excluded] == [5, 6, 7]
    assert analysis.excluded[0].reasons == ("contention: other processes took 50 % of all cores during on",)
    assert [pair.reasons for pair in analysis.pairs if pair.number < 5] == [()] * 5
    assert [finding.name for finding in analysis.findings] == ["contention", "no rest"]


def test_all_pairs_spoilt_is_a_row_all_the_same() -> None:
    busy = replace(make.QUIET, steal_cpu=0.5)
    row = only(loaded([replace(twice(pair), off_conditions=busy) for pair in pairs(6)]))
    assert (row.pairs_used, row.prompts, row.ratio, row.baseline_tps, row.phases) == (0, 0, None, None, None)
    assert row.prompt_tokens.median == 40
    assert row.why == "0 of 6 pairs are left, and 6 are the least"


def test_no_speed_up_of_another_text() -> None:
    run_pairs = [twice(pair) for pair in pairs(8)]
    run_pairs[3] = twice(run_pairs[3], ids=range(20, 0, -1))
    row = only(loaded(run_pairs))
    assert (row.same_ids, row.all_pairs) == (7, 8)
    assert row.why == "the text differs from that without drafts in 1 of 8 pairs"
    assert row.ratio is None


def test_a_difference_that_vanished_when_written_again_alone_does_not_count() -> None:
    run_pairs = [twice(pair) for pair in pairs(8)]
    run_pairs[3] = twice(run_pairs[3], ids=range(20, 0, -1))
    for again, prints in (("none", True), ("same", False), ("other", False)):
        gate = replace(LOSSLESS, details={"texts": 8, "differences": [{"pair": 3, "again": again}]})
        row = only(loaded(run_pairs, (make.BASELINE, gate)))
        assert (row.ratio is not None) == prints
        assert row.same_ids == 7
        assert "its text differs from ours in 1 pair" in row.text or not prints


def test_another_engine_promises_nothing_about_our_text() -> None:
    def peer(pair: Pair) -> Pair:
        side = Side(tuple(range(9, 30)), 21, "length", 0.05, 0.2, None)
        return replace(pair, arm="peer", on=side)

    row = only(loaded([peer(pair) for pair in pairs(8)]))
    assert (row.kind, row.verdict, row.same_ids, row.why) == ("peer", "faster", 0, "")
    assert row.text.endswith("on this prompt only; its text differs from ours in 8 pairs")
    assert (row.drafts, row.phases, row.host_share) == (None, None, None)
    assert row.baseline_phases is not None


def test_a_run_against_itself_is_held_to_the_same_rules() -> None:
    arms = (Arm("ngram", "off"),)
    row = only(loaded(pairs(8, on=make.side()), arms=arms))
    assert (row.kind, row.verdict, row.text) == (
        "off",
        "no difference",
        "no difference within 2 %, on this prompt only",
    )


def test_the_facts_of_the_run_and_how_it_ended() -> None:
    record = loaded(pairs(1))
    found = analyse(record)
    assert (found.run, found.complete, found.cut, found.resumed) == (record.run, None, False, ())
    for why in ("complete", "time"):
        ended = replace(record, end=End("later", why), resumed=(Resumed("then", {}),), cut=True)  # type: ignore[arg-type]
        found = analyse(ended)
        assert (found.complete, found.cut, len(found.resumed)) == (why, True, 1)


def test_a_record_without_pairs_is_an_analysis_without_rows() -> None:
    found = analyse(loaded([]))
    assert (found.rows, found.pairs, found.bands, found.findings, found.excluded) == ((), (), (), (), ())


def test_the_analysis_of_a_file_is_that_of_the_run_and_goes_into_json(tmp_path: Path) -> None:
    record = bench(Machine(), turns=6, workloads=("chat",), budgets=(24,))
    path = tmp_path / "run.jsonl"
    with Store.create(path, record.run) as store:
        for each in [*record.gates, *record.references, *record.pairs]:
            store.append(each)
    first, again = analyse(load(path)), analyse(load(path))
    assert first == again
    assert first.rows[0].ratio is not None
    measured = analyse(record).rows[0].ratio
    assert measured is not None
    assert first.rows[0].ratio.low == pytest.approx(measured.low)
    assert json.loads(json.dumps(asdict(first), allow_nan=False))["rows"][0]["workload"] == "chat"


@pytest.mark.parametrize("details", [{"differences": 3}, {"differences": [3, {"again": "none"}, {"pair": "x"}]}, {}])
@pytest.mark.parametrize("machine", [{}, {"cores": None}, {"cores": "two"}])
def test_what_a_record_tells_in_its_own_words_may_be_anything(details: Any, machine: Any) -> None:
    record = loaded(
        [twice(pair) for pair in pairs(8)], (make.BASELINE, replace(LOSSLESS, details=details)), machine=machine
    )
    assert only(record).verdict == "faster"
