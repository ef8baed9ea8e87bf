"""Everything of `surefoot bench` before the first measurement: what cannot be done is refused here."""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from surefoot.app.cli import bench_options as options
from surefoot.app.cli import errors, settings
from surefoot.app.cli.bench_world import defer_interrupts, now
from surefoot.app.cli.command import Context, parse
from surefoot.app.cli.generate import load_model
from surefoot.core.errors import ConfigError, NotEligible
from surefoot.core.types import Ids
from surefoot.engine.config import Config
from surefoot.engine.generator import Model
from surefoot.engine.plans.find import OFF
from surefoot.lab import arms as arm_texts
from surefoot.lab import gates, machine, setup, tuning, validity, workloads
from surefoot.lab.gates.baseline import LIMIT
from surefoot.lab.records import Arm, Gate, Run
from surefoot.lab.setup import Wanted, Writers
from surefoot.lab.vendor import open_vendor
from surefoot.lab.workloads import Prompt, PromptSet

_TRIAL_TOKENS = 2  # chosen: the fewest that a speculative feature can be tried with


@dataclass(frozen=True, slots=True)
class Prepared:
    """A run that can begin."""

    run: Run
    writers: Writers
    prompts: Mapping[str, Ids]
    quick: bool
    context: Context

    def baseline(self) -> Gate:
        """The outcome of the gate baseline; not passed where the runtime's own engine is missing."""

        def show(done: int, total: int) -> None:
            self.context.interrupts.check()
            self.context.console.status(f"plain decoding against the runtime's own, pair {done} of {total}")

        try:
            return gates.run(
                "baseline",
                self.writers.model,
                self.context.cache_dir,
                quick=self.quick,
                progress=show,
            )
        except NotEligible as error:
            reason = f"not checked: {errors.sentence(error)}"
            return Gate("baseline", False, 0.0, LIMIT, "x the vendor's tokens per second", reason, {"checked": False})


def prepare(args: argparse.Namespace, context: Context, command: Sequence[str], before: Run | None = None) -> Prepared:
    """The run that the arguments ask for; the one that began `before`, when it is the same.

    Raises: ConfigError or NotEligible for all that would fail later, and where the run that began is another one.
    """
    if args.model is None:
        raise ConfigError("there is no MODEL: name a folder, a GGUF file, a Hub id or smollm2-135m")
    config = configuration(args)
    if before is not None:  # the run goes on under the plan in its record, whatever lies in the cache by now
        config = replace(config, plan=OFF)
    arms = _arms(args, config)
    prompt_set = options.prompt_set(args.prompts)
    wanted, prompts = _wanted(args, prompt_set)
    if before is None:
        for note in prompt_set.notes:
            context.console.note(errors.as_line(note))
    model = load_model(args.model, config, context)
    if before is not None:
        model = setup.as_begun(model, before)
    config = replace(config, policy=model.policy(config))
    arms = _arms(args, config)
    defer_interrupts(context)
    ids = setup.encode(model, prompts, config.raw)
    setup.check(model, config, arms, ids)
    vendor = open_vendor(model) if any(arm.kind == "peer" for arm in arms) else None
    writers = Writers(model, config, vendor, time.perf_counter, lambda: context.interrupts.seen)
    _try_peers(arms, writers, ids, context)
    if before is not None:
        arms = tuple(_as_before(arm, before.arms[at : at + 1]) for at, arm in enumerate(arms))
    elif any(map(arm_texts.is_free, arms)):
        others = _tuning_ids(model, config, prompt_set, prompts, args.quick)
        arms = tuple(_chosen(arm, writers, others, max(wanted.budgets), context) for arm in arms)
    run = setup.describe(model, config, wanted, arms, prompts, ids, command=command, when=now())
    if before is not None:
        differs = setup.difference(before, run)
        if differs:
            raise ConfigError(f"the run cannot go on: {differs}; begin a new one")
        run = before
    return Prepared(run, writers, ids, args.quick, context)


def parse_again(run: Run, path: Path, command: str = "bench") -> argparse.Namespace:
    """The arguments of a run that this command began, read once more. Raises: ConfigError where this version cannot."""
    from surefoot.app.cli.main import build_parser

    try:
        again = parse(build_parser(), list(run.command))
    except (ConfigError, SystemExit) as error:
        raise ConfigError(f"{path} was made by a command that this version cannot read: {error}") from error
    if again.command != command:
        raise ConfigError(f"{path} was not made by 'surefoot {command}', and only the one that made it goes on with it")
    return again


