"""Prompt lookup with transformers' rule as options, against transformers' own prompt lookup."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.core.types import as_ids
from surefoot.drafters.ngram import NgramDrafter, Options

torch = pytest.importorskip("torch", reason="transformers' prompt lookup works on torch tensors")
generators = pytest.importorskip("transformers.generation.candidate_generator", reason="it is what we compare with")


@settings(max_examples=300, deadline=None)
@given(text=st.lists(st.integers(0, 3), min_size=2, max_size=50), budget=st.integers(1, 12), max_n=st.integers(1, 5))
def test_first_match_without_extension_is_transformers(text: list[int], budget: int, max_n: int) -> None:
    theirs = generators.PromptLookupCandidateGenerator(
        num_output_tokens=budget, max_matching_ngram_size=max_n, max_length=1_000
    )
    ids, _ = theirs.get_candidates(torch.tensor([text]))
    ours = NgramDrafter(Options(max_n, 1, "first", extend=False))
    no_scores: Any = None  # prompt lookup reads no scores
    ours.begin(as_ids(text[:-1]), text[-1], no_scores)
    assert ours.propose(budget).ids.tolist() == ids[0, len(text) :].tolist()
