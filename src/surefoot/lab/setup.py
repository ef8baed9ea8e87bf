"""From what the user asked for to a run that can begin: prompts as ids, arms as writers, all that decides numbers."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np

from surefoot.core.errors import ConfigError
from surefoot.core.ports import Clock
from surefoot.core.sampling import Sampling
from surefoot.core.types import Ids
from surefoot.engine import models, plans
from surefoot.engine.config import Config
from surefoot.engine.generator import Model
from surefoot.lab import gates, machine, workloads
from surefoot.lab.arms import configured, is_free, plain
from surefoot.lab.bench import Sides
from surefoot.lab.records import SCHEMA, Arm, PromptUse, Run, Side
from surefoot.lab.sides import write
from surefoot.lab.vendor import Vendor
from surefoot.lab.workloads import Prompt

PACKAGES = ("openvino", "openvino-genai", "torch", "transformers", "tokenizers")
"""Those whose versions decide the speed or the text."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a run is asked to measure, the arms aside."""

    budgets: tuple[int, ...]
    pairs: int
    band: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Writers:
    """The engines of a run. vendor: None where no arm needs it. cancelled: whether texts are to end now."""

    model: Model
    config: Config
    vendor: Vendor | None
    clock: Clock
    cancelled: Callable[[], bool] = lambda: False

    def off(self, ids: Ids, budget: int) -> Side:
        """A text of our loop without drafts."""
        return write(self.model, ids, plain(self.config, budget), self.clock, self.cancelled)

    def by(self, arm: Arm, ids: Ids, budget: int) -> Side:
        """A text of this arm."""
        if arm.kind != "peer":
            return write(self.model, ids, configured(arm, self.config, budget), self.clock, self.cancelled)
        if self.vendor is None:
            raise ConfigError(f"the arm {arm.label} needs the engine of the runtime, which was not opened")
        return self.vendor.lookup(ids, budget, int(arm.peer["draft_len"]))

    def gap(self, ids: Ids) -> float:
        """Logits between the two likeliest tokens after `ids`, of a fresh prefill."""
        session = self.model.target.open()
        try:
            row = session.prefill(ids).logits(0)
            top = np.partition(row, -2)[-2:] if len(row) > 1 else np.asarray([-np.inf, row[0]])
            return float(top[1] - top[0])
        finally:
            session.close()

    def sides(self, arms: Sequence[Arm], prompts: Mapping[str, Ids]) -> Sides:
        """What the runner writes with."""
        writers = {arm.label: partial(self.by, arm) for arm in arms}
        return Sides(self.off, writers, prompts, self.gap, gates.near_tie_below(self.model))


def check(model: Model, config: Config, arms: Sequence[Arm], prompts: Mapping[str, Ids]) -> None:
    """Nothing, when everything that the run will write can be written.

    Raises: ConfigError or NotEligible, before any time is spent, for a prompt that does not fit, drafts that could
    change the text, a judge whose texts differ by design, or a peer that is asked to draw.
    """
    if not config.sampling.greedy and config.judge != "match":
        raise ConfigError(
            f"the judge {config.judge} draws another text with drafts than without, so there is no pair to compare; "
            "leave the judge out, which is match"
        )
    peers = [arm.label for arm in arms if arm.kind == "peer"]
    if peers and (not config.sampling.greedy or config.sampling.edits_logits or config.stop):
        raise ConfigError(
            f"{peers[0]} writes greedy text without stop strings only; leave it out, or the sampling and stop options"
        )
    free = [replace(arm, policy={**arm.policy, "draft_len": 1}) if is_free(arm) else arm for arm in arms]
    tried = [configured(arm, config, 1) for arm in free if arm.kind == "drafts"]
    for name, ids in prompts.items():
        for one in (plain(config, 1), *tried):
            try:
                model.generate(ids, config=one).close()
            except ConfigError as error:
                raise ConfigError(f"prompt {name}: {error}") from error


def as_begun(model: Model, run: Run) -> Model:
    """The model under the plan that the run began with, whichever its own is by now. Raises: ConfigError."""
    if run.plan is None:
        return replace(model, found=plans.Found())
    try:
        return replace(model, found=plans.Found(plans.read(run.plan)))
    except ConfigError as error:
        raise ConfigError(f"the run cannot go on: of the plan in its record, {error}; begin a new one") from error


def encode(model: Model, prompts: Sequence[Prompt], raw: bool) -> dict[str, Ids]:
    """The ids of each prompt, by its name. Raises: ConfigError that names the prompt."""
    encoded = {}
    for prompt in prompts:
        try:
            encoded[prompt.id] = model.encode(prompt.content, tools=prompt.tools, raw=raw)
        except ConfigError as error:
            raise ConfigError(f"prompt {prompt.id} of {prompt.source}: {error}") from error
    return encoded


