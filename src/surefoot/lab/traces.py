"""Texts of a record, as traces: what a drafter would have offered at each of their tokens."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from surefoot.core.errors import ConfigError, NotEligible
from surefoot.core.ports import Drafter
from surefoot.core.sampling import Sampling
from surefoot.core.types import Floats, Ids
from surefoot.engine import parts
from surefoot.engine.config import Config
from surefoot.engine.workshop import Shelf, TextWorkshop
from surefoot.lab import replay
from surefoot.lab.records import PromptUse, Run, Workload
from surefoot.lab.replay import Trace
from surefoot.lab.setup import digest
from surefoot.lab.store import Loaded
from surefoot.lab.workloads import Prompt


@dataclass(frozen=True, slots=True)
class Text:
    """A text that plain decoding wrote. prompt_ids (m,) int32; ids: of the text, its root first.

    workload: with the temperature behind it, as in chat@0.7, where the record has texts at several.
    """

    workload: Workload
    prompt: str
    prompt_ids: Ids
    ids: tuple[int, ...]


def workloads(loaded: Loaded) -> tuple[Workload, ...]:
    """The workloads that a record has texts of, as a `Text` calls them, in the order of the run."""
    return tuple(dict.fromkeys(use.workload + at for use, of_prompt in _longest(loaded) for at in of_prompt))


def texts(
    loaded: Loaded, prompts: Sequence[Prompt], encode: Callable[[Prompt], Ids], wanted: Collection[Workload]
) -> tuple[Text, ...]:
    """The longest text after each prompt of the wanted workloads of a record, in the order of the run.

    A record keeps what was written and not what was read, so `encode` gives the ids of a prompt again; they are
    compared with the record's. Raises: ConfigError for a prompt that is not among `prompts`, or has other ids.
    """
    by_name = {prompt.id: prompt for prompt in prompts}
    found = []
    for use, longest in _longest(loaded):
        of_prompt = {at: ids for at, ids in longest.items() if use.workload + at in wanted}
        if not of_prompt:
            continue
        prompt_ids = encode(_prompt(use, by_name, loaded.run))
        if digest(prompt_ids) != use.identity:
            raise ConfigError(
                f"prompt {use.id} has other tokens than when the record was made: give the model of the record with "
                "--model, and its prompts with --prompts"
            )
        found += [Text(use.workload + at, use.id, prompt_ids, tuple(ids)) for at, ids in of_prompt.items()]
    if not found:
        raise ConfigError("the record holds no text of two tokens: run the bench again")
    return tuple(found)


def _longest(loaded: Loaded) -> list[tuple[PromptUse, dict[str, Sequence[int]]]]:
    """The prompts of a record, each with its longest text of plain decoding at each temperature."""
    longest: dict[tuple[str, str], Sequence[int]] = {}
    for name, at, ids in _written(loaded):
        if len(ids) > max(1, len(longest.get((name, at), ()))):
            longest[name, at] = ids
    return [(use, {at: ids for (name, at), ids in longest.items() if name == use.id}) for use in loaded.run.prompts]


def _written(loaded: Loaded) -> list[tuple[str, str, Sequence[int]]]:
    """Every text of plain decoding: the name of its prompt, what tells its temperature, and its ids."""
    several = loaded.run.counting is not None and len(loaded.run.counting.temperatures) > 1
    return [
        *((reference.prompt, "", reference.off.ids) for reference in loaded.references),
        *((pair.prompt, "", pair.off.ids) for pair in loaded.pairs),
        *(
            (text.prompt, f"@{text.temperature:g}" if several else "", text.ids)
            for text in loaded.counted
            if text.mode == "plain"
        ),
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

    Raises: NotEligible for one that asks a model, whose guesses are in no record; ConfigError as its options do.
    """
    name = str(part["name"])
    plugin = parts.find("drafter", name)
    options = parts.make_options(plugin, {key: each for key, each in part.items() if key != "name"}, "drafts")

    def none(model: str, config: Config) -> NoReturn:
        raise NotEligible(f"{name} guesses with the model {model}, and a record holds nothing but tokens: try ngram")

    target: Any = _NoTarget()
    workshop = TextWorkshop(Shelf(none), target, None, Sampling(), "match", row_class="identical")
    made: Drafter = plugin.build(options, target, *((workshop,) if plugin.workshop else ()))
    if made.needs.taps:
        raise NotEligible(f"{name} reads hidden states of the model, and a record holds none: try ngram")
    return made


def traces(written: Sequence[Text], part: Mapping[str, Any]) -> dict[Workload, list[Trace]]:
    """By workload, each text with what this drafter offers at its tokens."""
    found: dict[Workload, list[Trace]] = {}
    for text in written:
        trace = replay.record(drafter(part), text.prompt_ids, text.ids, NoScores())
        found.setdefault(text.workload, []).append(trace)
    return found


class _NoTarget:
    """Stands where a drafter is told its target; one that looks at it cannot be replayed."""

    def __getattr__(self, name: str) -> NoReturn:
        raise NotEligible(f"this drafter asks its target for {name}, and a record holds no model: try ngram")


_PREDICTED = "this drafter reads what the model predicted, and a record holds only what it wrote: try ngram"


class NoScores:
    """What a forward predicted, where there was none."""

    rows = width = 0

    def argmax(self) -> Ids:
        raise NotEligible(_PREDICTED)

    def logits(self, row: int) -> Floats:
        raise NotEligible(_PREDICTED)

    def tap(self, name: str) -> Any:
        raise NotEligible(_PREDICTED)
