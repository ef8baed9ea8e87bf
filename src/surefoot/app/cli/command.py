"""What the commands share: what they are given, and how arguments are read."""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, TextIO

from surefoot.app.cli.console import Console
from surefoot.app.cli.interrupts import Interrupts
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


def common(parser: argparse.ArgumentParser) -> None:
    """The options of every command; the last thing that a command adds."""
    group = parser.add_argument_group("output")
    group.add_argument("-q", "--quiet", action="store_true", help="nothing on stderr but errors")
    group.add_argument("--debug", action="store_true", help="print the traceback of an error")
    parser.set_defaults(options=tuple(parser._option_string_actions))
