"""Hub ids, against a fake Hub on this machine, in processes of their own: its library reads its address at import."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import gguf_files
import hub_server
import pytest
from hub_server import Hub

RESOLVE = """
import sys
from pathlib import Path
from surefoot.core.errors import ConfigError
from surefoot.engine.models import resolve
formats = sys.argv[2:] or ["safetensors", "openvino", "gguf"]
try:
    files = resolve(sys.argv[1], Path("cache"), formats=tuple(formats))
except ConfigError as error:
    print("refused:", error)
else:
    print(files.format, *[path.name for path in files.weights])
    print(*sorted(entry.name for entry in (files.path if files.path.is_dir() else files.path.parent).iterdir()))
"""


def safetensors() -> bytes:
    header = json.dumps({"w": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}).encode()
    return struct.pack("<Q", len(header)) + header + bytes(16)


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    names = ("q4.gguf", "q8-00001-of-00002.gguf", "q8-00002-of-00002.gguf")
    folder = tmp_path_factory.mktemp("gguf")
    ggufs = {name: gguf_files.write(folder / name, general__name=name).read_bytes() for name in names}
    text = {"config.json": b'{"model_type": "llama"}', "tokenizer.json": b"{}", "README.md": b"x"}
    pickle = {"pytorch_model.bin": b"never", "modeling_acme.py": b"raise SystemExit"}
    more = {"onnx/model.safetensors": b"never", "onnx/config.json": b"{}", "consolidated.safetensors": b"never"}
    repos = {
        "acme/plain": {**text, **pickle, **more, "model.safetensors": safetensors()},
        "acme/both": {
            **text,
            "model.safetensors": safetensors(),
            "openvino_model.xml": b"<net/>",
            "openvino_model.bin": b"0",
        },
        "acme/pickles": {**text, **pickle},
        "acme/ggufs": {"README.md": b"x", **ggufs},
    }
    with hub_server.serve(repos) as server:
        yield server


def run(hub: Hub, home: Path, *args: str, **env: str) -> list[str]:
    """Lines that the program printed; nothing but the fake Hub can be reached."""
    hub.files_sent.clear()
    keep = {name: value for name, value in os.environ.items() if not name.upper().startswith(("HF_", "HUGGING"))}
    keep = {name: value for name, value in keep.items() if "PROXY" not in name.upper()}
    own = {"HF_ENDPOINT": hub.url, "HF_HOME": str(home), "HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HUB_DISABLE_XET": "1"}
    done = subprocess.run(
        [sys.executable, "-c", RESOLVE, *args],
        cwd=home,
        env={**keep, **own, **env},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_hub_model_comes_without_pickles_code_and_other_folders(hub: Hub, tmp_path: Path) -> None:
    assert run(hub, tmp_path, "acme/plain") == [
        "safetensors model.safetensors",
        "config.json model.safetensors tokenizer.json",
    ]
    assert sorted(hub.files_sent) == ["config.json", "model.safetensors", "tokenizer.json"]


def test_a_hub_model_is_fetched_once_and_then_found_offline(hub: Hub, tmp_path: Path) -> None:
    first = run(hub, tmp_path, "acme/plain")
    assert run(hub, tmp_path, "acme/plain") == first
    assert hub.files_sent == []
    assert run(hub, tmp_path, "acme/plain", HF_HUB_OFFLINE="1") == first
    assert run(hub, tmp_path, "acme/plain", HF_ENDPOINT="http://127.0.0.1:9") == first


def test_a_revision(hub: Hub, tmp_path: Path) -> None:
    assert run(hub, tmp_path, "acme/plain@main")[0] == "safetensors model.safetensors"
    assert run(hub, tmp_path, f"acme/plain@{hub_server.commit_of('acme/plain')}")[0] == "safetensors model.safetensors"
    assert run(hub, tmp_path, "acme/plain@v9") == ["refused: the Hub model acme/plain has no revision v9"]


def test_only_weights_that_the_runtime_reads_are_fetched(hub: Hub, tmp_path: Path) -> None:
    assert run(hub, tmp_path, "acme/both", "openvino")[0] == "openvino openvino_model.bin"
    assert "model.safetensors" not in hub.files_sent
    assert run(hub, tmp_path, "acme/both", "safetensors")[0] == "safetensors model.safetensors"


def test_one_gguf_file_of_several(hub: Hub, tmp_path: Path) -> None:
    assert run(hub, tmp_path, "acme/ggufs:q4.gguf") == ["gguf q4.gguf", "q4.gguf"]
    assert hub.files_sent == ["q4.gguf"]


def test_any_shard_of_a_gguf_model_brings_the_others(hub: Hub, tmp_path: Path) -> None:
    shards = "q8-00001-of-00002.gguf q8-00002-of-00002.gguf"
    assert run(hub, tmp_path, "acme/ggufs:q8-00002-of-00002.gguf@main")[0].startswith("refused")
    assert run(hub, tmp_path, "acme/ggufs@main:q8-00002-of-00002.gguf") == [f"gguf {shards}", shards]
    assert sorted(hub.files_sent) == shards.split()


def test_a_repository_of_gguf_files_asks_for_one(hub: Hub, tmp_path: Path) -> None:
    (line,) = run(hub, tmp_path, "acme/ggufs")
    assert line.endswith("name one of its GGUF files, as in acme/ggufs:q4.gguf")
    (line,) = run(hub, tmp_path, "acme/ggufs:q5.gguf")
    assert "has no file q5.gguf; it has q4.gguf" in line


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("acme/nothing", "there is no folder acme/nothing here and no such model on the Hub"),
        (hub_server.GATED, "is gated: accept its terms"),
        ("acme/pickles", "has no weights as safetensors or openvino or gguf"),
        ("acme/bad--name", "neither a folder here nor a valid Hub id"),
        ("a/b/c", "there is no file or folder a/b/c"),
        ("acme/model.gguf", "there is no file or folder acme/model.gguf"),
    ],
)
def test_what_the_hub_does_not_give_is_told_in_one_sentence(name: str, sentence: str, hub: Hub, tmp_path: Path) -> None:
    (line,) = run(hub, tmp_path, name)
    assert line.startswith("refused: ")
    assert sentence in line


@pytest.mark.parametrize("env", [{"HF_HUB_OFFLINE": "1"}, {"HF_ENDPOINT": "http://127.0.0.1:9"}], ids=["told", "found"])
def test_offline_is_told_in_one_sentence(env: dict[str, str], hub: Hub, tmp_path: Path) -> None:
    (line,) = run(hub, tmp_path, "acme/plain", **env)
    assert "the Hub cannot be reached to fetch it (offline?)" in line


def test_a_folder_of_that_name_goes_first(hub: Hub, tmp_path: Path) -> None:
    folder = tmp_path / "acme" / "plain"
    folder.mkdir(parents=True)
    (line,) = run(hub, tmp_path, "acme/plain")
    assert "it is empty" in line
    (line,) = run(hub, tmp_path, "acme/plian")
    assert "did you mean acme/plain?" in line
