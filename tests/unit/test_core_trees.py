"""Trees of draft rows: depths and masks against a walk from each row to the root, and paths that may be kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surefoot.core.errors import LawError
from surefoot.core.trees import check_parents, depths, kept_path, visible


@st.composite
def trees(draw: st.DrawFn) -> tuple[int, ...]:
    rows = draw(st.integers(1, 12))
    return tuple(draw(st.integers(-1, row - 1)) for row in range(rows))


def branch(parents: tuple[int, ...], row: int) -> list[int]:
    """The rows from the first one after the root to `row`."""
    path = []
    while row >= 0:
        path.append(row)
        row = parents[row]
    return path[::-1]


@given(trees())
def test_a_row_stands_and_sees_as_its_branch_says(parents: tuple[int, ...]) -> None:
    assert check_parents(np.asarray(parents), len(parents)) == parents
    branches = [branch(parents, row) for row in range(len(parents))]
    assert depths(parents).tolist() == [len(path) - 1 for path in branches]
    assert [np.flatnonzero(row).tolist() for row in visible(parents)] == branches


@given(trees(), st.data())
def test_the_beginning_of_a_branch_is_kept_and_nothing_else(parents: tuple[int, ...], data: st.DataObject) -> None:
    rows = len(parents)
    allowed = {tuple(branch(parents, row)[:n]) for row in range(rows) for n in range(rows + 1)}
    path = data.draw(st.sampled_from(sorted(allowed)) | st.lists(st.integers(-1, rows), max_size=4).map(tuple))
    if path in allowed:
        assert kept_path(path, rows, parents) == path
    else:
        with pytest.raises(LawError):
            kept_path(path, rows, parents)


@pytest.mark.parametrize("keep", [0, 2, 3, [], [0, 1]])
def test_of_a_chain_the_first_rows_are_kept(keep: Any) -> None:
    assert kept_path(keep, 3, None) == tuple(range(keep) if isinstance(keep, int) else keep)


@pytest.mark.parametrize("keep", [-1, 4, [1], [0, 2], [0, 0], [3], [-1]])
def test_of_a_chain_nothing_else_is_kept(keep: Any) -> None:
    with pytest.raises(LawError, match="commit of"):
        kept_path(keep, 3, None)


@pytest.mark.parametrize("parents", [[-1], [-1, 1], [0, -1], [-1, -2]])
def test_parents_stand_before_their_children(parents: list[int]) -> None:
    with pytest.raises(LawError):
        check_parents(parents, 2)
