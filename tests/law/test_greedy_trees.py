"""A2, D8: greedy text with any tree of drafts is that of plain decoding: 5,000 generated cases."""

from __future__ import annotations

from hypothesis import given, settings
from law_cases import Case, cases, check


@settings(max_examples=2500)
@given(cases(drafters=("branches",)))
def test_trees_change_nothing(case: Case) -> None:
    check(case)


@settings(max_examples=2500)
@given(cases(drafters=("branches",), stops=True, ends=True))
def test_trees_with_every_end_change_nothing(case: Case) -> None:
    check(case)
