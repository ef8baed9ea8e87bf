"""D10: in llama-cpp-python itself our drafts change the forwards and not the text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

llama_cpp = pytest.importorskip(
    "llama_cpp", reason="llama-cpp-python is not installed; it has no wheel on PyPI and is built with a compiler"
)

from surefoot.app.adapters.llama_cpp import DraftModel  # noqa: E402


def write(path: Path, draft_model: DraftModel | None) -> list[int]:
    llama: Any = llama_cpp.Llama(
        str(path), n_ctx=1024, n_threads=1, draft_model=draft_model, logits_all=draft_model is not None, verbose=False
    )
    prompt = llama.tokenize(b"def add(a, b):\n    return a + b\n\ndef add(a, b):\n    return")
    text = []
    for token in llama.generate(prompt, temp=0.0, top_k=1):
        text.append(int(token))
        if len(text) == 48:
            break
    return text


@pytest.mark.model
def test_smollm2_writes_the_same_text(smollm2_gguf: Path) -> None:
    draft_model = DraftModel(policy="additive")
    assert write(smollm2_gguf, draft_model) == write(smollm2_gguf, None)
    assert sum(round_.accepted for round_ in draft_model.handed.rounds) > 0
