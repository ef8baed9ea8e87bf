"""D4 on SmolLM2: four-bit weights on one runtime draft for float weights on another, and a model drafts for itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import surefoot
from surefoot import Model
from surefoot.core.sampling import Sampling
from surefoot.core.types import Round
from surefoot.engine.config import Part

pytest.importorskip("torch", reason="the target runs on transformers")
pytest.importorskip("openvino", reason="the draft model runs on OpenVINO")
pytestmark = pytest.mark.model

PROMPT = "Explain in three sentences why the sea is salty."
DRAWN = {"temperature": 0.8, "top_p": 0.95}


def loaded(path: Path, runtime: str, draft_weights: str, **settings: Any) -> Model:
    drafts: dict[str, Any] = {
        "drafts": "model", "drafts.model": str(path), "drafts.runtime": "openvino", "drafts.weights": draft_weights,
        "drafts.confidence": 0.0, "policy": "fixed", "draft_len": 4,
    }  # fmt: skip
    return surefoot.load(str(path), runtime=runtime, allow_near_ties=True, max_tokens=32, **drafts, **settings)


@pytest.fixture(scope="module")
def floats(smollm2_gguf: Path) -> Model:
    """Float weights on transformers, and four-bit ones on OpenVINO to draft with."""
    return loaded(smollm2_gguf, "hf", "int4")


@pytest.fixture(scope="module")
def halves(smollm2_gguf: Path) -> Model:
    """The same weights on the same runtime twice."""
    return loaded(smollm2_gguf, "openvino", "fp16", weights="fp16")


def write(model: Model, off: bool = False, **law: Any) -> tuple[list[int], Sequence[Round]]:
    config = replace(model.config, seed=7 if law else None, sampling=Sampling(**law))
    if off:
        config = replace(config, drafts=Part("off"))
    with model.generate(PROMPT, config=config) as generation:
        list(generation)
    return generation.ids, generation.rounds


def survival(rounds: Sequence[Round]) -> list[float]:
    """By position, of the rounds that drafted so far and were not cut by the end of the text."""
    whole = [round_ for round_ in rounds if round_.finish is None]
    reached = [[round_ for round_ in whole if round_.evaluated >= k] for k in range(1, 5)]
    return [sum(round_.accepted >= k for round_ in found) / len(found) for k, found in enumerate(reached, 1) if found]


@pytest.mark.parametrize("law", [{}, DRAWN], ids=["greedy", "drawn"])
def test_int4_on_openvino_drafts_for_fp32_on_transformers(floats: Model, law: dict[str, Any]) -> None:
    ids, rounds = write(floats, **law)
    assert ids == write(floats, off=True, **law)[0]
    assert survival(rounds)[0] > 0.5, "four-bit weights of the same model agree with it more often than not"


@pytest.mark.parametrize("law", [{}, DRAWN], ids=["greedy", "drawn"])
def test_a_model_that_drafts_for_itself_is_always_right(halves: Model, law: dict[str, Any]) -> None:
    ids, rounds = write(halves, **law)
    assert ids == write(halves, off=True, **law)[0]
    assert survival(rounds) == [1.0] * 4
