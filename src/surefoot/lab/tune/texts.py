"""Short texts of every workload, written plainly: what a drafter offers along them is counted afterwards."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from statistics import median

import numpy as np

from surefoot.core.cost import CostCurve
from surefoot.core.errors import NotEligible
from surefoot.core.ports import Clock
from surefoot.core.types import Ids, as_ids
from surefoot.engine.config import Part
from surefoot.engine.generator import Model
from surefoot.lab import workloads
from surefoot.lab.measure import SPAN
from surefoot.lab.steadiness import SAME
from surefoot.lab.traces import Text

LEAST_TOKENS = 24
"""chosen: a text is written so far whatever the time; in fewer tokens nothing comes twice."""

APART = 1.5
"""chosen: a slope between depths nearer than that is mostly noise of the two costs it comes from."""


@dataclass(frozen=True, slots=True)
class Written:
    """A plain text. ids: the root of the prefill first. host_s: of its rounds, the median outside forward and judge."""

    workload: str
    prompt: Ids
    ids: tuple[int, ...]
    host_s: float


def prompts(model: Model, wanted: Sequence[str]) -> dict[str, Ids]:
    """A prompt for each workload that the bench never measures, as this model reads it."""
    own = workloads.own()
    raw = model.config.raw or not model.tokenizer.has_template
    found: dict[str, Ids] = {}
    for name in wanted:
        prompt = workloads.tuning(own, name)[0]
        content = _plain_text(prompt.content) if raw else prompt.content
        found[name] = model.encode(content, tools=None if raw else prompt.tools, raw=raw)
    room = model.target.caps.max_length - LEAST_TOKENS
    return {name: ids[-room:] for name, ids in found.items()}


def shipped(wanted: Sequence[str]) -> tuple[Text, ...]:
    """Texts that ship with Surefoot, four of each workload, written by SmolLM2-135M.

    One short text of the model itself says little of how much texts differ; these cost nothing but a replay.
    """
    document = json.loads((files("surefoot.lab") / "data" / "texts.json").read_bytes())
    return tuple(
        Text(each["workload"], each["id"], as_ids(each["prompt"]), tuple(each["ids"]))
        for each in document["texts"]
        if each["workload"] in wanted
    )


def sweep_text(model: Model, length: int) -> Ids:
    """(length,) int32: real text, as long as it is needed; it begins again where our prompts are not enough.

    Source: requirement B1: one repeated token flatters a mixture of experts, which then always wakes the same ones.
    """
    parts = [_plain_text(prompt.content) for prompt in workloads.own().prompts]
    text, ids = "\n\n".join(parts), as_ids([])
    while len(ids) < length:
        ids = np.concatenate([ids, model.encode(text, raw=True)])
        if not len(ids):
            raise NotEligible("this model's tokenizer makes no token of our texts, so that nothing can be measured")
    return ids[:length]


def fitting_depths(model: Model, asked: Sequence[int], widest: int) -> tuple[int, ...]:
    """The depths to sweep: those asked for that fit into the context, and the deepest that does where others do not.

    It is left out beside one that is nearly as deep. Where several were asked for there are two at least, since a slope
    needs them. Raises: NotEligible where the context is too short for any.
    """
    longest = model.target.caps.max_length - SPAN - widest - 1
    fitting = [depth for depth in asked if depth <= longest]
    if len(fitting) == len(asked):
        return tuple(fitting)
    if longest < 2 * len(asked):
        raise NotEligible(
            f"the context of {model.target.caps.max_length} tokens is too short for a sweep of {widest} rows; "
            "raise --ctx-size where the model allows it"
        )
    if not fitting or longest >= APART * fitting[-1]:
        fitting.append(longest)
    if len(fitting) == 1 and len(asked) > 1:
        fitting.insert(0, fitting[0] // 2)
    return tuple(fitting)


def write(
    model: Model, workload: str, prompt: Ids, n_tokens: int, limit_s: float, clock: Clock, check: Callable[[], None]
) -> Written:
    """The text after `prompt`, plain and greedy: up to n_tokens, or as many as the time allows. check: each round."""
    room = model.target.caps.max_length - len(prompt)
    most = max(1, min(n_tokens, room))
    config = replace(
        model.config, drafts=Part("off"), max_tokens=most, top_logprobs=None, stop=(), judge="match",
        sampling=replace(model.config.sampling, temperature=0.0, min_tokens=0),
    )  # fmt: skip
    hosts: list[float] = []
    with model.generate(prompt, config=config, clock=clock) as generation:
        began = start = clock()
        for round_, _ in generation.steps():
            check()
            now = clock()
            if round_ is not None and round_.source != "prefill":
                spent = round_.draft_s + round_.extend_s + round_.judge_s + round_.commit_s
                hosts.append(max(0.0, now - start - spent))
            start = now
            if now - began > limit_s and len(generation.ids) >= LEAST_TOKENS:
                generation.cancel()
        return Written(workload, prompt, tuple(generation.ids), median(hosts) if hosts else 0.0)


def ends_at(curve: CostCurve, prompts: Sequence[int], n_tokens: int, start: float, until: float) -> float:
    """When texts after prompts of these lengths will have been written, at the latest, if the first begins at `start`.

    Each takes its share of the time until `until`, or what its least takes where that is more: the prompt in blocks of
    the most rows that were swept, and `LEAST_TOKENS` rounds. It stops behind a round.
    """
    now = start
    for number, prompt in enumerate(prompts):
        round_s = SAME * curve.direct_s(1, prompt + n_tokens)
        prefill_s = SAME * math.ceil(prompt / curve.max_rows) * curve.direct_s(curve.max_rows, prompt)
        share_s = (until - now) / (len(prompts) - number)
        now += max(share_s, prefill_s + LEAST_TOKENS * round_s) + round_s
    return now


def host_s(texts: Mapping[str, Written]) -> float:
    """Seconds of a round outside the forward, by the median text."""
    return median(text.host_s for text in texts.values()) if texts else 0.0


def _plain_text(content: workloads.Content) -> str:
    """The words of a prompt without its template."""
    return content if isinstance(content, str) else "\n".join(str(each.get("content") or "") for each in content)
