"""Every command line that the documents show can be read by the command."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from surefoot.app.cli.main import build_parser

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "studies").rglob("*.md"))]
LINE = re.compile(r"^ *(?:\$ )?(surefoot [a-z](?:[^\n\\]|\\\n|\\.)*)$", re.MULTILINE)


def shown() -> Iterator[tuple[str, str]]:
    """Each command line in a block of code, after the name of its page."""
    for page in PAGES:
        for block in re.findall(
            r"^```[a-z]*\n(.*?)^```|((?:^    .*\n)+)", page.read_text("utf-8"), re.MULTILINE | re.DOTALL
        ):
            for line in LINE.findall("".join(block)):
                yield str(page.relative_to(ROOT)), line.replace("\\\n", " ")


COMMANDS = sorted(set(shown()))


def test_there_are_commands_to_read() -> None:
    assert len(COMMANDS) >= 40


@pytest.mark.parametrize(("page", "line"), COMMANDS)
def test_a_shown_command_can_be_read(page: str, line: str) -> None:
    arguments = shlex.split(line, comments=True)[1:]
    ends = [at for at, word in enumerate(arguments) if word in ("|", ">", "&&", ";")]
    build_parser().parse_args(arguments[: ends[0]] if ends else arguments)
