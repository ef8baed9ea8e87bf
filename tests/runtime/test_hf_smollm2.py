"""The transformers target on SmolLM2-135M: a model with real weights and real text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from surefoot.core.types import as_ids
from surefoot.targets.hf import PLUGIN, Options

pytest.importorskip("torch", reason="the transformers target needs torch")
pytest.importorskip("transformers", reason="the transformers target needs transformers")
pytestmark = pytest.mark.model

TEXT = (
    "The harbour town had two bakeries, and they had not spoken to each other for thirty years. Every morning at five "
    "the lights went on in both, and every morning at six the first customers stood in the street and decided, once "
    "again, on which side of it they belonged. def total(prices):\n    result = 0\n    for price in prices:\n        "
    "result += price\n    return result\n"
)
# measured 2026-11-30 on two AVX2 cores: blocks of 2 to 17 rows move float32 logits of this model by at most 2e-4.
TOLERANCE = 2e-3


@pytest.fixture(scope="module")
def target(smollm2_gguf: Path) -> Any:
    return PLUGIN.build(Options(), smollm2_gguf)


@pytest.fixture(scope="module")
def ids(smollm2_gguf: Path) -> np.ndarray:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(smollm2_gguf.parent, gguf_file=smollm2_gguf.name)
    return as_ids(tokenizer(TEXT)["input_ids"])


@pytest.fixture(scope="module")
def one_by_one(target: Any, ids: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """The 17 tokens behind a prompt of 40, and their rows, scored one at a time."""
    session = target.open()
    session.prefill(ids[:40])
    rows = []
    for at in range(40, 57):
        rows.append(session.extend(ids[at : at + 1]).logits(0))
        session.commit(1)
    return ids[40:57], rows


def test_it_is_ready_for_everything(target: Any) -> None:
    caps = target.caps
    assert (caps.vocab_size, caps.max_length) == (49152, 8192)
    assert caps.can_pad
    assert caps.can_tree
    assert caps.tap_names == ("embed", *(f"layer.{n}" for n in range(30)), "final")
    assert caps.row_class == "identical"


@pytest.fixture(scope="module")
def session(target: Any, ids: np.ndarray) -> Any:
    session = target.open()
    session.prefill(ids[:40])
    return session


@pytest.mark.parametrize("rows", range(1, 18))
def test_rows_of_a_block_equal_single_rows(session: Any, one_by_one: Any, rows: int) -> None:
    block, singles = one_by_one
    session.reset(40)
    scores = session.extend(block[:rows])
    for row in range(rows):
        assert np.abs(scores.logits(row) - singles[row]).max() < TOLERANCE
        assert scores.argmax()[row] == singles[row].argmax()
    session.commit(rows // 2)
    again = session.extend(block[rows // 2 : rows // 2 + 1]).logits(0)
    assert np.abs(again - singles[rows // 2]).max() < TOLERANCE


def test_a_tree_of_two_branches_equals_both_chains(session: Any, one_by_one: Any) -> None:
    block, singles = one_by_one
    session.reset(40)
    scores = session.extend(as_ids([block[0], 17, block[1], 99, block[2]]), parents=[-1, -1, 0, 1, 2], width=8)
    for row, single in ((0, 0), (2, 1), (4, 2)):
        assert np.abs(scores.logits(row) - singles[single]).max() < TOLERANCE
    session.commit([0, 2, 4])
    assert np.abs(session.extend(block[3:4]).logits(0) - singles[3]).max() < TOLERANCE


def test_plain_decoding_is_transformers_own_generate(target: Any, ids: np.ndarray) -> None:
    import torch

    expected = target._runner.model.generate(
        torch.tensor(ids[None].astype(np.int64)), do_sample=False, max_new_tokens=24, eos_token_id=None
    )[0, len(ids) :].tolist()
    session = target.open()
    written = [int(session.prefill(ids).argmax()[0])]
    while len(written) < 24:
        written.append(int(session.extend(as_ids(written[-1:])).argmax()[0]))
        session.commit(1)
    assert written == expected
