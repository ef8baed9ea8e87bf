"""The draft length of a plan, as other engines take it."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace

import plan_samples as samples
import pytest

from surefoot.app.cli import export
from surefoot.core.errors import ConfigError
from surefoot.drafters.ngram import Options
from surefoot.engine.plans import Outcome, Workload
from surefoot.engine.plans.flags import ENGINES, MATCHES, flags, gain

CODE = Workload(
    "code", 200, 96, 30, 1.0, (0.9, 0.8, 0.7, 0.6, 0.5), Outcome("draft", 5, 1.9, 1.7, 2.1, ""), 2.0, 0.9, None
)
CHAT = Workload("chat", 200, 96, 90, 0.5, (0.1,), Outcome("do not speculate", 0, 0.9, 0.8, 0.95, ""), 1.0, 0.9, None)
EDIT = Workload("edit", 200, 96, 60, 0.8, (0.6, 0.5), Outcome("draft", 2, 1.6, 1.4, 1.8, ""), 1.7, 0.9, None)
PLAN = samples.plan(workloads=(CODE, CHAT, EDIT))


def test_the_command_offers_every_engine() -> None:
    assert set(export._ENGINES) == set(ENGINES)
    defaults = Options()
    assert (defaults.max_n, defaults.min_n) == MATCHES


def test_the_length_of_one_workload() -> None:
    found = flags(PLAN, "vllm", "code")
    assert (found.draft_len, found.workload) == (5, "code")
    name, value = shlex.split(found.flags)
    assert name == "--speculative-config"
    assert json.loads(value) == {
        "method": "ngram", "num_speculative_tokens": 5, "prompt_lookup_max": 4, "prompt_lookup_min": 2,
    }  # fmt: skip


def test_one_length_for_all_is_the_best_on_the_geometric_mean() -> None:
    curve = PLAN.curve
    assert curve is not None
    found = flags(PLAN, "sglang")
    product = {k: gain(CODE, curve, k) * gain(CHAT, curve, k) * gain(EDIT, curve, k) for k in (0, 2, 5)}
    assert found.draft_len == max(product, key=lambda k: product[k]) == 2
    assert found.gain == pytest.approx(product[2] ** (1 / 3))
    assert "--speculative-num-draft-tokens 3 " in found.flags  # rows, the root among them


def test_rounds_without_a_draft_cost_a_plain_round() -> None:
    curve = PLAN.curve
    assert curve is not None
    assert gain(EDIT, curve, 2) == pytest.approx((1 + 0.8 * 1.1) / (0.8 * 1.05 + 0.2))
    assert gain(EDIT, curve, 0) == 1.0


@pytest.mark.parametrize(("engine", "words"), [
    ("llama.cpp", ["--spec-type ngram-simple", "size-m 5", "n-max 5"]), ("mlx-lm", ["--num-draft-tokens 5"]),
    ("openvino-genai", ["prompt_lookup=True", "num_assistant_tokens=5", "max_ngram_size=4"]),
])  # fmt: skip
def test_the_words_of_each_engine(engine: str, words: list[str]) -> None:
    for word in words:
        assert word in flags(PLAN, engine, "code").flags


def test_where_drafts_lose_there_are_no_flags() -> None:
    found = flags(PLAN, "vllm", "chat")
    assert (found.draft_len, found.gain, found.flags) == (0, 1.0, "")


def test_what_cannot_be_asked() -> None:
    with pytest.raises(ConfigError, match="did you mean 'vllm'"):
        flags(PLAN, "vlm")
    with pytest.raises(ConfigError, match="no workload in the plan called 'poetry'"):
        flags(PLAN, "vllm", "poetry")
    for empty in (replace(PLAN, workloads=()), replace(PLAN, curve=None)):
        with pytest.raises(ConfigError, match="surefoot tune"):
            flags(empty, "vllm")
