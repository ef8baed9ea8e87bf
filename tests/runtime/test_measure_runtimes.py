"""The sweep and tuning on real runtimes, by what they leave and not by how long anything took."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from gate_models import VOCABULARY, hf_model, openvino_model

from surefoot.core.plateaus import staircase
from surefoot.core.types import as_ids
from surefoot.engine import plans
from surefoot.engine.generator import Model
from surefoot.lab.measure import LEAST_TURNS, SPAN, measure
from surefoot.lab.tune import FULL, Begin, Kept, World, tune
from surefoot.lab.tune.run import kept_depths, kept_rows

ROWS, DEPTHS = (1, 2, 3, 4, 8), (24, 96)
TEXT = as_ids(np.random.default_rng(0).integers(0, VOCABULARY, max(DEPTHS) + SPAN + max(ROWS) + 1))
MODELS = [pytest.param(hf_model, id="hf"), pytest.param(openvino_model, id="openvino")]


@pytest.mark.parametrize("make", MODELS)
def test_a_sweep_has_every_point_and_leaves_no_trace(make: Callable[[Path], Model], tmp_path: Path) -> None:
    model = make(tmp_path)
    session = model.target.open()
    before = session.prefill(TEXT[:24]).logits(0).copy()
    found = measure(model.target.open, TEXT, time.perf_counter, rows=ROWS, depths=DEPTHS, limit_s=0.0)
    assert found.stopped in ("narrow", "time")
    counts = Counter((sample.rows, sample.depth) for sample in found.samples)
    assert set(counts) == {(rows, depth) for rows in ROWS for depth in DEPTHS}
    assert set(counts.values()) == {LEAST_TURNS}
    assert all(sample.seconds > 0 for sample in found.samples)
    assert 0 < found.warm_s < found.seconds
    curve = found.curve(can_pad=model.target.caps.can_pad)
    assert (curve.rows, curve.depths, curve.holes) == (ROWS, DEPTHS, (5, 6, 7))
    assert staircase(curve, 24).holes == (5, 6, 7)
    session.reset(0)
    assert np.array_equal(session.prefill(TEXT[:24]).logits(0), before)
    session.close()


@pytest.mark.parametrize("make", MODELS)
def test_a_plan_is_made_found_and_written_by(make: Callable[[Path], Model], tmp_path: Path) -> None:
    model = make(tmp_path / "model")
    size = replace(
        FULL, rows=ROWS, depths=DEPTHS, sweep_s=0.0, texts_s=0.0, tokens=24, workloads=("code",), gate_inputs=1,
        gate_rows=4,
    )  # fmt: skip
    owner = plans.owner_of(model.files, model.target.caps, model.config)
    assert owner.settings["threads"] == "1"
    assert set(owner.versions) >= {"surefoot", "openvino" if owner.runtime == "openvino" else "torch"}
    begin = Begin(owner, kept_rows(model, size), kept_depths(model, size), False, 0.0)
    world = World(time.perf_counter, lambda: "2026-11-30T12:00:00Z", lambda step: None)
    with Kept(tmp_path / "kept.jsonl", begin) as kept:
        found = tune(model, size, world, kept, tmp_path, load_s=0.0, command=(), despite_noise=True)
    assert found.path is not None
    again = plans.find(owner, "auto", tmp_path)
    assert again.plan == plans.file.without_samples(found.plan)
    assert found.plan.rows.row_class == model.target.caps.row_class == "identical"
    tuned = replace(model, found=again)
    assert tuned.policy().name == "goodput"
    texts = []
    for each in (tuned, model):
        with each.generate([5, 6, 7, 5, 6, 7, 5, 6], config=replace(model.config, max_tokens=40)) as generation:
            for _ in generation.steps():
                pass
            texts.append(generation.ids)
    assert texts[0] == texts[1]
