"""`surefoot report`: the records of the bench as a page, Markdown, CSV or JSON."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from surefoot.app.cli import errors
from surefoot.app.cli.command import Commands, Context, begin, finish
from surefoot.core.errors import ConfigError

if TYPE_CHECKING:
    from surefoot.lab.report import Format, NamedRun

_SUFFIXES: dict[str, Format] = {".html": "html", ".htm": "html", ".md": "md", ".csv": "csv", ".json": "json"}
_STDOUT = "-"


def add_to(commands: Commands, with_parts: bool) -> None:
    """Add this command to `surefoot`."""
    parser = begin(
        commands,
        "report",
        "show what the bench measured: a page, Markdown, CSV or JSON",
        "Makes a report of one run of the bench, or of several side by side. The page needs no network and "
        "nothing beside it. A file appears whole or not at all; one that is there is replaced if it is a report.",
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="a record of `surefoot bench`")
    parser.add_argument(
        "--out", metavar="FILE",
        help="where to; its ending names the format. '-' is stdout (default: in this folder, the name of the record, "
        "or report.html for several)",
    )  # fmt: skip
    parser.add_argument(
        "--format", dest="formats", metavar="FORMATS",
        help="one or more of html, md, csv, json, with commas between; several are written side by side. CSV is one "
        "file for each table (default: html)",
    )  # fmt: skip
    parser.add_argument("--force", action="store_true", help="write over a file that is no report, too")
    finish(parser, run)


def run(args: argparse.Namespace, context: Context) -> int:
    """The exit code, once every file is there; their paths go to stdout."""
    import logging

    from surefoot.lab.report import render
    from surefoot.lab.report.save import save

    # matplotlib tells on stderr that it has no folder for its fonts, or is looking at them: nobody asked.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    formats = _formats(args.formats, args.out)
    to_stdout = args.out == _STDOUT
    paths = {format_: _path(args, format_, len(formats)) for format_ in formats}
    with context.console.working("reading the records"):
        runs = _load(args.runs)
    with context.console.working("drawing the report"):
        files: dict[Path, str] = {}
        for format_, path in paths.items():
            files.update(render(runs, format_, path))
    if to_stdout:
        context.console.write(next(iter(files.values())))
        return errors.GOOD
    save(files, args.runs, args.force)
    context.console.write("".join(f"{path}\n" for path in files))
    return errors.GOOD


def _formats(given: str | None, out: str | None) -> tuple[Format, ...]:
    """The formats, in the order given; without any, that of the ending of --out."""
    from surefoot.lab.report import FORMATS

    ending = None if out in (None, _STDOUT) else Path(str(out)).suffix.lower()
    if given is None:
        if ending is None:
            return ("html",)
        if ending not in _SUFFIXES:
            raise ConfigError(f"--out {out} names no format: end it in {', '.join(_SUFFIXES)}, or add --format")
        return (_SUFFIXES[ending],)
    names = [name.strip() for name in given.split(",")]
    for name in names:
        if name not in FORMATS:
            raise ConfigError(f"--format {given}: there is no {name!r}; there is {', '.join(FORMATS)}")
    formats = tuple(format_ for format_ in dict.fromkeys(names) if format_ in FORMATS)
    if out == _STDOUT and len(formats) > 1:
        raise ConfigError(f"--out - writes one format to stdout, and --format asks for {len(formats)}; name files")
    if ending in _SUFFIXES and _SUFFIXES[ending] not in formats:
        raise ConfigError(f"--out {out} and --format {given} contradict each other; leave one of them out")
    return formats


def _path(args: argparse.Namespace, format_: Format, n_formats: int) -> Path:
    """Where a format goes: as --out says, its ending changed where several formats share the name."""
    if args.out == _STDOUT:
        return Path(f"report.{format_}")
    if args.out is None:
        return Path(f"{args.runs[0].stem if len(args.runs) == 1 else 'report'}.{format_}")
    out = Path(args.out)
    if not out.name:
        raise ConfigError(f"--out {args.out} is a folder: name a file")
    return out if n_formats == 1 or _SUFFIXES.get(out.suffix.lower()) == format_ else out.with_suffix(f".{format_}")


def _load(paths: Sequence[Path]) -> list[NamedRun]:
    """The runs with a name each: that of the file, as much of its path as tells it from the others."""
    from surefoot.lab.analysis import analyse
    from surefoot.lab.report import NamedRun
    from surefoot.lab.store import load

    seen: list[Path] = []
    for path in paths:
        if path.resolve() in seen:
            raise ConfigError(f"{path} is given twice; leave one of them out")
        seen.append(path.resolve())
    runs = []
    for path, name in zip(paths, _names(seen), strict=True):
        loaded = load(path)
        if loaded.run.counting is not None:
            raise ConfigError(f"{path} timed nothing: see what it says with 'surefoot accept --print {path}'")
        if not loaded.pairs:
            raise ConfigError(f"{path} holds no pair: the run was ended too early to say anything; run it again")
        runs.append(NamedRun(name, analyse(loaded)))
    return runs


def _names(paths: Sequence[Path]) -> list[str]:
    """The shortest ends of the paths, without their endings, that differ."""
    bare = [path.with_suffix("").parts for path in paths]
    longest = max(map(len, bare))
    for n in range(1, longest + 1):
        names = ["/".join(parts[-n:]) for parts in bare]
        if len(set(names)) == len(names):
            return names
    return [str(path) for path in paths]