def describe(
    model: Model,
    config: Config,
    wanted: Wanted,
    arms: Sequence[Arm],
    prompts: Sequence[Prompt],
    ids: Mapping[str, Ids],
    *,
    command: Sequence[str],
    when: str,
) -> Run:
    """All that decides the numbers of this run."""
    return Run(
        schema=SCHEMA,
        surefoot=version("surefoot"),
        when=when,
        command=tuple(command),
        model={**model.describe(), "identity": models.identity(model.files)},
        machine=machine.describe(PACKAGES),
        sampling=sampling_of(config),
        seed=config.seed or 0,
        arms=tuple(arms),
        prompts=tuple(
            PromptUse(prompt.id, prompt.workload, prompt.source, len(ids[prompt.id]), digest(ids[prompt.id]))
            for prompt in prompts
        ),
        workloads=workloads.identities(prompts),
        budgets=wanted.budgets,
        pairs_wanted=wanted.pairs,
        band=wanted.band,
        plan=plans.document(model.plan) if model.plan else None,
    )


def digest(ids: Ids) -> str:
    """The SHA-256 of token ids."""
    return hashlib.sha256(ids.astype("<i4").tobytes()).hexdigest()


def difference(before: Run, now: Run) -> str | None:
    """What differs between a run and one that would go on with it, in a sentence; None where nothing does.

    A draft length that was chosen once is not chosen again: such arms are compared before that.
    """
    for name, was, here in _facts(before, now):
        if was != here:
            return f"{name} was {_shown(was)} when the run began and is {_shown(here)} now"
    return None


def _facts(before: Run, now: Run) -> list[tuple[str, Any, Any]]:
    """Everything that must be the same, by the name a user knows it by."""
    facts: list[tuple[str, Any, Any]] = [("the version of Surefoot", before.surefoot, now.surefoot)]
    for title, was, here in (("the model's", before.model, now.model), ("the machine's", before.machine, now.machine)):
        for key in sorted({*was, *here} - _VOLATILE):
            facts += _inner(f"{title} {key}", was.get(key), here.get(key))
    for key in sorted({*before.sampling, *now.sampling}):
        facts.append((f"the sampling option {key}", before.sampling.get(key), now.sampling.get(key)))
    uses = [{use.id: use for use in run.prompts} for run in (before, now)]
    facts.append(("the list of prompts", list(uses[0]), list(uses[1])))
    facts += [
        (f"the text of prompt {name}", uses[0][name].identity[:12], uses[1][name].identity[:12]) for name in uses[0]
        if name in uses[1]
    ]  # fmt: skip
    facts += [
        ("the seed", before.seed, now.seed),
        ("the list of arms", [arm.label for arm in before.arms], [arm.label for arm in now.arms]),
        ("the list of budgets", list(before.budgets), list(now.budgets)),
        ("the number of pairs", before.pairs_wanted, now.pairs_wanted),
        ("the band", before.band, now.band),
        ("what is counted", before.counting, now.counting),
    ]
    return facts


_VOLATILE = {"os", "absent", "governor", "memory_bytes"}
"""What changes on one machine without changing what it is; its fingerprint covers the rest."""


def _inner(name: str, was: Any, here: Any) -> list[tuple[str, Any, Any]]:
    """One fact, or one for each entry of a table."""
    if isinstance(was, Mapping) and isinstance(here, Mapping):
        keys = sorted({*was, *here})
        return [(f"{name.removesuffix('s')} {key}", was.get(key), here.get(key)) for key in keys]
    return [(name, was, here)]


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(str, value))}]"
    return "not given" if value is None else str(value)


def sampling_of(config: Config) -> dict[str, Any]:
    """The sampling options as JSON has them, with what else decides the text."""
    own = {item.name: getattr(config.sampling, item.name) for item in fields(Sampling)}
    own = {name: value for name, value in own.items() if name not in ("seed", "end_ids")}
    rest = {"judge": config.judge, "stop": config.stop, "stop_ids": config.stop_ids, "raw": config.raw}
    lossy = {"lossy": config.lossy, "tolerance": asdict(config.tolerance)} if config.lossy else {}
    return {name: _json(value) for name, value in {**own, **rest, **lossy}.items()}


def _json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _json(item) for key, item in value.items()}
    if isinstance(value, frozenset | tuple):
        return [_json(item) for item in sorted(value)]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
