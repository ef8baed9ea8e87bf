"""D5 on real models: SmolLM2 drafts for Gemma 3 270M, whose tokens are others. Runs with --slow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import surefoot

pytest.importorskip("xllamacpp", reason="the llamacpp extra is not installed")
pytestmark = [pytest.mark.slow, pytest.mark.model]

PROMPT = "The capital of France is Paris. The capital of Italy is Rome. The capital of Spain is Madrid. The capital of"


def write(gemma3: Path, **settings: Any) -> tuple[list[int], int, int, list[str]]:
    model = surefoot.load(
        str(gemma3), runtime="llamacpp", ctx_size=1024, threads=2, raw=True, max_tokens=64, **settings
    )
    with model.generate(PROMPT) as generation:
        list(generation)
    rounds = generation.rounds
    return generation.ids, sum(r.accepted for r in rounds), sum(r.evaluated for r in rounds), generation.notes


@pytest.mark.parametrize("law", [{}, {"temperature": 0.7, "seed": 2}], ids=["greedy", "drawn"])
def test_smollm2_drafts_for_gemma(gemma3: Path, smollm2_gguf: Path, law: dict[str, Any]) -> None:
    plain, _, _, _ = write(gemma3, drafts="off", **law)
    second = {"model": str(smollm2_gguf), "runtime": "llamacpp", "runtime_options": {"ctx_size": 1024}, "threads": 2}
    drafts = {f"drafts.{key}": value for key, value in second.items()}
    ids, accepted, evaluated, notes = write(
        gemma3, drafts="crossvocab", policy="fixed", draft_len=3, **drafts, **law
    )  # fmt: skip
    assert ids == plain
    assert "are also tokens of the target" in notes[0]
    assert accepted > 0.2 * evaluated, f"{accepted} of {evaluated}, though names and grammar are those of both models"
