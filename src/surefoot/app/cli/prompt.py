"""The prompt and the tools that the arguments of a command name."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, TextIO

from surefoot.core.errors import ConfigError
from surefoot.engine.messages import Messages, check_messages, check_tools


def add_to(parser: argparse.ArgumentParser) -> None:
    """The options that `read` and `read_tools` understand."""
    group = parser.add_argument_group("prompt", "one of the first three; else the prompt is read from stdin, as it is")
    group.add_argument("-p", "--prompt", metavar="TEXT", help="the prompt")
    group.add_argument("--file", type=Path, metavar="PATH", help="a UTF-8 file that holds the prompt")
    group.add_argument("--messages", type=Path, metavar="PATH", help="a JSON list of messages for the chat template")
    group.add_argument("--tools", type=Path, metavar="PATH", help="a JSON list of tools for the chat template")
    group.add_argument(
        "--raw", action="store_true", default=None, help="the prompt goes to the model without its chat template"
    )


def check(args: argparse.Namespace) -> None:
    """Raises: ConfigError for options that contradict each other."""
    given = [name for name in ("prompt", "file", "messages") if getattr(args, name) is not None]
    if len(given) > 1:
        raise ConfigError(f"--{given[0]} and --{given[1]} both give the prompt; leave one of them out")
    for name in ("messages", "tools"):
        if args.raw and getattr(args, name) is not None:
            raise ConfigError(f"--{name} goes through the chat template, which --raw leaves out; drop one of the two")


def read(args: argparse.Namespace, stdin: TextIO | None) -> str | Messages:
    """The prompt: a text, or messages. Raises: ConfigError when there is none or it cannot be read."""
    if args.messages is not None:
        return check_messages(_json(args.messages, "--messages"), f"--messages {args.messages}")
    if args.prompt is not None:
        text, source = str(args.prompt), "-p"
    elif args.file is not None:
        text, source = _decoded(_bytes(args.file, "--file"), f"--file {args.file}"), f"--file {args.file}"
    elif stdin is None or stdin.isatty():
        raise ConfigError("there is no prompt: give -p TEXT, --file PATH or --messages PATH, or pipe it in")
    else:
        text, source = _decoded(stdin.buffer.read(), "stdin"), "stdin"
    if not text.strip():
        raise ConfigError(f"the prompt from {source} is empty; give the model something to go on")
    return text


def read_tools(args: argparse.Namespace) -> list[dict[str, Any]] | None:
    """The tools, or None without any."""
    return None if args.tools is None else check_tools(_json(args.tools, "--tools"), f"--tools {args.tools}")


def _json(path: Path, option: str) -> Any:
    what = f"{option} {path}"
    try:
        return json.loads(_decoded(_bytes(path, option), what))
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{what} is not JSON: {error}") from error


def _bytes(path: Path, option: str) -> bytes:
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"{option} {path} cannot be read: {reason}") from error


def _decoded(data: bytes, what: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{what} is not UTF-8 text (byte {error.start}); convert it first") from error
