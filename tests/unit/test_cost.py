"""Samples to points, points to a curve, a curve to prices."""

from __future__ import annotations

import math

import numpy as np
import pytest
from cost_curves import SEED, at_two_depths, curve
from hypothesis import given
from hypothesis import strategies as st

from surefoot.core.cost import NOISE, CostCurve, PriceTable, fit_curve, point, published
from surefoot.core.errors import ConfigError

costs = st.floats(1e-4, 10.0)
sweeps = st.dictionaries(st.integers(2, 40), costs, min_size=1, max_size=20).flatmap(
    lambda rest: costs.map(lambda one: {1: one, **rest})
)


def test_a_point_is_the_median_with_the_interval_of_its_order_statistics() -> None:
    found = point(4, 200, [5.0, 1.0, 2.0, 4.0, 3.0, 6.0, 7.0, 100.0])
    assert (found.rows, found.depth, found.median_s) == (4, 200, 4.5)
    # Of eight values the interval runs from the first to the last: 2 / 2**8 of error, under 5 %.
    assert (found.low_s, found.high_s) == (1.0, 100.0)
    assert found.samples_s[-1] == 100.0


def test_the_interval_holds_the_median_as_often_as_it_says() -> None:
    rng = np.random.default_rng(3)
    held = 0
    for _ in range(2_000):
        found = point(1, 0, rng.lognormal(0, 0.5, 15).tolist())
        held += found.low_s <= 1.0 <= found.high_s
    assert 0.95 <= held / 2_000 <= 0.99  # 15 values: 96.5 %


def test_no_point_is_surer_than_the_next_sweep() -> None:
    assert point(1, 0, [1.0] * 50).error == NOISE
    assert point(1, 0, [0.5, 0.6, 0.9, 1.0, 1.1, 1.6, 1.9]).error == pytest.approx(math.log(1.9 / 0.5) / 3.92)


@pytest.mark.parametrize("samples", [[], [0.0], [1.0, -1.0], [math.nan], [math.inf]])
def test_samples_that_are_no_seconds_are_refused(samples: list[float]) -> None:
    with pytest.raises(ConfigError, match="positive seconds"):
        point(2, 10, samples)


def test_the_depth_slope_of_each_row_count_and_of_those_swept_at_one_depth() -> None:
    found = at_two_depths("torch-fp32-smol135m-200", "torch-fp32-smol135m-850")
    slopes = {line.rows: line.slope_s for line in found.lines}
    for rows, (shallow, deep) in {1: (52.53, 54.76), 2: (91.03, 94.14)}.items():
        assert slopes[rows] == pytest.approx((deep - shallow) / 650 / 1e3)
        assert found.direct_s(rows, 850) == pytest.approx(deep / 1e3)
    assert slopes[3] == pytest.approx((slopes[2] + slopes[4]) / 2, abs=1e-12)
    assert found.direct_s(3, 200) == pytest.approx(112.02e-3)
    # Eight rows were faster at 850 tokens than at 200, which is noise: no row gets cheaper with the context.
    assert slopes[8] == 0.0
    assert found.has_depth_slope
    assert not curve(SEED).has_depth_slope


def test_a_line_is_never_negative_at_the_start_of_the_context() -> None:
    found = fit_curve([*published({1: 0.001}, 200), *published({1: 0.010}, 400)])
    assert found.lines[0].at(0) == 0.0
    assert found.lines[0].at(200) > 0


def test_such_a_line_goes_through_the_points_that_have_a_context() -> None:
    found = fit_curve([*published({1: 0.05}, 0), *published({1: 0.001}, 100), *published({1: 0.01}, 200)])
    assert found.lines[0].base_s == 0
    assert found.direct_s(1, 100) == pytest.approx(0.001)


