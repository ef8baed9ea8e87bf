"""Gemma 3 270M in Q4_K_M: prompt and output cross its window of 512 tokens with drafts across the border.

Runs with --slow.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from same_text import check_equal, check_same_text

from surefoot.core.sampling import Sampling
from surefoot.core.types import as_ids
from surefoot.engine.config import load_config
from surefoot.engine.generator import Model, load
from surefoot.lab.vendor import open_vendor

pytest.importorskip("xllamacpp", reason="the llamacpp extra is not installed")
pytestmark = [pytest.mark.slow, pytest.mark.model]

WINDOW = 512


@pytest.fixture(scope="module")
def model(gemma3: Path, tmp_path_factory: pytest.TempPathFactory) -> Model:
    wanted = {"name": "llamacpp", "threads": 2, "ctx_size": 1024}
    return load(str(gemma3), load_config(overrides={"runtime": wanted}), cache_dir=tmp_path_factory.mktemp("cache"))


def prompt_of(model: Model, n: int) -> np.ndarray:
    """n tokens of a text that repeats itself, so that lookup finds drafts."""
    lines = "".join(f"Step {i % 7} of the stair is made of granite, step {i % 5} of oak.\n" for i in range(200))
    return model.tokenizer.encode(lines)[:n]


@pytest.mark.parametrize("n", [480, 500, 700], ids=["output crosses", "drafts cross", "prompt crosses"])
def test_the_text_is_the_same_across_the_window(model: Model, n: int) -> None:
    assert model.target.caps.row_class == "identical"
    prompt = prompt_of(model, n)
    off = check_same_text(model, prompt, Sampling(), 64)
    theirs = open_vendor(model).plain(prompt, 64)
    check_equal(model, prompt, off, theirs.ids, "the server")


def test_rejected_rows_across_the_border_leave_nothing(model: Model) -> None:
    """Blocks that reach over the border and are thrown away, at every place around it."""
    ids = prompt_of(model, WINDOW + 24)
    session, straight = model.target.open(), model.target.open()
    session.prefill(ids[: WINDOW - 6])
    straight.prefill(ids[: WINDOW - 6])
    for place in range(WINDOW - 6, WINDOW + 20):
        session.extend(as_ids([7, 8, 9, 10, 11, 12, 13]))
        session.commit(0)
        found = session.extend(ids[place : place + 1]).logits(0)
        due = straight.extend(ids[place : place + 1]).logits(0)
        assert np.array_equal(found, due), place
        session.commit(1)
        straight.commit(1)
