"""Everything of `surefoot accept` before the first text: what cannot be done is refused here."""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from surefoot.app.cli import accept_worth, bench_prepare, errors
from surefoot.app.cli import bench_options as options
from surefoot.app.cli.bench_world import defer_interrupts, now, spelled, tell
from surefoot.app.cli.command import Context
from surefoot.app.cli.generate import load_model
from surefoot.core.errors import ConfigError
from surefoot.core.types import Ids
from surefoot.engine.config import Config
from surefoot.engine.generator import Model
from surefoot.engine.plans.find import OFF
from surefoot.lab import arms as arm_texts
from surefoot.lab import setup, workloads
from surefoot.lab.accept.run import Planned, World, Writers, at_temperature, no_oracle
from surefoot.lab.records import Arm, Counting, Mode, Run
from surefoot.lab.setup import Wanted
from surefoot.lab.store import Store
from surefoot.lab.workloads import Prompt

DRAFT_LEN = 8
"""chosen: no fixed length above that was ever the best here, as in lab/simulate.py."""
EACH, TOKENS = 2, 256
"""chosen: a bench's shorter budget, and as many prompts as keep a model of 100 million parameters under ten minutes."""
MODES: tuple[Mode, ...] = ("plain", "oracle", "chain", "live")
ANCHORLESS: tuple[Mode, ...] = ("unanchored",)
MOST_TEMPERATURES = 16
"""chosen: more is a slip of the finger, and hours."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A run that can begin. may_differ: the user has allowed that drafts change the text where tokens nearly tie."""

    run: Run
    writers: Writers
    may_differ: bool


def prepare(args: argparse.Namespace, context: Context, command: Sequence[str], before: Run | None = None) -> Prepared:
    """The run that the arguments ask for; the one that began `before`, when it is the same.

    Raises: ConfigError or NotEligible for all that would fail later, and where the run that began is another one.
    """
    config = _config(args)
    temperatures = _temperatures(args, config)
    accept_worth.draft_ms(args, _arms(args, config))
    draft_len = _within(args.longest, DRAFT_LEN, 1, "--draft-len")
    tokens = _within(args.tokens, TOKENS, 2, "--tokens")
    prompts = _prompts(args, context, tell_notes=before is None)
    model = _model(args, config, context, before)
    config = replace(config, policy=model.policy(config))
    arms = _arms(args, config)
    most = model.target.caps.max_rows - 1
    if draft_len > most:
        raise ConfigError(
            f"--draft-len {draft_len}: {model.target.caps.backend} scores at most {most} drafts in a round"
        )
    defer_interrupts(context)
    ids = setup.encode(model, prompts, config.raw)
    if args.without_anchor:
        _check_anchors(ids)
    for temperature in temperatures:
        setup.check(model, at_temperature(config, temperature), arms, ids)
    modes = (*MODES, *ANCHORLESS) if args.without_anchor else MODES
    counting = Counting(draft_len, temperatures, modes, no_oracle(model, config, arms))
    run = setup.describe(model, config, Wanted((tokens,), 0), arms, prompts, ids, command=command, when=now())
    sampling = {name: value for name, value in run.sampling.items() if name != "temperature"}
    run = replace(run, sampling=sampling, counting=counting)
    if before is not None:
        differs = setup.difference(before, run)
        if differs:
            raise ConfigError(f"the run cannot go on: {differs}; begin a new one")
        run = before
    writers = Writers(
        model, config, ids, time.perf_counter, lambda: context.interrupts.seen, lambda note: _tell(context, note)
    )
    return Prepared(run, writers, model.row_class != "identical" and model.allows_near_ties(config))


def _config(args: argparse.Namespace) -> Config:
    """The configuration. Raises: ConfigError for a judge whose drafts cannot be compared with the plain text."""
    if args.model is None:
        raise ConfigError("there is no MODEL: name a folder, a GGUF file, a Hub id or smollm2-135m")
    config = bench_prepare.configuration(args, "--drafts")
    if config.judge != "match":
        raise ConfigError(
            f"the judge {config.judge} was asked for, and only match accepts exactly what the plain text goes on with; "
            "leave the judge out"
        )
    return config


