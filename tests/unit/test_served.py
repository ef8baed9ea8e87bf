"""Rounds of real use override the sweep; and what the time of a forward is spent on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from cost_curves import SEED, at_two_depths, curve
from timed_toy import VirtualClock, timed_model

from surefoot.core.binding import what_binds
from surefoot.core.cost import CostCurve, RowCost, fit_curve, published
from surefoot.core.errors import ConfigError
from surefoot.core.served import ENOUGH, Served, reestimated
from surefoot.core.types import as_ids


def rounds(
    truth: CostCurve, widths: list[int], depths: range, host_s: float = 0.0, seed: int = 0, noise: float = 0.01
) -> list[Served]:
    """As they would be served on a machine whose true curve this is, with a stall here and there."""
    rng = np.random.default_rng(seed)
    found = []
    for number, depth in enumerate(depths):
        width = widths[number % len(widths)]
        pace = float(np.exp(rng.normal(0, noise))) * (10.0 if rng.random() < 0.03 else 1.0)
        found.append(Served(width, depth, truth.direct_s(width, depth) * pace, host_s))
    return found


def test_a_few_rounds_are_believed_in_part() -> None:
    before = curve(SEED, host_s=0.001)
    assert reestimated(before, []) == before
    told = 16 * before.direct_s(4, 848)
    for n, power in ((1, 1 / 4), (3, 1 / 2), (ENOUGH, 1.0)):
        after = reestimated(before, [Served(4, 848, told, 0.0)] * n)
        assert after.direct_s(4, 848) == pytest.approx(16**power * before.direct_s(4, 848))
        assert after.host_s == before.host_s


def test_what_lies_between_two_served_row_counts_follows_both() -> None:
    before = fit_curve(published(dict.fromkeys(range(1, 18), 1.0), 0))
    after = reestimated(before, [Served(1, 0, 1.0, 0.0), Served(17, 0, 4.0, 0.0)] * ENOUGH)
    assert after.direct_s(9, 0) == pytest.approx(2.0)


def test_where_they_disagree_the_served_rounds_win() -> None:
    """The sweep said that five rows cost what four do; on this machine they cost twice that."""
    before = curve(SEED)
    truth = CostCurve(before.points, tuple(RowCost(n, c, 0.0) for n, c in ((1, 0.0369), (4, 0.0536), (5, 0.1072))))
    after = reestimated(before, rounds(truth, [1, 4, 5], range(800, 890)))
    assert after.direct_s(5, 848) == pytest.approx(0.1072, rel=0.02)
    assert after.direct_s(4, 848) == pytest.approx(0.0536, rel=0.02)
    assert after.direct_s(3, 848) == pytest.approx(before.direct_s(3, 848), rel=0.02)
    # Nobody served eight rows; if five cost twice what was swept, so will they, until somebody does.
    assert after.direct_s(8, 848) == pytest.approx(2 * before.direct_s(8, 848), rel=0.03)
    assert after.served == 90
    assert after.points == before.points


def test_a_machine_that_slows_down_slows_every_row_count() -> None:
    before = curve(SEED)
    slow = [Served(each.width, each.depth, 1.5 * each.extend_s, 0.0) for each in rounds(before, [1, 3], range(100))]
    after = reestimated(before, slow)
    for rows in before.rows:
        assert after.direct_s(rows, 848) == pytest.approx(1.5 * before.direct_s(rows, 848), rel=0.02)


def test_the_depth_slope_is_learned_from_a_wide_range_of_depths() -> None:
    flat = curve("torch-int8-smol135m-200")
    truth = at_two_depths("torch-int8-smol135m-200", "torch-int8-smol135m-850")
    after = reestimated(flat, rounds(truth, [1, 4], range(100, 1000, 5)))
    for rows in (1, 4):
        assert after.direct_s(rows, 3000) == pytest.approx(truth.direct_s(rows, 3000), rel=0.05)
    near = reestimated(flat, rounds(truth, [1, 4], range(800, 980)))
    assert all(line.slope_s == 0.0 for line in near.lines)


def test_the_host_cost_is_that_of_served_rounds() -> None:
    after = reestimated(curve(SEED, host_s=0.002), rounds(curve(SEED), [1], range(30), host_s=0.0005))
    assert after.host_s == 0.0005


def test_the_loop_tells_what_lay_between_two_rounds() -> None:
    """The text and its reader included, and the prefill, which no round comes before, without."""
    clock = VirtualClock()
    model = timed_model(clock)
    config = replace(model.config, max_tokens=9)
    with model.generate(as_ids([1, 2, 3]), config=config, clock=clock) as generation:
        for number, _ in enumerate(generation.steps()):
            clock.now += 0.25 * number
    told = [round_.host_s for round_ in generation.rounds]
    assert told == pytest.approx([0.0, *(0.25 * number for number in range(len(told) - 1))])


def test_a_hole_that_was_served_is_none_any_more() -> None:
    before = curve(SEED)
    assert 10 in before.holes
    after = reestimated(before, [Served(10, 848, 0.050, 0.0)] * 10)
    assert 10 not in after.holes
    assert after.direct_s(10, 848) == pytest.approx(0.050)


def test_rounds_outside_of_the_sweep_are_left_alone() -> None:
    before = curve(SEED)
    assert reestimated(before, [Served(40, 848, 1.0, 0.0)] * 50) == before


def test_what_binds_by_curve() -> None:
    """Weights that are read once bind an int4 model on a GPU; arithmetic binds where rows cost what they are."""
    seed = what_binds(curve(SEED), 848, weight_bytes=16.35e9, bytes_per_s=546e9)
    assert seed.binds == "bytes"
    assert seed.bytes_s == pytest.approx(16.35 / 546)
    assert seed.text.startswith("reading the weights (bytes) takes ")
    assert seed.misfit > 0.1  # a staircase is no line
    mlx = what_binds(curve("mlx-fp32-smol-200"), 200)
    assert mlx.binds == "rows"
    assert mlx.row_s == pytest.approx(0.130, rel=0.05)
    assert mlx.misfit < 0.02


def test_bytes_and_dispatch_are_one_figure_where_the_bandwidth_is_unknown() -> None:
    found = what_binds(fit_curve(published({1: 11.0, 2: 12.0, 4: 14.0}, 0), host_s=3.0), 0)
    assert (found.binds, found.bytes_s, found.dispatch_s) == ("fixed", None, None)
    # Of a plain round of 14 s, 10 are fixed and a row takes one: the same figure whatever binds.
    assert found.text == (
        "what a forward costs whatever its rows (dispatch and bytes together) takes 71% of a plain round: a further "
        "row adds 7% to it"
    )
    assert (found.fixed_s, found.row_s, found.host_s) == pytest.approx((10.0, 1.0, 3.0))
    apart = what_binds(fit_curve(published({1: 11.0, 2: 12.0, 4: 14.0}, 0)), 0, weight_bytes=2.0, bytes_per_s=1.0)
    assert apart.bytes_s == pytest.approx(2.0)
    assert apart.dispatch_s == pytest.approx(8.0)
    assert apart.binds == "dispatch"


def test_host_and_context_can_bind_too() -> None:
    assert what_binds(curve(SEED, host_s=0.1), 848).binds == "host"
    points = [*published({1: 1.0, 2: 1.0}, 100), *published({1: 9.0, 2: 9.0}, 900)]
    deep = what_binds(fit_curve(points), 900)
    assert (deep.binds, deep.context_s, deep.fixed_s) == ("context", pytest.approx(9.0), 0.0)
    with pytest.raises(ConfigError, match="two row counts"):
        what_binds(fit_curve(published({1: 1.0}, 0)), 0)
