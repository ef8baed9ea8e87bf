"""What stands on the page, in the order of the page, as values that a template prints without deciding anything."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from surefoot.lab import stats
from surefoot.lab.analysis import Analysis, Row, Word
from surefoot.lab.report import numbers, words
from surefoot.lab.report.figures import Order
from surefoot.lab.report.rows import NamedRun


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of a card: the ratio of one arm at one budget, or why there is none."""

    glyph: str
    verdict: Word
    word: str
    ratio: str
    limits: str
    tokens_per_round: str
    why: str


@dataclass(frozen=True, slots=True)
class Line:
    """One arm of a card, a figure for each budget; None where the run has no such row."""

    arm: str
    place: int
    figures: tuple[Figure | None, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """One run of a card. baselines: drafts off at each budget, as a text."""

    run: str
    verdict: Word | None
    glyph: str
    headline: str
    sentence: str
    baselines: tuple[tuple[int, str], ...]
    lines: tuple[Line, ...]
    foot: str


@dataclass(frozen=True, slots=True)
class Card:
    """One workload on the first screen."""

    workload: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Check:
    """One line on whether the figures can be trusted. good: None where it is neither good nor bad."""

    good: bool | None
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Beside:
    """The same workload, budget and arm in every run."""

    workload: str
    budget: int
    arm: str
    place: int
    rows: tuple[Row | None, ...]


def title(runs: Sequence[NamedRun]) -> str:
    """The models of the runs; of a whole path its last part."""
    names = [words.shown(run.analysis.run.model.get("model")) for run in runs]
    short = [PurePath(name).name if PurePath(name).is_absolute() else name for name in names]
    return words.and_list(list(dict.fromkeys(name or "a model" for name in short)))


def when(analysis: Analysis) -> str:
    """The day of the run, and the Surefoot that ran it."""
    run = analysis.run
    return f"{run.when.replace('T', ' ').replace('Z', ' UTC')}; Surefoot {run.surefoot}"


def workloads(runs: Sequence[NamedRun]) -> tuple[str, ...]:
    """Every workload of any run, in the order in which they come."""
    return tuple(dict.fromkeys(row.workload for run in runs for row in run.analysis.rows))


def order(runs: Sequence[NamedRun]) -> Order:
    """The place of every arm of any run."""
    return Order(tuple(dict.fromkeys(row.arm for run in runs for row in run.analysis.rows)))


def cards(runs: Sequence[NamedRun]) -> tuple[Card, ...]:
    """The first screen: is it faster, on what, how sure."""
    places = order(runs)
    found = []
    for workload in workloads(runs):
        blocks = []
        for run in runs:
            rows = [row for row in run.analysis.rows if row.workload == workload]
            if rows:
                blocks.append(_block(run.name, rows, places))
        found.append(Card(workload, tuple(blocks)))
    return tuple(found)


def checks(analysis: Analysis) -> tuple[Check, ...]:
    """Whether the figures can be trusted: the texts, the gates, the pairs, and what else was seen."""
    pairs, left_out = len(analysis.pairs), len(analysis.excluded)
    found = list(_same_text(analysis))
    found += [Check(gate.passed, gate.name, gate.text) for gate in analysis.gates.values()]
    found += [
        Check(None, name, "this gate was not run: 'surefoot gate MODEL' runs it")
        for name in ("rows", "lossless", "baseline", "contamination")
        if name not in analysis.gates
    ]
    found.append(
        Check(
            None if left_out else True,
            "pairs",
            f"{numbers.count(pairs - left_out)} of {numbers.count(pairs)} used"
            + (f", {numbers.count(left_out)} left out for what the machine did meanwhile" if left_out else ""),
        )
    )
    found += [Check(None, each.name, each.text) for each in analysis.findings]
    if analysis.cut or analysis.complete != "complete":
        found.append(Check(None, "record", _unfinished(analysis)))
    return tuple(found)


def machine(analysis: Analysis) -> str:
    """The machine in half a line."""
    told = analysis.run.machine
    memory = told.get("memory_bytes")
    words_ = [words.shown(told.get("cpu")), f"{words.shown(told.get('cores'))} cores"]
    if isinstance(memory, int):
        words_.append(f"{memory / 1e9:.0f} GB")
    if told.get("virtual"):
        words_.append("virtual")
    return ", ".join(words_)


def runtime(analysis: Analysis) -> str:
    """The runtime, its device and its settings in half a line."""
    told = analysis.run.model
    settings = told.get("settings")
    said = [f"{name} {words.shown(value)}" for name, value in settings.items()] if isinstance(settings, dict) else []
    return ", ".join([f"{words.shown(told.get('runtime'))} on {words.shown(told.get('device'))}", *said])


def absent(analysis: Analysis) -> str:
    """What the machine does not tell, and so nobody looked at."""
    names = analysis.run.machine.get("absent")
    if not isinstance(names, list | tuple):
        return "the record does not say what the machine tells"
    said = {"frequency_mhz": "clock rate", "temperature_c": "temperature", "governor": "frequency governor"}
    told = [said.get(str(name), str(name).replace("_", " ")) for name in names]
    return f"not told by this machine: {words.and_list(told)}" if told else "this machine tells everything asked of it"


def beside(runs: Sequence[NamedRun]) -> tuple[Beside, ...]:
    """Every workload, budget and arm of any run, with the row of each run."""
    places = order(runs)
    by_run = [{(row.workload, row.budget, row.arm): row for row in run.analysis.rows} for run in runs]
    keys = dict.fromkeys(key for rows in by_run for key in rows)
    first = {workload: at for at, workload in enumerate(workloads(runs))}
    ordered = sorted(keys, key=lambda key: (first[key[0]], key[1], places[key[2]]))
    return tuple(Beside(*key, places[key[2]], tuple(rows.get(key) for rows in by_run)) for key in ordered)


def differences(runs: Sequence[NamedRun]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The settings in which the runs differ, with the value of each."""
    return tuple((name, values) for name, values in settings(runs) if len(set(values)) > 1)


def settings(runs: Sequence[NamedRun]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Every setting of any run, with the value of each run."""
    each = [words.settings(run.analysis) for run in runs]
    names = dict.fromkeys(name for one in each for name in one)
    return tuple((name, tuple(one.get(name, numbers.ABSENT) for one in each)) for name in names)


def _same_text(analysis: Analysis) -> Iterator[Check]:
    """Our own arms promise the text of drafts off; another engine and a lossy judge promise nothing, and what their
    texts are is only told."""
    groups: dict[str, list[Row]] = {"same text": [], "lossy text": [], "peer's text": []}
    for row in analysis.rows:
        groups["lossy text" if row.lossy else "peer's text" if row.kind == "peer" else "same text"].append(row)
    for name, rows in groups.items():
        pairs, same = sum(row.all_pairs for row in rows), sum(row.same_ids for row in rows)
        if pairs:
            lossless = analysis.gates.get("lossless")
            bad = False if name == "same text" and not (lossless and lossless.passed) else None
            text = f"{numbers.count(same)} of {numbers.some(pairs, 'pair')} wrote the same tokens on both sides"
            yield Check(True if same == pairs and name != "lossy text" else bad, name, text)


def _block(run: str, rows: Sequence[Row], places: Order) -> Block:
    verdict, headline = words.headline(rows)
    budgets = list(dict.fromkeys(row.budget for row in rows))
    lines = []
    for arm in dict.fromkeys(row.arm for row in rows):
        own = {row.budget: row for row in rows if row.arm == arm}
        lines.append(Line(arm, places[arm], tuple(_figure(own.get(budget)) for budget in budgets)))
    return Block(
        run=run,
        verdict=verdict,
        glyph=words.GLYPHS[verdict] if verdict else "±",
        headline=headline,
        sentence=words.sentence(rows),
        baselines=tuple((budget, _baseline([row for row in rows if row.budget == budget])) for budget in budgets),
        lines=tuple(lines),
        foot=_foot(rows),
    )


def _figure(row: Row | None) -> Figure | None:
    if row is None:
        return None
    return Figure(
        glyph=words.GLYPHS[row.verdict],
        verdict=row.verdict,
        word=words.verdict(row),
        ratio=numbers.estimate(row.ratio),
        limits=numbers.limits(row.ratio),
        tokens_per_round=numbers.fixed(row.drafts.tokens_per_round) if row.drafts else "",
        why=row.why,
    )


def _baseline(rows: Sequence[Row]) -> str:
    """Tokens per second of drafts off: from the slowest to the fastest of what the arms were compared with."""
    known = [row.baseline_tps for row in rows if row.baseline_tps is not None]
    if not known:
        return numbers.ABSENT
    places = min(numbers.decimals(interval) for interval in known)
    low, high = min(each.estimate for each in known), max(each.estimate for each in known)
    shown = dict.fromkeys(numbers.fixed(value, places) for value in (low, high))
    return " to ".join(shown)


def _foot(rows: Sequence[Row]) -> str:
    used, prompts = [row.pairs_used for row in rows], [row.prompts for row in rows]
    if not max(used):
        return "no pair was left"
    tokens = [row.prompt_tokens for row in rows]
    length = _span(min(each.low for each in tokens), max(each.high for each in tokens))
    of_prompts = f"{_span(min(prompts), max(prompts))} prompts of {length} tokens"
    told = f"{_span(min(used), max(used))} pairs per figure, {of_prompts}"
    return told + ("; said of these prompts only" if max(prompts) < stats.MIN_VALUES else "")


def _span(low: int, high: int) -> str:
    return numbers.count(low) if low == high else f"{numbers.count(low)} to {numbers.count(high)}"


def _unfinished(analysis: Analysis) -> str:
    if analysis.cut:
        return "the file ends in the middle of a line, which was left out"
    if analysis.complete == "time":
        return "the time for the run was over before all pairs were run"
    return "the run did not come to its end: what it measured until then is here"
