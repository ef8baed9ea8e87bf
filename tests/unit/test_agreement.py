"""Two sweeps of one configuration agree, or it is said whether the pace or the shape differs."""

from __future__ import annotations

import numpy as np
import pytest
from cost_curves import SEED, curve

from surefoot.core.cost import CostCurve, fit_curve, published
from surefoot.core.errors import ConfigError
from surefoot.lab.agreement import compare

BEFORE = curve("ov-delta-fp32-smol-200")


def again(pace: float = 1.0, noise: float = 0.0, seed: int = 0, **changed: float) -> CostCurve:
    """The same machine once more; changed: rows5=1.2 makes five rows dearer."""
    rng = np.random.default_rng(seed)
    seconds = {
        line.rows: line.at(200) * pace * changed.get(f"rows{line.rows}", 1.0) * float(np.exp(rng.normal(0, noise)))
        for line in BEFORE.lines
    }
    return fit_curve(published(seconds, 200))


def test_sweeps_within_their_noise_agree() -> None:
    kinds = [compare(BEFORE, again(noise=0.02, seed=seed)).kind for seed in range(40)]
    assert kinds.count("agree") >= 36
    same = compare(BEFORE, again())
    assert (same.kind, same.outside) == ("agree", 0)
    assert same.text.startswith("the sweeps agree at all 18 points; outside of 95 %: 0; ")


def test_what_would_have_shown_is_told() -> None:
    """Both sweeps with errors of 2 %: three deviations of a difference are 8.5 %."""
    found = compare(BEFORE, again(rows5=1.07))
    assert found.kind == "agree"
    assert found.outside == 1
    assert found.shows == pytest.approx(np.expm1(3 * 0.02 * 2**0.5))
    assert found.text.endswith("; outside of 95 %: 1; a change of 9 % would have shown at half of them")
    wider = fit_curve([*published({line.rows: line.at(200) for line in BEFORE.lines}, 200, 0.1)])
    assert compare(BEFORE, wider).shows == pytest.approx(np.expm1(3 * np.hypot(0.02, 0.1)))


@pytest.mark.parametrize(
    ("pace", "says"),
    [(1.9, "1.90 times slower throughout (a mode of the process"), (0.8, "1.25 times faster throughout (heat")],
)
def test_another_pace_is_no_other_shape(pace: float, says: str) -> None:
    found = compare(BEFORE, again(pace, 0.01))
    assert found.kind == "another pace"
    assert found.pace == pytest.approx(pace, rel=0.02)
    assert says.split(" throughout")[1] in found.text
    assert found.differences == ()


def test_a_row_count_that_changed_is_named() -> None:
    found = compare(BEFORE, again(1.3, 0.005, rows5=1.25, rows7=1.15))
    assert found.kind == "another shape"
    assert [(each.rows, each.depth) for each in found.differences] == [(5, 200), (7, 200)]
    assert found.differences[0].ratio == pytest.approx(1.25, rel=0.02)
    assert "2 of 18 points changed against the others, most of all 5 rows at 200 tokens (1.2" in found.text


def test_sweeps_without_a_common_point_are_not_compared() -> None:
    with pytest.raises(ConfigError, match="share no row count"):
        compare(BEFORE, curve(SEED))
