"""`surefoot accept`: how many drafts hold, counted and not timed, replayed, verified and live side by side."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from surefoot.app.cli import bench_options as options
from surefoot.app.cli import errors, settings
from surefoot.app.cli.command import Commands, Context, add_model, begin, finish
from surefoot.core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from surefoot.app.cli.accept_prepare import Prepared
    from surefoot.lab.accept.counts import Matched, Row
    from surefoot.lab.accept.predict import Prediction
    from surefoot.lab.curvefile import NamedCurve
    from surefoot.lab.store import Loaded, Store

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Result:
    """What --json prints. Nothing was timed. draft_len: of the chain, and the longest of the oracle. no_oracle: the
    drafters that cannot be replayed, and why. curve: what the predictions go by; "" where nothing is predicted.
    draft_ms: what a drafted token is taken to cost, by drafter. no_prediction: the drafters of which that is not known,
    and what to do.
    """

    schema: int
    surefoot: str
    record: str
    model: dict[str, Any]
    tokens: int
    draft_len: int
    no_oracle: dict[str, str]
    different: int
    rows: Sequence[Row]
    by_match: Sequence[Matched]
    curve: str
    draft_ms: dict[str, float]
    no_prediction: dict[str, str]
    predicted: Sequence[Prediction]


def add_to(commands: Commands, with_parts: bool) -> None:
    """Add this command to `surefoot`."""
    parser = begin(
        commands,
        "accept",
        "how many drafts hold, by position, match, workload and temperature, without timing",
        "Writes texts with MODEL and counts what becomes of drafts: replayed over the plain text (oracle), "
        "scored by the model at one length (chain), and with the policy (live), side by side. With a cost curve it "
        "says what every draft length would be worth. Nothing is timed, so the machine may do other things. Leaves a "
        "record that a run which was cut short goes on in and that `surefoot simulate` can write again. Exit code 1 "
        "when a text with drafts differs from the plain one.",
        with_parts,
    )
    add_model(parser, "--resume and --print")
    _add_what(parser.add_argument_group("what is counted"))
    _add_how_much(parser.add_argument_group("how much"))
    _add_worth(parser.add_argument_group("what it would be worth"))
    _add_record(parser.add_argument_group("record"))
    settings.add_for_comparison(parser)
    finish(parser, run, "the tables")


def _add_what(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--drafts",
        action="append",
        default=[],
        dest="arm",
        metavar="TEXT",
        help="whose drafts: ngram, suffix+ngram, ngram:max_n=3, and with which policy they are live: ngram/goodput "
        "(repeatable; by default the drafts of the configuration)",
    )
    group.add_argument(
        "--draft-len",
        type=int,
        dest="longest",
        metavar="N",
        help="tokens of a draft of the chain, and the most that the oracle looks at; else 8",
    )
    group.add_argument(
        "--temperatures",
        metavar="A,B",
        help="each text is written at all of these, such as 0,0.7,1.0; else at --temperature",
    )
    group.add_argument(
        "--without-anchor",
        action="store_true",
        help="also the chain of a drafter that is not told the last token, which shows what that mistake costs",
    )


def _add_how_much(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--prompts",
        default=options.OWN,
        metavar="SET",
        help="own, spec-bench, or a file: JSON Lines as Spec-Bench or SPEED-Bench has them, the messages of a chat as "
        "JSON, or a text",
    )
    group.add_argument("--workloads", metavar="A,B", help="some of the workloads of the prompts; by default all")
    group.add_argument("--each", type=int, metavar="N", help="prompts of each workload; else 2")
    group.add_argument("--tokens", type=int, metavar="N", help="length of the texts; else 256")


def _add_worth(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--curve",
        metavar="FILE[:ID]",
        help="what forwards cost: a plan of `surefoot tune`, or a curve of a collection; else the model's own plan",
    )
    group.add_argument(
        "--draft-ms",
        action="append",
        default=[],
        metavar="[DRAFTS=]X",
        help="what drafting a token costs, in milliseconds, with all drafters or with those that --drafts calls so "
        "(repeatable); else 0, and no prediction for drafts of a second model",
    )


def _add_record(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--out", type=Path, metavar="FILE", help="where the record goes; else a new file in this folder")
    group.add_argument("--resume", type=Path, metavar="FILE", help="go on with a run that was cut short")
    group.add_argument("--print", type=Path, dest="shown", metavar="FILE", help="what a record says; no model runs")


def run(args: argparse.Namespace, context: Context) -> int:
    """The exit code, once the tables are printed."""
    from surefoot.app.cli import accept_prepare, accept_worth, bench_prepare
    from surefoot.lab.store import Store, check_new

    accept_worth.check(args)
    if args.shown is not None:
        return _show(args, context)
    if args.resume is None:
        if args.out is not None:
            check_new(args.out)
        prepared = accept_prepare.prepare(args, context, options.repeated(context.arguments))
        path = args.out or bench_prepare.new_path(prepared.run, "accept")
        with Store.create(path, prepared.run) as store:
            return _count(args, context, prepared, store, None)
    others = options.repeated(context.arguments)[1:]
    if others:
        raise ConfigError(f"--resume takes everything from the record; leave out {others[0]!r}")
    with Store.open(args.resume) as store:
        before = store.loaded
        if before.end is not None:
            raise ConfigError(
                f"{args.resume} came to its end; see what it says with 'surefoot accept --print {args.resume}'"
            )
        accept_worth.draft_ms(args, before.run.arms)
        again = bench_prepare.parse_again(before.run, args.resume, "accept")
        prepared = accept_prepare.prepare(again, context, before.run.command, before.run)
        return _count(args, context, prepared, store, before)


def _show(args: argparse.Namespace, context: Context) -> int:
    """The exit code, once all that a record says is printed."""
    from surefoot.app.cli import accept_worth
    from surefoot.lab.store import load

    others = options.repeated(context.arguments)[1:]
    others += tuple(name for name, value in (("--out", args.out), ("--resume", args.resume)) if value is not None)
    if others:
        raise ConfigError(f"--print takes everything from the record; leave out {others[0]!r}")
    loaded = load(args.shown)
    if loaded.run.counting is None:
        raise ConfigError(f"{args.shown} is a record of a bench: 'surefoot report {args.shown}' says what is in it")
    _print(args, context, args.shown, loaded, accept_worth.curve(args, loaded.run))
    return errors.GOOD


def _count(
    args: argparse.Namespace,
    context: Context,
    prepared: Prepared,
    store: Store,
    before: Loaded | None,
) -> int:
    """Writes what is left of the run and prints what there is then, also when Ctrl-C ended it."""
    from surefoot.app.cli import accept_prepare, accept_worth
    from surefoot.app.cli.bench_world import now
    from surefoot.lab.accept import run as runner
    from surefoot.lab.records import End, Resumed
    from surefoot.lab.store import load

    if before is not None:
        store.append(Resumed(now(), prepared.run.machine))
    interrupted = False
    try:
        runner.execute(prepared.run, prepared.writers, accept_prepare.world(context, store), before)
        store.append(End(now(), "complete"))
    except KeyboardInterrupt:
        interrupted = True
    except Exception:
        context.console.status("")
        context.console.note(f"what was counted is kept; to go on: 'surefoot accept --resume {store.path}'.")
        raise
    context.console.status("")
    loaded = load(store.path)
    curve = accept_worth.curve(args, loaded.run)
    failed = False
    if loaded.counted or not interrupted:
        failed = _print(args, context, store.path, loaded, curve) and not prepared.may_differ
    if interrupted:
        total = len(runner.plan(prepared.run))
        context.console.note(
            f"interrupted after {len(loaded.counted)} of {total} texts; to go on: "
            f"'surefoot accept --resume {store.path}'."
        )
        return errors.INTERRUPTED
    return errors.GATE_FAILED if failed else errors.GOOD


def _print(args: argparse.Namespace, context: Context, path: Path, loaded: Loaded, curve: NamedCurve | None) -> bool:
    """Whether a text with drafts differs from the plain one, once all that the record says is printed."""
    from importlib.metadata import version

    from surefoot.app.cli import accept_table, accept_worth
    from surefoot.core.payoff import DraftCost
    from surefoot.lab.accept import counts
    from surefoot.lab.accept.predict import predict
    from surefoot.lab.accept.run import counting_of

    counting = counting_of(loaded.run)
    draft_ms = accept_worth.draft_ms(args, loaded.run.arms)
    costs = {label: DraftCost(token_s=ms / 1e3) for label, ms in draft_ms.items()}
    result = Result(
        schema=SCHEMA,
        surefoot=version("surefoot"),
        record=str(path),
        model=dict(loaded.run.model),
        tokens=loaded.run.budgets[0],
        draft_len=counting.draft_len,
        no_oracle=dict(counting.no_oracle),
        different=counts.different(loaded),
        rows=counts.rows(loaded),
        by_match=counts.by_match(loaded),
        curve=curve.name if curve else "",
        draft_ms=draft_ms,
        no_prediction=accept_worth.no_prediction(curve, loaded.run.arms, draft_ms),
        predicted=predict(loaded, curve.curve, costs) if curve else (),
    )
    if args.json:
        from surefoot.app.cli.document import as_json

        context.console.write(as_json(result))
    else:
        context.console.write("".join(f"{line}\n" for line in accept_table.lines(result, curve, context.console)))
    return result.different > 0
