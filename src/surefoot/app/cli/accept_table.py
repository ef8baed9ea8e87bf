"""The tables of `surefoot accept`: what held, by position, length and match, and what it would be worth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from surefoot.app.cli.errors import as_line
from surefoot.app.cli.tune_table import table

if TYPE_CHECKING:
    from surefoot.app.cli.accept import Result
    from surefoot.app.cli.console import Console
    from surefoot.lab.accept.counts import Matched, Row
    from surefoot.lab.accept.predict import Prediction
    from surefoot.lab.curvefile import NamedCurve

_MEANING = (
    "oracle: replayed at every token of the plain text; chain: scored by the model; live: with the policy, as generate",
    "by position: survival|conditional acceptance, in per cent; tokens/round: accepted/round + 1",
    "conditional sum: 1 + the sum of the conditional chances, which a published bench gives as tokens per round: WRONG",
)
_UNANCHORED = (
    "unanchored: the chain again, its drafter not told the last token, so that each draft begins one too early"
)


def lines(result: Result, curve: NamedCurve | None, console: Console) -> Iterator[str]:
    """What the record says, line by line: a block for each drafter and temperature."""
    yield from _about(result)
    for arm, temperature in dict.fromkeys((row.arm, row.temperature) for row in result.rows):
        rows = [row for row in result.rows if (row.arm, row.temperature) == (arm, temperature)]
        yield ""
        yield f"{arm}, temperature {temperature:g}{' (greedy)' if temperature == 0 else ''}"
        if arm in result.no_oracle:
            yield f"no oracle: {result.no_oracle[arm]}"
        yield from table(_by_position(rows, result.draft_len), left={"workload", "mode"}, console=console)
        matched = [each for each in result.by_match if (each.arm, each.temperature) == (arm, temperature)]
        yield from _titled("accepted/round (rounds) by match length, over all workloads", _by_match(matched), console)
        yield from _titled(
            "accepted/round if no draft were longer (oracle)", _by_length(rows, result.draft_len), console
        )
        if arm in result.no_prediction:
            yield f"no speed is predicted: {result.no_prediction[arm]}"
        found = [each for each in result.predicted if (each.arm, each.temperature) == (arm, temperature)]
        if found and curve is not None:
            what = "speed-up" if curve.relative else "tokens per second"
            title = f"predicted {what} by draft length, * the best"
            yield from _titled(title, _predicted(found, curve.relative), console)
    yield ""
    yield from _end(result, curve)


def _about(result: Result) -> Iterator[str]:
    settings = ", ".join(f"{key} {value}" for key, value in result.model["settings"].items())
    yield f"{result.model['model']} on {result.model['runtime']}, {result.model['device']} ({settings})"
    yield f"texts of at most {result.tokens} tokens, drafts of at most {result.draft_len}; nothing was timed"
    yield from _MEANING
    if any(row.mode == "unanchored" for row in result.rows):
        yield _UNANCHORED


def _titled(title: str, cells: Sequence[Sequence[str]], console: Console) -> Iterator[str]:
    if len(cells) > 1:
        yield f"  {title}"
        yield from (f"  {line}" for line in table(cells, left={"workload", "mode", "by"}, console=console))


def _by_position(rows: Sequence[Row], draft_len: int) -> list[list[str]]:
    longest = max((len(row.survival) for row in rows), default=draft_len)
    head = ["workload", "mode", "texts", "rounds", "drafted in", "accepted/round", "tokens/round", "conditional sum"]
    cells = [head + [str(position) for position in range(1, longest + 1)]]
    for row in rows:
        pairs = [
            f"{_percent(lived)}|{_percent(held)}" for lived, held in zip(row.survival, row.conditional, strict=True)
        ]
        share = row.drafts.drafting / row.drafts.rounds if row.drafts.rounds else None
        cells.append(
            [
                row.workload,
                row.mode,
                str(row.texts),
                str(row.drafts.rounds),
                "-" if share is None else f"{100 * share:.0f} %",
                _number(row.accepted_per_round),
                _number(row.tokens_per_round),
                _number(row.conditional_sum),
                *pairs,
                *["-"] * (longest - len(pairs)),
            ]
        )
    return cells


def _by_match(found: Sequence[Matched]) -> list[list[str]]:
    """A column for each range of match lengths."""
    highest: dict[int, int] = {}
    for each in found:
        highest[each.low] = max(each.high, highest.get(each.low, 0))
    lows = sorted(highest)
    cells = [["mode", *(f"{low}" if low == highest[low] else f"{low}-{highest[low]}" for low in lows)]]
    for mode in dict.fromkeys(each.mode for each in found):
        within = [[each for each in found if (each.mode, each.low) == (mode, low)] for low in lows]
        cells.append([mode, *map(_held, within)])
    return cells


def _held(found: Sequence[Matched]) -> str:
    """Accepted per round, and the rounds, of all of these."""
    rounds = sum(each.rounds for each in found)
    return f"{sum(each.accepted for each in found) / rounds:.2f} ({rounds})" if rounds else "-"


def _by_length(rows: Sequence[Row], draft_len: int) -> list[list[str]]:
    cells = [["workload", *map(str, range(1, draft_len + 1))]]
    for row in rows:
        if row.by_draft_len:
            longest = [*row.by_draft_len, *[row.by_draft_len[-1]] * (draft_len - len(row.by_draft_len))]
            cells.append([row.workload, *(f"{each:.2f}" for each in longest)])
    return cells


def _predicted(found: Sequence[Prediction], relative: bool) -> list[list[str]]:
    """0 is plain decoding."""
    cells = [["workload", "by", *map(str, range(len(found[0].tokens_per_s) + 1))]]
    for each in found:
        unit, digits = (each.plain_tokens_per_s, 2) if relative else (1.0, 1)
        speeds = (each.plain_tokens_per_s, *each.tokens_per_s)
        marked = [f"{speed / unit:.{digits}f}{'*' if at == each.best else ' '}" for at, speed in enumerate(speeds)]
        cells.append([each.workload, each.found, *marked])
    return cells


def _end(result: Result, curve: NamedCurve | None) -> Iterator[str]:
    total = sum(row.texts for row in result.rows if row.mode != "oracle")
    if result.different:
        where = "; ".join(
            f"{row.differ} of {row.workload}, {row.arm}, {row.mode}, temperature {row.temperature:g}"
            for row in result.rows
            if row.differ
        )
        yield f"{result.different} of {total} texts with drafts differ from the plain one ({where})"
    else:
        yield f"{total} texts with drafts equal the plain ones, token for token"
    if curve is None:
        yield "no speed is predicted: give what forwards cost with --curve, or make a plan with 'surefoot tune'"
    else:
        yield f"predicted with {as_line(f'{curve.name}: {curve.about}').rstrip('.')}"
        yield from _costs(result.draft_ms)
    yield f"record: {result.record}"
    yield f"  surefoot simulate --curve FILE --trace {result.record}"


def _costs(draft_ms: Mapping[str, float]) -> Iterator[str]:
    """What drafting is taken to cost, the drafters of one cost together."""
    for ms in dict.fromkeys(draft_ms.values()):
        same = ", ".join(label for label, each in draft_ms.items() if each == ms)
        yield f"  a drafted token costs {f'{ms:g} ms' if ms else 'nothing'} with {same}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.0f}"
