"""How the fixed and the additive policy choose a draft length."""

from __future__ import annotations

import itertools
from dataclasses import fields
from importlib.metadata import entry_points
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surefoot.core.errors import ConfigError
from surefoot.core.ports import Policy
from surefoot.core.types import Draft, Finish, Round, State, as_ids
from surefoot.policies import additive, fixed

STATE = State(room=1000, depth=10, emitted=3)


def scored(drafted: int, accepted: int, *, cut: int = 0, emitted: int | None = None, source: str = "ngram") -> Round:
    """A round of a chain; unless told otherwise it emitted the accepted drafts and one token more."""
    count = accepted + 1 if emitted is None else emitted
    finish: Finish | None = None if emitted is None else "stop"
    rows = drafted - cut + 1
    return Round(tuple(range(count)), drafted, cut, accepted, 10, rows, rows, source, 2, finish=finish)


def lengths(policy: Policy, *rounds: Round) -> list[int]:
    """The budget before the first round and after each."""
    seen = [policy.budget(STATE)]
    for round_ in rounds:
        policy.learn(round_)
        seen.append(policy.budget(STATE))
    return seen


def additive_policy(cap: int = 7) -> Policy:
    return additive.AdditivePolicy(additive.Options(cap))


FULL, MISS = scored(3, 3), scored(3, 1)


@given(st.integers(0, 256), st.lists(st.sampled_from([FULL, MISS, scored(0, 0)])))
def test_fixed_never_moves(draft_len: int, rounds: list[Round]) -> None:
    policy = fixed.FixedPolicy(fixed.Options(draft_len))
    assert set(lengths(policy, *rounds)) == {draft_len}


@pytest.mark.parametrize("policy", [fixed.FixedPolicy(fixed.Options(2)), additive_policy()], ids=["fixed", "additive"])
def test_no_part_of_a_draft_is_cut(policy: Policy) -> None:
    assert policy.cut(Draft(as_ids([4, 5, 6]))) == 3


@pytest.mark.parametrize(
    ("cap", "rounds", "expected"),
    [
        pytest.param(7, [FULL] * 5, [1, 3, 5, 7, 7, 7], id="odd cap"),
        pytest.param(8, [FULL] * 5, [1, 3, 5, 7, 8, 8], id="even cap is reached, not passed"),
        pytest.param(1, [FULL, MISS, FULL], [1, 1, 1, 1], id="cap of one"),
        pytest.param(7, [FULL, FULL, MISS, MISS, MISS, MISS, MISS], [1, 3, 5, 4, 3, 2, 1, 1], id="down to one"),
        pytest.param(7, [FULL, FULL, scored(4, 0), FULL], [1, 3, 5, 4, 6], id="nothing accepted is one rejection"),
        pytest.param(7, [FULL, scored(0, 0), FULL], [1, 3, 3, 5], id="nothing drafted"),
        pytest.param(7, [FULL, scored(4, 0, cut=4), FULL], [1, 3, 3, 5], id="everything cut"),
        pytest.param(7, [FULL, scored(4, 2, cut=2), FULL], [1, 3, 5, 7], id="what was scored was accepted"),
        pytest.param(7, [FULL, scored(1, 1)], [1, 3, 5], id="short for want of room, accepted"),
        pytest.param(7, [FULL, scored(1, 0)], [1, 3, 2], id="short for want of room, rejected"),
        pytest.param(7, [FULL, FULL, scored(5, 2, emitted=2)], [1, 3, 5, 5], id="stop among accepted drafts"),
        pytest.param(7, [FULL, FULL, scored(5, 2, emitted=3)], [1, 3, 5, 4], id="the correction is the stop"),
        pytest.param(7, [FULL, scored(3, 3, emitted=3)], [1, 3, 5], id="the last draft is the stop"),
        pytest.param(7, [scored(0, 0, source="prefill")], [1, 1], id="prefill"),
        pytest.param(7, [FULL, scored(2, 0, source="prefill")], [1, 3, 3], id="prefill, whatever it says"),
    ],
)
def test_additive_moves(cap: int, rounds: list[Round], expected: list[int]) -> None:
    assert lengths(additive_policy(cap), *rounds) == expected


@given(
    st.integers(1, 256),
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)).map(lambda pair: scored(max(pair), min(pair)))),
)
def test_additive_stays_between_one_and_its_cap_and_moves_by_its_steps(cap: int, rounds: list[Round]) -> None:
    seen = lengths(additive_policy(cap), *rounds)
    assert all(1 <= length <= cap for length in seen)
    assert all(-1 <= after - before <= 2 for before, after in itertools.pairwise(seen))


def test_budget_does_not_depend_on_the_room() -> None:
    """The loop clamps it; a policy that clamped too would remember the room of the last round as its own length."""
    policy = additive_policy()
    lengths(policy, FULL, FULL)
    assert policy.budget(State(room=1, depth=0, emitted=0)) == policy.budget(STATE) == 5


@pytest.mark.parametrize(
    ("options", "values", "says"),
    [
        (fixed.Options, -1, "fixed draft_len must be from 0"),
        (fixed.Options, 257, "256 tokens; got 257"),
        (additive.Options, 0, "additive draft_len must be from 1"),
        (additive.Options, -5, "got -5"),
        (additive.Options, 10**12, "got 1000000000000"),
    ],
)
def test_bad_lengths_are_refused_in_a_sentence(options: Any, values: int, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        options(values)


@pytest.mark.parametrize(("module", "name", "default"), [(fixed, "fixed", 2), (additive, "additive", 7)])
def test_the_entry_point_builds_it_and_its_default_is_a_plateau_top(module: Any, name: str, default: int) -> None:
    [entry] = entry_points(group="surefoot.policies", name=name)
    plugin = entry.load()
    assert plugin is module.PLUGIN
    assert [option.name for option in fields(plugin.options)] == ["draft_len"]
    assert all(option.metadata["help"] for option in fields(plugin.options))
    assert plugin.options().draft_len == default
    policy = plugin.build(plugin.options(), None)
    assert max(lengths(policy, *[FULL] * 9)) == default
