"""`surefoot export`: a model in the format of another runtime, with every row scored and a cache to roll back; or the
draft length of a plan as flags of another engine."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from surefoot.app.cli import errors
from surefoot.app.cli.command import Commands, Context, add_model, begin, finish

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Result:
    """What --json prints. Units: bytes, seconds wall clock; peak_bytes is the process's highest resident size."""

    schema: int
    surefoot: str
    model: str
    report: Any


_ENGINES = ("vllm", "sglang", "llama.cpp", "mlx-lm", "openvino-genai")
"""As `engine.plans.flags` has them; not imported for it, so that help stays quick."""


@dataclass(frozen=True, slots=True)
class FlagsResult:
    """What --json prints of a plan. measured_on: the runtime whose rows the length was chosen by."""

    schema: int
    surefoot: str
    plan: Path
    measured_on: str
    flags: Any


def add_to(commands: Commands, with_parts: bool) -> None:
    """Add this command to `surefoot`."""
    parser = begin(
        commands,
        "export",
        "write a model in a format whose drafts can be verified, or a plan as flags of another engine",
        "Writes MODEL as a folder that OpenVINO, Optimum Intel and OpenVINO GenAI read, and Surefoot too; "
        "with --cache caller only Surefoot. "
        "Only one layer is held in memory at a time. The folder appears whole or not at all. With an engine in --to, "
        "MODEL is a plan that `surefoot tune` made, and its draft length is printed as that engine takes it.",
    )
    add_model(parser)
    parser.add_argument(
        "--to", default="openvino", choices=("openvino", *_ENGINES),
        help="the format (default: openvino), or the engine whose flags are wanted",
    )  # fmt: skip
    parser.add_argument("--workload", metavar="NAME", help="flags for this workload of the plan; else for all alike")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where to; a folder that is new or empty")
    parser.add_argument(
        "--weights", default="auto", choices=("auto", "fp16", "int8", "int4"),
        help="the format of the weights; auto is fp16 where that takes less than 4 GB, else int8",
    )  # fmt: skip
    parser.add_argument(
        "--cache", default="state", choices=("state", "caller"),
        help="who keeps keys and values: the model (state), or arrays outside it (caller), made for long contexts",
    )  # fmt: skip
    finish(parser, run, "a line")


def run(args: argparse.Namespace, context: Context) -> int:
    """The exit code, once the folder is there."""
    from importlib.metadata import version

    from surefoot.app.cli.document import as_json
    from surefoot.core.errors import ConfigError
    from surefoot.engine import conversion, models

    if args.to in _ENGINES:
        return _write_flags(args, context)
    if args.workload is not None:
        raise ConfigError("--workload chooses among the verdicts of a plan, and a model has none; name an engine --to")
    with context.console.working(f"exporting {args.model}") as progress:
        files = models.resolve(args.model, context.cache_dir, formats=("safetensors", "gguf"), progress=progress)
        weights = conversion.choose_weights(files, args.weights)
        out = args.out or Path(f"{files.path.stem}-openvino-{weights}{'-caller' if args.cache == 'caller' else ''}")
        if not out.parent.is_dir():
            raise ConfigError(f"the folder {out.parent} for --out does not exist; make it first, or name another")
        report = conversion.export_openvino(files, out, weights, progress, args.cache)
    if args.json:
        context.console.write(as_json(Result(SCHEMA, version("surefoot"), args.model, report)))
        return errors.GOOD
    context.console.write(f"{report.path}\n")
    peak = f", at most {report.peak_bytes / 1e9:.2f} GB of memory" if report.peak_bytes else ""
    context.console.note(
        f"{report.parameters / 1e6:.0f} M parameters as {report.weights}, {report.model_bytes / 1e9:.2f} GB in "
        f"{report.seconds:.0f} s{peak}; next: surefoot generate {report.path} -p 'Your prompt'"
    )
    return errors.GOOD


def _write_flags(args: argparse.Namespace, context: Context) -> int:
    """The exit code, once the flags are printed."""
    from importlib.metadata import version

    from surefoot.app.cli.document import as_json
    from surefoot.engine import plans
    from surefoot.engine.plans.flags import flags

    path = Path(args.model)
    plan = plans.load(path)
    found = flags(plan, args.to, args.workload)
    on = plan.owner.runtime
    if args.json:
        context.console.write(as_json(FlagsResult(SCHEMA, version("surefoot"), path, on, found)))
        return errors.GOOD
    if found.flags:
        context.console.write(f"{found.flags}\n")
    what = f"draft_len {found.draft_len}" if found.draft_len else "no drafts"
    where = "all workloads alike" if args.workload is None else found.workload
    context.console.note(
        f"{what} for {where}: {found.gain:.2f}x on {on}, where it was measured; rows may cost otherwise on {args.to}, "
        "whose lengths are fixed and do not stop where drafts lose."
    )
    return errors.GOOD