def test_padding_up_is_taken_where_it_is_cheaper() -> None:
    """torch fp32: 3 rows cost 2.13x and 4 rows 1.85x, 7 rows 2.41x and 8 rows 1.99x."""
    padding = curve("torch-fp32-smol135m-200", can_pad=True)
    assert [padding.price(rows, 200).width for rows in range(1, 17)] == [
        *(1, 2, 4, 4, 5, 6, 8, 8, 9, 10, 12, 12, 14, 14, 16, 16)
    ]
    assert padding.relative(3, 200) == pytest.approx(97.05 / 52.53)
    assert padding.price(7, 200).padded
    assert not padding.price(8, 200).padded
    plain = curve("torch-fp32-smol135m-200")
    assert plain.price(3, 200).width == 3
    assert plain.relative(3, 200) == pytest.approx(112.02 / 52.53)


@given(sweeps, st.integers(0, 4096), st.booleans())
def test_price_is_never_above_the_direct_cost_and_never_falls_with_the_rows_once_padded(
    sweep: dict[int, float], depth: int, can_pad: bool
) -> None:
    found = fit_curve(published(sweep, 100), can_pad=can_pad)
    prices = [found.price(rows, depth) for rows in range(1, found.max_rows + 1)]
    for price in prices:
        assert price.seconds <= found.direct_s(price.rows, depth)
        assert price.width >= price.rows
        assert price.seconds == found.direct_s(price.width, depth)
        assert can_pad or not price.padded
    if can_pad:
        brute = [min(p.seconds for p in prices[at:]) for at in range(len(prices))]
        assert [price.seconds for price in prices] == brute
        assert brute == sorted(brute)


@given(sweeps, st.integers(0, 4096), st.booleans())
def test_the_table_of_prices_is_the_prices(sweep: dict[int, float], depth: int, can_pad: bool) -> None:
    deep = {rows: cost * (1 + rows / 7) for rows, cost in sweep.items()}
    found = fit_curve([*published(sweep, 100), *published(deep, 900)], can_pad=can_pad)
    prices = [found.price(rows, depth).seconds for rows in range(1, found.max_rows + 1)]
    assert PriceTable.of(found).at(depth) == pytest.approx(prices, rel=1e-12, abs=1e-15)


def test_a_hole_costs_what_its_dearer_neighbour_costs_and_is_named() -> None:
    seed = curve(SEED)
    assert seed.holes == (10, 11, 13, 14, 15)
    assert seed.direct_s(10, 848) == pytest.approx(84.7e-3)
    assert seed.direct_s(14, 848) == pytest.approx(84.7e-3)
    assert curve(SEED, can_pad=True).price(10, 848).width == 16  # the cheapest that is wide enough was measured at 16


@pytest.mark.parametrize("rows", [0, -1, 17, 1000])
def test_nothing_is_said_about_rows_outside_of_the_sweep(rows: int) -> None:
    with pytest.raises(ConfigError, match=f"the cost of {rows} rows was asked for, and 1 to 16"):
        curve(SEED).price(rows, 848)


def test_the_host_is_in_a_round_and_not_in_a_price() -> None:
    seed = curve(SEED, host_s=0.010)
    assert seed.price(4, 848).seconds == pytest.approx(53.6e-3)
    assert seed.round_s(4, 848, draft_s=0.001) == pytest.approx(64.6e-3)
    assert seed.bar(4, 848) == pytest.approx(63.6 / 46.9)
    assert seed.bar(1, 848) == 1.0


def test_a_curve_that_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least one point"):
        fit_curve([])
    with pytest.raises(ConfigError, match="3 rows come twice"):
        fit_curve([point(1, 8, [1.0]), point(3, 8, [1.0]), point(3, 8, [1.1])])
    with pytest.raises(ConfigError, match="not positive"):
        published({1: 0.0}, 10)


def test_plain_decoding_that_was_not_swept_is_not_made_up() -> None:
    forge: CostCurve = curve("forge-27b-8k")
    assert forge.rows == (3, 4, 8)
    with pytest.raises(ConfigError, match="the cost of 1 rows"):
        forge.bar(4, 8192)
