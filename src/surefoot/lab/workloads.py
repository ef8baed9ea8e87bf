"""The prompts that a bench measures: our own, those of Spec-Bench, and those of a file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from surefoot.core.errors import ConfigError
from surefoot.lab import promptfile
from surefoot.lab.promptfile import Entry
from surefoot.lab.records import Workload

Content = str | tuple[Mapping[str, Any], ...]

KINDS: tuple[Workload, ...] = ("chat", "code", "tools", "summary", "question", "translation", "retrieval")
"""The workloads of our own prompts, in the order of tables."""

CATEGORIES: Mapping[str, Workload] = {
    "writing": "chat",
    "roleplay": "chat",
    "reasoning": "chat",
    "extraction": "chat",
    "stem": "chat",
    "humanities": "chat",
    "coding": "code",
    "summarization": "summary",
    "qa": "question",
    "rag": "retrieval",
    "math_reasoning": "math",
}
"""Our names for the categories of Spec-Bench and SPEED-Bench; another category keeps its own.
Source: arXiv 2401.07851 section 4, which counts the categories of MT-bench as conversation; code and math do not"""

TUNING_EVERY = 5
"""chosen: a fifth of Spec-Bench's prompts of a workload choose options, and the others are measured."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt. content: a text, or the messages of a conversation. source: the set or file it came from.

    tuning: it is there to choose options (the draft length of a peer) and is never measured.
    """

    id: str
    workload: Workload
    source: str
    content: Content
    tools: tuple[Mapping[str, Any], ...] | None = None
    tuning: bool = False


@dataclass(frozen=True, slots=True)
class PromptSet:
    """Prompts, and what was left out in reading them, a sentence each."""

    prompts: tuple[Prompt, ...]
    notes: tuple[str, ...] = ()

    @property
    def workloads(self) -> tuple[Workload, ...]:
        """In the order in which they come."""
        return tuple(dict.fromkeys(prompt.workload for prompt in self.prompts if not prompt.tuning))


def own() -> PromptSet:
    """Our own prompts, of all `KINDS`."""
    return _set(promptfile.json_lines(_data("prompts.jsonl"), "prompts.jsonl"), "surefoot")


def spec_bench() -> PromptSet:
    """The first turns of Spec-Bench (arXiv 2401.07851, Apache-2.0)."""
    found = _set(promptfile.json_lines(_data("spec-bench/question.jsonl"), "question.jsonl"), "spec-bench")
    seen: dict[Workload, int] = {}
    prompts = []
    for prompt in found.prompts:
        n = seen[prompt.workload] = seen.get(prompt.workload, 0) + 1
        tuning = n % TUNING_EVERY == 0
        prompts.append(Prompt(prompt.id, prompt.workload, prompt.source, prompt.content, prompt.tools, tuning))
    return PromptSet(tuple(prompts), found.notes)


def read(path: Path) -> PromptSet:
    """The prompts of a file: `.jsonl` in the layout of Spec-Bench or SPEED-Bench, `.json` with the messages of one
    conversation, anything else one prompt of plain text.

    Raises: ConfigError, one sentence that names the file and the line.
    """
    return _set(promptfile.entries(path), path.name)


def select(prompts: PromptSet, workloads: Sequence[Workload] = (), each: int | None = None) -> tuple[Prompt, ...]:
    """The prompts to measure: of these workloads (of all, where none is named), at most `each` of one, the first ones.

    Raises: ConfigError when a workload has no prompt to measure.
    """
    unknown = [name for name in workloads if name not in prompts.workloads]
    if unknown or not prompts.workloads:
        there = ", ".join(prompts.workloads) or "none"
        raise ConfigError(
            f"there is no prompt to measure of {', '.join(unknown) or 'any workload'}; there are: {there}"
        )
    found: list[Prompt] = []
    for workload in workloads or prompts.workloads:
        group = [prompt for prompt in prompts.prompts if prompt.workload == workload and not prompt.tuning]
        found.extend(group[:each])
    return tuple(found)


def tuning(prompts: PromptSet, workload: Workload) -> tuple[Prompt, ...]:
    """The prompts to choose options on for a workload: of the set, else our own of that workload, else all of ours.

    None of them is measured: a prompt whose text is also among those to measure is left out.
    """
    measured = {identity([prompt]) for prompt in prompts.prompts if not prompt.tuning}
    for group in (prompts.prompts, own().prompts):
        found = [prompt for prompt in group if prompt.tuning and prompt.workload == workload]
        found = [prompt for prompt in found if identity([prompt]) not in measured]
        if found:
            return tuple(found)
    return tuple(prompt for prompt in own().prompts if prompt.tuning and identity([prompt]) not in measured)


def identity(prompts: Iterable[Prompt]) -> str:
    """The SHA-256 of these prompts, in this order: of what the model is given, whatever they are called."""
    what = [[prompt.content, prompt.tools] for prompt in prompts]
    text = json.dumps(what, ensure_ascii=True, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def identities(prompts: Iterable[Prompt]) -> dict[Workload, str]:
    """The identity of each workload, for a record."""
    groups: dict[Workload, list[Prompt]] = {}
    for prompt in prompts:
        groups.setdefault(prompt.workload, []).append(prompt)
    return {workload: identity(group) for workload, group in groups.items()}


def _set(entries: Sequence[Entry], source: str) -> PromptSet:
    prompts = tuple(
        Prompt(each.id, CATEGORIES.get(each.category, each.category), source, each.content, each.tools, each.tuning)
        for each in entries
    )
    later = sum(each.later_turns > 0 for each in entries)
    note = f"{later} of {len(entries)} prompts of {source} have more than one turn: the first is measured"
    return PromptSet(prompts, (note,) if later else ())


def _data(name: str) -> bytes:
    return (files("surefoot.lab") / "data" / name).read_bytes()
