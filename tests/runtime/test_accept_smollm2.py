"""Counted drafts on SmolLM2: a replay says at a round's start what the model accepts there, drawn or greedy."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

import surefoot
from surefoot.core.types import Ids
from surefoot.engine.config import Config
from surefoot.lab import setup, workloads
from surefoot.lab.accept import counts
from surefoot.lab.accept.run import World, Writers, execute, no_oracle
from surefoot.lab.arms import parse
from surefoot.lab.records import Counted, Counting, Mode, Record
from surefoot.lab.setup import Wanted
from surefoot.lab.store import Loaded

pytest.importorskip("openvino", reason="the openvino extra is not installed")
pytestmark = pytest.mark.model

MODES: tuple[Mode, ...] = ("plain", "oracle", "chain", "live", "unanchored")
TOKENS = 48


@pytest.fixture(scope="module")
def found(smollm2_gguf: Path) -> Loaded:
    model = surefoot.load(str(smollm2_gguf), runtime="openvino", weights="fp16", plan="off")
    config, arms = Config(seed=1), parse(["ngram", "suffix"], Config())
    prompts = workloads.select(workloads.own(), ("code",), 2)[1:]  # the first is answered in 21 tokens
    ids: dict[str, Ids] = setup.encode(model, prompts, raw=False)
    run = setup.describe(model, config, Wanted((TOKENS,), 0), arms, prompts, ids, command=(), when="now")
    counting = Counting(5, (0.0, 0.8), MODES, no_oracle(model, config, arms))
    texts: list[Counted] = []

    def append(record: Record) -> None:
        assert isinstance(record, Counted)
        texts.append(record)

    run = replace(run, counting=counting)
    world = World(append, lambda done, total, planned: None, lambda: None)
    execute(run, Writers(model, config, ids, time.perf_counter), world)
    return Loaded(run, (), (), (), (), None, False, tuple(texts))


def test_every_text_is_the_plain_one(found: Loaded) -> None:
    assert counts.different(found) == 0
    assert len(found.counted) == 2 * (1 + 2 * 4)


def test_the_replay_says_what_the_model_accepts(found: Loaded) -> None:
    texts = {(each.mode, each.arm, each.temperature): each for each in found.counted}
    for arm in found.run.arms:
        for temperature in (0.0, 0.8):
            said, at = texts["oracle", arm.label, temperature].steps, 1
            for step in texts["chain", arm.label, temperature].steps:
                assert step == said[at - 1], (arm.label, temperature, at)
                at += step.emitted
            assert at == len(texts["plain", "", temperature].ids)


def test_a_rewrite_of_code_is_copied_from_the_prompt_and_not_without_the_anchor(found: Loaded) -> None:
    rows = {(row.arm, row.mode): row for row in counts.rows(found) if row.temperature == 0}
    for arm in found.run.arms:
        chain, late = rows[arm.label, "chain"], rows[arm.label, "unanchored"]
        assert chain.accepted_per_round is not None
        assert chain.accepted_per_round > 0.5
        assert late.drafts.evaluated > 0
        assert late.drafts.accepted <= chain.drafts.accepted // 10
