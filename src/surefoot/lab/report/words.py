"""What rows say in plain words: is it faster, on what, how sure. Never over workloads together."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from surefoot.lab import stats
from surefoot.lab.analysis import Analysis, Row, Word
from surefoot.lab.records import Run

GLYPHS: Mapping[Word, str] = {"faster": "▲", "slower": "▼", "no difference": "=", "undecided": "?", "none": "\u2013"}
"""Each verdict has a shape of its own, so that no colour need be seen."""
WORDS: Mapping[Word, str] = {
    "faster": "faster",
    "slower": "slower",
    "no difference": "no difference",
    "undecided": "undecided",
    "none": "no figure",
}
KINDS = {"drafts": "drafts of Surefoot", "off": "drafts off on both sides", "peer": "the runtime's own feature"}
_ALL: Mapping[Word, str] = {
    "faster": "Every interval lies above 1.",
    "slower": "Every interval lies below 1.",
    "no difference": f"Every interval lies within {100 * stats.SAME_WITHIN:g} % of 1.",
    "undecided": "Every interval is too wide to say.",
}
_ONE: Mapping[Word, str] = {
    "faster": "The interval lies above 1.",
    "slower": "The interval lies below 1.",
    "no difference": f"The interval lies within {100 * stats.SAME_WITHIN:g} % of 1.",
    "undecided": "The interval is too wide to say.",
}
_ORDER: tuple[Word, ...] = ("faster", "no difference", "undecided", "slower", "none")


def verdict(row: Row) -> str:
    """The verdict of a row in words; a lossy one has none and says so."""
    return f"{WORDS[row.verdict]} (lossy)" if row.lossy else WORDS[row.verdict]


def headline(rows: Sequence[Row]) -> tuple[Word | None, str]:
    """The verdict that all rows share, or None, and what to call it."""
    found = {row.verdict for row in rows}
    if len(found) == 1:
        (word,) = found
        return word, {"none": "No figure"}.get(word, word.capitalize())
    if "faster" in found:
        return None, "Depends: faster in part"
    if found <= {"undecided", "no difference"}:
        return "undecided", "Undecided"
    return None, "Depends: slower in part" if "slower" in found else "Undecided in part"


def sentence(rows: Sequence[Row]) -> str:
    """Which arms are faster, which are not, at which budgets; where all share one verdict, what it rests on."""
    words = {row.verdict for row in rows}
    if words == {"none"}:
        return capital(and_list(list(dict.fromkeys(row.why for row in rows)))) + "."
    if len(words) == 1:
        (word,) = words
        return (_ONE if len(rows) == 1 else _ALL)[word]
    budgets = list(dict.fromkeys(row.budget for row in rows))
    arms: dict[str, list[Row]] = {}
    for row in rows:
        arms.setdefault(row.arm, []).append(row)
    said: dict[str, list[str]] = {}
    for word in _ORDER:
        for arm, own in arms.items():
            at = [row.budget for row in own if row.verdict == word]
            if at:
                when = "" if len(at) == len(own) or len(budgets) == 1 else f" at {and_list([str(each) for each in at])}"
                said.setdefault(word, []).append(f"{arm}{when}")
    return capital("; ".join(f"{WORDS[word]} with {and_list(said[word])}" for word in _ORDER if word in said)) + "."


def command_line(run: Run) -> str:
    """What to type to run it again."""
    words = list(run.command)
    return shlex.join(words if words[:1] == ["surefoot"] else ["surefoot", *words])


def settings(analysis: Analysis) -> dict[str, str]:
    """Everything that decides the numbers, as a name and a text each. An absent value says so."""
    run = analysis.run
    flat: dict[str, str] = {"surefoot": run.surefoot, "begun": run.when}
    flat["ended"] = {"complete": "complete", "time": "out of time", None: "not: the record has no end"}[
        analysis.complete
    ]
    if analysis.resumed:
        flat["resumed"] = ", ".join(each.when for each in analysis.resumed)
    for name, value in (("model", run.model), ("machine", run.machine), ("sampling", run.sampling)):
        flat.update(_flat(name, value))
    flat["seed"] = str(run.seed)
    flat["output budgets"] = f"{and_list([str(each) for each in run.budgets])} tokens"
    flat["pairs wanted"] = str(run.pairs_wanted)
    baseline = analysis.gates.get("baseline")
    if baseline is not None and "vendor" in baseline.details:
        flat.update(_flat(f"baseline by {baseline.details['vendor']}", baseline.details["settings"]))
    for arm in run.arms:
        flat[f"arm {arm.label}"] = _arm(
            KINDS[arm.kind], {**arm.drafts, **{f"policy {k}": v for k, v in arm.policy.items()}, **arm.peer}, arm.chosen
        )
    for workload, identity in run.workloads.items():
        flat[f"workload {workload}"] = identity
    return flat


def and_list(words: Sequence[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1]))) if words else ""


def capital(text: str) -> str:
    """The text with a capital letter at its beginning, the rest as it was."""
    return text[:1].upper() + text[1:]


def _flat(name: str, value: Any) -> dict[str, str]:
    """ "model.settings.threads" from nested objects; what is in `packages` and `settings` stands at its own name."""
    if isinstance(value, Mapping):
        flat: dict[str, str] = {}
        for key, inner in value.items():
            flat.update(_flat(f"{name} {key}" if key != "packages" else "package", inner))
        return flat
    return {name: shown(value)}


def shown(value: Any) -> str:
    """A value of a record in a table."""
    if value is None or value == "":
        return "not told"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(shown(each) for each in value) or "none"
    return str(value)


def _arm(kind: str, options: Mapping[str, Any], chosen: str) -> str:
    said = ", ".join(f"{name} {shown(value)}" for name, value in options.items())
    return kind + (f" ({said})" if said else "") + (f"; {chosen}" if chosen else "")
