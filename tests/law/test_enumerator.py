"""The branch enumerator gives known distributions, and complains where it would not be exact."""

from __future__ import annotations

import math

import numpy as np
import pytest

from surefoot.core.law import Law
from surefoot.testing.enumerator import Walker, outcomes
from surefoot.testing.laws import assert_same_law


def test_two_dice_sum_to_seven_once_in_six() -> None:
    die = [1 / 6] * 6
    law = outcomes(lambda walker: walker.choose(die) + walker.choose(die) + 2)
    assert len(law) == 11
    assert law[7] == pytest.approx(1 / 6, abs=1e-15)
    assert law[12] == pytest.approx(1 / 36, abs=1e-15)


def test_a_choice_may_depend_on_those_before_it() -> None:
    def throw_until_heads(walker: Walker) -> int:
        return next((n for n in range(1, 5) if walker.accept(0.25, n, 0)), 0)

    law = outcomes(throw_until_heads)
    due = {n: 0.25 * 0.75 ** (n - 1) for n in range(1, 5)} | {0: 0.75**4}
    assert_same_law(law, due, 1e-15)


def test_branches_without_a_chance_are_not_walked() -> None:
    walks: list[int] = []
    outcomes(lambda walker: walks.append(walker.choose([0.0, 0.5, 0.0, 0.5, 0.0])))
    assert len(walks) == 2


def test_a_draw_names_tokens_of_the_support() -> None:
    law = Law(np.asarray([1.0, 3.0]), np.asarray([3, 9], np.int32))
    drawn = outcomes(lambda walker: walker.draw(law, 0))
    assert drawn.keys() == {3, 9}
    assert drawn[9] == pytest.approx(0.75, abs=1e-15)


def test_a_law_that_does_not_sum_to_one_is_refused() -> None:
    with pytest.raises(AssertionError, match="sum to"):
        outcomes(lambda walker: walker.choose([0.5, 0.4]))


def test_too_many_walks_are_refused() -> None:
    with pytest.raises(AssertionError, match="more than 100 walks"):
        outcomes(lambda walker: [walker.choose([0.5, 0.5]) for _ in range(20)] and 0, most=100)


def test_laws_differ_beyond_the_tolerance_only() -> None:
    due = {(0,): 0.5, (1,): 0.5}
    assert_same_law({(0,): 0.5 + 1e-13, (1,): 0.5 - 1e-13}, due)
    for wrong in (
        {(0,): 0.5 + 1e-11, (1,): 0.5 - 1e-11},
        {(0,): 0.5},
        due | {(2,): 1e-11},
        {(0,): 0.5, (1,): math.nan},
    ):
        with pytest.raises(AssertionError, match="was due"):
            assert_same_law(wrong, due)
