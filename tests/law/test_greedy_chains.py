"""A2, A8: greedy text with any chain of drafts is that of plain decoding: 8,000 generated cases."""

from __future__ import annotations

from hypothesis import given, settings
from law_cases import CHAINS, Case, cases, check


@settings(max_examples=5000)
@given(cases())
def test_chains_change_nothing(case: Case) -> None:
    check(case)


@settings(max_examples=3000)
@given(cases(drafters=CHAINS, ends=True))
def test_chains_near_the_end_of_the_context_change_nothing(case: Case) -> None:
    check(case)
