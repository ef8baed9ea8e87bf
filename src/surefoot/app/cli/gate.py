"""`surefoot gate`: proves on this machine that drafts change nothing, a line for each gate."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from surefoot.app.cli import demotion, errors, settings
from surefoot.app.cli.command import Commands, Context, add_model, begin, finish

if TYPE_CHECKING:
    from surefoot.app.cli.console import Console
    from surefoot.engine.config import Config
    from surefoot.engine.generator import Model
    from surefoot.lab.gates import NotRun
    from surefoot.lab.records import Gate

SCHEMA = 1
_PACKAGES = ("openvino", "openvino-genai", "torch", "transformers", "tokenizers")


@dataclass(frozen=True, slots=True)
class Result:
    """What --json prints. passed: every gate that was asked for was tried, and passed."""

    schema: int
    surefoot: str
    machine: dict[str, Any]
    model: dict[str, Any]
    quick: bool
    passed: bool
    gates: Sequence[Gate]
    not_run: Sequence[NotRun]


def add_to(commands: Commands, with_parts: bool) -> None:
    """Add this command to `surefoot`."""
    parser = begin(
        commands,
        "gate",
        "prove on this machine that drafts change nothing",
        "Tries MODEL with these settings: rows of a block against single rows, whole texts with drafts on "
        "and off, plain decoding against the runtime's own, and whether rejected drafts leave a trace. One line each, "
        "with the figure and its limit. Exit code 1 when one fails, 3 when one could not be tried.",
        parts=with_parts,
    )
    add_model(parser)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter texts; enough to find a gross fault")
    parser.add_argument(
        "--only", action="append", metavar="NAME", help="rows, lossless, baseline or contamination (repeatable)"
    )
    settings.add_for_gates(parser)
    finish(parser, run, "the lines")


def run(args: argparse.Namespace, context: Context) -> int:
    """The exit code: good when every gate that was asked for passed."""
    from surefoot.app.cli.generate import load_model
    from surefoot.lab import gates

    wanted = args.only or gates.NAMES
    gates.check_names(wanted)
    names = tuple(name for name in gates.NAMES if name in wanted)
    config = settings.configure(args)
    _note_unused(config, context.console)
    model = load_model(args.model, config, context)
    found: list[Gate] = []
    missing: list[NotRun] = []
    gates.check_near_ties(model, names)
    if not args.json:
        context.console.write(_opening(model) + "\n")
    try:
        for name in names:
            outcome = gates.outcome(name, model, context.cache_dir, quick=args.quick, progress=_shown(name, context))
            context.console.status("")
            if isinstance(outcome, gates.NotRun):
                missing.append(outcome)
            else:
                found.append(outcome)
            if not args.json:
                context.console.write(line(outcome, context.console) + "\n")
            if not isinstance(outcome, gates.NotRun):
                demotion.keep(model, outcome, f"gate {name}", context)
    finally:
        context.console.status("")
    if args.json:
        _write_json(model, args.quick, found, missing, context)
    if any(not gate.passed for gate in found):
        return errors.GATE_FAILED
    return errors.NOT_ELIGIBLE if missing else errors.GOOD


def line(outcome: Gate | NotRun, console: Console) -> str:
    """One line for people; under that of the baseline, one with the settings of the vendor."""
    from surefoot.lab.gates import NotRun

    if isinstance(outcome, NotRun):
        return f"{outcome.name:<14} {console.styled('not run', '33')}  {errors.as_line(outcome.reason)}"
    word = console.styled("passed ", "32") if outcome.passed else console.styled("FAILED ", "31")
    if outcome.details.get("lossy"):
        return f"{outcome.name:<14} {word}  {errors.as_line(outcome.text)}"
    bound = "at least" if outcome.name == "baseline" else "at most"
    figure = f"{outcome.figure:.3g} {outcome.unit} ({bound} {outcome.limit:.3g})"
    told = f"{outcome.name:<14} {word}  {figure}: {errors.as_line(outcome.text)}"
    if "vendor" not in outcome.details:
        return told
    given = ", ".join(f"{key} {value}" for key, value in outcome.details["settings"].items())
    return f"{told}\n{'':<24}{outcome.details['vendor']} ran with {given}"


def _opening(model: Model) -> str:
    about = model.describe()
    given = ", ".join(f"{key} {value}" for key, value in about["settings"].items())
    return f"{about['model']} on {about['runtime']}, {about['device']}{f' ({given})' if given else ''}"


def _shown(name: str, context: Context) -> Any:
    """Progress on a terminal, and Ctrl-C where somebody else swallowed it."""

    def progress(done: int, total: int) -> None:
        context.interrupts.check()
        context.console.status(f"{name}, step {done} of {total}")

    return progress


def _note_unused(config: Config, console: Console) -> None:
    from surefoot.engine.config import Config as Defaults

    default = Defaults()
    unused = [name for name in ("sampling", "stop", "max_tokens") if getattr(config, name) != getattr(default, name)]
    if unused:
        console.note(f"gates write greedily, in lengths of their own; not used here: {', '.join(unused)}.")


def _write_json(model: Model, quick: bool, found: Sequence[Gate], missing: Sequence[NotRun], context: Context) -> None:
    from importlib.metadata import version

    from surefoot.app.cli.document import as_json
    from surefoot.lab import machine

    result = Result(
        schema=SCHEMA,
        surefoot=version("surefoot"),
        machine=machine.describe(_PACKAGES),
        model=model.describe(),
        quick=quick,
        passed=not missing and all(gate.passed for gate in found),
        gates=found,
        not_run=missing,
    )
    context.console.write(as_json(result))
