"""The report as Markdown: the same figures as the page, for an issue or a pull request. GitHub's dialect."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from surefoot.lab.analysis import Row
from surefoot.lab.report import numbers, page, words
from surefoot.lab.report.rows import MARK, SCHEMA, NamedRun
from surefoot.lab.report.terms import PHASES, TERMS

_SPECIAL = re.compile(r"[\\`*<>\[\]|&~$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_Column = tuple[str, bool, Callable[[Row], str]]
"""Its head, whether it holds numbers, and what it shows of a row."""


def render(runs: Sequence[NamedRun]) -> str:
    """The report."""
    return "\n\n".join(part for part in _parts(runs) if part) + "\n"


def plain(text: object) -> str:
    """Text that Markdown shows as it is, on one line."""
    return _SPECIAL.sub(r"\\\g<0>", " ".join(str(text).split()))


def code(text: str) -> str:
    """A block of code; its fence is longer than any row of backticks inside."""
    longest = max((len(found) for found in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text}\n{fence}"


def table(head: Sequence[tuple[str, bool]], rows: Iterable[Sequence[object]]) -> str:
    """A table of escaped cells; numbers to the right. Empty where there is no row."""
    lines = [[plain(cell) for cell in row] for row in rows]
    if not lines:
        return ""
    rule = ["---:" if is_number else "---" for _, is_number in head]
    return "\n".join("| " + " | ".join(line) + " |" for line in [[name for name, _ in head], rule, *lines])


def _parts(runs: Sequence[NamedRun]) -> Iterator[str]:
    several = len(runs) > 1
    yield f"<!-- {MARK} {SCHEMA} -->"
    yield f"# {plain(page.title(runs))}: with drafts and without"
    for run in runs:
        name = f"**{plain(run.name)}**: " if several else ""
        yield name + plain(f"{page.runtime(run.analysis)}; {page.machine(run.analysis)}; {page.when(run.analysis)}")
    yield "## Is it faster?"
    yield "\n".join(
        f"- **{plain(card.workload)}**{f' ({plain(block.run)})' if several else ''}: "
        f"**{block.headline}**. {plain(block.sentence)} {plain(words.capital(block.foot))}."
        for card in page.cards(runs)
        for block in card.blocks
    )
    yield "## Can this be trusted?"
    for run in runs:
        yield f"### {plain(run.name)}" if several else ""
        mark = {True: "passed", False: "**failed**", None: "note"}
        yield "\n".join(f"- {mark[c.good]}: {plain(c.name)}: {plain(c.text)}" for c in page.checks(run.analysis))
    yield "## Speed by workload"
    yield _rows(runs, _SPEED)
    if several:
        yield "## What differs between the runs"
        yield _values(runs, page.differences(runs)) or "Nothing."
    yield "## Acceptance by position"
    yield _each(runs, "positions", _POSITION_HEAD, _position) or "The rounds are not known."
    yield "## Acceptance by draft length"
    yield _each(runs, "by_draft_len", _LENGTH_HEAD, _length) or "The rounds are not known."
    yield "## Rounds by shape"
    yield _each(runs, "shapes", _SHAPE_HEAD, _shape) or "The rounds are not known."
    yield "## Where the time goes"
    yield (
        "Shares in percent of the time from the first token on: "
        + "; ".join(f"{n}, {what}" for n, what in PHASES)
        + "."
    )
    yield _rows(runs, _PHASES)
    yield "## What was left out, and why"
    yield _excluded(runs) or "No pair was left out."
    yield "## Gates"
    yield _gates(runs) or "No gate was run."
    yield "## Machine, versions and settings"
    for run in runs:
        yield (f"**{plain(run.name)}**: " if several else "") + plain(page.absent(run.analysis)) + ". Run it again:"
        yield code(words.command_line(run.analysis.run))
    yield _values(runs, page.settings(runs))
    yield "## Terms"
    yield "\n".join(f"- **{term}**: {meaning}" for term, meaning in TERMS)


_SPEED: tuple[_Column, ...] = (
    ("verdict", False, words.verdict),
    ("ratio", True, lambda row: numbers.estimate(row.ratio)),
    ("95 % interval", True, lambda row: row.why if row.ratio is None else numbers.limits(row.ratio)),
    ("off tok/s", True, lambda row: numbers.estimate(row.baseline_tps)),
    ("95 % interval", True, lambda row: numbers.limits(row.baseline_tps)),
    ("arm tok/s", True, lambda row: numbers.estimate(row.arm_tps)),
    ("95 % interval", True, lambda row: numbers.limits(row.arm_tps)),
    ("accepted / round", True, lambda row: numbers.fixed(row.drafts.accepted_per_round if row.drafts else None)),
    ("tokens / round", True, lambda row: numbers.fixed(row.drafts.tokens_per_round if row.drafts else None)),
    ("pairs used", True, lambda row: str(row.pairs_used)),
    ("left out", True, lambda row: str(row.pairs_left_out)),
    ("prompts", True, lambda row: str(row.prompts)),
    ("same text", True, lambda row: f"{row.same_ids} of {row.all_pairs}"),
    ("prompt tokens", True, lambda row: numbers.spread(row.prompt_tokens)),
    ("written tokens", True, lambda row: numbers.spread(row.output_tokens)),
    ("host %", True, lambda row: numbers.share(row.host_share)),
)


def _phase_column(name: str, whose: str, head: str) -> _Column:
    return f"{head} {name}", True, lambda row: numbers.share(_phase(getattr(row, whose), name))


def _phase(phases: Any, name: str) -> float | None:
    return None if phases is None else float(getattr(phases, name))


_PHASES: tuple[_Column, ...] = (
    *(_phase_column(name, "phases", "arm") for name, _ in PHASES),
    *(_phase_column(name, "baseline_phases", "off") for name, _ in PHASES),
)
_POSITION_HEAD = tuple((n, True) for n in ("position", "offered", "reached", "accepted", "survival %", "conditional %"))
_LENGTH_HEAD = tuple(
    (n, True) for n in ("draft tokens", "rounds", "scored", "accepted", "accepted / round", "% of scored")
)
_SHAPE_HEAD = tuple((n, True) for n in ("rows", "rounds", "% of rounds", "forward median ms"))


def _position(row: Row, it: Any) -> tuple[object, ...]:
    counts = it.position, it.offered, it.reached, it.accepted
    return (*counts, numbers.share(it.survival), numbers.share(it.conditional))


def _length(row: Row, it: Any) -> tuple[object, ...]:
    counts = it.key, it.rounds, it.evaluated, it.accepted
    return (*counts, numbers.fixed(it.accepted_per_round), numbers.share(it.rate))


def _shape(row: Row, it: Any) -> tuple[object, ...]:
    of_rounds = it.rounds / row.drafts.rounds if row.drafts else None
    return it.rows, it.rounds, numbers.share(of_rounds), numbers.fixed(1000 * it.median_s, 1)


def _head(runs: Sequence[NamedRun]) -> list[tuple[str, bool]]:
    place = [("workload", False), ("output tokens", True), ("arm", False)]
    return [("run", False), *place] if len(runs) > 1 else place


def _place(runs: Sequence[NamedRun], run: NamedRun, row: Any) -> list[object]:
    place = [row.workload, row.budget, row.arm]
    return [run.name, *place] if len(runs) > 1 else place


def _rows(runs: Sequence[NamedRun], columns: Sequence[_Column]) -> str:
    head = [*_head(runs), *((name, is_number) for name, is_number, _ in columns)]
    return table(
        head,
        (
            [*_place(runs, run, row), *(show(row) for _, _, show in columns)]
            for run in runs
            for row in run.analysis.rows
        ),
    )


def _each(
    runs: Sequence[NamedRun], name: str, head: Sequence[tuple[str, bool]], show: Callable[[Row, Any], Sequence[object]]
) -> str:
    """A table with a line for each of what the rows' drafts hold under this name."""
    return table(
        [*_head(runs), *head],
        (
            [*_place(runs, run, row), *show(row, each)]
            for run in runs
            for row in run.analysis.rows
            for each in (getattr(row.drafts, name) if row.drafts else ())
        ),
    )


