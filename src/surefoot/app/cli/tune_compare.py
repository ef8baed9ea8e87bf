"""`surefoot tune --compare`: one table, one picture, the fastest configuration for each workload."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from surefoot.app.cli import errors
from surefoot.app.cli.command import Context
from surefoot.core.errors import ConfigError, NotEligible, TargetError

if TYPE_CHECKING:
    from surefoot.app.cli.console import Console
    from surefoot.core.cost import CostCurve
    from surefoot.engine.config import Config
    from surefoot.engine.plans import Plan
    from surefoot.lab.tune import Size
    from surefoot.lab.tune.compare import Fastest, Row

SCHEMA = 1
_PLACES = ("weights", "cache")
"""Settings that are no option of the runtime."""


@dataclass(frozen=True, slots=True)
class Result:
    """What --json prints. plans: the file of each configuration that was tuned."""

    schema: int
    surefoot: str
    machine: dict[str, Any]
    model: str
    rows: Sequence[Row]
    fastest: Sequence[Fastest]
    plans: Mapping[str, Path]
    picture: Path | None


@dataclass(frozen=True, slots=True)
class _Measured:
    """What is known of a configuration: a plan with its file; or the cost of plain decoding alone, where drafts would
    change the text; or nothing.

    reused: the plan was there before. why: why there is no plan.
    """

    plan: Plan | None = None
    path: Path | None = None
    plain: CostCurve | None = None
    reused: bool = False
    why: str = ""


def run(args: argparse.Namespace, config: Config, size: Size, context: Context) -> int:
    """The exit code, once every configuration was tuned, or its plan found.

    Raises: ConfigError for one that cannot be read; NotEligible where none can be tuned.
    """
    from surefoot.lab.tune import compare

    wanted = {text: _configured(text, config) for text in args.compare}
    if len(wanted) < len(args.compare):
        raise ConfigError("--compare names a configuration twice; leave one of them out")
    measured: dict[str, _Measured] = {}
    for text, its in wanted.items():
        try:
            measured[text] = _measured(args, its, size, context)
        except (NotEligible, TargetError, _TooNoisyError) as error:
            context.console.status("")
            measured[text] = _Measured(why=errors.sentence(error))
        if measured[text].why:
            context.console.note(f"{text}: {measured[text].why}")
    plans = {text: (each.plan, each.path) for text, each in measured.items() if each.plan and each.path}
    if not plans:
        whys = [each.why for each in measured.values()]
        raise NotEligible(f"none of the configurations of {args.model} can be tuned", whys)
    rows = _rows(measured)
    best = compare.fastest(rows)
    picture = _picture(args, plans, context)
    paths = {text: path for text, (_, path) in plans.items()}
    if args.json:
        _write_json(args.model, rows, best, paths, picture, context)
    else:
        shown = _lines(args.model, rows, best, paths, picture, context.console)
        context.console.write("".join(f"{line}\n" for line in shown))
    return errors.GOOD


def _rows(measured: Mapping[str, _Measured]) -> list[Row]:
    from surefoot.lab.tune import compare

    depths = compare.depths_of([each.plan for each in measured.values() if each.plan])
    rows = []
    for text, each in measured.items():
        if each.plan is not None:
            rows.append(compare.row(text, each.plan, reused=each.reused))
        elif each.plain is not None:
            rows.append(compare.plain_row(text, each.plain, depths))
        else:
            rows.append(compare.missing(text, each.why))
    return rows


class _TooNoisyError(Exception):
    """This configuration could not be decided on this machine now."""


def _configured(text: str, config: Config) -> Config:
    """The configuration that a text of --compare stands for. Raises: ConfigError."""
    from surefoot.engine import parts
    from surefoot.engine.config import Part, parse_assignment

    name, colon, rest = text.partition(":")
    if not name.strip() or (colon and not rest.strip()):
        raise ConfigError(
            f"--compare {text!r} cannot be read: write it as openvino, or openvino:weights=int8,threads=2"
        )
    plugin = parts.find("target", name.strip())
    options = {} if config.runtime.name not in ("auto", plugin.name) else dict(config.runtime.options)
    places: dict[str, Any] = {}
    for item in rest.split(",") if rest else ():
        key, value = parse_assignment(item)
        if key in _PLACES:
            places[key] = parts.typed(value, str, f"--compare {text}: {key}")
        else:
            options[key] = value
    parts.make_options(plugin, options, f"--compare {text}")
    return replace(config, runtime=Part(plugin.name, options), **places)


def _measured(args: argparse.Namespace, config: Config, size: Size, context: Context) -> _Measured:
    """What is known of one configuration: measured now, unless a full plan is there."""
    from surefoot.app.cli.tune import load, plain_one, tune_one
    from surefoot.engine.plans import Found
    from surefoot.lab.tune import RowDependentError

    model, load_s = load(args.model, config if args.fresh else replace(config, plan="auto"), context)
    plan, path = model.plan, model.found.path
    if plan is not None and path is not None and plan.curve is not None and (plan.kind == "full" or args.quick):
        allowed = plan.allow_near_ties or config.allow_near_ties
        context.console.note(f"{config.runtime.name}: the plan of {plan.when} is there; --fresh measures again.")
        return _Measured(replace(plan, allow_near_ties=allowed), path, reused=True)
    model = replace(model, found=Found())
    try:
        tuned = tune_one(args, model, load_s, size, context)
    except RowDependentError as error:
        return _Measured(plain=plain_one(model, size, context), why=errors.sentence(error))
    if tuned.path is None:
        raise _TooNoisyError(tuned.noise)
    return _Measured(tuned.plan, tuned.path)


def _picture(args: argparse.Namespace, plans: Mapping[str, tuple[Plan, Path]], context: Context) -> Path | None:
    """All curves in one picture, in milliseconds."""
    from surefoot.app.cli.tune import draw
    from surefoot.lab.report.staircase import Named, figure

    named = []
    for text, (plan, _) in plans.items():
        assert plan.curve is not None
        depth = plan.curve.depths[0]
        named.append(Named(f"{text}, at {depth} tokens of context", plan.curve, depth))
    try:
        svg = figure("comparison", f"What a forward of {args.model} costs by its rows", named, relative=False)
    except NotEligible as error:
        if args.svg is not None:
            raise
        context.console.note(errors.as_line(f"no picture: {error}"))
        return None
    first = next(iter(plans.values()))[1]
    return draw(svg, args.svg, first.with_name(f"{first.stem.rpartition('-')[0]}-compared.svg"))


def _lines(
    model: str,
    rows: Sequence[Row],
    best: Sequence[Fastest],
    paths: Mapping[str, Path],
    picture: Path | None,
    console: Console,
) -> Iterator[str]:
    from surefoot.app.cli.tune_table import table

    workloads = [each.workload for each in best]
    yield f"{model}: tokens per second that are expected, in brackets the draft length (off: plain is the fastest)"
    yield ""
    head = ("configuration", "rows", "one row ms", "plain", *workloads)
    cells: list[tuple[str, ...]] = [head]
    for row in rows:
        if row.why:
            cells.append((row.name, "not tuned", *["-"] * (len(head) - 2)))
            continue
        speeds = {speed.workload: speed for speed in row.speeds}
        cells.append(
            (
                row.name, f"{row.row_class}{'' if row.drafts else ', drafts off'}", f"{row.one_row_ms or 0:.1f}",
                f"{row.plain or 0:.1f}",
                *(
                    f"{speeds[name].tokens_per_s:.1f} [{speeds[name].draft_len or 'off'}]" if name in speeds else "-"
                    for name in workloads
                ),
            )
        )  # fmt: skip
    yield from table(cells, left={"configuration", "rows"}, console=console)
    yield ""
    yield from map(_named, best)
    if not best:
        yield "no workload was counted, so that nothing is said about the fastest"
    yield ""
    yield from (f"not tuned: {row.name}: {row.why}" for row in rows if row.why)
    if picture is not None:
        yield f"picture: {picture}"
    yield from (f"plan: {path}" for path in paths.values())


def _named(best: Fastest) -> str:
    """Who is the fastest on a workload, or who are level, with what would decide it."""
    how = f"draft_len {best.draft_len}" if best.draft_len else "drafts off"
    figures = f"{best.tokens_per_s:.1f} tok/s [{best.low:.1f}, {best.high:.1f}], {how}"
    lead = f", {best.lead:.2f} times the next" if best.lead is not None else ""
    if not best.level:
        return f"fastest on {best.workload}: {best.name} ({figures}{lead})"
    return (
        f"level on {best.workload}: {best.name} ({figures}{lead}) and {', '.join(best.level)}: {best.doubt}; "
        "'surefoot bench' of each, one right after the other, decides"
    )


def _write_json(
    model: str,
    rows: Sequence[Row],
    best: Sequence[Fastest],
    paths: Mapping[str, Path],
    picture: Path | None,
    context: Context,
) -> None:
    from importlib.metadata import version

    from surefoot.app.cli.document import as_json
    from surefoot.lab import machine
    from surefoot.lab.setup import PACKAGES

    about = machine.describe(PACKAGES)
    context.console.write(as_json(Result(SCHEMA, version("surefoot"), about, model, rows, best, paths, picture)))
