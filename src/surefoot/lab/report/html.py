"""The report as one HTML file that needs nothing outside itself: no script, no font, no network."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from surefoot.core.errors import NotEligible
from surefoot.lab.report import figures, numbers, page, words
from surefoot.lab.report.figures import Panel
from surefoot.lab.report.rows import MARK, SCHEMA, NamedRun
from surefoot.lab.report.terms import PHASES, TERMS

TEMPLATES = Path(__file__).parent / "templates"


def environment() -> Any:
    """Jinja with every text escaped, for our templates."""
    try:
        import jinja2
    except ImportError as error:
        raise NotEligible("a report needs jinja2: pip install 'surefoot[bench]'") from error
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    made.filters["groupby_kept"] = _groups
    return made


def render(runs: Sequence[NamedRun]) -> str:
    """The page. Source of what is safe: texts are escaped by Jinja; the style sheet and the figures are ours."""
    env = environment()
    from markupsafe import Markup

    order = page.order(runs)
    several = len(runs) > 1
    rows = [row for run in runs for row in run.analysis.rows]
    return str(
        env.get_template("report.html.j2").render(
            mark=f"{MARK} {SCHEMA}",
            title=page.title(runs),
            css=Markup((TEMPLATES / "report.css").read_text(encoding="utf-8").strip()),
            runs=runs,
            several=several,
            page=page,
            words=words,
            numbers=numbers,
            order=order,
            keys=[Markup(figures.key(f"key{place}", place)) for place in range(len(order.arms))],
            drafting={row.arm for row in rows if row.drafts is not None},
            cards=page.cards(runs),
            beside=page.beside(runs),
            differences=page.differences(runs),
            settings=page.settings(runs),
            figures=_figures(runs, Markup),
            figure_note=_figure_note(runs),
            few=figures.FEW,
            phases=PHASES,
            terms=TERMS,
            spread=numbers.spread,
        )
    )


def _figures(runs: Sequence[NamedRun], safe: Any) -> dict[str, list[Panel]]:
    """The panels of each section; the figures of rounds show each run's largest budget."""
    order = page.order(runs)
    all_rows = [row for run in runs for row in run.analysis.rows]
    range_ = figures.ratio_range(all_rows)
    longest_ms = figures.longest_ms(all_rows)
    found: dict[str, list[Panel]] = {name: [] for name in ("speed", "acceptance", "shapes", "time", "baseline")}
    for at, run in enumerate(runs):
        rows = run.analysis.rows
        for budget in dict.fromkeys(row.budget for row in rows):
            own = [row for row in rows if row.budget == budget]
            title = _title(runs, run, f"{budget} tokens")
            found["speed"].append(figures.speed(f"speed{at}-{budget}", title, own, order, range_))
        largest = [row for row in rows if row.budget == max(row.budget for row in rows)]
        for number, (workload, group) in enumerate(_groups(largest, "workload")):
            drafted = [row for row in group if row.drafts is not None and row.drafts.rounds]
            title = _title(runs, run, workload)
            if any(row.drafts is not None and row.drafts.positions for row in drafted):
                name = f"acceptance{at}-{number}"
                found["acceptance"].append(figures.acceptance(name, title, drafted, order))
            if drafted:
                found["shapes"].append(figures.shapes(f"shapes{at}-{number}", title, drafted, order))
        if any(row.arm_tps is not None for row in largest):
            title = _title(runs, run, f"{largest[0].budget} tokens")
            found["time"].append(figures.time_per_token(f"time{at}", title, largest, order, longest_ms))
            if any(row.phases is not None or row.baseline_phases is not None for row in largest):
                host = _title(runs, run, f"{largest[0].budget} tokens, outside the forward")
                found["time"].append(figures.host_per_token(f"host{at}", host, largest, order))
        title = _title(runs, run, "drafts off, pair by pair; grey is the band, a cross was left out")
        found["baseline"].append(figures.baseline_over_time(f"baseline{at}", title, run.analysis))
    return {
        name: [Panel(panel.title, safe(panel.svg), panel.missing) for panel in panels] for name, panels in found.items()
    }


def _title(runs: Sequence[NamedRun], run: NamedRun, text: str) -> str:
    return f"{run.name}: {text}" if len(runs) > 1 else text


def _figure_note(runs: Sequence[NamedRun]) -> str:
    """What the figures of rounds are drawn from, where there was a choice."""
    if all(len({row.budget for row in run.analysis.rows}) < 2 for run in runs):
        return ""
    return "The figures show the largest token budget, the tables all."


def _groups(rows: Iterable[Any], name: str) -> Iterator[tuple[str, list[Any]]]:
    """Rows that follow each other with the same value, in the order in which they came."""
    for value, group in groupby(rows, key=lambda row: getattr(row, name)):
        yield value, list(group)
