"""`surefoot simulate`: what another draft length, policy or machine would have given, without running a model."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from surefoot.app.cli import errors
from surefoot.app.cli.command import Commands, Context, begin, finish
from surefoot.core.errors import ConfigError

if TYPE_CHECKING:
    from surefoot.core.cost import CostCurve
    from surefoot.core.types import Ids
    from surefoot.lab.curvefile import NamedCurve
    from surefoot.lab.simulate import Chosen, Simulated, Table
    from surefoot.lab.store import Loaded
    from surefoot.lab.traces import Text
    from surefoot.lab.workloads import Prompt

SCHEMA = 1
_OWN = "surefoot"
_MOST_TEXTS = 1000


@dataclass(frozen=True, slots=True)
class OnCurve:
    """What came out on one curve. rows: measured; holes: between them and not measured; depths: in tokens."""

    curve: str
    about: str
    rows: tuple[int, ...]
    holes: tuple[int, ...]
    depths: tuple[int, ...]
    can_pad: bool
    workloads: tuple[Simulated, ...]


@dataclass(frozen=True, slots=True)
class Result:
    """What --json prints. drafts: whose offers the traces hold; "copying" where they are of a fitted process. Speed-ups
    are by plain decoding on the same curve; nothing was timed.
    """

    schema: int
    surefoot: str
    trace: str
    drafts: str
    draft_ms: float
    curves: tuple[OnCurve, ...]


def add_to(commands: Commands, with_parts: bool) -> None:
    """Add this command to `surefoot`."""
    parser = begin(
        commands,
        "simulate",
        "say what another draft length, policy or machine would have given",
        "Writes the texts of a record again on a virtual clock, where forwards cost what a curve says, "
        "with each policy; and with the best schedule that hindsight allows. No model runs. Of a published table of "
        "speed-ups, the rows of fixed draft lengths are fitted, the others are predicted, and both are compared.",
    )
    parser.add_argument(
        "--curve", action="append", required=True, metavar="FILE[:ID]",
        help="what forwards cost: a plan of `surefoot tune`, or a curve of a collection by its id; ID+ID for one at "
        "two depths (repeatable: one table for each)",
    )  # fmt: skip
    parser.add_argument(
        "--trace", type=Path, required=True, metavar="FILE",
        help="a record of `surefoot bench` or `surefoot accept`, or a JSON table of speed-ups by draft length",
    )  # fmt: skip
    parser.add_argument(
        "--policy", action="append", default=[], metavar="NAME[:OPTION=VALUE,...]",
        help="a policy to try, such as fixed:draft_len=5 (repeatable; default: fixed 1 to 8, additive, goodput)",
    )  # fmt: skip
    parser.add_argument(
        "--drafts", default="ngram", metavar="NAME[:OPTION=VALUE,...]",
        help="whose drafts, of a record's texts; one that goes by the tokens alone (default: ngram)",
    )  # fmt: skip
    parser.add_argument(
        "--draft-ms",
        type=float,
        default=0.0,
        metavar="X",
        help="what drafting a token costs, in milliseconds (default: 0)",
    )
    parser.add_argument("--workloads", metavar="NAMES", help="only these, with commas between them")
    parser.add_argument("--texts", type=int, default=60, metavar="N", help="texts of a fitted process (default: 60)")
    parser.add_argument(
        "--model", metavar="MODEL", help="whose tokenizer reads a record's prompts (default: the record's)"
    )
    parser.add_argument(
        "--prompts",
        type=Path,
        metavar="FILE",
        help="a record's prompts, where they are of a file and not Surefoot's own",
    )
    finish(parser, run, "the tables")


def run(args: argparse.Namespace, context: Context) -> int:
    """The exit code, once every policy has written every text."""
    from importlib.metadata import version

    from surefoot.app.cli.document import as_json
    from surefoot.lab import curvefile

    _check(args)
    curves = [curvefile.read(text) for text in args.curve]
    if args.draft_ms:
        for named in curves:
            curvefile.need_milliseconds(named, "--draft-ms")
    policies = [_policy(text) for text in args.policy]
    table = _table(args.trace)
    if table is not None and args.draft_ms:
        raise ConfigError(
            f"--draft-ms {args.draft_ms:g}: a table of speed-ups is fitted as if drafts cost nothing; leave it out, or "
            "take a record"
        )
    record = None if table is not None else _record(args, context)
    found = []
    with context.console.working("simulating"):
        for named in curves:
            found.append(_on_curve(named, table, record, policies, args))
            context.interrupts.check()
    if args.json:
        drafts = "copying" if table is not None else args.drafts
        result = Result(SCHEMA, version("surefoot"), str(args.trace), drafts, args.draft_ms, tuple(found))
        context.console.write(as_json(result))
        return errors.GOOD
    for each, named in zip(found, curves, strict=True):
        context.console.write("".join(f"{line}\n" for line in lines(each, named.relative)))
    return errors.GOOD


def lines(found: OnCurve, relative: bool) -> Iterable[str]:
    """The tables of one curve. `relative`: its costs are ratios, so that tokens per second mean nothing."""
    yield f"{found.curve}: {found.about}"
    if found.holes:
        yield f"  not measured: {', '.join(map(str, found.holes))} rows, priced as the dearer neighbour"
    for each in found.workloads:
        yield ""
        speed = "" if relative else f", plain {each.plain_tokens_per_s:.1f} tok/s"
        best = f"best with hindsight {each.best_speedup:.2f}x"
        yield f"{each.workload}: {each.texts} texts, {each.tokens} tokens{speed}; {best}"
        if each.process is not None:
            process = each.process
            yield (
                f"  fitted: a copy begins with a chance of {process.begins:.3f} a token and lasts {process.length}; "
                f"outside, a draft is offered with {process.offered:.2f}, each token right with {process.lucky:.2f}"
            )
        yield from _rows(each)
    yield ""


def _rows(each: Simulated) -> Iterable[str]:
    compared = any(outcome.measured is not None for outcome in each.outcomes)
    width = max(len(outcome.policy) for outcome in each.outcomes)
    extra = f"{'measured':>10}{'residual':>10}" if compared else ""
    yield f"  {'policy':<{width}}{'speed-up':>10}{'of best':>9}{'draft':>7}{'accepted':>10}{extra}"
    fastest = max(each.outcomes, key=lambda outcome: outcome.speedup)
    for outcome in each.outcomes:
        more = ""
        if outcome.measured is not None and outcome.residual is not None:
            more = f"{outcome.measured:>9.2f}x{outcome.residual:>+10.0%}"
        mark = "  <- fastest" if outcome is fastest else ""
        yield (
            f"  {outcome.policy:<{width}}{outcome.speedup:>9.2f}x{outcome.share:>9.0%}{outcome.draft_len:>7.2f}"
            f"{outcome.accepted_per_round:>10.2f}{more}{mark}"
        )


def _check(args: argparse.Namespace) -> None:
    """Raises: ConfigError for numbers that mean nothing."""
    if not 0 <= args.draft_ms < 1e6:
        raise ConfigError(f"--draft-ms takes milliseconds from 0 up; got {args.draft_ms}")
    if not 1 <= args.texts <= _MOST_TEXTS:
        raise ConfigError(f"--texts takes 1 to {_MOST_TEXTS}; got {args.texts}")


def _policy(text: str) -> Chosen:
    """The policy that was named, its options checked. Raises: ConfigError."""
    from surefoot.engine.config import Config
    from surefoot.lab.arms import is_free, parse
    from surefoot.lab.simulate import Chosen

    (arm,) = parse([f"ngram/{text}"], Config())
    if is_free(arm):
        raise ConfigError(f"--policy {text}: say which draft length, such as {text}:draft_len=5")
    options = {key: value for key, value in arm.policy.items() if key != "name"}
    return Chosen(arm.label.partition("/")[2], str(arm.policy["name"]), options)


def _table(path: Path) -> Table | None:
    """The table of speed-ups in the file; None where it is a record. Raises: ConfigError."""
    from surefoot.engine.bounded import json_object
    from surefoot.lab.simulate import table_of

    if not path.is_file():
        raise ConfigError(
            f"there is no file {path}: give a record of `surefoot bench` or `surefoot accept`, or a table of speed-ups"
        )
    if path.suffix == ".jsonl":
        return None
    table = table_of(json_object(path))
    if table is None:
        raise ConfigError(
            f"{path} is no record (.jsonl) of `surefoot bench` or `surefoot accept`, and holds no table of speed-ups"
        )
    return table


def _record(args: argparse.Namespace, context: Context) -> tuple[Loaded, Sequence[Text]]:
    """The record and its texts of the workloads that are wanted, their prompts read again."""
    from surefoot.lab import traces
    from surefoot.lab.store import load

    with context.console.working(f"reading {args.trace}"):
        loaded = load(args.trace)
        wanted = _known(args, traces.workloads(loaded), "the record")
        encode = _encoder(args.model or str(loaded.run.model.get("model", "")), loaded.run.sampling, context)
        return loaded, traces.texts(loaded, _prompts(loaded.run.prompts, args.prompts), encode, wanted)


def _prompts(uses: Sequence[Any], given: Path | None) -> list[Prompt]:
    """The prompts of the sets that a record names, and those of a file."""
    from surefoot.lab import workloads

    sources = {use.source for use in uses}
    found = list(workloads.own().prompts) if _OWN in sources else []
    if "spec-bench" in sources:
        found += workloads.spec_bench().prompts
    if given is not None:
        found += workloads.read(given).prompts
    return found


def _encoder(model: str, sampling: Any, context: Context) -> Callable[[Prompt], Ids]:
    """The ids of a prompt as this model reads it; only its tokenizer is loaded."""
    from surefoot.core.errors import NotEligible

    try:
        from surefoot.engine import models
        from surefoot.engine.tokenizer import load_tokenizer

        tokenizer = load_tokenizer(models.resolve(model, context.cache_dir))
    except ImportError as error:
        raise NotEligible(f"{error.name or error} is needed to read prompts: pip install 'surefoot[text]'.") from error
    except ConfigError as error:
        raise ConfigError(f"the record's prompts cannot be read again: {error}; name its model with --model") from error
    raw = bool(sampling.get("raw"))

    def encode(prompt: Prompt) -> Ids:
        if isinstance(prompt.content, str):
            if raw:
                return tokenizer.encode(prompt.content)
            return tokenizer.render([{"role": "user", "content": prompt.content}], prompt.tools)
        return tokenizer.render(prompt.content, prompt.tools)

    return encode


def _on_curve(
    named: NamedCurve,
    table: Table | None,
    record: tuple[Loaded, Sequence[Text]] | None,
    policies: Sequence[Chosen],
    args: argparse.Namespace,
) -> OnCurve:
    from surefoot.lab import simulate

    curve = named.curve
    if curve.max_rows < 2:
        raise ConfigError(f"{named.name} holds the cost of one row only, so there is no draft to try: measure wider")
    if table is not None:
        depth = max(curve.depths)
        chosen = policies or simulate.usual(curve)
        found = simulate.on_table(_only(table, args), chosen, curve, depth, args.texts)
    else:
        assert record is not None
        found = _on_record(curve, *record, policies, args)
    return OnCurve(named.name, named.about, curve.rows, curve.holes, curve.depths, curve.can_pad, found)


def _on_record(
    curve: CostCurve,
    loaded: Loaded,
    written: Sequence[Text],
    policies: Sequence[Chosen],
    args: argparse.Namespace,
) -> tuple[Simulated, ...]:
    from surefoot.core.payoff import DraftCost
    from surefoot.lab import simulate, traces

    part = _drafts(args.drafts)
    tried = simulate.in_record(loaded.run, part).values()
    chosen = policies or (*simulate.usual(curve), *tried)
    unique = list({each.label: each for each in chosen}.values())
    cost, measured = DraftCost(token_s=args.draft_ms / 1e3), simulate.of_record(loaded, part)
    return simulate.on_texts(traces.traces(written, part), unique, curve, cost, measured)


def _only(table: Table, args: argparse.Namespace) -> Table:
    """The table of the workloads that were asked for. Raises: ConfigError for one that is not in it."""
    from surefoot.lab.simulate import Table

    wanted = _known(args, table.workloads, "the table")
    rows = {label: {name: row[name] for name in wanted if name in row} for label, row in table.rows.items()}
    return Table(table.source, table.tokens, rows)


def _known(args: argparse.Namespace, there: Collection[str], what: str) -> Collection[str]:
    """The workloads that were asked for; all that are there where none was. Raises: ConfigError for an unknown one."""
    if args.workloads is None:
        return there
    wanted = [name.strip() for name in args.workloads.split(",")]
    unknown = [name for name in wanted if name not in there]
    if unknown:
        raise ConfigError(f"--workloads {unknown[0]}: {what} has {', '.join(there)}")
    return wanted


def _drafts(text: str) -> dict[str, Any]:
    """The drafter that was named, with its options. Raises: ConfigError."""
    from surefoot.engine.config import Config
    from surefoot.lab.arms import parse

    (arm,) = parse([f"{text}/additive"], Config())
    return dict(arm.drafts)
