"""The table: what stands in it where figures are sure, and what where they are not."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest

import synthetic_run
from surefoot.app.cli import bench_table
from surefoot.app.cli.bench_world import line, spelled
from surefoot.app.cli.console import Console
from surefoot.lab.analysis import Analysis, analyse
from surefoot.lab.bench import Progress
from surefoot.lab.store import load
from synthetic_run import Plan

CONSOLE = Console(io.StringIO(), io.StringIO())


def analysed(tmp_path: Path, plan: Plan) -> Analysis:
    return analyse(load(synthetic_run.write(tmp_path / "run.jsonl", plan)))


def text(analysis: Analysis, console: Console = CONSOLE) -> list[str]:
    return list(bench_table.lines(analysis, Path("a run.jsonl"), console))


PLAN = Plan(workloads=("chat", "code"), budgets=(256,), prompts=6, repeats=1, excluded=False)


def test_a_row_holds_what_the_analysis_says(tmp_path: Path) -> None:
    analysis = analysed(tmp_path, PLAN)
    lines = text(analysis)
    head = next(at for at, line in enumerate(lines) if line.startswith("workload"))
    shown = lines[head + 1 : head + 1 + len(analysis.rows)]
    assert len(analysis.rows) == 2 * 3
    for row, line_ in zip(analysis.rows, shown, strict=True):
        assert line_.startswith(row.workload)
        assert row.arm in line_
        assert row.ratio is not None
        assert f"{row.ratio.estimate:.2f} [{row.ratio.low:.2f}, {row.ratio.high:.2f}]" in line_
        assert line_.endswith(row.verdict)
        cells = line_.split()
        if row.drafts:
            assert row.drafts.accepted_per_round is not None
            assert f"{row.drafts.accepted_per_round:.2f}" in cells
            assert f"{row.drafts.accepted_per_round + 1:.2f}" in cells
        else:
            assert cells.count("-") == 2, "the rounds of another engine are not known"
        assert [str(row.pairs_used), str(row.pairs_left_out)] == line_[: -len(row.verdict)].split()[-2:]
    assert len({line_.index("[") for line_ in shown if "[" in line_}) <= 2, "columns stand below each other"


def test_no_ratio_is_shown_without_its_baseline_gate(tmp_path: Path) -> None:
    analysis = analysed(tmp_path, replace(PLAN, baseline=0.9))
    lines = text(analysis)
    assert not [line_ for line_ in lines if "[" in line_ and line_.startswith(("chat ", "code "))]
    assert all(line_.endswith("no speed-up") for line_ in lines if line_.startswith(("chat ", "code ")))
    (why,) = [line_ for line_ in lines if line_.startswith("no speed-up printed")]
    assert "the baseline gate failed" in why
    assert "chat" not in why, "it holds for all rows, and is said once"


def test_pairs_that_were_left_out_are_listed_with_their_reason(tmp_path: Path) -> None:
    analysis = analysed(tmp_path, replace(PLAN, repeats=3, excluded=True))
    assert analysis.excluded
    lines = text(analysis)
    at = next(at for at, line_ in enumerate(lines) if "pairs left out:" in line_)
    assert lines[at].startswith(f"{len(analysis.excluded)} of {len(analysis.pairs)} pairs")
    for pair, line_ in zip(analysis.excluded, lines[at + 1 :], strict=False):
        assert f"pair {pair.number}, {pair.workload} {pair.budget}, {pair.arm}" in line_
        assert pair.reasons[0] in line_
        assert "ratio" not in line_
        assert f"{pair.ratio:.2f}" not in line_.partition(": ")[0]


def test_chosen_lengths_the_record_and_the_commands(tmp_path: Path) -> None:
    analysis = analysed(tmp_path, PLAN)
    lines = text(analysis)
    chosen = [arm for arm in analysis.run.arms if arm.chosen]
    assert chosen
    assert all(f"{arm.label}: {arm.chosen}" in lines for arm in chosen)
    assert "record: a run.jsonl" in lines
    assert "  surefoot report 'a run.jsonl'" in lines
    assert lines[-1].startswith("  surefoot bench ")


def test_only_a_terminal_gets_colour(tmp_path: Path) -> None:
    analysis = analysed(tmp_path, PLAN)
    assert not any("\x1b" in line_ for line_ in text(analysis))
    coloured = text(analysis, replace(CONSOLE, color=True))
    assert any("\x1b[32mfaster" in line_ for line_ in coloured)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.4, "0 s"), (59, "59 s"), (89, "89 s"), (90, "2 min"), (3000, "50 min"), (6000, "1.7 h")],
)
def test_the_time_that_is_left(seconds: float, words: str) -> None:
    assert spelled(seconds) == words
    assert line(Progress(4, 20, seconds, "chat, ngram")) == f"pair 5 of 20, {words} left (chat, ngram)"


def test_progress_before_anything_is_known() -> None:
    assert line(Progress(0, 20, None, "chat, ngram")) == "pair 1 of 20 (chat, ngram)"
    assert line(Progress(0, 0, None, "warming up drafts off")) == "warming up drafts off"
