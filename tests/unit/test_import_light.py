"""Starting is quick because nothing heavy is imported; checked by name, not by a stopwatch."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("torch", "transformers", "tokenizers", "openvino", "accelerate", "huggingface_hub", "gguf", "jinja2", "scipy")

START = {
    "library": "import surefoot",
    "parser": "from surefoot.app.cli.main import build_parser; build_parser()",
    "help": "from surefoot.app.cli.main import main; main(['--help'])",
    "generate help": "from surefoot.app.cli.main import main; main(['generate', '--help'])",
}


def heavy_after(code: str) -> set[str]:
    """The heavy packages that a fresh interpreter has loaded when `code` has run or left by SystemExit."""
    program = "\n".join(
        (
            "import sys",
            "try:",
            f"    {code}",
            "except SystemExit as stop:",
            "    assert stop.code in (None, 0), stop.code",
            f"print('HEAVY', *[name for name in {HEAVY!r} if name in sys.modules])",
        )
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    marker, *names = done.stdout.splitlines()[-1].split()
    assert marker == "HEAVY"
    return set(names)


@pytest.mark.parametrize("code", START.values(), ids=START.keys())
def test_start_loads_nothing_heavy(code: str) -> None:
    assert heavy_after(code) == set()


def test_a_heavy_import_would_be_seen() -> None:
    assert "jinja2" in heavy_after("import surefoot, jinja2")
