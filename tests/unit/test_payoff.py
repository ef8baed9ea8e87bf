"""Bars, break-even, the best length and what a curve allows, against brute force and published figures."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from cost_curves import SEED, context, curve
from hypothesis import given
from hypothesis import strategies as st

from surefoot.core.cost import CostCurve, fit_curve, published
from surefoot.core.errors import ConfigError
from surefoot.core.payoff import FREE, DraftCost, Expected, between, break_even, expected, geometric, judged, outlook

survivals = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=12).map(lambda chances: sorted(chances, reverse=True))
staircases = st.lists(st.floats(0.5, 9.0), min_size=2, max_size=13).map(lambda costs: dict(enumerate(costs, 1)))


def best(curve: CostCurve, survival: Sequence[float], depth: int, draft: DraftCost = FREE) -> Expected:
    """The draft length of most tokens per second, the shortest of equals."""
    return max(expected(curve, survival, depth, draft), key=lambda each: each.tokens_per_s)


def test_the_bar_of_the_published_staircase() -> None:
    """A round pays when it emits more than c_v tokens: 1.02 at K = 2, 1.45 at K = 3, 1.49 at K = 7, 2.29 at K = 8."""
    seed = curve(SEED)
    assert [round(seed.bar(k + 1, 848), 2) for k in (1, 2, 3, 7, 8)] == [1.01, 1.02, 1.45, 1.49, 2.29]


def test_break_even_of_a_chain_of_three() -> None:
    """1 + p + p^2 + p^3 is 1.88 at p = 50 % and 1.42 at 30 % (CoreML-LLM)."""
    for bar, acceptance in ((1.875, 0.5), (1.417, 0.3)):
        found = break_even(fit_curve(published({1: 1.0, 4: bar}, 0)), 4, 0)
        assert found == pytest.approx(acceptance, abs=1e-6)


def test_break_even_with_a_drafter_that_costs() -> None:
    flat = fit_curve(published({1: 1.0, 2: 1.0}, 0))
    assert break_even(flat, 2, 0) == 0.0
    assert break_even(flat, 2, 0, DraftCost(0.1, 0.2)) == pytest.approx(0.3)
    assert break_even(flat, 2, 0, DraftCost(token_s=1.5)) is None


@given(staircases, survivals, st.booleans(), st.floats(0, 0.5), st.floats(0, 0.5))
def test_best_is_the_best_of_all_lengths(
    costs: dict[int, float], survival: list[float], can_pad: bool, host_s: float, token_s: float
) -> None:
    found = fit_curve(published(costs, 0), can_pad=can_pad, host_s=host_s)
    brute = []
    for draft_len in range(min(len(survival), len(costs) - 1) + 1):
        wide = [costs[rows] for rows in costs if rows > draft_len] if can_pad else [costs[draft_len + 1]]
        brute.append((1 + sum(survival[:draft_len])) / (min(wide) + host_s + token_s * draft_len))
    chosen = best(found, survival, 0, DraftCost(token_s=token_s))
    assert chosen.tokens_per_s == pytest.approx(max(brute))
    assert chosen.draft_len == next(k for k, speed in enumerate(brute) if speed == pytest.approx(max(brute), rel=1e-12))
    assert chosen.gain == pytest.approx(max(brute) / brute[0])
    assert chosen.rows == chosen.draft_len + 1


@given(staircases, st.integers(2, 13), st.floats(0, 1))
def test_acceptance_above_break_even_pays_and_below_it_does_not(
    costs: dict[int, float], rows: int, acceptance: float
) -> None:
    rows = min(rows, len(costs))
    found = fit_curve(published(costs, 0))
    gain = expected(found, geometric(acceptance, rows - 1), 0)[rows - 1].gain
    needed = break_even(found, rows, 0)
    if needed is None:
        assert gain < 1
    elif acceptance > needed + 1e-6:
        assert gain > 1 - 1e-9
    elif acceptance < needed - 1e-6:
        assert gain < 1


def test_plateau_tops_come_out_by_themselves() -> None:
    seed = curve(SEED)
    tops = {best(seed, geometric(acceptance / 100, 10), 848).draft_len for acceptance in range(30, 100)}
    assert tops == {2, 7}  # the third plateau would pay from 12 drafts on, which this survival does not reach
    assert best(seed, geometric(0.0, 10), 848).draft_len == 0


def test_a_survival_that_rises_is_refused() -> None:
    with pytest.raises(ConfigError, match="a conditional acceptance is not a survival"):
        best(curve(SEED), [0.5, 0.7], 848)
    with pytest.raises(ConfigError, match="cannot rise"):
        best(curve(SEED), [1.2], 848)


@pytest.mark.parametrize("name", ["mlx-fp32-smol-200", "mlx-q4-smol-200"])
def test_where_rows_cost_what_they_are_nobody_should_speculate(name: str) -> None:
    view = outlook(curve(name), 200)
    assert view.never
    assert view.text.startswith("never speculate here: ")
    assert view.perfect.draft_len > 0


def test_every_other_curve_leaves_a_chance() -> None:
    for name in ("mlx-4bit-m3ultra", "torch-bf16-big822m-200", "llama-Q4_1-smol-850", SEED):
        assert not outlook(curve(name), context(name)).never


def test_the_outlook_names_the_easiest_and_the_perfect_length() -> None:
    view = outlook(curve("mlx-bf16"), 0)
    assert view.perfect.draft_len == view.easiest_draft_len == 7
    assert view.text == (
        "draft_len 7 pays from an acceptance of 51% on; drafts that are always right would give 3.90x at draft_len 7"
    )


def test_the_words_are_about_a_draft_where_none_pays() -> None:
    view = outlook(fit_curve(published({rows: rows * 1.07 for rows in range(1, 9)} | {1: 1.0, 2: 2.1}, 0)), 0)
    assert (view.never, view.perfect.rows) == (True, 2)
    assert view.text == (
        "never speculate here: 2 rows cost 2.10 times one row, so even drafts that are always right would give 0.95x"
    )
    with pytest.raises(ConfigError, match="two rows at least"):
        outlook(fit_curve(published({1: 1.0}, 0)), 0)


def test_a_sweep_of_few_rows_does_not_say_never() -> None:
    """Two rows of MLX in bf16 cost two, and eight rows cost no more."""
    costs = {rows: curve("mlx-bf16").direct_s(rows, 0) for rows in range(1, 9)}
    few = outlook(fit_curve(published({rows: costs[rows] for rows in (1, 2)}, 0)), 0)
    assert not few.never
    assert few.text == (
        "of the 2 rows that were swept none is worth a draft: 2 rows cost 1.98 times one row, so even drafts that are "
        "always right would give 1.01x; what more rows cost is not known"
    )
    assert outlook(fit_curve(published(costs, 0)), 0).perfect.gain > 3.8
    slope = {rows: 1.0 * rows for rows in range(1, 9)}
    seven = {rows: cost for rows, cost in slope.items() if rows < 8}
    assert [outlook(fit_curve(published(each, 0)), 0).never for each in (seven, slope)] == [False, True]


def test_no_digit_is_finer_than_the_distance_of_the_ends() -> None:
    assert between(1.308, 1.922) == "1.3x to 1.9x"
    assert between(1.308, 1.722) == "1.31x to 1.72x"
    assert between(0.998, 1.002) == "1.00x"


def test_a_verdict_is_where_its_interval_lies() -> None:
    view = outlook(curve(SEED), 848)
    found = [judged(view, 7, gain, 0.1, ("why",)) for gain in (1.5, 1.05, 0.8)]
    assert [(each.kind, each.draft_len) for each in found] == [("draft", 7), ("undecided", 0), ("do not speculate", 0)]
    assert [each.text for each in found] == [
        "draft 7 (8 rows): expect 1.36x to 1.66x",
        "undecided: draft_len 7 (8 rows), the best, gives 0.95x to 1.16x",
        "do not speculate: draft_len 7 (8 rows), the best, would give 0.72x to 0.88x",
    ]
    held = judged(view, 7, 1.5, 1.0, (), least=0.99)
    assert (held.kind, held.low) == ("undecided", 0.99)
    assert judged(outlook(curve("mlx-fp32-smol-200"), 200), 7, 1.5, 0.1, ()).kind == "never speculate"
