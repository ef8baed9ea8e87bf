"""What a run of the bench says of its own end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import synthetic_run
from surefoot.app.cli.bench import cut_short
from surefoot.lab.plan import plan
from surefoot.lab.records import End
from surefoot.lab.store import Loaded, load
from synthetic_run import Plan


@pytest.fixture
def run(tmp_path: Path) -> Loaded:
    return load(synthetic_run.write(tmp_path / "run.jsonl", Plan(workloads=("chat",), budgets=(256,))))


def with_pairs(run: Loaded, count: int, end: End | None) -> Loaded:
    return replace(run, pairs=(run.pairs * 2)[:count], end=end)


@pytest.mark.parametrize("beyond", [0, 2])
def test_a_complete_run_is_not_cut_short_by_its_spare_pairs(run: Loaded, beyond: int) -> None:
    assert cut_short(with_pairs(run, len(plan(run.run)) + beyond, End("now", "complete"))) == ""


def test_a_run_says_why_it_ended_and_how_far_it_came(run: Loaded) -> None:
    wanted = len(plan(run.run))
    assert cut_short(with_pairs(run, 1, None)) == f"interrupted after 1 of {wanted} pairs"
    assert cut_short(with_pairs(run, 1, End("now", "time"))) == f"the time was over after 1 of {wanted} pairs"
    late = with_pairs(run, wanted + 1, End("now", "time"))
    assert cut_short(late) == f"the time was over among the spare pairs, after {wanted + 1}"
