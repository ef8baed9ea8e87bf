"""Samples of a machine that stood still for minutes: wide intervals come of them, and never an exception."""

from __future__ import annotations

import json
import math
from dataclasses import asdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.core.binding import what_binds
from surefoot.core.cost import CostCurve, fit_curve, point, published
from surefoot.core.payoff import FREE, judged, outlook
from surefoot.core.plateaus import staircase
from surefoot.core.served import Served, reestimated
from surefoot.lab.agreement import compare
from surefoot.lab.replay import NOTHING, Offer, Trace
from surefoot.lab.steadiness import Sample, steadiness
from surefoot.lab.tune.worth import Counted, worth

# From a nanosecond to thirty years: what a clock can say, and what a file of samples may hold.
seconds = st.floats(1e-9, 1e9)
DEPTHS = (200, 850)


@st.composite
def sweeps(draw: st.DrawFn) -> list[Sample]:
    """Turns of a sweep, most rounds alike and any of them as long as it likes."""
    n_rows, n_turns = draw(st.integers(2, 5)), draw(st.integers(1, 9))
    usual = draw(seconds)
    samples: list[Sample] = []
    for turn in range(n_turns):
        for depth in DEPTHS:
            for rows in range(1, n_rows + 1):
                took = draw(st.one_of(st.just(usual), seconds))
                samples.append(Sample(turn, rows, depth, float(len(samples)), took))
    return samples


def curve(samples: list[Sample]) -> CostCurve:
    by_place: dict[tuple[int, int], list[float]] = {}
    for each in samples:
        by_place.setdefault((each.rows, each.depth), []).append(each.seconds)
    return fit_curve([point(*place, found) for place, found in sorted(by_place.items())], can_pad=True)


TEXT = Trace(100, tuple(range(60)), (NOTHING, *[Offer(9, min(at % 5, 60 - at), 2, "ngram") for at in range(1, 60)]))


@given(sweeps(), sweeps())
@settings(max_examples=60)
def test_whatever_the_clock_says_a_verdict_comes_of_it(samples: list[Sample], later: list[Sample]) -> None:
    found = curve(samples)
    assert steadiness(samples).slowest >= 1
    for depth in DEPTHS:
        view = outlook(found, depth)
        assert math.isfinite(view.perfect.gain)
        json.dumps(asdict(view), allow_nan=False)
        json.dumps([asdict(staircase(found, depth)), asdict(what_binds(found, depth))], allow_nan=False)
    worked = worth([Counted("code", TEXT, FREE, True)], found, 8192)
    assert worked is not None
    json.dumps(asdict(worked), allow_nan=False)
    assert compare(found, curve([*later, *samples])).n_points > 0
    served = [Served(each.rows, each.depth, each.seconds, 0.0) for each in later]
    assert all(math.isfinite(line.at(850)) for line in reestimated(found, served).lines)


def test_a_round_that_stood_still_leaves_the_interval_wide_and_finite() -> None:
    """Ten minutes among rounds of 20 ms: half the interval, as a share of the median, would be 7,653 deviations."""
    stopped = point(3, 200, [0.02] * 6 + [600.0])
    assert stopped.error == pytest.approx(math.log(600 / 0.02) / 3.92)
    wide = fit_curve([*published({1: 0.02, 2: 0.021}, 200), stopped])
    said = worth([Counted("code", TEXT, FREE, True)], wide, 8192)
    assert said is not None
    assert said.outcome.kind == "undecided"
    assert 0 < said.outcome.low < 1 < said.outcome.high < math.inf


def test_an_interval_without_an_end_has_one_all_the_same() -> None:
    """A curve in a file may hold any error."""
    view = outlook(fit_curve(published({1: 1.0, 2: 1.0}, 200)), 200)
    assert judged(view, 1, 1.5, 1e6, ()).kind == "undecided"
    assert math.isfinite(judged(view, 1, 1.5, 1e6, ()).high)
