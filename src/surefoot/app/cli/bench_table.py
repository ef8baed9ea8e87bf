"""The table of `surefoot bench`: a row for each workload, length and arm, and what makes its figures doubtful."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from surefoot.app.cli.console import Console
from surefoot.app.cli.errors import as_line
from surefoot.lab.analysis import Analysis, PairPoint, Row
from surefoot.lab.stats import Interval

_HEAD = (
    "workload", "tokens", "arm", "plain tok/s", "arm tok/s", "ratio [95 %]", "accepted/round", "tokens/round",
    "prompt tokens", "pairs", "left out", "verdict",
)  # fmt: skip
_LEFT = {"workload", "arm", "verdict"}
_MOST_PAIRS = 12
"""chosen: more lines than that hide the table; the report shows all."""
_COLOURS = {"faster": "32", "slower": "31"}


def lines(analysis: Analysis, path: Path, console: Console) -> Iterator[str]:
    """What the run says, line by line; every speed with its doubt beside it."""
    yield from _about(analysis)
    yield ""
    yield from _table(analysis.rows, console)
    yield from _why_none(analysis.rows)
    yield from _excluded(analysis)
    yield from _doubts(analysis)
    yield from _ways_on(analysis, path)


def _about(analysis: Analysis) -> Iterator[str]:
    model, machine = analysis.run.model, analysis.run.machine
    settings = ", ".join(f"{key} {value}" for key, value in model["settings"].items())
    yield f"{model['model']} on {model['runtime']}, {model['device']} ({settings})"
    yield f"{machine['cpu']}, {machine['cores']} cores, {machine['os']}"
    for arm in analysis.run.arms:
        if arm.chosen:
            yield f"{arm.label}: {arm.chosen}"


def _table(rows: Sequence[Row], console: Console) -> Iterator[str]:
    cells = [_HEAD, *map(_cells, rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(_HEAD))]
    for number, row in enumerate(cells):
        shown = [
            cell.ljust(width) if name in _LEFT else cell.rjust(width)
            for name, cell, width in zip(_HEAD, row, widths, strict=True)
        ]
        shown[-1] = console.styled(row[-1], _COLOURS[row[-1]]) if number and row[-1] in _COLOURS else row[-1]
        yield "  ".join(shown).rstrip()


def _cells(row: Row) -> tuple[str, ...]:
    drafts = row.drafts
    per_round = drafts.accepted_per_round if drafts else None
    return (
        row.workload,
        str(row.budget),
        row.arm,
        _figure(row.baseline_tps),
        _figure(row.arm_tps),
        _interval(row.ratio),
        "-" if per_round is None else f"{per_round:.2f}",
        "-" if per_round is None else f"{per_round + 1:.2f}",
        f"{row.prompt_tokens.low}-{row.prompt_tokens.high}",
        str(row.pairs_used),
        str(row.pairs_left_out),
        "lossy, no speed-up" if row.lossy else "no speed-up" if row.verdict == "none" else row.verdict,
    )


def _why_none(rows: Sequence[Row]) -> Iterator[str]:
    """Why rows show no ratio: the reason once, with the rows it holds for."""
    reasons: dict[str, list[Row]] = {}
    for row in rows:
        if row.why:
            reasons.setdefault(row.why, []).append(row)
    if reasons:
        yield ""
    for why, found in reasons.items():
        where = "" if len(found) == len(rows) else f" ({'; '.join(f'{r.workload} {r.budget} {r.arm}' for r in found)})"
        yield f"no speed-up printed{where}: {as_line(why)}"


def _excluded(analysis: Analysis) -> Iterator[str]:
    excluded = analysis.excluded
    if not excluded:
        return
    yield ""
    yield f"{len(excluded)} of {len(analysis.pairs)} pairs left out:"
    for pair in excluded[:_MOST_PAIRS]:
        more = f" (and {len(pair.reasons) - 1} more)" if len(pair.reasons) > 1 else ""
        yield f"  {_pair(pair)}: {pair.reasons[0]}{more}"
    if len(excluded) > _MOST_PAIRS:
        yield f"  and {len(excluded) - _MOST_PAIRS} more pairs, which the report lists"


def _pair(pair: PairPoint) -> str:
    """Without its ratio: a disturbed pair flatters or slanders."""
    return f"pair {pair.number}, {pair.workload} {pair.budget}, {pair.arm}"


def _doubts(analysis: Analysis) -> Iterator[str]:
    """What the run as a whole shows, and what the gates say."""
    said = [as_line(finding.text) for finding in analysis.findings]
    said += [
        f"{'passed' if gate.passed else 'FAILED'}: {name}: {as_line(gate.text)}"
        for name, gate in analysis.gates.items()
    ]
    if said:
        yield ""
        yield from said


def _ways_on(analysis: Analysis, path: Path) -> Iterator[str]:
    yield ""
    yield f"record: {path}"
    yield f"  surefoot report {shlex.quote(str(path))}"
    yield "to repeat it:"
    yield f"  surefoot {shlex.join(analysis.run.command)}"


def _figure(speed: Interval | None) -> str:
    """Tokens per second, no finer than its interval."""
    if speed is None:
        return "-"
    return f"{speed.estimate:.1f}" if speed.high - speed.low < 10 else f"{speed.estimate:.0f}"


def _interval(ratio: Interval | None) -> str:
    if ratio is None:
        return "-"
    digits = 2 if ratio.high - ratio.low < 1 else 1
    return f"{ratio.estimate:.{digits}f} [{ratio.low:.{digits}f}, {ratio.high:.{digits}f}]"
