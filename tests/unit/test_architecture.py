"""docs/architecture.md as a test: who may import whom, what the core may know, how long a module may grow.

Each rule is a function over a source tree, run on the real one and on one where it is broken on purpose.
"""

from __future__ import annotations

import ast
import shutil
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from importlinter.cli import lint_imports

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "surefoot"
PLURAL = ("targets", "drafters", "policies")
LONGEST_MODULE = 450
OUTSIDE_THE_CORE = {
    *("asyncio", "datetime", "glob", "http", "io", "logging", "multiprocessing", "os", "pathlib", "random", "shutil"),
    *("signal", "socket", "subprocess", "tempfile", "threading", "time", "urllib", "warnings"),
}
"""Standard modules for clocks, files, network, logs, processes and hidden randomness; the core has none of these."""

Rule = Callable[[Path], list[str]]


def modules(folder: Path) -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(folder.rglob("*.py")):
        yield path, ast.parse(path.read_text(encoding="utf-8"), str(path))


def imported(tree: ast.Module) -> set[str]:
    """Every dotted name that is imported anywhere in a module, inside functions too."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import on line {node.lineno}: write the full name"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def core_knows_only_numpy(source: Path) -> list[str]:
    allowed = (sys.stdlib_module_names - OUTSIDE_THE_CORE) | {"numpy"}
    return [
        f"{path.relative_to(source)} imports {name}"
        for path, tree in modules(source / "core")
        for name in sorted(imported(tree))
        if name.split(".")[0] not in allowed and not name.startswith("surefoot.core.")
    ]


def core_opens_no_file(source: Path) -> list[str]:
    return [
        f"{path.relative_to(source)}:{node.lineno} calls {node.func.id}"
        for path, tree in modules(source / "core")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"open", "print", "input"}
    ]


def parts_do_not_meet(source: Path) -> list[str]:
    return [
        f"{path.relative_to(source)} imports {name}"
        for own in PLURAL
        for path, tree in modules(source / own)
        for name in sorted(imported(tree))
        for other in PLURAL
        if other != own and f"{name}.".startswith(f"surefoot.{other}.")
    ]


def environment_is_read_in_app_only(source: Path) -> list[str]:
    found = []
    for path, tree in modules(source):
        if path.is_relative_to(source / "app"):
            continue
        reads = {name for name in imported(tree) if name in {"os.environ", "os.getenv", "os.environb"}}
        reads |= {
            f"os.{node.attr}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == "os"
            and node.attr in {"environ", "getenv", "environb"}
        }
        found += [f"{path.relative_to(source)} reads {name}" for name in sorted(reads)]
    return found


def modules_stay_short(source: Path) -> list[str]:
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in sorted(source.rglob("*.py"))}
    return [
        f"{path.relative_to(source)} has {n} lines, more than {LONGEST_MODULE}: split it"
        for path, n in lengths.items()
        if n > LONGEST_MODULE
    ]


BREAKS: list[tuple[Rule, str, str]] = [
    (core_knows_only_numpy, "core/types.py", "import torch\n"),
    (core_knows_only_numpy, "core/types.py", "def f() -> None:\n    from transformers import AutoModel\n"),
    (core_knows_only_numpy, "core/types.py", "import time\n"),
    (core_knows_only_numpy, "core/types.py", "from surefoot.engine import parts\n"),
    (core_opens_no_file, "core/types.py", "text = open('x').read()\n"),
    (parts_do_not_meet, "drafters/planted.py", "from surefoot.targets import toy\n"),
    (parts_do_not_meet, "policies/planted.py", "from surefoot.drafters.ngram import PLUGIN\n"),
    (parts_do_not_meet, "targets/planted.py", "def f() -> None:\n    import surefoot.policies\n"),
    (environment_is_read_in_app_only, "engine/planted.py", "import os\nhome = os.environ['HOME']\n"),
    (environment_is_read_in_app_only, "lab/planted.py", "from os import getenv\n"),
    (modules_stay_short, "lab/planted.py", "x = 1\n" * (LONGEST_MODULE + 1)),
]


@pytest.mark.parametrize("rule", dict.fromkeys(rule for rule, _, _ in BREAKS), ids=lambda rule: rule.__name__)
def test_rule_holds(rule: Rule) -> None:
    assert rule(SOURCE) == []


@pytest.mark.parametrize(("rule", "name", "planted"), BREAKS)
def test_rule_sees_a_planted_break(tmp_path: Path, rule: Rule, name: str, planted: str) -> None:
    copy = tmp_path / "surefoot"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / name).write_text(planted, encoding="utf-8")
    assert [sentence for sentence in rule(copy) if name in sentence]


def test_import_linter_holds_the_map(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True, no_logo=True)
    assert outcome == 0, capsys.readouterr().out


def test_import_linter_declares_every_room() -> None:
    """A folder that the layers do not name would be free to import anything."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    layers = next(contract for contract in settings["contracts"] if contract["type"] == "layers")["layers"]
    named = {part.strip().removeprefix("surefoot.") for layer in layers for part in layer.split("|")}
    rooms = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()}
    assert rooms == named
