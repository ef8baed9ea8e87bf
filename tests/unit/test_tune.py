"""Tuning on a virtual machine: the plan says what the machine is, goes on after an interruption, and admits noise."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tune_world import NOW, SMALL, Machine, begin, truth, tuned

from surefoot.core.errors import ConfigError, NotEligible
from surefoot.core.plateaus import staircase
from surefoot.engine import plans
from surefoot.engine.config import Part
from surefoot.lab.gates import rows as row_gate
from surefoot.lab.measure import LEAST_TURNS, SPAN
from surefoot.lab.tune import Kept, Step
from surefoot.lab.tune.kept import MAX_AGE_S, KeptText
from surefoot.lab.tune.texts import LEAST_TOKENS, fitting_depths


def test_the_plan_says_what_the_machine_is(tmp_path: Path) -> None:
    shown: list[Step] = []
    found = tuned(Machine(), tmp_path, show=shown.append)
    plan = found.plan
    assert plan.curve is not None
    assert plan.sweep is not None
    for rows in SMALL.rows:
        for depth in SMALL.depths:
            # The depth grows by a token a round, up to SPAN.
            assert truth(rows, depth) <= plan.curve.direct_s(rows, depth) <= truth(rows, depth + SPAN + 1)
    assert staircase(plan.curve, 40).tops[:2] == (2, 7)
    assert [stairs.depth for stairs in found.staircases] == [40, 160]
    assert (plan.when, plan.command, plan.drafter) == (NOW, ("tune", "toy"), "ngram")
    assert (plan.sweep.load_s, plan.sweep.steady, plan.sweep.turns) == (1.5, True, LEAST_TURNS)
    assert plan.rows.row_class == "identical"
    assert "rows differ" in plan.rows.text
    assert [each.name for each in plan.workloads] == ["chat", "code"]
    assert (found.noise, found.doubts, found.resumed) == (None, (), False)
    assert found.path is not None
    assert plans.load(found.path) == plans.file.without_samples(plan)
    assert list((tmp_path / "cache").rglob("*.jsonl")) == []
    assert {"rows", "sweep", "text", "what"} == {step.what.split(",")[0].split(" ")[0] for step in shown}


SLOW: list[dict[str, Any]] = [
    {"sweep_s": 5.0, "texts_s": 3.0},  # the turns that medians need take longer, and so do the least tokens
    {"sweep_s": 60.0, "texts_s": 3.0},
    {"sweep_s": 60.0, "texts_s": 90.0},
]


@pytest.mark.parametrize("seconds", SLOW)
def test_what_is_said_to_be_left_is_left_at_the_most(tmp_path: Path, seconds: dict[str, Any]) -> None:
    machine = Machine(lambda rows, depth: 3 * truth(rows, depth), prefill_s=lambda tokens: 0.004 * tokens, noise=0.1)
    shown: list[tuple[float, Step]] = []
    tuned(machine, tmp_path, size=replace(SMALL, **seconds), show=lambda step: shown.append((machine.now, step)))
    ended = machine.now
    told = [(at, step.left_s) for at, step in shown if step.left_s is not None]
    assert len(told) >= LEAST_TURNS + len(SMALL.workloads)
    assert all(at + left_s >= ended for at, left_s in told)
    assert [step.left_s for _, step in shown if step.what.startswith("what drafts are worth")] == [None, None]


def test_texts_end_when_the_sweep_and_they_should_have_ended(tmp_path: Path) -> None:
    """The seven turns take longer than the time of the sweep, and the texts have so much less."""
    round_s = truth(1, 40)
    found = tuned(Machine(lambda rows, depth: truth(rows, 40)), tmp_path, size=replace(SMALL, sweep_s=0.1, texts_s=2.0))
    assert found.seconds["sweep"] > 2.1
    assert found.seconds["texts"] <= len(SMALL.workloads) * (LEAST_TOKENS + 1) * round_s
    assert all(each.tokens > 0 for each in found.plan.workloads)


def test_the_samples_end_with_what_each_step_took(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    found = tuned(Machine(), tmp_path, samples_to=path)
    records = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert [record["kind"] for record in records] == [
        "begin", "rows", *["turn"] * LEAST_TURNS, "text", "text", "seconds",
    ]  # fmt: skip
    assert records[-1] == {"kind": "seconds", **found.seconds, "resumed": False}


def test_the_model_finds_its_plan_and_writes_by_it(tmp_path: Path) -> None:
    zigzag = {1: 0.020, 2: 0.045, 3: 0.044, 4: 0.024}
    machine = Machine(cost=lambda rows, depth: zigzag.get(rows, 0.08))
    found = tuned(machine, tmp_path)
    assert found.plan.curve is not None
    model = replace(machine.model(tmp_path), found=plans.Found(found.plan, found.path))
    assert model.policy() == Part("goodput", {"reproducible": False})
    # By the plan and the text alone: on the clock, lengths grow from the shortest on.
    config = replace(model.config, max_tokens=200, policy=Part("goodput", {"reproducible": True}))
    with model.generate([1, 2, 3, 1, 2, 3, 1, 2], config=config, clock=machine.clock) as generation:
        for _ in generation:
            pass
    assert generation.policy.name == "goodput"
    lengths = {round_.rows for round_ in generation.rounds[1:]}
    assert max(lengths) <= 4  # five rows cost more than four rounds
    assert 4 in lengths
    # The truncating toy cannot pad, and is never asked to.
    assert all(round_.width == round_.rows for round_ in generation.rounds)


def test_an_interruption_costs_the_turn_in_progress(tmp_path: Path) -> None:
    whole = Machine()
    tuned(whole, tmp_path / _new(tmp_path, "whole"))
    folder = tmp_path / _new(tmp_path, "cut")
    checks = 0

    def stop() -> None:
        nonlocal checks
        checks += 1
        if checks == 12:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tuned(Machine(), folder, check=stop)
    assert (folder / "cache" / "kept.jsonl").stat().st_size > 1000
    rest = Machine()
    found = tuned(rest, folder)
    assert found.resumed
    assert found.path is not None
    assert rest.forwards < 0.8 * whole.forwards
    assert found.plan.sweep is not None
    assert found.plan.sweep.turns == LEAST_TURNS
    assert not (folder / "cache" / "kept.jsonl").exists()


def test_shapes_that_this_process_has_not_used_are_warmed_up_once_more(tmp_path: Path) -> None:
    """After an interruption the rows are not tried again, so that nothing has warmed up their blocks."""
    whole, before_sweep = Machine(), []

    def note(step: Step) -> None:
        if step.what == "sweep, warming up":
            before_sweep.append(whole.forwards)

    tuned(whole, tmp_path / _new(tmp_path, "whole"), show=note)
    folder = tmp_path / _new(tmp_path, "cut")

    def stop(step: Step) -> None:
        if step.what == "sweep, warming up":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tuned(Machine(), folder, show=stop)
    rest = Machine()
    tuned(rest, folder)
    assert rest.forwards == whole.forwards - before_sweep[0] + SMALL.gate_rows * len(SMALL.depths)


def test_texts_that_were_written_are_not_written_again(tmp_path: Path) -> None:
    def stop_at_the_end(step: Step) -> None:
        if step.what.startswith("what drafts are worth"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tuned(Machine(), tmp_path, show=stop_at_the_end)
    shown: list[str] = []
    found = tuned(Machine(), tmp_path, show=lambda step: shown.append(step.what))
    assert found.resumed
    assert not any(what.startswith("text") for what in shown)
    assert len(found.plan.workloads) == 2


@pytest.mark.parametrize(
    ("later", "goes_on"),
    [
        ({"at": 1e9 + 3600.0}, True),
        ({"at": 1e9 + MAX_AGE_S}, False),
        ({"size": replace(SMALL, depths=(40, 120))}, False),
        ({"size": replace(SMALL, rows=(1, 2, 3))}, False),
        ({"cache": "caller"}, True),
        ({"runtime": Part("toy", {"threads": 3})}, True),
    ],
)
def test_only_what_was_measured_of_the_same_is_gone_on_with(
    tmp_path: Path, later: dict[str, Any], goes_on: bool
) -> None:
    def stop(step: Step) -> None:
        if step.what.startswith("sweep, turn 3"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tuned(Machine(), tmp_path, show=stop)
    assert tuned(Machine(), tmp_path, **later).resumed == goes_on


def test_another_setting_of_the_runtime_is_begun_anew(tmp_path: Path) -> None:
    def stop(step: Step) -> None:
        if step.what.startswith("sweep, turn 3"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tuned(Machine(), tmp_path, show=stop)
    assert not tuned(Machine(settings={"threads": "2"}), tmp_path).resumed


def kept_lines(folder: Path) -> tuple[Path, list[bytes]]:
    def stop(step: Step) -> None:
        if step.what.startswith("text 2"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tuned(Machine(), folder, show=stop)
    path = folder / "cache" / "kept.jsonl"
    return path, path.read_bytes().splitlines(keepends=True)


DAMAGES: list[tuple[Callable[[list[bytes]], list[bytes]], int]] = [
    (lambda lines: lines, LEAST_TURNS),
    (lambda lines: [*lines[:5], lines[5][:20]], 3),
    (lambda lines: [*lines[:5], b"{}\n", *lines[5:]], 3),
    (lambda lines: [*lines[:5], b'{"kind":"turn","samples":[[3,1,40,0.1,Infinity]]}\n'], 3),
    (lambda lines: [*lines[:5], b'{"kind":"turn","samples":[[3,99,40,0.1,0.1]]}\n'], 3),
    (lambda lines: [*lines[:5], b'{"kind":"turn","samples":[[9,1,40,0.1,0.1]]}\n'], 3),
    (lambda lines: [*lines[:5], lines[1].replace(b'"identical"', b'"perfect"')], 3),
    (lambda lines: [b"[1]\n", *lines], 0),
    (lambda lines: [lines[0].replace(b'"schema":1', b'"schema":2'), *lines[1:]], 0),
    (lambda lines: [], 0),
]  # fmt: skip


@pytest.mark.parametrize(("damage", "turns"), DAMAGES)
def test_what_cannot_be_read_is_measured_again(
    tmp_path: Path, damage: Callable[[list[bytes]], list[bytes]], turns: int
) -> None:
    path, lines = kept_lines(tmp_path)
    path.write_bytes(b"".join(damage(lines)))
    model = Machine().model(tmp_path)
    with Kept(path, begin(model)) as kept:
        assert len({sample.turn for sample in kept.samples}) == turns
        assert (kept.rows is not None) == (turns > 0)
        assert set(kept.texts) == ({"chat"} if turns == LEAST_TURNS else set())
        kept.keep_text(KeptText("more", 3, (1, 2), 0.0))
    with Kept(path, begin(model)) as kept:
        assert len({sample.turn for sample in kept.samples}) == turns
        assert "more" in kept.texts


def test_two_processes_do_not_measure_the_same(tmp_path: Path) -> None:
    first = begin(Machine().model(tmp_path))
    with Kept(tmp_path / "kept.jsonl", first), pytest.raises(ConfigError, match="another process"):
        Kept(tmp_path / "kept.jsonl", first)


def restless(seed: int = 0) -> Machine:
    rng = np.random.default_rng(seed)
    return Machine(pace=lambda now: float(rng.choice([1.0, 2.5])))


def test_a_machine_that_is_too_noisy_gets_no_plan(tmp_path: Path) -> None:
    found = tuned(restless(), tmp_path)
    assert found.path is None
    assert found.noise is not None
    for word in ("too noisy to decide", "rounds took half as much again", "Close other programs", "--despite-noise"):
        assert word in found.noise
    assert list((tmp_path / "cache").rglob("*.json*")) == []


def test_the_user_may_take_it_all_the_same(tmp_path: Path) -> None:
    found = tuned(restless(), tmp_path, despite_noise=True)
    assert found.noise is not None
    assert found.path is not None
    kept = plans.load(found.path)
    assert kept.sweep is not None
    assert not kept.sweep.steady


def test_wide_intervals_are_evidence(tmp_path: Path) -> None:
    found = tuned(Machine(noise=0.35), tmp_path, size=replace(SMALL, sweep_s=0.0))
    assert found.noise is not None
    assert "points are known to" in found.noise


@pytest.mark.parametrize(("slow", "kind"), [(1.4, "throttled"), (1.7, "shift")])
def test_a_throttle_is_a_doubt_and_no_reason_to_stop(tmp_path: Path, slow: float, kind: str) -> None:
    found = tuned(Machine(pace=lambda now: slow if now > 13.5 else 1.0), tmp_path)
    assert found.noise is None
    assert found.path is not None
    assert any(doubt.startswith(f"{kind}: ") for doubt in found.doubts)


def test_a_round_that_stood_still_is_named(tmp_path: Path) -> None:
    """The first round of seven rows that counts: two before it warm up, and the try of the rows has six at the most."""
    seven: list[int] = []

    def cost(rows: int, depth: int) -> float:
        seven.extend([rows] if rows == 7 and depth >= 160 else [])
        return truth(rows, depth) * (9.0 if seven == [7, 7, 7] and rows == 7 and depth >= 160 else 1.0)

    found = tuned(Machine(cost=cost), tmp_path)
    assert found.plan.sweep is not None
    assert found.plan.sweep.steady
    (doubt,) = found.doubts
    assert re.fullmatch(
        r"1 of 1\d\d rounds took 1\.5 times the usual of their kind and more, 1 of them 5 times and more; the worst: "
        r"7 rows at 160 tokens [89]\.\d times \(turn 1\); they are in the samples, and medians pass over them",
        doubt,
    )


def test_a_second_sweep_is_compared_with_the_first(tmp_path: Path) -> None:
    assert tuned(Machine(), tmp_path).agreement == ""
    same = tuned(Machine(seed=1), tmp_path).agreement
    assert same.startswith(f"against the plan of {NOW}: the sweeps agree at all 20 points; ")
    assert same.endswith(" % would have shown at half of them")
    slower = tuned(Machine(pace=lambda now: 1.3), tmp_path)
    assert "1.30 times slower throughout" in slower.agreement
    bent = tuned(Machine(cost=lambda rows, depth: truth(rows, depth) * (1.4 if rows == 5 else 1.0)), tmp_path)
    assert "most of all 5 rows" in bent.agreement


def test_near_ties_are_asked_about_once(tmp_path: Path) -> None:
    found = tuned(Machine(row_class="near-tie"), tmp_path)
    assert found.plan.rows.row_class == "near-tie"  # as claimed, although nothing was seen to differ
    assert not found.plan.allow_near_ties
    assert any("--allow-near-ties" in doubt for doubt in found.doubts)
    allowed = tuned(Machine(row_class="near-tie"), tmp_path, allow_near_ties=True)
    assert allowed.plan.allow_near_ties
    assert not any("--allow-near-ties" in doubt for doubt in allowed.doubts)
    again = tuned(Machine(row_class="near-tie"), tmp_path)
    assert again.plan.allow_near_ties
    machine = Machine(row_class="near-tie")
    with pytest.raises(NotEligible, match="--allow-near-ties"):
        replace(machine.model(tmp_path), found=plans.Found(found.plan)).generate([1, 2])
    model = replace(machine.model(tmp_path), found=plans.Found(again.plan))
    assert model.policy().options["reproducible"]
    model.generate([1, 2]).close()


def test_what_a_gate_has_found_outlives_tuning(tmp_path: Path) -> None:
    machine = Machine()
    model = machine.model(tmp_path)
    owner = plans.owner_of(model.files, model.target.caps, model.config)
    plans.demote(owner, machine.caps, "near-tie", "2 texts differ", "gate lossless", NOW, tmp_path / "cache")
    found = tuned(machine, tmp_path)
    assert found.plan.rows == plans.RowFinding("near-tie", "identical", "2 texts differ", "gate lossless")
    model = replace(model, found=plans.Found(found.plan))
    assert model.row_class == "near-tie"
    with pytest.raises(NotEligible, match="gate lossless found it here: 2 texts differ"):
        model.generate([1, 2])


def test_rows_that_depend_on_their_block_end_it_and_are_remembered(tmp_path: Path) -> None:
    bad = row_gate.Rows(
        np.asarray([2, 3]), np.asarray([5.0, 5.0]), np.asarray([9.0, 20.0]), np.asarray([30.0, 30.0]),
        np.asarray([True, True]), np.asarray([0.1, 0.1]), 1,
    )  # fmt: skip
    machine = Machine()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_gate, "gather", lambda *given, **options: bad)
        with pytest.raises(NotEligible, match="drafts would change the text here"):
            tuned(machine, tmp_path)
    assert list((tmp_path / "cache").rglob("*.jsonl")) == []
    model = machine.model(tmp_path)
    owner = plans.owner_of(model.files, model.target.caps, model.config)
    kept = plans.find(owner, "auto", tmp_path / "cache")
    assert kept.plan is not None
    assert (kept.plan.rows.row_class, kept.plan.curve) == ("row-dependent", None)
    with pytest.raises(NotEligible, match="depends on the rows beside it"):
        replace(model, found=kept).generate([1, 2])
    off = replace(model.config, drafts=Part("off"))
    replace(model, found=kept).generate([1, 2], config=off).close()


def test_a_short_context_is_swept_as_far_as_it_reaches(tmp_path: Path) -> None:
    found = tuned(Machine(max_length=128), tmp_path)
    assert found.plan.curve is not None
    assert found.plan.curve.depths == (40, 83)
    (doubt,) = found.doubts
    assert doubt == (
        "a depth of 160, with a block of 12 rows behind it, does not fit into the context of 128 tokens: costs were "
        "measured at 40 and 83"
    )
    with pytest.raises(NotEligible, match="context of 40 tokens is too short"):
        tuned(Machine(max_length=40), tmp_path)


@pytest.mark.parametrize(
    ("asked", "swept"),
    [
        ((200, 850), (200, 850)),
        ((200, 4000), (200, 1983)),
        ((200, 4000, 8000), (200, 1983)),
        ((200, 1900, 4000), (200, 1900)),
        ((1900, 4000), (950, 1900)),
        ((4000,), (1983,)),
        ((4000, 8000), (991, 1983)),
    ],
)
def test_depths_that_fit_are_kept(tmp_path: Path, asked: tuple[int, ...], swept: tuple[int, ...]) -> None:
    assert fitting_depths(Machine(max_length=2048).model(tmp_path), asked, 32) == swept


def test_rows_that_the_target_cannot_score_are_left_out(tmp_path: Path) -> None:
    found = tuned(Machine(max_rows=6), tmp_path)
    assert found.plan.curve is not None
    assert found.plan.curve.rows == (1, 2, 3, 4, 5, 6)
    with pytest.raises(NotEligible, match="one row at a time"):
        tuned(Machine(max_rows=1), tmp_path)


def test_drafts_that_cannot_be_counted_leave_a_curve(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("surefoot.lab.tune.run.HISTORY_ONLY", ("suffix",))
        found = tuned(Machine(), tmp_path)
    assert found.plan.workloads == ()
    assert found.plan.curve is not None
    assert any("cannot be counted along a text" in doubt for doubt in found.doubts)


def _new(folder: Path, name: str) -> str:
    (folder / name).mkdir()
    return name
