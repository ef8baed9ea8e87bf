"""The tables behind a report, units in the names of columns: what CSV and JSON hold, and the page shows."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from surefoot.lab.analysis import Analysis, Row
from surefoot.lab.report import words
from surefoot.lab.stats import Interval

SCHEMA = 1
"""Raised whenever the meaning of a column changes, or one goes."""

MARK = "surefoot report"
"""Stands near the beginning of every report, so that one can be told from any other file."""
COLUMN = "surefoot_report"
"""The same where only a name can stand: the first column of CSV, the first key of JSON. Its value is SCHEMA."""

Cell = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class NamedRun:
    """A run and what the report calls it."""

    name: str
    analysis: Analysis


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of one kind, one cell for each column."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def records(self) -> list[dict[str, Cell]]:
        """The rows as objects."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


def tables(runs: Sequence[NamedRun]) -> tuple[Table, ...]:
    """All tables of a report; `speed` is the first. Shares and ratios are plain numbers, 1 is all or the same."""
    return tuple(
        _table(name, [{"run": run.name, **row} for run in runs for row in make(run.analysis)], columns)
        for name, make, columns in (
            ("speed", _speed, ()),
            (
                "positions",
                _positions,
                (*_KEYS, "position", "offered", "reached", "accepted", "survival", "conditional"),
            ),
            ("draft_lengths", _draft_lengths, (*_KEYS, *_GROUP)),
            ("match_lengths", _match_lengths, (*_KEYS, *_GROUP)),
            ("shapes", _shapes, (*_KEYS, "rows", "rounds", "share_of_rounds", "forward_median_s")),
            ("pairs", _pairs, ()),
            ("bands", _bands, ("run", "pair", "prompt", "budget_tokens", "low_tok_per_s", "high_tok_per_s", "source")),
            ("findings", _findings, ("run", "finding", "text", "pairs")),
            ("gates", _gates, ("run", "gate", "passed", "figure", "limit", "unit", "text")),
            ("settings", _settings, ("run", "setting", "value")),
        )
    )


_KEYS = ("run", "workload", "budget_tokens", "arm")
_GROUP = ("length_tokens", "rounds", "evaluated", "accepted", "accepted_per_round", "acceptance_rate")
_Rows = Iterator[Mapping[str, Cell]]


def _table(name: str, rows: Sequence[Mapping[str, Cell]], columns: tuple[str, ...]) -> Table:
    """columns: for where there may be no row; else those of the rows."""
    named = tuple(rows[0]) if rows else columns
    return Table(name, named, tuple(tuple(row[column] for column in named) for row in rows))


def _speed(analysis: Analysis) -> _Rows:
    for row in analysis.rows:
        drafts = row.drafts
        yield {
            **_place(row),
            "kind": row.kind,
            "verdict": words.verdict(row),
            "lossy": row.lossy,
            **_interval("ratio", row.ratio),
            **_interval("baseline_tok_per_s", row.baseline_tps),
            **_interval("arm_tok_per_s", row.arm_tps),
            "pairs_used": row.pairs_used,
            "pairs_left_out": row.pairs_left_out,
            "prompts": row.prompts,
            "pairs_of_same_text": row.same_ids,
            "pairs_of_all": row.all_pairs,
            "prompt_tokens_median": row.prompt_tokens.median,
            "prompt_tokens_least": row.prompt_tokens.low,
            "prompt_tokens_most": row.prompt_tokens.high,
            "output_tokens_median": row.output_tokens.median,
            "output_tokens_least": row.output_tokens.low,
            "output_tokens_most": row.output_tokens.high,
            **{
                name: None if drafts is None else getattr(drafts, name)
                for name in (
                    *("rounds", "drafting", "drafted", "evaluated", "accepted", "discarded", "emitted"),
                    *("accepted_per_round", "tokens_per_round"),
                )
            },
            "acceptance_rate": None if drafts is None else drafts.rate,
            **_phases("arm", row.phases),
            **_phases("baseline", row.baseline_phases),
            "text": row.text,
            "why_no_ratio": row.why,
        }


def _positions(analysis: Analysis) -> _Rows:
    for row in analysis.rows:
        for each in row.drafts.positions if row.drafts else ():
            yield {
                **_place(row),
                "position": each.position,
                "offered": each.offered,
                "reached": each.reached,
                "accepted": each.accepted,
                "survival": each.survival,
                "conditional": each.conditional,
            }


