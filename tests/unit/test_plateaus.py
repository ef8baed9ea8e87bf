"""The staircase of every curve we know, and of curves that have none."""

from __future__ import annotations

import itertools
import math

import numpy as np
import numpy.typing as npt
import pytest
import ruptures
from cost_curves import SEED, context, curve, data, ids

from surefoot.core.cost import fit_curve, published
from surefoot.core.plateaus import RAMP, SEGMENT, SHORTEST_RAMP, Piece, Staircase, fit, staircase

Doubles = npt.NDArray[np.float64]

# Looked at by eye once, each beside its figures. A + behind a plateau: nobody saw where it ends.
CLASSES = {
    "m4max-30b-int4": ("staircase", "1-3 4-8 9-16+"),
    "ane-e2b": ("flat", "1-8+"),
    "mlx-4bit-m3ultra": ("slope", ""),
    "mlx-bf16": ("staircase", "2-8+"),
    "mlx-qwen3-4b": ("staircase", "1-5"),
    "forge-27b-8k": ("flat", "3-8+"),
    "forge-27b-64k": ("slope", ""),
    "hybrid-27b": ("staircase", "9-13+"),
    "torch-fp32-smol135m-200": ("staircase", "4-6"),
    "torch-fp32-smol135m-850": ("staircase", "2-8+"),
    "torch-bf16-smol135m-200": ("slope", ""),
    "torch-bf16-smol135m-850": ("slope", ""),
    "torch-int8-smol135m-200": ("slope", ""),
    "torch-int8-smol135m-850": ("staircase", "2-4"),
    "torch-fp32static-smol135m-200": ("staircase", "4-6 8-10"),
    "torch-fp32static-smol135m-850": ("staircase", "4-6 8-10"),
    "llama-F32-smol-200": ("slope", ""),
    "llama-F32-smol-850": ("slope", ""),
    "llama-F16-smol-200": ("slope", ""),
    "llama-F16-smol-850": ("staircase", "2-4 5-6"),
    "llama-Q8_0-smol-200": ("staircase", "3-4 5-6 7-8 9-10"),
    "llama-Q8_0-smol-850": ("staircase", "7-8"),
    "llama-Q4_0-smol-200": ("staircase", "5-6 7-8 9-10 11-12 13-14"),
    "llama-Q4_0-smol-850": ("staircase", "7-8"),
    "llama-Q4_1-smol-200": ("slope", ""),
    "llama-Q4_1-smol-850": ("slope", ""),
    "llama-Q4_0-smol-fa0-850": ("staircase", "7-8 9-10 11-12 13-14"),
    "llama-Q4_0-smol-fa1-850": ("staircase", "7-8"),
    "llama-F32-smol-fa0-850": ("staircase", "2-3"),
    "ov-delta-fp32-smol-200": ("staircase", "1-6 7-8"),
    "ov-delta-int8-smol-200": ("staircase", "1-4"),
    "ov-delta-fp32-smol-850": ("staircase", "1-6 7-12"),
    "ov-delta-int8-smol-850": ("slope", ""),
    "ov-stateful-fp32-smol-200": ("slope", ""),
    "ov-stateful-fp32-smol-850": ("slope", ""),
    "ov-stateful-int8-smol-200": ("slope", ""),
    "ov-stateful-int8-smol-850": ("slope", ""),
    "ov-stateful-int4-smol-200": ("slope", ""),
    "ov-stateful-int4-smol-850": ("slope", ""),
    "ov-delta-static-fp32-smol-200": ("staircase", "1-6 7-9"),
    "ov-delta-static-int8-smol-200": ("staircase", "1-4"),
    "ort-fp32-smol-200": ("staircase", "4-6 7-12 13-16+"),
    "ort-fp32-smol-850": ("slope", ""),
    "ort-int8-smol-200": ("staircase", "2-3"),
    "ort-int8-smol-850": ("slope", ""),
    "ort-q4a4-smol-200": ("slope", ""),
    "ort-q4a0-smol-200": ("staircase", "2-6 7-9"),
    "ort-q4a0-smol-850": ("slope", ""),
    "llama-F16-big-fa0-200": ("staircase", "1-3"),
    "llama-Q8_0-big-fa0-200": ("staircase", "3-4 5-6"),
    "llama-Q4_0-big-fa0-200": ("slope", ""),
    "llama-Q4_K_M-big-fa0-200": ("slope", ""),
    "torch-fp32-big822m-200": ("staircase", "3-6 9-14"),
    "torch-bf16-big822m-200": ("slope", ""),
    "torch-int8-big822m-200": ("staircase", "2-3"),
    "ov-stateful-fp32-big-200": ("staircase", "1-6 7-12 13-14"),
    "ov-stateful-int8-big-200": ("slope", ""),
    "ov-stateful-int4-big-200": ("slope", ""),
    "mlx-fp32-smol-200": ("slope", ""),
    "mlx-q4-smol-200": ("slope", ""),
    "coreai-fp32-smol-C256-128": ("slope", ""),
}


