"""A report from one or several runs: a page, Markdown, CSV and JSON of the same rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, get_args

from surefoot.lab.report.rows import NamedRun

Format = Literal["html", "md", "csv", "json"]
FORMATS: tuple[Format, ...] = get_args(Format)


def render(runs: Sequence[NamedRun], format_: Format, path: Path) -> dict[Path, str]:
    """The files of a report: one at `path`; for CSV the speeds there, every other table beside it under its own name.

    Raises: NotEligible where HTML is wanted and jinja2 or matplotlib is missing.
    """
    from surefoot.lab.report import html, markdown, rows

    if format_ == "html":
        return {path: html.render(runs)}
    if format_ == "md":
        return {path: markdown.render(runs)}
    tables = rows.tables(runs)
    if format_ == "json":
        return {path: rows.as_json(tables)}
    speed, *others = tables
    beside = {path.with_name(f"{path.stem}.{table.name}{path.suffix}"): rows.as_csv(table) for table in others}
    return {path: rows.as_csv(speed), **beside}


__all__ = ["FORMATS", "Format", "NamedRun", "render"]
