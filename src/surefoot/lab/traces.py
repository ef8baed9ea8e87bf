"""Texts that a bench wrote, as traces: what a drafter would have offered at each of their tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from surefoot.core.errors import ConfigError, NotEligible
from surefoot.core.ports import Drafter
from surefoot.core.types import Floats, Ids
from surefoot.engine import parts
from surefoot.lab import replay
from surefoot.lab.records import PromptUse, Run, Side, Workload
from surefoot.lab.replay import Trace
from surefoot.lab.setup import digest
from surefoot.lab.store import Loaded
from surefoot.lab.workloads import Prompt


@dataclass(frozen=True, slots=True)
class Text:
    """A text that plain decoding wrote. prompt_ids (m,) int32; ids: of the text, its root first."""

    workload: Workload
    prompt: str
    prompt_ids: Ids
    ids: tuple[int, ...]


def texts(loaded: Loaded, prompts: Sequence[Prompt], encode: Callable[[Prompt], Ids]) -> tuple[Text, ...]:
    """The longest text after each prompt of a record, in the order of the run.

    A record keeps what was written and not what was read, so `encode` gives the ids of a prompt again; they are
    compared with the record's. Raises: ConfigError for a prompt that is not among `prompts`, or has other ids.
    """
    longest: dict[str, Side] = {}
    for name, side in _sides(loaded):
        if name not in longest or side.n_output > longest[name].n_output:
            longest[name] = side
    by_name = {prompt.id: prompt for prompt in prompts}
    found = []
    for use in loaded.run.prompts:
        if use.id not in longest or longest[use.id].n_output < 2:
            continue
        ids = encode(_prompt(use, by_name, loaded.run))
        if digest(ids) != use.identity:
            raise ConfigError(
                f"prompt {use.id} has other tokens than when the record was made: give the model of the record with "
                "--model, and its prompts with --prompts"
            )
        found.append(Text(use.workload, use.id, ids, tuple(longest[use.id].ids)))
    if not found:
        raise ConfigError("the record holds no text of two tokens: run the bench again")
    return tuple(found)


def _sides(loaded: Loaded) -> list[tuple[str, Side]]:
    """Every text of plain decoding, with the name of its prompt."""
    return [
        *((reference.prompt, reference.off) for reference in loaded.references),
        *((pair.prompt, pair.off) for pair in loaded.pairs),
    ]


def _prompt(use: PromptUse, prompts: Mapping[str, Prompt], run: Run) -> Prompt:
    if use.id not in prompts:
        raise ConfigError(
            f"the record of {run.when} uses the prompt {use.id} of {use.source}, which is not here: give that file "
            "with --prompts"
        )
    return prompts[use.id]


def drafter(part: Mapping[str, Any]) -> Drafter:
    """A new drafter of these options that goes by the tokens alone.

    Raises: NotEligible for one that asks a model, whose guesses are in no record.
    """
    name = str(part["name"])
    plugin = parts.find("drafter", name)
    options = parts.make_options(plugin, {key: each for key, each in part.items() if key != "name"}, "drafts")
    if plugin.workshop:
        raise NotEligible(
            f"{name} guesses with more than the tokens so far, and a record holds nothing else: try ngram"
        )
    made: Drafter = plugin.build(options, _NoTarget())
    if made.needs.taps:
        raise NotEligible(f"{name} reads hidden states of the model, and a record holds none: try ngram")
    return made


def traces(written: Sequence[Text], part: Mapping[str, Any]) -> dict[Workload, list[Trace]]:
    """By workload, each text with what this drafter offers at its tokens."""
    found: dict[Workload, list[Trace]] = {}
    for text in written:
        trace = replay.record(drafter(part), text.prompt_ids, text.ids, _NoScores())
        found.setdefault(text.workload, []).append(trace)
    return found


class _NoTarget:
    """Stands where a drafter is told its target; one that looks at it cannot be replayed."""

    def __getattr__(self, name: str) -> NoReturn:
        raise NotEligible(f"this drafter asks its target for {name}, and a record holds no model: try ngram")


_PREDICTED = "this drafter reads what the model predicted, and a record holds only what it wrote: try ngram"


class _NoScores:
    """What a forward predicted, where there was none."""

    rows = width = 0

    def argmax(self) -> Ids:
        raise NotEligible(
            "this drafter reads what the model predicted, and a record holds only what it wrote: try ngram"
        )

    def logits(self, row: int) -> Floats:
        raise NotEligible(
            "this drafter reads what the model predicted, and a record holds only what it wrote: try ngram"
        )

    def tap(self, name: str) -> Any:
        raise NotEligible(_PREDICTED)