def _excluded(runs: Sequence[NamedRun]) -> str:
    head = [("pair", True), ("minute", True), *_head(runs), ("prompt", False), ("off tok/s", True), ("arm tok/s", True)]
    return table(
        [*head, ("why", False)],
        (
            [
                *(pair.number, numbers.fixed(pair.at_s / 60, 1), *_place(runs, run, pair), pair.prompt),
                *(numbers.fixed(pair.off_tps, 1), numbers.fixed(pair.on_tps, 1), "; ".join(pair.reasons)),
            ]
            for run in runs
            for pair in run.analysis.excluded
        ),
    )


def _gates(runs: Sequence[NamedRun]) -> str:
    several = len(runs) > 1
    head = [("gate", False), ("outcome", False), ("figure", True), ("limit", True), ("of", False), ("in words", False)]
    return table(
        [("run", False), *head] if several else head,
        (
            [
                *([run.name] if several else []),
                *(gate.name, "passed" if gate.passed else "failed", numbers.measure(gate.figure)),
                *(numbers.measure(gate.limit), gate.unit, gate.text),
            ]
            for run in runs
            for gate in run.analysis.gates.values()
        ),
    )


def _values(runs: Sequence[NamedRun], lines: Sequence[tuple[str, tuple[str, ...]]]) -> str:
    several = len(runs) > 1
    head = [("setting", False), *((plain(run.name) if several else "value", False) for run in runs)]
    return table(head, ([name, *values] for name, values in lines))