def _prompts(args: argparse.Namespace, context: Context, tell_notes: bool) -> tuple[Prompt, ...]:
    """Those to write after; what was left out in reading them is told."""
    prompt_set = options.prompt_set(args.prompts)
    names = prompt_set.workloads if args.workloads is None else options.names(args.workloads)
    prompts = workloads.select(prompt_set, names, options.count(args.each, "--each") or EACH)
    if tell_notes:
        for note in prompt_set.notes:
            _tell(context, note)
    return prompts


def _model(args: argparse.Namespace, config: Config, context: Context, before: Run | None) -> Model:
    """The model; under the plan that a run began with, where it goes on."""
    if before is None:
        return load_model(args.model, config, context)
    return setup.as_begun(load_model(args.model, replace(config, plan=OFF), context), before)


def world(context: Context, store: Store) -> World:
    """What the run uses of this process: its record, its terminal, its Ctrl-C."""
    began, before = time.perf_counter(), len(store.loaded.counted)

    def show(done: int, total: int, planned: Planned) -> None:
        context.interrupts.check()
        here = done - before
        left = f", {spelled((time.perf_counter() - began) / here * (total - done))} left" if here else ""
        what = f"{planned.use.id}, {planned.mode}{f' {planned.arm.label}' if planned.arm else ''}"
        context.console.status(f"text {done + 1} of {total}{left} ({what})")

    return World(store.append, show, context.interrupts.check)


def _arms(args: argparse.Namespace, config: Config) -> tuple[Arm, ...]:
    """The drafters asked for, each with its policy. Raises: ConfigError for what has no drafts of ours to count."""
    arms = arm_texts.parse(args.arm, config)
    for arm in arms:
        if arm.kind == "peer":
            raise ConfigError(
                "--drafts peer: what another engine drafts in a round is not known; 'surefoot bench' times it"
            )
        if arm.kind == "off":
            raise ConfigError("--drafts off: without drafts nothing is accepted; name a drafter, such as ngram")
        if arm_texts.is_free(arm):
            raise ConfigError(
                f"--drafts {arm.label}: nothing is timed here, so no length can be chosen; say which, such as "
                f"{arm.label.partition('/')[0]}/fixed:draft_len=4"
            )
    return arms


def _temperatures(args: argparse.Namespace, config: Config) -> tuple[float, ...]:
    """In the order given. Raises: ConfigError."""
    if args.temperatures is None:
        return (config.sampling.temperature,)
    if args.temperature is not None:
        raise ConfigError("--temperature and --temperatures both say how texts are drawn; leave one of them out")
    try:
        found = tuple(float(item) for item in args.temperatures.split(","))
    except ValueError:
        found = ()
    if not found or not all(math.isfinite(each) and each >= 0 for each in found):
        raise ConfigError(
            f"--temperatures takes numbers with commas between them, such as 0,0.7,1.0; got {args.temperatures!r}"
        )
    if len(set(found)) < len(found):
        raise ConfigError(f"--temperatures {args.temperatures} names a temperature twice; leave one of them out")
    if len(found) > MOST_TEMPERATURES:
        raise ConfigError(f"--temperatures takes at most {MOST_TEMPERATURES}; got {len(found)}")
    for each in found:
        at_temperature(config, each)
    return found


def _within(given: int | None, usual: int, least: int, option: str) -> int:
    """The number, or the usual one. Raises: ConfigError below the least."""
    if given is not None and given < least:
        raise ConfigError(f"{option} must be at least {least}; got {given}")
    return usual if given is None else given


def _check_anchors(ids: dict[str, Ids]) -> None:
    for name, each in ids.items():
        if len(each) < 2:
            raise ConfigError(f"--without-anchor: the prompt {name} has one token, and without it there is none left")


def _tell(context: Context, note: str) -> None:
    tell(context, errors.as_line(note))