def seen(name: str) -> Staircase:
    return staircase(curve(name), context(name))


def shape(found: Staircase) -> str:
    return " ".join(f"{p.first}-{p.last}{'' if p.closed else '+'}" for p in found.plateaus)


def swept(seconds: dict[int, float], error: float = 0.02) -> Staircase:
    return staircase(fit_curve(published(seconds, 0, error)), 0)


def test_every_curve_of_the_file_is_in_the_table() -> None:
    assert list(CLASSES) == ids()


@pytest.mark.parametrize("name", CLASSES)
def test_the_class_of_a_curve(name: str) -> None:
    found = seen(name)
    assert (found.kind, shape(found)) == CLASSES[name]


def test_the_published_staircase_exactly() -> None:
    found = seen(SEED)
    record = data()["published"][0]
    assert [[p.first, p.last] for p in found.plateaus] == record["plateaus"] == [[1, 3], [4, 8], [9, 16]]
    assert list(found.tops) == record["tops_draft_len"] == [2, 7]
    assert [(step.below, step.above, step.exact) for step in found.steps] == [(3, 4, True), (8, 9, True)]
    assert [step.rise_s for step in found.steps] == pytest.approx([0.0171, 0.0291], abs=3e-4)
    first = found.plateaus[0]
    assert first.low_s < 37.2e-3 < first.high_s
    assert found.holes == (10, 11, 13, 14, 15)
    assert found.plateaus[2].holes == found.holes


def test_bf16_jumps_at_two_rows_and_is_flat_from_there() -> None:
    found = seen("mlx-bf16")
    assert [(step.below, step.above) for step in found.steps] == [(1, 2)]
    assert found.plateaus[0].at_most is None


def test_qwen_jumps_at_six() -> None:
    assert seen("mlx-qwen3-4b").tops == (4,)
    assert [(step.below, step.above) for step in seen("mlx-qwen3-4b").steps] == [(5, 6)]


@pytest.mark.parametrize("slope", [0.005, 0.02, 0.1, 0.45, 1.0])
@pytest.mark.parametrize("rows", [range(1, 18), (*range(1, 18), 24, 32), (1, 2, 4, 8, 16)])
def test_a_straight_line_has_no_step(slope: float, rows: tuple[int, ...]) -> None:
    found = swept({n: 1 + slope * (n - 1) for n in rows})
    assert found.steps == () == found.tops
    assert found.kind == "slope"


def test_rows_that_cost_the_same_are_one_plateau_whose_end_nobody_saw() -> None:
    found = swept({n: 1 + 0.0005 * n for n in range(1, 18)})
    assert (found.kind, shape(found), found.tops, found.steps) == ("flat", "1-17+", (), ())


def test_noise_makes_no_staircase_of_a_line_and_hides_none() -> None:
    """At the noise that is assumed, 5 % of the lines may look like one, and nine of ten staircases are found."""
    rng = np.random.default_rng(0)
    rows = range(1, 18)
    wrong = found = 0
    for _ in range(100):
        noise = np.exp(rng.normal(0, 0.02, len(rows)))
        wrong += bool(swept({n: float((1 + 0.1 * n) * e) for n, e in zip(rows, noise, strict=True)}).tops)
        levels = [1.0 if n < 4 else 1.45 if n < 9 else 2.3 for n in rows]
        found += swept({n: float(c * e) for n, c, e in zip(rows, levels, noise, strict=True)}).tops == (2, 7)
    assert wrong <= 5
    assert found >= 85


def test_a_sweep_of_powers_of_two_says_what_it_cannot_know() -> None:
    """The published staircase, swept at 1, 2, 4, 8 and 16: the steps at 4 and 9 are there and nobody knows where."""
    full = {1: 36.9, 2: 37.1, 4: 53.6, 8: 54.9, 16: 81.0}
    found = swept(full, 0.035)
    assert found.holes == (3, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15)
    assert [(step.below, step.above, step.exact) for step in found.steps] == [(2, 4, False), (8, 16, False)]
    assert found.tops == ()
    assert [(p.last, p.at_most) for p in found.plateaus] == [(2, 3), (8, 15)]


