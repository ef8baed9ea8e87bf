"""What `surefoot tune` prints: the staircase, what it means, a verdict for each workload."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from surefoot.app.cli.bench_world import spelled
from surefoot.app.cli.errors import as_line

if TYPE_CHECKING:
    from surefoot.app.cli.console import Console
    from surefoot.core.cost import CostCurve
    from surefoot.core.plateaus import Staircase
    from surefoot.engine.plans import Outcome, Plan
    from surefoot.lab.tune import Tuned

_WIDE = 32
"""chosen: with the figures beside it a bar of this length fits on 80 columns."""

_EIGHTHS = " ▏▎▍▌▋▊▉"
_COLOURS = {"draft": "32", "do not speculate": "33", "never speculate": "33", "undecided": "33"}


def lines(tuned: Tuned, picture: Path | None, console: Console) -> Iterator[str]:
    """What was found, line by line."""
    plan = tuned.plan
    assert plan.curve is not None
    yield from _about(plan)
    for stairs in tuned.staircases:
        yield ""
        yield from _staircase(plan.curve, stairs, console)
    yield ""
    yield f"what binds: {as_line(tuned.binding.text)}"
    yield f"drafts here: {as_line(tuned.outlook.text)}"
    if plan.workloads:
        yield ""
        yield from table(_workload_cells(plan), left={"workload", "verdict"}, console=console, colour=_COLOURS)
    yield ""
    yield f"verdict: {as_line(tuned.verdict)}"
    yield f"rows: {as_line(plan.rows.text)}"
    yield from (as_line(said) for said in (*tuned.doubts, tuned.agreement) if said)
    yield _times(tuned)
    if picture is not None:
        yield f"picture: {picture}"
    yield f"plan: {tuned.path}" if tuned.path else "no plan was written"


def table(
    cells: Sequence[Sequence[str]], *, left: set[str], console: Console, colour: dict[str, str] | None = None
) -> Iterator[str]:
    """Lines of a table whose first row is its head; numbers to the right. colour: of the last cell, by its word."""
    head = cells[0]
    widths = [max(len(row[at]) for row in cells) for at in range(len(head))]
    for number, row in enumerate(cells):
        shown = [
            cell.ljust(width) if name in left else cell.rjust(width)
            for name, cell, width in zip(head, row, widths, strict=True)
        ]
        last = row[-1] if head[-1] in left else shown[-1]
        code = next((code for word, code in (colour or {}).items() if number and row[-1].startswith(word)), "")
        shown[-1] = console.styled(last, code) if code else last
        yield "  ".join(shown).rstrip()


def _about(plan: Plan) -> Iterator[str]:
    owner = plan.owner
    given = ", ".join(f"{key} {value}" for key, value in owner.settings.items())
    yield f"{owner.model} on {owner.runtime}, {owner.device}{f' ({given})' if given else ''}"
    yield f"{owner.cpu}, {owner.cores} cores"


def _staircase(curve: CostCurve, stairs: Staircase, console: Console) -> Iterator[str]:
    """The curve at one depth, a bar for each row count, plateaus in brackets."""
    depth = stairs.depth
    most = max(curve.price(rows, depth).seconds for rows in curve.rows)
    yield f"a forward at {depth} tokens of context, by its rows"
    yield f"{'rows':>4}  {'ms':>8}  {'+-':>5}  {'times':>5}  {'bar':>5}  pads to"
    for line in curve.lines:
        rows, seconds = line.rows, line.at(depth)
        price = curve.price(rows, depth)
        padded = str(price.width) if price.padded else ""
        mark = _bracket(stairs, rows)
        times = seconds / curve.direct_s(1, depth)
        yield (
            f"{rows:>4}  {1e3 * seconds:>8.2f}  {_spread(line.error)}  {times:>5.2f}  "
            f"{curve.bar(rows, depth):>5.2f}  {padded:>7}  {_bar(seconds / most)}{mark}"
        ).rstrip()
    yield from (as_line(said) for said in _shape(stairs))


def _spread(error: float) -> str:
    """Half the 95 % interval, in five letters."""
    percent = 196 * error
    return f"{percent:>3.0f} %" if percent < 100 else f"{'>99 %':>5}"


def _bar(share: float) -> str:
    """A bar of this share of the width, to an eighth of a letter."""
    eighths = round(8 * _WIDE * min(share, 1.0))
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def _bracket(stairs: Staircase, rows: int) -> str:
    """Beside the last row of a plateau, its draft length."""
    for tread in stairs.plateaus:
        if rows == tread.last and tread.first < tread.last:
            least = "" if tread.closed else " at least"
            return f"  <- plateau {tread.first}-{tread.last}, top draft_len {tread.top_draft_len}{least}"
    return ""


def _shape(stairs: Staircase) -> Iterator[str]:
    if stairs.kind == "slope":
        yield "no plateau: the cost rises row by row, without a step"
    elif stairs.kind == "flat":
        yield "flat: all these rows cost about the same"
    for tread in stairs.plateaus:
        yield (
            f"plateau of rows {tread.first} to {tread.last}: {1e3 * tread.first_s:.2f} to {1e3 * tread.last_s:.2f} ms "
            f"(95 % {1e3 * tread.low_s:.2f} to {1e3 * tread.high_s:.2f})"
        )
    if stairs.dips:
        dips = ", ".join(f"{dip.rows} (as {dip.width}: {dip.saving:.0%} less)" for dip in stairs.dips)
        yield f"row counts that are dearer than a wider forward: {dips}"
    if stairs.holes:
        yield f"not measured: {_ranges(stairs.holes)} rows; a step may hide there"


def _ranges(numbers: Sequence[int]) -> str:
    """18, 19, 20 as 18-20."""
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][-1] + 1:
            found[-1].append(number)
        else:
            found.append([number])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in found)


def _workload_cells(plan: Plan) -> list[tuple[str, ...]]:
    head = (
        "workload", "context", "tokens", "drafts in", "gain [95 %]", "of best schedule", "draft_len", "its gain",
        "verdict",
    )  # fmt: skip
    rows: list[tuple[str, ...]] = [head]
    for each in plan.workloads:
        outcome = each.outcome
        above = f", not above {each.above} tokens" if each.above else ""
        rows.append(
            (
                each.name, str(each.depth), str(each.tokens), f"{each.offered:.0%}",
                _gain(outcome), f"{each.oracle_share:.0%}",
                str(outcome.draft_len) if outcome.draft_len else "off", f"{each.fixed_gain:.2f}",
                f"{outcome.kind}{above}",
            )
        )  # fmt: skip
    return rows


def _gain(outcome: Outcome) -> str:
    """With its interval, no digit finer than that."""
    digits = 2 if outcome.high - outcome.low < 1 else 1
    return f"{outcome.gain:.{digits}f} [{outcome.low:.{digits}f}, {outcome.high:.{digits}f}]"


def _times(tuned: Tuned) -> str:
    facts, seconds = tuned.plan.sweep, tuned.seconds
    assert facts is not None
    spent = sum(value for name, value in seconds.items() if name != "load")
    again = ", with what an earlier run had measured" if tuned.resumed else ""
    return (
        f"took {spelled(spent)}{again}: rows {seconds['rows']:.1f} s, sweep {seconds['sweep']:.1f} s "
        f"({facts.warm_s:.1f} s of it before any round counted; {facts.turns} turns, {facts.samples} rounds), texts "
        f"{seconds['texts']:.1f} s, replaying them {seconds['replay']:.1f} s; loading and compiling "
        f"before that {facts.load_s:.1f} s"
    )
