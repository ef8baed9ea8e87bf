"""Writes docs/reference/: the command line from its argument parser, the parts' options from their dataclasses.

    python tools/docs.py [--check]      --check writes nothing and fails when a page is out of date

The text comes from the parser's actions and not from its own help, whose layout changes with the Python version and
the width of the terminal.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.metadata
import sys
import typing
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from surefoot.app.cli.main import build_parser
from surefoot.core.judge import Tolerance
from surefoot.core.ports import Plugin
from surefoot.core.sampling import Sampling
from surefoot.engine.config import Config, Part

REFERENCE = Path(__file__).resolve().parent.parent / "docs" / "reference"
NOTE = "<!-- Written by `make docs`; changes belong into the code that this page describes. -->"
SETTINGS = (
    "What a file for `--config` may hold, what `--set KEY=VALUE` may name and `surefoot.load` takes as keywords. "
    "The options of a part are set under `runtime`, `drafts` or `policy`: `drafts.max_n = 3`."
)
NOT_SET_HERE = ("sampling.seed", "sampling.end_ids")  # at the top of the configuration, as seed and stop_ids
KINDS = ("targets", "drafters", "policies")


def cell(text: object) -> str:
    """Text that stays inside one cell of a Markdown table."""
    return " ".join(str(text).split()).replace("|", "\\|")


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(map(cell, line)) + " |" for line in lines)


def value_name(action: argparse.Action) -> str:
    """What stands for the value of an argument; empty for a flag."""
    if action.nargs == 0:
        return ""
    if action.choices is not None:
        name = "{" + ",".join(map(str, action.choices)) + "}"
    elif action.metavar is not None:
        name = action.metavar if isinstance(action.metavar, str) else " ".join(action.metavar)
    else:
        name = action.dest.upper()
    return {"*": f"[{name} ...]", "+": f"{name} ...", "?": f"[{name}]"}.get(str(action.nargs), name)


def argument_row(parser: argparse.ArgumentParser, action: argparse.Action) -> tuple[str, str, str]:
    names = ", ".join(action.option_strings)
    signature = f"`{f'{names} {value_name(action)}'.strip()}`"
    shown = not (action.default is None or action.default is argparse.SUPPRESS or action.nargs == 0)
    default = f"`{action.default}`" if shown and action.default not in ("", [], ()) else ""
    text = (action.help or "") % {**vars(action), "prog": parser.prog}
    return signature, default, text


def subcommands(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Each command's one-line help and its parser, in the order of `surefoot --help`."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            summaries = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for name, child in action.choices.items():
                yield summaries.get(name, ""), child


def command_section(summary: str, parser: argparse.ArgumentParser) -> str:
    """One command: what it does, its arguments by group, then its own commands."""
    parts = [f"## {parser.prog}", parser.description or summary]
    for group in parser._action_groups:
        rows = [
            argument_row(parser, action)
            for action in group._group_actions
            if not isinstance(action, argparse._SubParsersAction) and action.help is not argparse.SUPPRESS
        ]
        if rows:
            title = f"**{(group.title or 'arguments').capitalize()}**"
            parts.append(f"{title}: {group.description}" if group.description else title)
            parts.append(table(("Argument", "Default", "What"), rows))
    if parser.epilog:
        parts.append(f"```text\n{parser.epilog.strip()}\n```")
    return "\n\n".join([*parts, *(command_section(*child) for child in subcommands(parser))])


def cli_page(parser: argparse.ArgumentParser) -> str:
    return f"{NOTE}\n\n# The command line\n\n{command_section('', parser)}\n"


def default_of(field: dataclasses.Field[object]) -> str:
    if field.default_factory is not dataclasses.MISSING:
        return f"`{field.default_factory()!r}`"
    return "required" if field.default is dataclasses.MISSING else f"`{field.default!r}`"


def type_name(hint: Any) -> str:
    """A type as a reader of the table wants it: the allowed words where there are only some."""
    if typing.get_origin(hint) is typing.Literal:
        return f"`{' | '.join(map(str, typing.get_args(hint)))}`"
    name = hint.__name__ if isinstance(hint, type) and not typing.get_args(hint) else str(hint)
    return f"`{name.replace('collections.abc.', '').replace('typing.', '')}`"


def part_section(plugin: Plugin) -> str:
    hints = typing.get_type_hints(plugin.options)
    rows = [
        (f"`{field.name}`", type_name(hints[field.name]), default_of(field), field.metadata.get("help", ""))
        for field in dataclasses.fields(plugin.options)
    ]
    options = table(("Option", "Type", "Default", "What"), rows) if rows else "It has no options."
    return f"### {plugin.name}\n\n{plugin.summary}\n\n{options}"


def own_parts(kind: str) -> list[Plugin]:
    """This project's parts of a kind, by name; what other packages add is not ours to document."""
    found = importlib.metadata.entry_points(group=f"surefoot.{kind}")
    own = [point for point in found if point.dist is not None and point.dist.name == "surefoot"]
    return [point.load() for point in sorted(own, key=lambda point: point.name)]


def settings_section() -> str:
    """The configuration's keys and defaults; a part stands for its name, its options follow below."""
    rows = []
    for prefix, kind in (("", Config), ("sampling.", Sampling), ("tolerance.", Tolerance)):
        hints = typing.get_type_hints(kind)
        for field in dataclasses.fields(kind):
            key, value = prefix + field.name, getattr(kind(), field.name)
            if key in ("sampling", "tolerance") or key in NOT_SET_HERE:
                continue
            part = isinstance(value, Part)
            shown = value.name if part else sorted(value) if isinstance(value, frozenset) else value
            rows.append(
                (f"`{f'{key}.name' if part else key}`", type_name(str if part else hints[field.name]), f"`{shown!r}`")
            )
    return table(("Key", "Type", "Default"), rows)


def options_page() -> str:
    sections = [NOTE, "# Settings", SETTINGS, settings_section()]
    for kind in KINDS:
        sections += [f"## {kind.capitalize()}", *(part_section(plugin) for plugin in own_parts(kind))]
    return "\n\n".join(sections) + "\n"


def main(arguments: list[str]) -> int:
    check = arguments == ["--check"]
    if arguments and not check:
        print(__doc__)
        return 2
    stale = []
    for name, text in (("cli.md", cli_page(build_parser())), ("options.md", options_page())):
        path = REFERENCE / name
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    if check and stale:
        print(f"docs/reference/{' and '.join(stale)} do not say what the code does: run `make docs` and commit them.")
    return 1 if check and stale else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
