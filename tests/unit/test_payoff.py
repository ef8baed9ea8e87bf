"""Bars, break-even, the best length and verdicts, against brute force and published figures."""

from __future__ import annotations

import math

import pytest
from cost_curves import SEED, context, curve
from hypothesis import given
from hypothesis import strategies as st

from surefoot.core.cost import fit_curve, published
from surefoot.core.errors import ConfigError
from surefoot.core.payoff import DraftCost, best, between, break_even, expected, geometric, outlook, verdict

survivals = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=12).map(lambda chances: sorted(chances, reverse=True))
staircases = st.lists(st.floats(0.5, 9.0), min_size=2, max_size=13).map(lambda costs: dict(enumerate(costs, 1)))


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
    found = verdict(curve(name), geometric(0.99, 11), 1000, 200)
    assert (found.kind, found.draft_len) == ("never speculate", 0)


def test_every_other_curve_leaves_a_chance() -> None:
    for name in ("mlx-4bit-m3ultra", "torch-bf16-big822m-200", "llama-Q4_1-smol-850", SEED):
        assert not outlook(curve(name), context(name)).never


def test_the_outlook_names_the_easiest_and_the_perfect_length() -> None:
    view = outlook(curve("mlx-bf16"), 0)
    assert view.perfect.draft_len == view.easiest_draft_len == 7
    assert view.text == (
        "draft_len 7 pays from an acceptance of 51% on; drafts that are always right would give 3.90x at draft_len 7"
    )


def test_verdicts_in_words() -> None:
    seed = curve(SEED)
    good = verdict(seed, geometric(0.8, 8), 500, 848)
    assert (good.kind, good.draft_len) == ("draft", 7)
    assert good.low > 1
    assert good.text == "draft 7 (8 rows): expect 2.5x to 3.1x"
    assert "8 rows cost 1.49 times plain decoding at 848 tokens" in good.reasons[0]
    assert "one depth only" in good.reasons[-1]
    slope = curve("torch-bf16-smol135m-200")
    bad = verdict(slope, geometric(0.1, 8), 500, 200)
    assert (bad.kind, bad.draft_len) == ("do not speculate", 0)
    assert bad.high < 1
    thin = verdict(seed, geometric(0.8, 8), 1, 848)
    wide = thin.high / thin.low
    assert wide > 2 * good.high / good.low
    close = verdict(slope, geometric(0.4, 8), 20, 200)
    assert (close.kind, close.draft_len) == ("undecided", 0)
    assert close.text.startswith("undecided: draft_len ")
    assert close.low < 1 < close.high


def test_no_digit_is_finer_than_the_distance_of_the_ends() -> None:
    assert between(1.308, 1.922) == "1.3x to 1.9x"
    assert between(1.308, 1.722) == "1.31x to 1.72x"
    assert between(0.998, 1.002) == "1.00x"


def test_a_verdict_says_when_its_price_was_never_measured() -> None:
    found = verdict(curve(SEED), [1.0] * 14, 500, 848)
    assert found.draft_len == 14
    assert any("15 rows were not measured" in reason for reason in found.reasons)


def test_a_verdict_needs_counts() -> None:
    with pytest.raises(ConfigError, match="run the workload first"):
        verdict(curve(SEED), [0.5], 0, 848)
    with pytest.raises(ConfigError, match="survival of one draft token"):
        verdict(curve(SEED), [], 5, 848)


def test_the_interval_is_the_spread_of_accepted_tokens_and_of_both_costs() -> None:
    """By hand: half of the drafts hold for two tokens, half for none, so A is 0 or 2."""
    found = verdict(fit_curve(published({1: 1.0, 2: 1.0, 3: 1.0}, 0)), [0.5, 0.5], 400, 0)
    assert found.gain == pytest.approx(2.0)
    of_tokens = (1.0 + 4 / 1600) / 400 / 2.0**2
    spread = 1.96 * math.sqrt(of_tokens + 2 * 0.02**2)
    assert math.log(found.high / found.gain) == pytest.approx(spread)
    assert math.log(found.gain / found.low) == pytest.approx(spread)
