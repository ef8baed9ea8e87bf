"""`surefoot demo`: the same three texts with drafts off and on, live, then compared token by token."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from surefoot.app.cli import errors
from surefoot.app.cli.command import Commands, Context, begin, finish
from surefoot.app.cli.demo_prompts import CASES, Case
from surefoot.app.cli.generate import load_model

if TYPE_CHECKING:
    from surefoot.engine.config import Config
    from surefoot.engine.generator import Model
    from surefoot.engine.stats import Stats

SCHEMA = 1
MODEL = "smollm2-135m"
_WARM_UP_TOKENS = 8  # chosen: enough for the first allocations, too few to be noticed


@dataclass(frozen=True, slots=True)
class Run:
    """One text and its numbers."""

    drafts: str
    ids: tuple[int, ...]
    stats: Stats


@dataclass(frozen=True, slots=True)
class Difference:
    """The first token that differs; gap: how far apart the two likeliest logits were there, without drafts.

    An id is None where that text had ended.
    """

    index: int
    off_id: int | None
    on_id: int | None
    gap: float


@dataclass(frozen=True, slots=True)
class Pair:
    """A workload with drafts off and on; `ratio` is on by off in tokens per second."""

    workload: str
    off: Run
    on: Run
    ratio: float
    difference: Difference | None


@dataclass(frozen=True, slots=True)
class Result:
    """What --json prints."""

    schema: int
    surefoot: str
    machine: dict[str, Any]
    model: dict[str, Any]
    drafts: str
    policy: str
    pairs: Sequence[Pair]


def add_to(commands: Commands, with_parts: bool) -> None:
    """Add this command to `surefoot`."""
    parser = begin(
        commands,
        "demo",
        "a small model, drafts off and on, side by side; needs nothing of yours",
        f"Writes three texts with {MODEL}, each with drafts off and on, and compares ids and speed. "
        "Exit code 1 when any token differs.",
    )
    parser.add_argument("--runtime", default="auto", metavar="NAME", help="what runs the model; auto is the fastest")
    parser.add_argument("--threads", type=int, metavar="N", help="CPU threads")
    parser.add_argument("--max-tokens", type=int, metavar="N", help="shorten each text to N tokens")
    finish(parser, run, "the texts and the table")


def run(args: argparse.Namespace, context: Context) -> int:
    """The exit code: good when no token differs."""
    off, on = _configs(args)
    shown = not args.json
    model = load_model(MODEL, off, context)
    if shown:
        context.console.write("\n".join(_opening(model, context)) + "\n")
    pairs: list[Pair] = []
    try:
        _warm_up(model, off, context)
        for number, case in enumerate(CASES):
            pairs.append(_compare(model, _shortened(case, args.max_tokens), off, on, number % 2 == 1, context, shown))
    except KeyboardInterrupt:
        if shown and pairs:
            context.console.write("\n\n" + "\n".join(_table(pairs)) + "\n")
        raise
    if args.json:
        _write_json(model, on, pairs, context)
    else:
        context.console.write("\n".join(_closing(pairs, context)) + "\n")
    return errors.GATE_FAILED if any(pair.difference for pair in pairs) else errors.GOOD


def _configs(args: argparse.Namespace) -> tuple[Config, Config]:
    from surefoot.engine.config import load_config

    common_to_both = {"runtime.name": args.runtime, "allow_near_ties": True}
    if args.threads is not None:
        common_to_both["runtime.threads"] = args.threads
    return load_config(None, {**common_to_both, "drafts.name": "off"}), load_config(None, common_to_both)


def _shortened(case: Case, max_tokens: int | None) -> Case:
    return case if max_tokens is None else Case(case.name, case.prompt, min(case.max_tokens, max_tokens))


def _warm_up(model: Model, config: Config, context: Context) -> None:
    """The first forwards of a process are slower than the others and belong to nobody."""
    with context.console.working("warming up"):
        _write(model, Case("", CASES[0].prompt, _WARM_UP_TOKENS), config, context, shown=False)


def _compare(model: Model, case: Case, off: Config, on: Config, on_first: bool, context: Context, shown: bool) -> Pair:
    """Both runs of a workload, one right after the other; who goes first changes from workload to workload."""
    runs = {}
    for config in (on, off) if on_first else (off, on):
        if shown:
            title = f"{case.name}, drafts {'off' if config is off else 'on'}"
            context.console.write(f"\n{context.console.styled(f'--- {title} ---', '1')}\n")
        runs[config.drafts.name] = _write(model, case, config, context, shown)
    plain, drafted = runs[off.drafts.name], runs[on.drafts.name]
    ratio = drafted.stats.tokens_per_second / plain.stats.tokens_per_second if plain.stats.tokens_per_second else 0.0
    return Pair(case.name, plain, drafted, ratio, _difference(model, case, off, plain.ids, drafted.ids))


def _write(model: Model, case: Case, config: Config, context: Context, shown: bool) -> Run:
    from dataclasses import replace

    with model.generate(case.prompt, config=replace(config, max_tokens=case.max_tokens)) as generation:
        for piece in generation:
            if shown:
                context.console.write(piece)
        context.interrupts.check()
        if shown:
            context.console.write("\n")
        return Run(config.drafts.name, tuple(generation.ids), generation.stats())


def _difference(
    model: Model, case: Case, off: Config, plain: Sequence[int], drafted: Sequence[int]
) -> Difference | None:
    """The first place where the two differ, written once more without drafts for the gap; None when they are equal."""
    from dataclasses import replace

    if plain == drafted:
        return None
    index = next(
        (i for i, (a, b) in enumerate(zip(plain, drafted, strict=False)) if a != b), min(map(len, (plain, drafted)))
    )
    config = replace(off, max_tokens=index + 1, top_logprobs=2)
    with model.generate(case.prompt, config=config) as generation:
        for _ in generation:
            pass
        top = generation.rounds[-1].logprobs
    gap = top[-1].top[0][1] - top[-1].top[1][1] if top else float("nan")
    at = [ids[index] if index < len(ids) else None for ids in (plain, drafted)]
    return Difference(index, at[0], at[1], gap)


def _opening(model: Model, context: Context) -> Iterator[str]:
    about = model.describe()
    settings = ", ".join(f"{key} {value}" for key, value in about["settings"].items())
    yield f"{about['model']} on {about['runtime']}, {about['device']} ({settings})"
    yield "Each text is written twice, with drafts off and on: same model, same settings, greedy."
    if about["row_class"] != "identical":
        yield (
            f"These settings are of the class {about['row_class']}: where the two likeliest tokens nearly tie, drafts "
            "may swap them. The ids below show whether they did."
        )


def _closing(pairs: Sequence[Pair], context: Context) -> Iterator[str]:
    console = context.console
    yield ""
    yield from _table(pairs)
    yield ""
    for pair in pairs:
        if pair.difference is None:
            yield f"{pair.workload}: all {len(pair.off.ids)} ids {console.styled('identical', '32')}"
        else:
            yield f"{pair.workload}: {console.styled('different', '31')} from token {_where(pair.difference)}"
    yield ""
    yield "Each ratio is one pair of runs, one after the other, after the prompt was read. Other programs and heat"
    yield "move it by a tenth and more: repeat the demo to see how much here. Drafts come from the prompt and the text"
    yield "itself, so they help where the answer repeats them, and cost time where it does not."
    yield ""
    yield "With your own model (a folder, a GGUF file or a Hub id):"
    yield "  surefoot generate MODEL -p 'Your prompt'"
    yield "  surefoot generate MODEL -p 'Your prompt' --drafts off"
    yield "  surefoot doctor"


def _where(difference: Difference) -> str:
    ids = f"off {difference.off_id}, on {difference.on_id}"
    return f"{difference.index} ({ids}; the two likeliest were {difference.gap:.4f} apart in log-probability)"


def _table(pairs: Sequence[Pair]) -> Iterator[str]:
    head = ("tokens", "tok/s", "rounds", "rows", "accepted/round", "host %", "ratio")
    yield f"{'workload':<10}{'drafts':<8}" + "".join(f"{name:>{len(name) + 3}}" for name in head)
    for pair in pairs:
        for run_, ratio in ((pair.off, 1.0), (pair.on, pair.ratio)):
            stats = run_.stats
            cells = (
                str(stats.output_tokens),
                f"{stats.tokens_per_second:.1f}",
                str(stats.rounds),
                str(stats.rows),
                f"{stats.accepted_per_round:.2f}",
                f"{100 * stats.host_share:.1f}",
                f"{ratio:.2f}",
            )
            shown = "".join(f"{cell:>{len(name) + 3}}" for cell, name in zip(cells, head, strict=True))
            yield f"{pair.workload:<10}{run_.drafts:<8}{shown}"


def _write_json(model: Model, on: Config, pairs: Sequence[Pair], context: Context) -> None:
    from importlib.metadata import version

    from surefoot.app.cli.document import as_json
    from surefoot.lab.machine import describe

    machine = describe(("openvino", "torch", "transformers"))
    result = Result(
        SCHEMA, version("surefoot"), machine, model.describe(), on.drafts.name, model.policy(on).name, pairs
    )
    context.console.write(as_json(result))
