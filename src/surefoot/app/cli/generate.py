"""`surefoot generate`: a model writes, token by token, and one line says how it went."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from surefoot.app.cli import errors, prompt, settings
from surefoot.app.cli.command import Commands, Context, add_model, begin, finish

if TYPE_CHECKING:
    from collections.abc import Sequence

    from surefoot.core.types import Round, RowClass
    from surefoot.engine.config import Config
    from surefoot.engine.generator import Generation, Model
    from surefoot.engine.stats import Stats

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Result:
    """What --json prints. `config` holds nothing of this machine, `model` what runs here.

    seed: None when nothing was drawn. rounds: the prefill first; times in seconds. lossy: whether drafts were on and
    the judge one that accepts what plain decoding would not write; stats.lossy_tokens counts them.
    """

    schema: int
    surefoot: str
    model: dict[str, Any]
    config: Config
    prompt_ids: list[int]
    text: str
    ids: list[int]
    finish: str | None
    seed: int | None
    stats: Stats
    rounds: Sequence[Round]
    lossy: bool


def add_to(commands: Commands, with_parts: bool) -> None:
    """Add this command to `surefoot`."""
    parser = begin(
        commands,
        "generate",
        "write after a prompt",
        "Streams what MODEL writes after a prompt to stdout, and a line of statistics to stderr.",
        parts=with_parts,
    )
    add_model(parser)
    prompt.add_to(parser)
    settings.add_to(parser)
    finish(parser, run, "the text, every round in it")


def run(args: argparse.Namespace, context: Context) -> int:
    """The exit code, once the text is written."""
    prompt.check(args)
    config = settings.configure(args)
    words, tools = prompt.read(args, context.stdin), prompt.read_tools(args)
    model = load_model(args.model, config, context)
    with model.generate(words, tools=tools) as generation:
        if model.plan is not None and config.drafts.name != "off":
            context.console.note(errors.as_line(plan_line(model)))
        interrupted = _write(generation, context, shown=not args.json)
        stats = generation.stats()
        for note in generation.notes:
            context.console.note(errors.as_line(note))
        if args.json:
            _write_json(model, generation, context)
        elif config.top_logprobs is not None:
            _write_logprobs(model, generation, context)
        if stats.output_tokens or not interrupted:
            context.console.note(summary(generation, config, model.row_class, interrupted))
        elif interrupted:
            context.console.note("interrupted before the first token.")
    return errors.INTERRUPTED if interrupted else errors.GOOD


def load_model(name: str, config: Config, context: Context) -> Model:
    """The model, while a terminal shows that it is being fetched or loaded."""
    with context.console.working(f"loading {name}") as progress:
        from surefoot.engine.generator import load

        model = load(name, config, cache_dir=context.cache_dir, progress=progress)
    context.interrupts.check()
    for refusal in model.passed_over:
        context.console.note(f"passed over {errors.as_line(refusal)}")
    if model.found.note:
        context.console.note(errors.as_line(model.found.note))
    return model


def plan_line(model: Model) -> str:
    """Which plan is used, and what it decides."""
    plan = model.plan
    assert plan is not None
    decides = f"of {plan.when}, {plan.kind}"
    if model.policy().name == "goodput":
        how = "by the clock too" if not model.policy().options["reproducible"] else "by the plan and the text alone"
        decides += f": draft lengths by goodput, {how}"
    if model.row_class != "identical":
        decides += f"; rows are {model.row_class}"
    return f"plan {model.found.path} ({decides})"


def _write(generation: Generation, context: Context, shown: bool) -> bool:
    """Writes the text as it comes; True when Ctrl-C ended it."""
    console = context.console
    try:
        for _, piece in generation.steps():
            # Nobody looks whether to stop before the prefill is done: until then Ctrl-C has to raise.
            context.interrupts.stop_by(generation.cancel)
            if shown and piece:
                console.write(piece)
    except KeyboardInterrupt:
        pass
    if shown and generation.text and not generation.text.endswith("\n") and console.out.isatty():
        console.write("\n")
    return context.interrupts.seen


def _write_json(model: Model, generation: Generation, context: Context) -> None:
    from importlib.metadata import version

    from surefoot.app.cli.document import as_json

    result = Result(
        schema=SCHEMA,
        surefoot=version("surefoot"),
        model=model.describe(),
        config=model.config,
        prompt_ids=generation.prompt_ids.tolist(),
        text=generation.text,
        ids=generation.ids,
        finish=generation.finish,
        seed=generation.seed,
        stats=generation.stats(),
        rounds=generation.rounds,
        lossy=_is_lossy(model.config),
    )
    context.console.write(as_json(result))


def _write_logprobs(model: Model, generation: Generation, context: Context) -> None:
    """One line per token on stderr: its text, the log of its probability, and the likeliest tokens there."""
    spelled = model.tokenizer.token_text
    for token in (token for round_ in generation.rounds for token in round_.logprobs or ()):
        others = "".join(f"   {spelled(other)!r} {logprob:.3f}" for other, logprob in token.top)
        context.console.note(f"{token.logprob:9.3f} {spelled(token.id)!r}{'   of' if others else ''}{others}")


def summary(generation: Generation, config: Config, row_class: RowClass, interrupted: bool = False) -> str:
    """The line of statistics. row_class: of the model's rows, which drafts rest on; those on any other are refused."""
    stats = generation.stats()
    rows = "rows identical" if row_class == "identical" else "near ties allowed"
    drafts = "drafts off" if config.drafts.name == "off" else f"{config.drafts.name}/{generation.policy.name}, {rows}"
    ending = "interrupted" if interrupted else f"finish {stats.finish}"
    parts = [
        f"{stats.output_tokens} tokens, {stats.tokens_per_second:.1f} tok/s",
        f"{stats.rounds} rounds, {stats.rows} rows, {stats.accepted_per_round:.2f} accepted per round",
        f"host {100 * stats.host_share:.1f} %",
        *([f"{stats.stalls} stalled forwards, {stats.stalled_s:.2f} s lost"] if stats.stalls else []),
        ending,
        drafts,
        "greedy" if generation.seed is None else f"seed {generation.seed}",
        *([_lossy(config, stats)] if _is_lossy(config) else []),
    ]
    return "; ".join(parts) + "."


def _is_lossy(config: Config) -> bool:
    """Whether there were drafts and a judge that accepts what plain decoding would not write."""
    return bool(config.lossy) and config.drafts.name != "off"


def _lossy(config: Config, stats: Stats) -> str:
    """That this may not be the text of the model, and in how many tokens it showed."""
    return f"lossy: {config.lossy}, {stats.lossy_tokens} of {stats.output_tokens} tokens here"