def test_points_that_do_not_rise() -> None:
    dips = seen("torch-fp32-smol135m-200").dips
    assert [(dip.rows, dip.width) for dip in dips] == [(3, 4), (7, 8), (11, 12)]
    assert dips[0].saving == pytest.approx(1 - 97.05 / 112.02)
    assert seen("llama-Q8_0-smol-200").dips == ()  # 8 rows are 3 % under 7, which is noise


def test_the_depth_decides() -> None:
    points = [*published({1: 1.0, 2: 1.0, 3: 1.0, 4: 1.0}, 100), *published({1: 1.1, 2: 1.1, 3: 3.0, 4: 3.0}, 1000)]
    found = fit_curve(points)
    assert staircase(found, 100).kind == "flat"
    assert staircase(found, 1000).tops == (1,)


def chi_squared(rows: Doubles, cost: Doubles, sigma: Doubles, pieces: list[Piece]) -> float:
    """What the fit is meant to make smallest, worked out from scratch."""
    total = 0.0
    for piece in pieces:
        at = slice(piece.first, piece.last)
        fitted = np.asarray([piece.at(x) for x in rows[at]])
        total += float((((cost[at] - fitted) / sigma[at]) ** 2).sum())
        total += (SEGMENT + (RAMP if piece.slope else 0)) * math.log(len(rows))
    return total


def best_by_hand(rows: Doubles, cost: Doubles, sigma: Doubles) -> float:
    """Over every way to cut, and every choice of flat or rising for each piece."""
    n, best = len(rows), math.inf
    for cuts in itertools.product([False, True], repeat=n - 1):
        edges = [0, *(at for at, cut in enumerate(cuts, 1) if cut), n]
        total = 0.0
        for first, last in itertools.pairwise(edges):
            w, x, y = 1 / sigma[first:last], rows[first:last], cost[first:last]
            columns = [np.ones_like(x)]
            options = []
            for design in ([columns[0]], [columns[0], x]):
                if len(design) == 2 and last - first < SHORTEST_RAMP:
                    continue
                a = np.stack(design, 1) * w[:, None]
                answer = np.linalg.lstsq(a, y * w, rcond=None)[0]
                if len(design) == 2 and answer[1] <= 0:
                    continue
                misfit = float(((a @ answer - y * w) ** 2).sum())
                options.append(misfit + (SEGMENT + (RAMP if len(design) == 2 else 0)) * math.log(n))
            total += min(options)
        best = min(best, total)
    return best


@pytest.mark.parametrize("seed", range(12))
def test_the_search_is_exact(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 10))
    rows = np.sort(rng.choice(np.arange(1, 20), n, replace=False)).astype(np.float64)
    cost = 1 + np.cumsum(rng.choice([0.0, 0.02, 0.4], n)) + rng.normal(0, 0.02, n)
    sigma = 0.02 * cost
    pieces = fit(rows, cost, sigma)
    assert chi_squared(rows, cost, sigma, pieces) == pytest.approx(best_by_hand(rows, cost, sigma))


@pytest.mark.parametrize("name", ids())
def test_the_flat_fit_is_that_of_the_field_s_change_point_library(name: str) -> None:
    """ruptures finds the best cut for each number of pieces; ours is the best of those, penalty included."""
    of = curve(name)
    cost = np.asarray([line.at(context(name)) for line in of.lines])
    # One noise for all points, because the library weighs none.
    sigma = np.full(len(cost), 0.02 * cost.mean())
    pieces = fit(np.asarray(of.rows, np.float64), cost, sigma, ramps=False)
    scaled = cost / sigma
    search = ruptures.Dynp(model="l2", min_size=1, jump=1).fit(scaled)
    penalty = SEGMENT * (math.log(len(cost)) if len(cost) > 1 else 1.0)
    totals = {}
    for n_cuts in range(len(cost)):
        edges = search.predict(n_bkps=n_cuts) if n_cuts else [len(cost)]
        misfit = ruptures.costs.CostL2().fit(scaled).sum_of_costs(edges)
        totals[misfit + penalty * len(edges)] = edges
    assert [piece.last for piece in pieces] == totals[min(totals)]
