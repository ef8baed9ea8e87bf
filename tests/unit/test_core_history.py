"""The history counts what a recount would find, whenever it is first asked."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surefoot.core.history import History, Tally
from surefoot.core.types import as_ids

IDS = st.lists(st.integers(0, 300), max_size=400)


def counted(tally: Tally) -> dict[int, int]:
    assert len(set(tally.ids.tolist())) == len(tally.ids) == len(tally.counts)
    return dict(zip(tally.ids.tolist(), tally.counts.astype(int).tolist(), strict=True))


@given(IDS, IDS, st.integers(0, 400))
def test_tallies_equal_a_recount(prompt: list[int], output: list[int], first_asked: int) -> None:
    history = History(as_ids(prompt))
    for n, token in enumerate(output):
        if n == first_asked:
            _ = history.context, history.output
        history.push(token)
    assert history.tokens.tolist() == prompt + output
    assert history.n_output == len(output)
    assert counted(history.context) == Counter(prompt + output)
    assert counted(history.output) == Counter(output)


@pytest.mark.parametrize("n", [0, 1, 255, 256, 257])
def test_growing_keeps_every_token(n: int) -> None:
    history = History(as_ids(range(n)))
    for token in range(700):
        history.push(token)
    assert np.array_equal(history.tokens, [*range(n), *range(700)])


@given(IDS, IDS, IDS, st.booleans())
def test_a_fork_goes_on_alone(prompt: list[int], output: list[int], guesses: list[int], asked: bool) -> None:
    history = History(as_ids(prompt))
    for token in output:
        history.push(token)
    if asked:
        _ = history.context, history.output
    fork = history.fork()
    for token in guesses:
        fork.push(token)
    for each, more in ((history, []), (fork, guesses)):
        assert each.tokens.tolist() == prompt + output + more
        assert each.n_output == len(output + more)
        assert counted(each.context) == Counter(prompt + output + more)
        assert counted(each.output) == Counter(output + more)
