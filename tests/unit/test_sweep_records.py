"""The recorded sweeps are what the study says of them: classes, paces, how far they agree, each figure of the table."""

from __future__ import annotations

import itertools
import json
import shutil
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from surefoot.core.cost import CostCurve
from surefoot.core.plateaus import staircase
from surefoot.engine.plans import RowFinding
from surefoot.lab.agreement import Agreement, compare
from surefoot.lab.measure import Sweep
from surefoot.lab.tune import kept

ROOT = Path(__file__).parent.parent.parent
RECORDS = ROOT / "benchmarks" / "records"
STUDY = " ".join((ROOT / "studies" / "sweeps.md").read_text(encoding="utf-8").split())
NAMES = ("openvino fp16", "openvino int8", "llamacpp F16", "llamacpp Q8_0", "hf fp32")


@cache
def swept(name: str, number: int) -> tuple[RowFinding, CostCurve]:
    """What a record holds, read as tuning takes up what it measured before."""
    with TemporaryDirectory() as folder:
        path = Path(shutil.copy(RECORDS / f"sweep_{name.replace(' ', '_').lower()}_{number}.jsonl", folder))
        begin = kept._begin(json.loads(path.read_text(encoding="utf-8").partition("\n")[0]))
        with kept.Kept(path, begin) as file:
            assert file.rows is not None
            return file.rows, Sweep(tuple(file.samples), begin.rows, begin.depths, 0.0, 0.0, "time", ()).curve()


def compared(name: str) -> Agreement:
    return compare(swept(name, 1)[1], swept(name, 2)[1])


def told(values: list[str]) -> str:
    return f"{', '.join(values[:-1])} and {values[-1]}"


@pytest.mark.parametrize("name", NAMES)
def test_both_sweeps_recorded_identical_rows_and_nothing_but_another_pace(name: str) -> None:
    assert [swept(name, number)[0].row_class for number in (1, 2)] == ["identical", "identical"]
    found = compared(name)
    assert (found.kind, found.n_points, found.differences) == ("another pace", 38, ())


def test_the_study_has_the_paces_and_what_would_have_shown() -> None:
    found = [compared(name) for name in NAMES]
    assert f"were {told([f'{each.pace:.2f}' for each in found])} times slower throughout" in STUDY
    assert f"a change of {told([f'{100 * each.shows:.0f}' for each in found])} % would have shown" in STUDY
    assert f"Outside of their 95 % were {told([str(each.outside) for each in found])} points" in STUDY


@pytest.mark.parametrize("name", NAMES)
def test_the_study_has_the_medians(name: str) -> None:
    first, second = ({(each.rows, each.depth): each.median_s for each in swept(name, n)[1].points} for n in (1, 2))
    for depth in (200, 850):
        one = [each[1, depth] for each in (first, second)]
        cells = [name if depth == 200 else "", str(depth), ", ".join(f"{1e3 * each:.1f}" for each in one)]
        cells += [
            ", ".join(f"{each[rows, depth] / each[1, depth]:.2f}" for each in (first, second))
            for rows in (2, 4, 8, 12, 16, 24, 32)
        ]
        assert " ".join(f"| {' | '.join(cells)} |".split()) in STUDY


def test_all_are_slopes_but_for_three_rows_that_the_second_sweep_did_not_confirm() -> None:
    found = {}
    for name, number, depth in itertools.product(NAMES, (1, 2), (200, 850)):
        plateaus = staircase(swept(name, number)[1], depth).plateaus
        if plateaus:
            found[name, number, depth] = [(each.first, each.last) for each in plateaus]
    assert found == {("hf fp32", 1, 200): [(1, 3)]}
    assert "All ten are called slopes, but for a plateau of three rows on torch in the first sweep at 200" in STUDY