def _draft_lengths(analysis: Analysis) -> _Rows:
    return _groups(analysis, "by_draft_len")


def _match_lengths(analysis: Analysis) -> _Rows:
    return _groups(analysis, "by_match_len")


def _groups(analysis: Analysis, name: str) -> _Rows:
    for row in analysis.rows:
        for each in getattr(row.drafts, name) if row.drafts else ():
            yield {
                **_place(row),
                "length_tokens": each.key,
                "rounds": each.rounds,
                "evaluated": each.evaluated,
                "accepted": each.accepted,
                "accepted_per_round": each.accepted_per_round,
                "acceptance_rate": each.rate,
            }


def _shapes(analysis: Analysis) -> _Rows:
    for row in analysis.rows:
        for each in row.drafts.shapes if row.drafts else ():
            yield {
                **_place(row),
                "rows": each.rows,
                "rounds": each.rounds,
                "share_of_rounds": each.rounds / row.drafts.rounds if row.drafts else None,
                "forward_median_s": each.median_s,
            }


def _pairs(analysis: Analysis) -> _Rows:
    """A pair's own ratio is given only where its row may print one: a disturbed pair flatters or slanders."""
    printed = {(row.workload, row.budget, row.arm) for row in analysis.rows if row.ratio is not None}
    for pair in analysis.pairs:
        used = not pair.reasons
        yield {
            "pair": pair.number,
            "workload": pair.workload,
            "budget_tokens": pair.budget,
            "arm": pair.arm,
            "prompt": pair.prompt,
            "at_s": pair.at_s,
            "baseline_tok_per_s": pair.off_tps,
            "arm_tok_per_s": pair.on_tps,
            "ratio": pair.ratio if used and (pair.workload, pair.budget, pair.arm) in printed else None,
            "same_text": pair.same_ids,
            "baseline_shared": pair.shared,
            "used": used,
            "left_out_because": "; ".join(pair.reasons),
        }


def _bands(analysis: Analysis) -> _Rows:
    for band in analysis.bands:
        yield {
            "pair": band.pair,
            "prompt": band.prompt,
            "budget_tokens": band.budget,
            "low_tok_per_s": band.low,
            "high_tok_per_s": band.high,
            "source": band.source,
        }


def _findings(analysis: Analysis) -> _Rows:
    for each in analysis.findings:
        yield {"finding": each.name, "text": each.text, "pairs": " ".join(map(str, each.pairs))}


def _gates(analysis: Analysis) -> _Rows:
    for gate in analysis.gates.values():
        yield {
            "gate": gate.name,
            "passed": gate.passed,
            "figure": gate.figure,
            "limit": gate.limit,
            "unit": gate.unit,
            "text": gate.text,
        }


def _settings(analysis: Analysis) -> _Rows:
    for name, value in words.settings(analysis).items():
        yield {"setting": name, "value": value}
    yield {"setting": "command", "value": words.command_line(analysis.run)}


def _place(row: Row) -> dict[str, Cell]:
    return {"workload": row.workload, "budget_tokens": row.budget, "arm": row.arm}


def _interval(name: str, value: Interval | None) -> dict[str, Cell]:
    parts = (None, None, None) if value is None else (value.estimate, value.low, value.high)
    return dict(zip((name, f"{name}_low", f"{name}_high"), parts, strict=True))


def _phases(whose: str, value: Any) -> dict[str, Cell]:
    names = ("draft", "extend", "judge", "commit", "other")
    return {f"{whose}_{name}_share": None if value is None else getattr(value, name) for name in names}


def as_csv(table: Table) -> str:
    """The table, the schema in its first column. Empty for what is not known; numbers in full."""
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\n")
    writer.writerow((COLUMN, *table.columns))
    writer.writerows((SCHEMA, *(_text(cell) for cell in row)) for row in table.rows)
    return sink.getvalue()


def as_json(all_tables: Sequence[Table]) -> str:
    """One document of all tables, their rows as objects. null for what is not known; numbers in full."""
    document = {COLUMN: SCHEMA, "tables": {table.name: table.records() for table in all_tables}}
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _text(cell: Cell) -> str:
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return "" if cell is None else str(cell)
