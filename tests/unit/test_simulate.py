"""Simulations: a table predicted from its fixed rows, texts of a record written again, curves out of files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import plan_samples
import pytest
from cost_curves import DATA, SEED, curve, data
from lab_records import BASELINE
from lab_records import pair as make_pair
from lab_records import run as make_run

from surefoot.core.cost import fit_curve, published
from surefoot.core.errors import ConfigError, NotEligible
from surefoot.core.types import as_ids
from surefoot.engine import plans
from surefoot.lab import curvefile, simulate, traces
from surefoot.lab.copying import Copying, write
from surefoot.lab.records import PromptUse
from surefoot.lab.replay import plain_s, replay
from surefoot.lab.setup import digest
from surefoot.lab.simulate import Chosen, additive_to, fixed_at, on_table, on_texts, table_of
from surefoot.lab.store import Loaded
from surefoot.lab.workloads import Prompt

# ---- curves


def test_a_curve_of_a_collection() -> None:
    named = curvefile.read(f"{DATA}:{SEED}")
    assert named.curve == curve(SEED)
    assert "M4 Max" in named.about
    assert not named.relative


def test_a_curve_at_two_depths_has_a_slope() -> None:
    named = curvefile.read(f"{DATA}:ov-stateful-fp32-smol-200+ov-stateful-fp32-smol-850")
    assert named.curve.depths == (200, 850)
    assert named.curve.has_depth_slope


def test_the_curve_of_a_plan(tmp_path: Path) -> None:
    plan = plan_samples.plan(curve=curve(SEED))
    plans.save(plan, tmp_path / "plan.json")
    named = curvefile.read(str(tmp_path / "plan.json"))
    assert named.curve == curve(SEED)
    assert named.about.startswith(f"{plan.owner.model} on {plan.owner.runtime}")
    plans.save(plan_samples.plan(curve=None), tmp_path / "bare.json")
    with pytest.raises(ConfigError, match="holds no curve: make one with 'surefoot tune"):
        curvefile.read(str(tmp_path / "bare.json"))


def test_a_curve_alone_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"unit": "ms", "context": 100, "rows": {"1": 10, "2": 11, "4": 12.5}}))
    found = curvefile.read(str(path)).curve
    assert found.rows == (1, 2, 4)
    assert found.direct_s(4, 0) == pytest.approx(0.0125)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{}", "plan"),
        ("[1]", "list"),
        ('{"unit": "ms", "rows": {"2": 11}}', "no cost of one row"),
        ('{"unit": "ms", "rows": {"1": -1}}', "which nothing does"),
        ('{"unit": "ms", "rows": {"1": "x"}}', "where a cost by number of rows belongs"),
        ('{"unit": "ms", "rows": {"one": 1}}', "where a cost by number of rows belongs"),
        pytest.param(f'{{"unit": "ms", "rows": {{"{"1" * 5000}": 1}}}}', "where a cost by", id="a long key"),
        ('{"unit": "ms", "rows": {"1": 1, "01": 2}}', "where a cost by number of rows belongs"),
        ('{"unit": "ms", "rows": {"1": 1, "1000": 2}}', "where a cost by number of rows belongs"),
        ('{"unit": "ms", "rows": {"1": 1e-200}}', "1e-200, which nothing does"),
        pytest.param(f'{{"unit": "ms", "rows": {{"1": {"9" * 400}}}}}', "9999, which nothing does", id="a long cost"),
        ('{"unit": "ms", "context": "deep", "rows": {"1": 1}}', "a context"),
        ('{"curves": [{"id": "a", "rows": {"1": 1}}, {"id": "b", "rows": {"1": 1}}]}', "2 curves"),
    ],
)
def test_what_is_no_curve_is_told_in_a_sentence(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=words) as caught:
        curvefile.read(str(path))
    assert "\n" not in str(caught.value)


def test_a_curve_that_is_not_in_the_collection_names_near_ones() -> None:
    with pytest.raises(ConfigError, match="such as m4max-30b-int4"):
        curvefile.read(f"{DATA}:m4max")


# ---- tables


def of_seed() -> simulate.Table:
    table = table_of(data())
    assert table is not None
    return table


def test_the_adaptive_rows_are_not_fitted_to() -> None:
    """Whatever they say, the process and every speed-up stay the same; only what is compared changes."""
    given = of_seed()
    table = simulate.Table("", given.tokens, {label: {"code": row["code"]} for label, row in given.rows.items()})
    lied = {label: dict(row) for label, row in table.rows.items()}
    for label in lied:
        if label.startswith("additive"):
            lied[label] = dict.fromkeys(lied[label], 99.0)
    other = simulate.Table(table.source, table.tokens, lied)
    found, doubted = (
        on_table(each, [Chosen("goodput", "goodput", {})], curve(SEED), 848, 2) for each in (table, other)
    )
    for one, two in zip(found, doubted, strict=True):
        assert one.process == two.process
        assert [each.speedup for each in one.outcomes] == [each.speedup for each in two.outcomes]
        assert [each.residual for each in one.outcomes] != [each.residual for each in two.outcomes]


def test_a_table_gets_its_own_rows_and_those_that_were_asked_for() -> None:
    (found,) = on_table(
        simulate.Table("", 64, {f"K={k}": {"code": 1.1} for k in (1, 2, 3, 4)}), [additive_to(7)], curve(SEED), 848, 2
    )
    assert [each.policy for each in found.outcomes] == [
        *(f"fixed:draft_len={k}" for k in (1, 2, 3, 4)), "additive:draft_len=7",
    ]  # fmt: skip
    assert [each.measured for each in found.outcomes] == [1.1, 1.1, 1.1, 1.1, None]
    assert all(each.exact for each in found.outcomes[:4])
    assert found.outcomes[0].residual == pytest.approx(found.outcomes[0].speedup / 1.1 - 1)


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"rows": {"K=1": {"a": 1.2}}}, "how many tokens"),
        ({"tokens": 64, "rows": {"K=1": {"a": "fast"}}}, "no speed-up"),
        ({"tokens": 64, "rows": {"K=1": {"a": -1}}}, "no speed-up"),
        pytest.param({"tokens": 64, "rows": {"K=1": {"a": 10**400}}}, "no speed-up", id="a long figure"),
    ],
)
def test_tables_that_cannot_be_read(document: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        table_of(document)


def test_a_table_of_too_few_lengths_predicts_nothing() -> None:
    with pytest.raises(ConfigError, match="2 fixed draft lengths"):
        on_table(simulate.Table("", 64, {"K=1": {"a": 1.2}, "K=2": {"a": 1.3}}), [], curve(SEED), 848, 1)


# ---- texts


def loaded(prompt: list[int], ids: tuple[int, ...]) -> Loaded:
    """A record of one pair over this text."""
    run = make_run()
    use = run.prompts[0]
    run = replace(run, prompts=(PromptUse(use.id, use.workload, use.source, len(prompt), digest(as_ids(prompt))),))
    pair = make_pair()
    off = replace(pair.off, ids=ids, n_output=len(ids), steps=None)
    pair = replace(pair, prompt=use.id, workload=use.workload, off=off)
    return Loaded(run, (), (), (pair,), (), None, False)


LOOP = (5, 6, 7, 8) * 8


def test_a_record_is_written_again_with_the_drafts_of_each_position() -> None:
    record = loaded([1, 5, 6, 7, 8, 5], LOOP[1:])
    use = record.run.prompts[0]
    prompt = Prompt(use.id, use.workload, use.source, "whatever")
    written = traces.texts(record, [prompt], lambda each: as_ids([1, 5, 6, 7, 8, 5]), traces.workloads(record))
    assert written[0].ids == LOOP[1:]
    by_workload = traces.traces(written, {"name": "ngram"})
    (trace,) = by_workload[use.workload]
    assert all(offer.right for offer in trace.offers[1:-1]), "the loop is found everywhere"
    (found,) = on_texts(by_workload, [fixed_at(2), fixed_at(7)], curve(SEED))
    assert found.tokens == len(LOOP) - 2
    assert found.outcomes[1].speedup > found.outcomes[0].speedup > 1.5
    assert found.best_speedup >= found.outcomes[1].speedup
    seconds = replay(trace, fixed_at(2).made(curve(SEED)), curve(SEED)).seconds
    assert found.outcomes[0].speedup == pytest.approx(plain_s(trace, curve(SEED)) / seconds)


def test_what_the_record_measured_stands_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run()
    drafts = dict(run.arms[0].drafts)
    assert [each.label for each in simulate.in_record(run, drafts).values()] == ["ngram"]
    assert not simulate.in_record(run, {"name": "ngram", "max_n": 9})
    pairs = tuple(make_pair(number) for number in range(8))
    record = Loaded(run, (BASELINE,), (), pairs, (), None, False)
    measured = simulate.of_record(record, drafts)
    assert measured.keys() == {("chat", "ngram")}
    trace = write(Copying(0.05, 20, 0.3, 0.2), 40, 100, 1)
    tried = simulate.in_record(run, drafts).values()
    (found,) = on_texts({"chat": [trace]}, list(tried), curve(SEED), measured=measured)
    (outcome,) = found.outcomes
    assert outcome.measured == measured["chat", "ngram"]
    assert outcome.residual == pytest.approx(outcome.speedup / outcome.measured - 1)


def test_a_prompt_that_reads_differently_is_refused() -> None:
    record = loaded([1, 2, 3], (4, 5, 6))
    use = record.run.prompts[0]
    prompt = Prompt(use.id, use.workload, use.source, "whatever")
    with pytest.raises(ConfigError, match="other tokens than when the record was made"):
        traces.texts(record, [prompt], lambda each: as_ids([1, 2]), traces.workloads(record))
    with pytest.raises(ConfigError, match="give that file with --prompts"):
        traces.texts(record, [], lambda each: as_ids([1, 2, 3]), traces.workloads(record))


def test_a_drafter_that_asks_for_more_than_tokens_is_refused() -> None:
    with pytest.raises(NotEligible, match="model"):
        traces.drafter({"name": "model", "model": "smollm2-135m"})
    with pytest.raises(NotEligible, match="with the model smollm2-135m"):
        traces.drafter({"name": "crossvocab", "model": "smollm2-135m"})
    no_scores = traces.NoScores()
    for ask in (no_scores.argmax, lambda: no_scores.logits(0), lambda: no_scores.tap("final")):
        with pytest.raises(NotEligible, match="predicted"):
            ask()
    assert np.asarray(LOOP).size


def test_a_drafter_that_would_borrow_a_model_and_does_not_need_one_is_replayed() -> None:
    text = traces.Text("code", "code-1", as_ids([1, 5, 6, 7, 8, 5]), LOOP[1:])
    (trace,) = traces.traces([text], {"name": "suffix"})["code"]
    assert all(offer.right for offer in trace.offers[1:-1])
    with pytest.raises(ConfigError, match="how the rounds fell"):
        traces.traces([text], {"name": "ngram+suffix"})


def test_a_length_that_the_curve_ends_before_is_refused_and_not_cut() -> None:
    trace = write(Copying(0.05, 20, 0.3, 0.2), 40, 100, 1)
    most = curve(SEED).max_rows - 1
    longer = Chosen("goodput:draft_len=99", "goodput", {"draft_len": 99})
    on_texts({"chat": [trace]}, [fixed_at(most), longer], curve(SEED))
    for chosen in (fixed_at(most + 1), additive_to(most + 1)):
        with pytest.raises(ConfigError, match=f"{chosen.label} drafts more than the {most} tokens"):
            on_texts({"chat": [trace]}, [chosen], curve(SEED))
        with pytest.raises(ConfigError, match=f"{chosen.label} drafts more than the {most} tokens"):
            on_table(of_seed(), [chosen], curve(SEED), 848, 1)


def test_additive_without_a_length_is_what_a_plan_of_the_curve_makes_of_it() -> None:
    trace = write(Copying(0.05, 20, 0.3, 0.2), 40, 100, 1)
    low = fit_curve(published({n: 1.0 if n < 4 else 3.0 for n in range(1, 12)}, 200))
    (found,) = on_texts({"chat": [trace]}, [Chosen("additive", "additive", {}), additive_to(2), additive_to(7)], low)
    free, two, seven = (each.speedup for each in found.outcomes)
    assert free == two != seven


def test_the_usual_policies_end_at_what_was_swept() -> None:
    seed = [chosen.label for chosen in simulate.usual(curve(SEED))]
    assert seed == [*(f"fixed:draft_len={k}" for k in range(1, 9)), "additive:draft_len=7", "goodput"]
    narrow = [chosen.label for chosen in simulate.usual(curve("mlx-qwen3-4b"))]
    assert "fixed:draft_len=7" in narrow
    assert "fixed:draft_len=8" not in narrow
