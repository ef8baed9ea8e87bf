"""A4: processors and warpers give the support and the probabilities of transformers' own, in its order and scope."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from surefoot.core.history import History
from surefoot.core.law import next_law
from surefoot.core.sampling import Sampling
from surefoot.core.types import Floats, as_ids

torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")

V = 200
PROMPT = (5, 9, 5, 17, 30, 9)
OUTPUT = (30, 41, 5)


def theirs(sampling: Sampling, logits: Floats, n_output: int) -> Floats:
    """(V,) probabilities after the list that transformers' generate builds, in its order."""
    ids = torch.tensor([[*PROMPT, *OUTPUT[:n_output]]])
    config: dict[str, Any] = {
        "sequence_bias": [[[token], bias] for token, bias in sampling.logit_bias.items()] or None,
        "repetition_penalty": sampling.repetition_penalty,
        "bad_words_ids": [[token] for token in sorted(sampling.banned)] or None,
        "min_new_tokens": sampling.min_tokens or None,
        "eos_token_id": sorted(sampling.end_ids) or None,
        "temperature": sampling.temperature,
        "top_k": sampling.top_k,
        "top_p": sampling.top_p,
        "min_p": sampling.min_p or None,
        "do_sample": True,
    }
    settings = transformers.GenerationConfig(**config)
    model = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=V, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1
        )
    )
    model._prepare_special_tokens(settings, device=torch.device("cpu"))
    processors = model._get_logits_processor(
        settings, input_ids_seq_length=len(PROMPT), device="cpu", logits_processor=transformers.LogitsProcessorList()
    )
    scores = processors(ids, torch.tensor(logits)[None])
    return scores.softmax(-1)[0].numpy()


def ours(sampling: Sampling, logits: Floats, n_output: int) -> Floats:
    history = History(as_ids(PROMPT))
    for token in OUTPUT[:n_output]:
        history.push(token)
    return next_law(logits, sampling, history).dense(V).astype(np.float32)


CASES = {
    "temperature": {"temperature": 0.7},
    "top_k": {"top_k": 12},
    "top_p": {"top_p": 0.8},
    "min_p": {"min_p": 0.1},
    "warpers": {"temperature": 1.4, "top_k": 40, "top_p": 0.85, "min_p": 0.05},
    "repetition": {"repetition_penalty": 1.4},
    "bias": {"logit_bias": {5: 3.0, 9: -2.0, 100: 1.0}},
    "banned": {"banned": frozenset({5, 120})},
    "min_tokens": {"min_tokens": 3, "end_ids": frozenset({7, 30})},
    "bias_before_repetition": {"logit_bias": {5: 4.0, 30: -4.0}, "repetition_penalty": 1.5},
    "everything": {
        "temperature": 0.9, "top_k": 60, "top_p": 0.9, "min_p": 0.02, "repetition_penalty": 1.3,
        "logit_bias": {5: 2.0, 41: 1.0}, "banned": frozenset({9}), "min_tokens": 4, "end_ids": frozenset({7}),
    },
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_law_is_that_of_transformers(name: str) -> None:
    sampling = Sampling(**{"temperature": 1.0, **CASES[name]})  # type: ignore[arg-type]
    rng = np.random.default_rng(0)
    for trial in range(6):
        logits = (3 * rng.standard_normal(V)).astype(np.float32)
        n_output = trial % (len(OUTPUT) + 1)
        found, due = ours(sampling, logits, n_output), theirs(sampling, logits, n_output)
        assert np.array_equal(np.flatnonzero(found), np.flatnonzero(due))
        np.testing.assert_allclose(found, due, rtol=2e-5, atol=1e-9)


def test_ties_at_the_border_of_top_k_stay() -> None:
    logits = np.repeat(np.arange(V // 4, dtype=np.float32), 4)
    found = ours(Sampling(temperature=1.0, top_k=6), logits, 0)
    assert np.array_equal(np.flatnonzero(found), np.flatnonzero(theirs(Sampling(temperature=1.0, top_k=6), logits, 0)))
    assert np.count_nonzero(found) == 8


def test_the_comparison_sees_a_wrong_order() -> None:
    logits = (3 * np.random.default_rng(0).standard_normal(V)).astype(np.float32)
    wanted = Sampling(temperature=1.0, logit_bias={5: 4.0}, repetition_penalty=1.5)
    swapped = ours(Sampling(temperature=1.0, repetition_penalty=1.5), logits, 0)
    swapped[5] *= np.exp(np.float32(4.0))
    swapped /= swapped.sum()
    assert np.abs(swapped - theirs(wanted, logits, 0)).max() > 1e-4
