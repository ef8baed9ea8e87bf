"""The command `surefoot`: arguments in, exit code out. Commands import what they need when they run."""

from __future__ import annotations

# So little is imported here because Ctrl-C has no handler of ours before `main` runs.
from typing import TYPE_CHECKING

from surefoot.app.cli.interrupts import Interrupts

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from surefoot.app.cli.console import Console
    from surefoot.app.environment import Environment

_HELP = ("-h", "--help")


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code of `surefoot ARGUMENTS`; those of this process when `argv` is None."""
    with Interrupts(owns_process=argv is None) as interrupts:
        try:
            return _guarded(argv, interrupts)
        except KeyboardInterrupt:
            return _interrupted()


def build_parser(with_parts: bool = False) -> argparse.ArgumentParser:
    """The parser of all commands. `with_parts` names the installed plug-ins in the help of commands that use them."""
    from surefoot.app.cli import accept, bench, demo, doctor, export, gate, generate, inspect, report, simulate, tune
    from surefoot.app.cli.command import Parser

    parser = Parser(
        prog="surefoot",
        description="Makes a language model on this machine write faster without changing a single token.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for module in (demo, generate, inspect, gate, tune, accept, simulate, bench, report, export, doctor):
        module.add_to(commands, with_parts)
    return parser


def _guarded(argv: Sequence[str] | None, interrupts: Interrupts) -> int:
    """The exit code of the command, whatever happens in it."""
    import os
    import sys
    import warnings

    from surefoot.app import environment
    from surefoot.app.cli import console, errors

    arguments = sys.argv[1:] if argv is None else list(argv)
    env = environment.read(os.environ)
    quiet = "--quiet" in arguments or "-q" in arguments
    environment.hush(os.environ, quiet)
    if not sys.warnoptions:
        warnings.simplefilter("ignore")
    terminal = console.open_console(quiet=quiet, no_color=env.no_color)
    try:
        code = _run(arguments, terminal, interrupts, env)
        terminal.write("")  # what argparse printed may still wait to be written
    except console.ReaderGone:
        console.abandon_stdout()
        return errors.GOOD
    except Exception as error:
        interrupts.check()
        return _failed(error, terminal, debug="--debug" in arguments)
    return code


def _run(arguments: list[str], terminal: Console, interrupts: Interrupts, env: Environment) -> int:
    import sys

    from surefoot.app.cli.command import Context, parse
    from surefoot.core.errors import ConfigError

    try:
        given = parse(build_parser(any(word in arguments for word in _HELP)), arguments)
    except SystemExit:  # argparse has printed the help that was asked for
        return 0
    if given.version:
        from importlib.metadata import version

        terminal.write(f"surefoot {version('surefoot')}\n")
        return 0
    if given.command is None:
        raise ConfigError("no command was given: try 'surefoot demo', or 'surefoot --help'")
    code: int = given.run(given, Context(terminal, interrupts, env.cache_dir(), sys.stdin, tuple(arguments)))
    return code


def _interrupted() -> int:
    import sys

    if sys.stderr is not None:
        sys.stderr.write("surefoot: interrupted.\n")
    return 130


def _failed(error: Exception, terminal: Console, debug: bool) -> int:
    """The exit code for an error, after it was reported."""
    from surefoot.app.cli import errors

    if debug or errors.wants_traceback(error):
        import traceback

        terminal.err.write("".join(traceback.format_exception(error)))
    terminal.complain(errors.sentence(error))
    return errors.exit_code(error)
