"""`surefoot tune`: what a forward costs by its rows, what drafts bring on it, and a plan that every command uses."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from surefoot.app.cli import errors, settings
from surefoot.app.cli.command import Commands, Context, add_model, begin, finish
from surefoot.core.errors import ConfigError

if TYPE_CHECKING:
    from surefoot.core.binding import Binding
    from surefoot.core.cost import CostCurve
    from surefoot.core.payoff import Outlook
    from surefoot.core.plateaus import Staircase
    from surefoot.engine.config import Config
    from surefoot.engine.generator import Model
    from surefoot.engine.plans import Plan
    from surefoot.lab.tune import Size, Tuned, World

SCHEMA = 1
_LEAST_ROWS, _MOST_ROWS = 2, 64


@dataclass(frozen=True, slots=True)
class Result:
    """What --json prints. plan: what the file `path` holds; path is null where the machine was too noisy (`noise`)."""

    schema: int
    surefoot: str
    machine: dict[str, Any]
    plan: Plan
    path: Path | None
    picture: Path | None
    verdict: str
    noise: str | None
    doubts: Sequence[str]
    agreement: str
    staircases: Sequence[Staircase]
    outlook: Outlook
    binding: Binding
    seconds: dict[str, float]
    resumed: bool


def add_to(commands: Commands, with_parts: bool) -> None:
    """Add this command to `surefoot`."""
    parser = begin(
        commands,
        "tune",
        "measure what rows cost here, and write the plan that draft lengths come from",
        "Tries whether rows of a block equal single rows, measures what a forward costs by its rows, "
        "counts what drafts bring on each workload, and writes a plan that `generate` and `bench` find by themselves. "
        "Goes on where it was interrupted. Exit code 1 when the machine is too noisy to decide, 3 when drafts would "
        "change the text.",
        parts=with_parts,
    )
    add_model(parser)
    group = parser.add_argument_group("how much")
    group.add_argument("--quick", action="store_true", help="fewer rows, one depth, three workloads: a first look")
    group.add_argument("--rows", type=int, metavar="N", help="the most rows of a forward; else 17, then 24 and 32")
    group.add_argument("--depths", metavar="N,M", help="tokens of context to measure at; else 200,850")
    group.add_argument("--fresh", action="store_true", help="forget what an interrupted run has measured")
    group.add_argument(
        "--despite-noise", action="store_true", help="write the plan although the machine was too noisy to decide"
    )
    group.add_argument(
        "--samples", type=Path, metavar="FILE", help="put every sample there too, as JSON Lines; the plan has medians"
    )
    group = parser.add_argument_group("comparison")
    group.add_argument(
        "--compare",
        action="append",
        default=[],
        metavar="TEXT",
        help="a runtime with settings: openvino, openvino:weights=int8, hf:dtype=bfloat16; repeatable. Each is tuned "
        "unless its plan is there, and for each workload the fastest is named, or those that are level",
    )
    group = parser.add_argument_group("picture")
    group.add_argument("--svg", type=Path, metavar="FILE", help="where the picture goes; else beside the plan")
    settings.add_for_tuning(parser)
    finish(parser, run, "the tables")


def run(args: argparse.Namespace, context: Context) -> int:
    """The exit code, once the plan is written."""
    import logging

    from surefoot.lab.tune import check_lossless

    # matplotlib tells on stderr that it has no folder for its fonts, or is looking at them: nobody asked.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    size = _size(args)
    config = replace(settings.configure(args), plan="off")
    check_lossless(config)
    if args.compare and args.samples is not None:
        raise ConfigError("--samples is one file, and --compare measures several configurations; leave one of them out")
    if args.compare:
        from surefoot.app.cli import tune_compare

        return tune_compare.run(args, config, size, context)
    tuned = tune_one(args, *load(args.model, config, context), size, context)
    picture = _picture(args, tuned, context)
    if args.json:
        _write_json(tuned, picture, context)
    else:
        from surefoot.app.cli import tune_table

        context.console.write("".join(f"{line}\n" for line in tune_table.lines(tuned, picture, context.console)))
    if tuned.noise is not None:
        context.console.note(errors.as_line(tuned.noise))
    return errors.GOOD if tuned.path is not None else errors.GATE_FAILED


def load(name: str, config: Config, context: Context) -> tuple[Model, float]:
    """The model, and the seconds that loading, converting and compiling it took."""
    from surefoot.app.cli.generate import load_model

    began = time.perf_counter()
    model = load_model(name, config, context)
    return model, time.perf_counter() - began


def tune_one(args: argparse.Namespace, model: Model, load_s: float, size: Size, context: Context) -> Tuned:
    """What tuning found. Raises: NotEligible where drafts would change the text."""
    from surefoot.lab.tune import tune

    # From here on Ctrl-C is looked for between two rounds: an exception inside a forward can take a runtime down.
    context.interrupts.stop_by(lambda: None)
    try:
        with open_kept(model, size, args.fresh, context) as kept:
            if kept.resumed:
                turns = kept.samples[-1].turn + 1 if kept.samples else 0
                context.console.note(
                    f"going on where an earlier run was interrupted: {turns} turns and {len(kept.texts)} texts are "
                    "there; --fresh forgets them."
                )
            tuned = tune(
                model, size, _world(context), kept, context.cache_dir, load_s=load_s, command=context.arguments,
                despite_noise=args.despite_noise, samples_to=args.samples,
            )  # fmt: skip
    except KeyboardInterrupt:
        context.console.status("")
        context.console.note("what was measured is kept for a day; the same command goes on with it.")
        raise
    finally:
        context.console.status("")
    return tuned


def plain_one(model: Model, size: Size, context: Context) -> CostCurve:
    """What plain decoding costs, where drafts would change the text."""
    from surefoot.lab.tune import plain

    try:
        return plain(model, size, _world(context))
    finally:
        context.console.status("")


def open_kept(model: Model, size: Size, fresh: bool, context: Context) -> Any:
    """What an earlier run of the same has left."""
    from surefoot.engine import plans
    from surefoot.lab.tune import Begin, Kept
    from surefoot.lab.tune.run import kept_depths, kept_rows

    owner = plans.owner_of(model.files, model.target.caps, model.config)
    path = plans.path_of(owner, context.cache_dir).with_suffix(".samples.jsonl")
    if fresh:
        path.unlink(missing_ok=True)
    begin = Begin(owner, kept_rows(model, size), kept_depths(model, size), size.quick, time.time())
    return Kept(path, begin)


def draw(svg: str, wanted: Path | None, default: Path | None) -> Path | None:
    """The file of the picture; None where there is no place for it."""
    from surefoot.lab.report.svg import standalone

    path = wanted or default
    if path is None:
        return None
    try:
        path.write_text(standalone(svg), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"the picture {path} cannot be written: {error.strerror or error}") from error
    return path


def _picture(args: argparse.Namespace, tuned: Tuned, context: Context) -> Path | None:
    """The file of the staircase; None, with a note, where matplotlib is missing."""
    from surefoot.core.errors import NotEligible
    from surefoot.lab.report.staircase import Named, figure

    curve, owner = tuned.plan.curve, tuned.plan.owner
    assert curve is not None
    named = [Named(f"at {depth} tokens of context", curve, depth) for depth in curve.depths]
    title = f"What a forward costs by its rows: {owner.model} on {owner.runtime}"
    try:
        with context.console.working("drawing"):
            svg = figure("staircase", title, named)
    except NotEligible as error:
        if args.svg is not None:
            raise
        context.console.note(errors.as_line(f"no picture: {error}"))
        return None
    return draw(svg, args.svg, tuned.path.with_suffix(".svg") if tuned.path else None)


def _size(args: argparse.Namespace) -> Size:
    """How much is measured. Raises: ConfigError."""
    from surefoot.lab.tune import FULL, QUICK

    size = QUICK if args.quick else FULL
    if args.rows is not None:
        if not _LEAST_ROWS <= args.rows <= _MOST_ROWS:
            raise ConfigError(f"--rows must be from {_LEAST_ROWS} to {_MOST_ROWS}; got {args.rows}")
        size = replace(size, rows=tuple(range(1, args.rows + 1)), gate_rows=min(size.gate_rows, args.rows))
    if args.depths is not None:
        size = replace(size, depths=_depths(args.depths))
    return size


def _depths(text: str) -> tuple[int, ...]:
    try:
        found = tuple(sorted({int(item) for item in text.split(",")}))
    except ValueError:
        found = ()
    if not found or found[0] < 1:
        raise ConfigError(f"--depths takes tokens of context with commas between them, such as 200,850; got {text!r}")
    return found


def _world(context: Context) -> World:
    from surefoot.app.cli.bench_world import now, spelled
    from surefoot.lab.tune import Step, World

    def show(step: Step) -> None:
        left = "" if step.left_s is None else f", at most {spelled(step.left_s)} of measuring left"
        context.console.status(f"{step.what}{left}")

    return World(time.perf_counter, now, show, context.interrupts.check)


def _write_json(tuned: Tuned, picture: Path | None, context: Context) -> None:
    from importlib.metadata import version

    from surefoot.app.cli.document import as_json
    from surefoot.engine.plans.file import without_samples
    from surefoot.lab import machine
    from surefoot.lab.setup import PACKAGES

    result = Result(
        schema=SCHEMA,
        surefoot=version("surefoot"),
        machine=machine.describe(PACKAGES),
        plan=without_samples(tuned.plan),
        path=tuned.path,
        picture=picture,
        verdict=tuned.verdict,
        noise=tuned.noise,
        doubts=tuned.doubts,
        agreement=tuned.agreement,
        staircases=tuned.staircases,
        outlook=tuned.outlook,
        binding=tuned.binding,
        seconds=dict(tuned.seconds),
        resumed=tuned.resumed,
    )
    context.console.write(as_json(result))
