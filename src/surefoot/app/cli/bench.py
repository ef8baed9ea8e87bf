"""`surefoot bench`: drafts against plain decoding in alternating pairs, each on the disk before the next."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from surefoot.app.cli import bench_options as options
from surefoot.app.cli import demotion, errors, settings
from surefoot.app.cli.command import Commands, Context, add_model, begin, finish
from surefoot.core.errors import ConfigError

if TYPE_CHECKING:
    from surefoot.app.cli.bench_prepare import Prepared
    from surefoot.lab.analysis import Analysis
    from surefoot.lab.store import Loaded, Store

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Result:
    """What --json prints."""

    schema: int
    record: str
    analysis: Analysis


def add_to(commands: Commands, with_parts: bool) -> None:
    """Add this command to `surefoot`."""
    parser = begin(
        commands,
        "bench",
        "drafts against plain decoding, in pairs, with all that makes a figure doubtful",
        "Measures MODEL with drafts on and off in alternating pairs, by workload and length of the text. "
        "Prints a table, and leaves a record that a report is made from and that a run which was cut short goes on in. "
        "Exit code 1 when a text differs or plain decoding is slower than the runtime's own.",
        parts=with_parts,
    )
    add_model(parser, "--resume")
    _add_what(parser.add_argument_group("what is compared"))
    _add_how_much(parser.add_argument_group("how much"))
    _add_record(parser.add_argument_group("record"))
    settings.add_for_comparison(parser)
    finish(parser, run, "the table")


def _add_what(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--arm",
        action="append",
        default=[],
        metavar="TEXT",
        help="what is compared with plain decoding: ngram, ngram/additive, ngram:max_n=3/fixed:draft_len=4, off (which "
        "shows what the machine alone does to a ratio) or peer; repeatable; by default the drafts of the configuration",
    )
    group.add_argument(
        "--peer",
        action="store_true",
        help="also the runtime's own speculative feature, its draft length chosen on prompts that are not measured",
    )
    group.add_argument(
        "--prompts",
        default=options.OWN,
        metavar="SET",
        help="own, spec-bench, or a file: JSON Lines as Spec-Bench or SPEED-Bench has them, the messages of a chat as "
        "JSON, or a text",
    )
    group.add_argument("--workloads", metavar="A,B", help="some of the workloads of the prompts; by default all")


def _add_how_much(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--tokens", metavar="N,M", help="lengths of the texts, each in rows of its own; else 256,512")
    group.add_argument("--pairs", type=int, metavar="N", help="pairs in each row of the table; else 8")
    group.add_argument(
        "--each", type=int, metavar="N", help="different prompts of each workload; else one for each pair"
    )
    group.add_argument("--quick", action="store_true", help="three workloads and 96 tokens: a first look, in minutes")
    group.add_argument("--time-limit", metavar="TIME", help="end in good order before that: 90s, 12m, 1h")


def _add_record(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--out", type=Path, metavar="FILE", help="where the record goes; else a new file in this folder")
    group.add_argument("--resume", type=Path, metavar="FILE", help="go on with a run that was cut short")
    group.add_argument(
        "--band",
        metavar="LOW,HIGH",
        help="tokens per second of a baseline that counts; else from the pairs nearby and the machine at rest",
    )


def run(args: argparse.Namespace, context: Context) -> int:
    """The exit code, once the table is printed."""
    from surefoot.app.cli import bench_prepare
    from surefoot.lab.store import Store, check_new

    limit_s = None if args.time_limit is None else options.seconds(args.time_limit)
    if args.resume is None:
        if args.out is not None:
            check_new(args.out)
        prepared = bench_prepare.prepare(args, context, options.repeated(context.arguments))
        path = args.out or bench_prepare.new_path(prepared.run)
        with Store.create(path, prepared.run) as store:
            return _measure(args, context, prepared, store, None, limit_s)
    others = options.repeated(context.arguments)[1:]
    if others:
        raise ConfigError(f"--resume takes everything from the record; leave out {others[0]!r}")
    with Store.open(args.resume) as store:
        before = store.loaded
        if before.end is not None and before.end.why == "complete":
            raise ConfigError(f"{args.resume} came to its end; make a report of it, or begin a new run")
        again = bench_prepare.parse_again(before.run, args.resume)
        prepared = bench_prepare.prepare(again, context, before.run.command, before.run)
        return _measure(args, context, prepared, store, before, limit_s)


def _measure(
    args: argparse.Namespace,
    context: Context,
    prepared: Prepared,
    store: Store,
    before: Loaded | None,
    limit_s: float | None,
) -> int:
    """Runs what is left of the run and prints what there is then, also when Ctrl-C ended it."""
    from functools import partial

    from surefoot.app.cli.bench_world import open_world
    from surefoot.lab import bench, validity
    from surefoot.lab.records import Resumed
    from surefoot.lab.store import load

    world, run = open_world(context, store), prepared.run
    if before is not None:
        world.append(Resumed(world.now(), run.machine))
    interrupted = False
    try:
        bench.execute(
            run,
            prepared.writers.sides(run.arms, prepared.prompts),
            world,
            before=before,
            gates={"baseline": prepared.baseline},
            busy=partial(validity.busy, cores=int(run.machine["cores"])),
            time_limit_s=limit_s,
        )
    except KeyboardInterrupt:
        interrupted = True
    except Exception:
        context.console.status("")
        context.console.note(f"what was measured is kept; to go on: 'surefoot bench --resume {store.path}'.")
        raise
    context.console.status("")
    for gate in load(store.path).gates:
        if gate.name == "lossless":
            demotion.keep(prepared.writers.model, gate, "bench", context)
    return _finish(args, context, store.path, interrupted)


def _finish(args: argparse.Namespace, context: Context, path: Path, interrupted: bool) -> int:
    """Prints what the record says; the exit code."""
    from surefoot.app.cli import bench_table
    from surefoot.lab import store
    from surefoot.lab.analysis import analyse

    loaded = store.load(path)
    analysis = analyse(loaded)
    if args.json:
        from surefoot.app.cli.document import as_json

        context.console.write(as_json(Result(SCHEMA, str(path), analysis)))
    elif loaded.pairs or not interrupted:
        context.console.write("".join(f"{line}\n" for line in bench_table.lines(analysis, path, context.console)))
    if short := cut_short(loaded):
        context.console.note(f"{short}; to go on: 'surefoot bench --resume {path}'.")
    if interrupted:
        return errors.INTERRUPTED
    failed = any(not gate.passed and gate.details.get("checked", True) for gate in analysis.gates.values())
    return errors.GATE_FAILED if failed else errors.GOOD


def cut_short(loaded: Loaded) -> str:
    """Why the run ended before it was complete, and after how many pairs; "" where it is complete.

    Spare pairs come on top of those that were wanted, so that their number alone does not tell.
    """
    from surefoot.lab.plan import plan

    if loaded.end is not None and loaded.end.why == "complete":
        return ""
    why = "interrupted" if loaded.end is None else "the time was over"
    done, wanted = len(loaded.pairs), len(plan(loaded.run))
    return f"{why} after {done} of {wanted} pairs" if done < wanted else f"{why} among the spare pairs, after {done}"
