"""A model on the Hub is inspected by its settings, and its weights are not fetched."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import gguf_files
import hub_server
from inspect_files import LLAMA, TENSORS, header

INSPECT = """
import sys
from pathlib import Path
from surefoot.core.errors import ConfigError
from surefoot.engine.inspect import inspect
BEFORE
for name in sys.argv[1:]:
    try:
        found = inspect(name, Path("cache"))
        facts = found.facts
        print(facts.format, found.verdict.answer, facts.size.value.bytes, facts.vocabulary and facts.vocabulary.value)
    except ConfigError as error:
        print("refused:", error)
"""


def run(hub: hub_server.Hub, home: Path, *names: str, before: str = "") -> list[str]:
    """What is found of each, nothing but the fake Hub in reach. before: what the program does first."""
    keep = {name: value for name, value in os.environ.items() if not name.upper().startswith(("HF_", "HUGGING"))}
    keep = {name: value for name, value in keep.items() if "PROXY" not in name.upper()}
    own = {"HF_ENDPOINT": hub.url, "HF_HOME": str(home), "HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HUB_DISABLE_XET": "1"}
    program = [sys.executable, "-c", INSPECT.replace("BEFORE", before), *names]
    done = subprocess.run(program, cwd=home, env={**keep, **own}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_only_the_settings_are_fetched(tmp_path: Path) -> None:
    weights = header(TENSORS)
    gguf = gguf_files.write(tmp_path / "m.gguf", llama__context_length=64).read_bytes()
    repos = {
        "acme/plain": {"config.json": json.dumps(LLAMA).encode(), "model.safetensors": weights, "model.py": b"raise"},
        "acme/gguf": {"m.gguf": gguf},
    }
    with hub_server.serve(repos) as hub:
        found = run(hub, tmp_path, "acme/plain", "acme/gguf", "acme/none")
        assert found[0] == f"safetensors yes {len(weights)} 211"
        assert "name one of its GGUF files" in found[1]
        assert "no such model on the Hub" in found[2]
        assert hub.files_sent == ["config.json"]
        resolve = "from surefoot.engine.models import resolve; resolve('acme/plain', Path('cache'))"
        assert run(hub, tmp_path, "acme/plain", before=resolve)[0] == found[0]
        assert hub.files_sent == ["config.json", "model.safetensors"]
        hub.files_sent.clear()
        assert run(hub, tmp_path, "acme/gguf:m.gguf")[0].startswith("gguf ")
        assert hub.files_sent == ["m.gguf"]
