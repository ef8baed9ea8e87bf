"""SmolLM2 on transformers, float32: drafts change no token, and off is what transformers itself writes.

A few short texts run always; the twelve of the promise, 256 tokens each, run with --slow (about half an hour).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from same_text import PROMPTS, check_equal, check_same_text

from surefoot.core.sampling import Sampling
from surefoot.core.types import Ids
from surefoot.engine.config import load_config
from surefoot.engine.generator import Model, load

pytest.importorskip("torch", reason="the runtime of these tests: pip install 'surefoot[hf]'")
pytestmark = pytest.mark.model
ALWAYS = [2, 4]  # code and JSON: most drafts are accepted, so most rows of a block are put to the test
PROMISED = range(12)


@pytest.fixture(scope="module")
def model(smollm2_gguf: Path, tmp_path_factory: pytest.TempPathFactory) -> Model:
    config = load_config(overrides={"runtime": "hf"})
    return load(str(smollm2_gguf), config, cache_dir=tmp_path_factory.mktemp("cache"))


def by_transformers(model: Model, prompt: Ids, n_tokens: int) -> tuple[int, ...]:
    """What transformers' own generate writes with the same weights."""
    import torch

    module = model.target._runner.model  # type: ignore[attr-defined]
    ids = torch.from_numpy(prompt.astype(np.int64))[None]
    ends = sorted(model.tokenizer.eos_ids)
    with torch.inference_mode():
        out = module.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=n_tokens, eos_token_id=ends,
            pad_token_id=ends[0],
        )  # fmt: skip
    return tuple(out[0, len(prompt) :].tolist())


def check_greedy(model: Model, number: int, n_tokens: int) -> None:
    prompt = model.encode(PROMPTS[number]["prompt"])
    off = check_same_text(model, prompt, Sampling(), n_tokens)
    theirs = by_transformers(model, prompt, n_tokens)
    check_equal(model, prompt, off, theirs, "transformers")


def check_seeded(model: Model, number: int, temperature: float, n_tokens: int) -> None:
    prompt = model.encode(PROMPTS[number]["prompt"])
    check_same_text(model, prompt, Sampling(temperature=temperature, top_k=40, top_p=0.95, seed=number), n_tokens)


@pytest.mark.parametrize("number", ALWAYS)
def test_greedy_is_the_same_with_drafts_on_off_and_by_transformers(model: Model, number: int) -> None:
    check_greedy(model, number, 48)


@pytest.mark.slow
@pytest.mark.parametrize("number", PROMISED)
def test_greedy_is_the_same_over_256_tokens(model: Model, number: int) -> None:
    check_greedy(model, number, 256)


@pytest.mark.parametrize("temperature", [0.3, 1.3])
def test_the_same_seed_writes_the_same_text(model: Model, temperature: float) -> None:
    check_seeded(model, ALWAYS[0], temperature, 32)


@pytest.mark.slow
@pytest.mark.parametrize("temperature", [0.3, 0.8, 1.3])
@pytest.mark.parametrize("number", PROMISED)
def test_the_same_seed_writes_the_same_text_over_128_tokens(model: Model, number: int, temperature: float) -> None:
    check_seeded(model, number, temperature, 128)