def new_path(run: Run, command: str = "bench") -> Path:
    """A file name that says what was run, by which command, and when."""
    name = re.sub(r"[^\w.-]+", "-", Path(str(run.model["model"])).name).strip("-.") or "model"
    when = re.sub(r"[^\dT]", "", run.when)
    return Path(f"{command}-{name}-{run.model['runtime']}-{when}.jsonl")


def configuration(args: argparse.Namespace, option: str = "--arm") -> Config:
    """The configuration, with a seed, so that all texts of a prompt draw alike. option: names the arms."""
    from surefoot.engine.config import SHORTCUTS, parse_assignment

    config = settings.configure(args)
    if args.arm:
        for text in args.set:
            key, _ = parse_assignment(text)
            if SHORTCUTS.get(key, key).partition(".")[0] in ("drafts", "policy"):
                raise ConfigError(f"{option} and --set {text} both say what drafts are compared; leave one of them out")
    return replace(config, seed=config.seed or 0)


def _arms(args: argparse.Namespace, config: Config) -> tuple[Arm, ...]:
    """The arms asked for. Beside a peer with a chosen length, ours with a chosen length too, where none was named."""
    arms = arm_texts.parse(args.arm, config)
    texts = [arm.label for arm in arms]
    if args.peer:
        if not args.arm and config.drafts.name != arm_texts.OFF:
            texts += [] if config.policy.name == "fixed" else [arm_texts.with_policy(arms[0], "fixed")]
        texts.append(arm_texts.PEER)
    return arm_texts.parse(texts, config)


def _wanted(args: argparse.Namespace, prompt_set: PromptSet) -> tuple[Wanted, tuple[Prompt, ...]]:
    """How much is measured, and the prompts for it."""
    size = options.QUICK if args.quick else options.FULL
    pairs = options.count(args.pairs, "--pairs") or size.pairs
    each = options.count(args.each, "--each") or pairs
    budgets = size.budgets if args.tokens is None else options.budgets(args.tokens)
    band = None if args.band is None else options.band(args.band)
    names = prompt_set.workloads[: size.workloads] if args.workloads is None else options.names(args.workloads)
    return Wanted(budgets, pairs, band), workloads.select(prompt_set, names, min(each, pairs))


def _try_peers(arms: Sequence[Arm], writers: Writers, ids: Mapping[str, Ids], context: Context) -> None:
    """Nothing, when the peer can write at all: some engines tell only then."""
    for arm in arms:
        if arm.kind == "peer":
            context.console.status("opening the runtime's own speculative feature")
            trial = arm_texts.settled(arm, 1) if arm_texts.is_free(arm) else arm
            writers.by(trial, next(iter(ids.values())), _TRIAL_TOKENS)
            context.interrupts.check()


def _tuning_ids(
    model: Model, config: Config, prompt_set: PromptSet, prompts: Sequence[Prompt], quick: bool
) -> dict[str, Ids]:
    """The prompts that draft lengths are chosen on: one of each workload, none of them measured."""
    size = options.QUICK if quick else options.FULL
    names = list(dict.fromkeys(prompt.workload for prompt in prompts))[: size.tuning_prompts]
    found = {prompt.id: prompt for name in names for prompt in workloads.tuning(prompt_set, name)[:1]}
    return setup.encode(model, list(found.values()), config.raw)


def _chosen(arm: Arm, writers: Writers, others: Mapping[str, Ids], budget: int, context: Context) -> Arm:
    """The arm with its draft length, which is told where it was chosen here."""
    if not arm_texts.is_free(arm):
        return arm

    def show(what: str) -> None:
        context.interrupts.check()
        context.console.status(what)

    watch = machine.Watch()
    watch.start()
    found = tuning.choose(arm, writers.by, others, n_tokens=min(tuning.N_TOKENS, budget), show=show)
    load = validity.busy(watch.stop(), machine.look().cores)
    if load:
        found = replace(found, chosen=f"{found.chosen}; meanwhile {load}, so another length may be as fast")
    context.console.status("")
    context.console.note(errors.as_line(f"{found.label}: {found.chosen}"))
    return found


def _as_before(arm: Arm, before: Sequence[Arm]) -> Arm:
    """The arm with the draft length that was chosen when the run began; as it is where that was another arm."""
    for then in before:
        length = {**then.policy, **then.peer}.get("draft_len")
        if arm_texts.is_free(arm) and then.kind == arm.kind and type(length) is int:
            return arm_texts.settled(arm, length, then.chosen)
    return arm
