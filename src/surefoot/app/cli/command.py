"""What the commands share: what they are given, and how arguments are read."""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TextIO, TypeAlias

from surefoot.app.cli.console import Console
from surefoot.app.cli.interrupts import Interrupts
from surefoot.app.cli.settings import installed_parts
from surefoot.core.errors import ConfigError

_CHOICE = re.compile(r"(?P<start>.*)invalid choice: '(?P<given>[^']*)' \(choose from (?P<known>.*)\)")


@dataclass(frozen=True, slots=True)
class Context:
    """What a command may use of the process it runs in. arguments: those of its command line, its own name first."""

    console: Console
    interrupts: Interrupts
    cache_dir: Path
    stdin: TextIO | None
    arguments: tuple[str, ...] = ()


Run = Callable[[argparse.Namespace, Context], int]
"""A command: the exit code, once it is done."""

Commands: TypeAlias = "argparse._SubParsersAction[Any]"
"""Where a command is added. In quotes, because argparse makes the class generic for type checkers only."""


class Parser(argparse.ArgumentParser):
    """An argument parser that raises ConfigError; argparse offers no other way not to print its usage and exit."""

    def error(self, message: str) -> NoReturn:
        """Raises: ConfigError with one sentence that ends in what to try."""
        wrong = _CHOICE.fullmatch(message)
        if wrong:
            known = [name.strip(" '") for name in wrong["known"].split(",")]
            hint = nearest(wrong["given"], known)
            message = f"{wrong['start']}there is no {wrong['given']!r}{hint or '; there is ' + ', '.join(known)}"
            raise ConfigError(message)
        raise ConfigError(f"{message}; see '{self.prog} --help'")


def parse(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> argparse.Namespace:
    """The parsed arguments. Raises: ConfigError; SystemExit when argparse printed the help that was asked for."""
    given, unknown = parser.parse_known_args(arguments)
    if unknown:
        name = unknown[0].partition("=")[0]
        if not name.startswith("-") or name == "-":
            raise ConfigError(f"{unknown[0]!r} is one argument too many; see 'surefoot {given.command} --help'")
        known = given.options if given.command else parser._option_string_actions
        hint = nearest(name, known)
        raise ConfigError(f"there is no option {name}{hint or '; see ' + repr('surefoot --help')}")
    return given


def nearest(name: str, known: Iterable[str]) -> str:
    """ "; did you mean ...?" with the known name that is closest; empty when none is close."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else ""


def begin(commands: Commands, name: str, help: str, description: str, parts: bool | None = None) -> Parser:
    """The parser of a new command, for its own options; `finish` adds the rest.

    parts: None for a command that uses no parts; else whether its help names the installed ones.
    """
    parser: Parser = commands.add_parser(
        name,
        help=help,
        description=description,
        epilog=installed_parts() if parts else None,
        formatter_class=argparse.HelpFormatter if parts is None else argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    return parser


def add_model(parser: argparse.ArgumentParser, none_with: str = "") -> None:
    """The argument MODEL. none_with: the options that go without one."""
    parser.add_argument(
        "model",
        metavar="MODEL",
        nargs="?" if none_with else None,
        help="a folder, a GGUF file, a Hub id, or smollm2-135m" + (f"; none with {none_with}" if none_with else ""),
    )


def finish(parser: argparse.ArgumentParser, run: Run, json: str = "") -> None:
    """The options that every command has, and what it does. json: what its document replaces, where it has one."""
    if json:
        parser.add_argument("--json", action="store_true", help=f"one JSON document instead of {json}")
    group = parser.add_argument_group("output")
    group.add_argument("-q", "--quiet", action="store_true", help="nothing on stderr but errors")
    group.add_argument("--debug", action="store_true", help="print the traceback of an error")
    parser.set_defaults(options=tuple(parser._option_string_actions), run=run)
