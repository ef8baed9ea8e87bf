"""MODEL: what it may be, and one sentence for each way in which it is not there or not whole."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf_files
import pytest
from gguf_files import ARCHITECTURE, raw, string
from hypothesis import given
from hypothesis import strategies as st

from surefoot.core.errors import ConfigError
from surefoot.engine.gguf_header import read_header
from surefoot.engine.models import ModelFiles, resolve


def refusal(name: str | Path, cache: Path, **options: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        resolve(str(name), cache, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message


def safetensors(path: Path, *, n_bytes: int = 16) -> Path:
    header = json.dumps({"w": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(n_bytes))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "model"
    path.mkdir()
    (path / "config.json").write_text('{"model_type": "llama"}')
    return path


# ---- what is there


def test_a_gguf_file(tmp_path: Path) -> None:
    path = gguf_files.write(tmp_path / "m.gguf")
    assert resolve(str(path), tmp_path) == ModelFiles(str(path), path, "gguf", (path,))


def test_any_shard_names_the_whole_model(tmp_path: Path) -> None:
    shards = tuple(gguf_files.write(tmp_path / f"m-{i:05}-of-00003.gguf") for i in (1, 2, 3))
    for shard in shards:
        assert resolve(str(shard), tmp_path) == ModelFiles(str(shard), shards[0], "gguf", shards)


def parts(folder: Path, count: int = 3) -> tuple[Path, ...]:
    """Shards as they are written: each says which it is."""
    return tuple(
        gguf_files.write(folder / f"m-{i:05}-of-{count:05}.gguf", split__no=i - 1, split__count=count)
        for i in range(1, count + 1)
    )


def test_a_link_to_a_shard_names_the_model_that_it_lies_in(tmp_path: Path) -> None:
    shards = parts(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    best, other = tmp_path / "elsewhere" / "best.gguf", tmp_path / "elsewhere" / "other.gguf"
    best.symlink_to(Path("..") / shards[1].name)
    other.symlink_to(best)
    for link in (best, other):
        files = resolve(str(link), tmp_path)
        assert [path.resolve() for path in files.weights] == list(shards)
        assert files.path.name == shards[0].name


def test_links_that_are_called_shards_are_taken_as_they_are(tmp_path: Path) -> None:
    """As the Hub's cache keeps them: what they lead to is called by its digest."""
    shards = parts(tmp_path)
    for i, shard in enumerate(shards):
        shard.symlink_to(shard.rename(tmp_path / f"digest{i}"))
    assert resolve(str(shards[2]), tmp_path) == ModelFiles(str(shards[2]), shards[0], "gguf", shards)


def test_a_folder_with_safetensors(folder: Path) -> None:
    weights = safetensors(folder / "model.safetensors")
    assert resolve(str(folder), folder) == ModelFiles(str(folder), folder, "safetensors", (weights,))


def test_a_folder_with_indexed_safetensors(folder: Path) -> None:
    parts = tuple(safetensors(folder / f"model-0000{i}-of-00002.safetensors") for i in (1, 2))
    index = {"weight_map": {"a": parts[0].name, "b": parts[1].name, "c": parts[0].name}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert resolve(str(folder), folder).weights == parts


def test_a_folder_with_openvino(folder: Path) -> None:
    (folder / "openvino_model.xml").write_text("<net/>")
    (folder / "openvino_model.bin").write_bytes(b"")
    files = resolve(str(folder), folder)
    assert (files.format, files.path, files.weights) == ("openvino", folder, (folder / "openvino_model.bin",))


def test_a_folder_with_one_gguf_model_of_two_shards(tmp_path: Path) -> None:
    shards = tuple(gguf_files.write(tmp_path / f"m-{i:05}-of-00002.gguf") for i in (1, 2))
    assert resolve(str(tmp_path), tmp_path) == ModelFiles(str(tmp_path), shards[0], "gguf", shards)


def test_the_runtime_says_which_of_several_formats_in_a_folder_is_taken(folder: Path) -> None:
    safetensors(folder / "model.safetensors")
    gguf_files.write(folder / "m.gguf")
    (folder / "openvino_model.xml").write_text("<net/>")
    (folder / "openvino_model.bin").write_bytes(b"")
    assert resolve(str(folder), folder).format == "safetensors"
    for wanted in ("gguf", "openvino", "safetensors"):
        assert resolve(str(folder), folder, formats=(wanted,)).format == wanted
    assert resolve(str(folder), folder, formats=("gguf", "safetensors")).format == "gguf"


# ---- what is not


def test_a_missing_file_with_a_near_name(tmp_path: Path) -> None:
    gguf_files.write(tmp_path / "model.gguf")
    assert f"did you mean {tmp_path / 'model.gguf'}?" in refusal(tmp_path / "modle.gguf", tmp_path)


def test_a_missing_file_without_a_near_name(tmp_path: Path) -> None:
    message = refusal(tmp_path / "zzz.gguf", tmp_path)
    assert "there is no file or folder" in message
    assert "smollm2-135m" in message


@pytest.mark.parametrize("name", ["smollm2-135", "smolm2-135m", "SmolLM2-135m"])
def test_a_misspelt_smollm2(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "did you mean smollm2-135m?" in refusal(name, tmp_path)


@pytest.mark.parametrize("name", ["", "  "])
def test_an_empty_name(name: str, tmp_path: Path) -> None:
    assert "empty name" in refusal(name, tmp_path)


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    for i in (1, 3):
        gguf_files.write(tmp_path / f"m-{i:05}-of-00003.gguf")
    message = refusal(tmp_path / "m-00003-of-00003.gguf", tmp_path)
    assert "one of 3 parts" in message
    assert "m-00002-of-00003.gguf" in message
    assert "m-00001" not in message


@pytest.mark.parametrize("own", [1, 2])
@pytest.mark.parametrize("name", ["best.gguf", "m-00001-of-00001.gguf"])
def test_a_shard_of_another_name_is_told_its_own(own: int, name: str, tmp_path: Path) -> None:
    file = parts(tmp_path)[own - 1].rename(tmp_path / name)
    message = refusal(file, tmp_path)
    assert f"{file} is part {own} of 3 of a model, which its name does not say: rename it back" in message
    assert f"-{own:05}-of-00003.gguf" in message


def test_shards_of_each_others_names(tmp_path: Path) -> None:
    first, second, _ = parts(tmp_path)
    first.rename(tmp_path / "kept")
    second.rename(first)
    (tmp_path / "kept").rename(second)
    assert "m-00001-of-00003.gguf is part 2 of 3" in refusal(first, tmp_path)


def test_several_gguf_models_in_a_folder_are_listed(tmp_path: Path) -> None:
    gguf_files.write(tmp_path / "a.gguf")
    gguf_files.write(tmp_path / "b.gguf")
    assert "name one of them: a.gguf, b.gguf" in refusal(tmp_path, tmp_path)


def test_an_empty_folder(tmp_path: Path) -> None:
    assert "it is empty" in refusal(tmp_path, tmp_path)


def test_a_folder_without_weights_says_what_it_holds(folder: Path) -> None:
    assert "it holds config.json" in refusal(folder, folder)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "consolidated.00.pth"])
def test_pickles_are_refused(name: str, folder: Path) -> None:
    (folder / name).write_bytes(b"")
    message = refusal(folder, folder)
    assert name in message
    assert "pickle" in message


def test_weights_in_a_format_the_runtime_does_not_read(folder: Path, tmp_path: Path) -> None:
    safetensors(folder / "model.safetensors")
    assert "no weights in the format gguf" in refusal(folder, tmp_path, formats=("gguf",))
    path = gguf_files.write(tmp_path / "m.gguf")
    assert "this runtime reads safetensors" in refusal(path, tmp_path, formats=("safetensors",))


def test_weights_without_a_config(tmp_path: Path) -> None:
    safetensors(tmp_path / "model.safetensors")
    assert "no config.json" in refusal(tmp_path, tmp_path)


def test_openvino_without_its_weights(folder: Path) -> None:
    (folder / "openvino_model.xml").write_text("<net/>")
    assert "without its weights" in refusal(folder, folder)


def test_a_file_that_is_no_gguf(tmp_path: Path) -> None:
    path = safetensors(tmp_path / "model.safetensors")
    assert "named by their folder" in refusal(path, tmp_path)


def test_a_part_of_the_safetensors_is_missing(folder: Path) -> None:
    safetensors(folder / "model-00001-of-00002.safetensors")
    index = {"weight_map": {f"w{i}": f"model-0000{i}-of-00002.safetensors" for i in (1, 2)}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert "lacks 1 of the 2 weight files that its index names: model-00002" in refusal(folder, folder)


def test_safetensors_parts_without_their_index(folder: Path) -> None:
    safetensors(folder / "model-00001-of-00002.safetensors")
    assert "not model.safetensors.index.json" in refusal(folder, folder)


@pytest.mark.parametrize("config", ["[]", "{", "\xff"])
def test_a_damaged_config(config: str, folder: Path) -> None:
    safetensors(folder / "model.safetensors")
    (folder / "config.json").write_bytes(config.encode("latin-1"))
    assert "config.json" in refusal(folder, folder)


@pytest.mark.parametrize("index", ["[]", "{}", '{"weight_map": 3}', '{"weight_map": {"a": 3}}', "{", "\xff"])
def test_a_damaged_safetensors_index(index: str, folder: Path) -> None:
    (folder / "model.safetensors.index.json").write_bytes(index.encode("latin-1"))
    assert "damaged" in refusal(folder, folder)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x01",
        struct.pack("<Q", 1 << 60) + b"{}",
        struct.pack("<Q", 2) + b"{",
        struct.pack("<Q", 2) + b"[]",
        struct.pack("<Q", 9) + b'{"w": {}}',
        struct.pack("<Q", 24) + b'{"w":{"data_offsets":2}}',
        struct.pack("<Q", 100_000) + b"[" * 100_000,
        b"\x80\x02}q\x00(X\x01\x00\x00\x00wq\x01K\x01u.",
        b"PK\x03\x04" + bytes(64),
    ],
)
def test_what_is_not_safetensors(data: bytes, folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(data)
    assert "safetensors" in refusal(folder, folder)


@pytest.mark.parametrize("n_bytes", [0, 15, 17])
def test_cut_off_safetensors(n_bytes: int, folder: Path) -> None:
    safetensors(folder / "model.safetensors", n_bytes=n_bytes)
    assert "cut off" in refusal(folder, folder)


# ---- GGUF headers that lie


@given(data=st.data())
def test_a_gguf_file_cut_off_anywhere_is_refused(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("cut")
    whole = gguf_files.write(folder / "m.gguf", tokenizer__ggml__tokens=["a", "b"], a__b=3).read_bytes()
    cut = folder / "cut.gguf"
    cut.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    message = refusal(cut, folder)
    assert "cut off" in message or "is not a GGUF file" in message


@given(data=st.data())
def test_a_gguf_file_with_any_damage_is_read_or_refused(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("damage")
    whole = bytearray(gguf_files.write(folder / "m.gguf", tokenizer__ggml__tokens=["a", "b"], a__b=3).read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, 400))] = data.draw(st.integers(0, 255))
    (folder / "m.gguf").write_bytes(whole)
    with contextlib.suppress(ConfigError):
        read_header(folder / "m.gguf")


HUGE = 2**63 - 1
LIES = {
    "no header": (b"GGUF", "cut off"),
    "another magic": (b"GGML" + bytes(60), "does not begin"),
    "version 1": (raw(version=1), "version 1"),
    "big-endian": (raw(version=3 << 24), "byte order"),
    "keys": (raw(n_keys=HUGE), "metadata keys"),
    "tensors": (raw(n_tensors=HUGE), "tensors"),
    "more keys than there are": (raw(n_keys=8_000), "cut off"),
    "more tensors than there are": (raw(n_tensors=40_000), "cut off"),
    "string": (raw(body=struct.pack("<Q", HUGE) + b"x"), "cut off"),
    "array": (raw(n_keys=2, body=ARCHITECTURE + string("a") + struct.pack("<IIQ", 9, 8, HUGE)), "items"),
    "long array": (raw(n_keys=2, body=ARCHITECTURE + string("a") + struct.pack("<IIQ", 9, 10, 1_500_000)), "cut off"),
    "nested array": (raw(n_keys=2, body=ARCHITECTURE + string("a") + struct.pack("<IIQ", 9, 9, 1)), "unknown type 9"),
    "type": (raw(n_keys=2, body=ARCHITECTURE + string("a") + struct.pack("<I", 77)), "unknown type 77"),
    "key twice": (raw(n_keys=2, body=ARCHITECTURE * 2), "twice"),
    "no architecture": (raw(n_keys=0, body=b""), "architecture"),
    "not text": (raw(n_keys=1, body=string(b"\xff\xfe")), "not UTF-8"),
    "alignment": (
        raw(n_keys=2, body=ARCHITECTURE + string("general.alignment") + struct.pack("<II", 4, 0)),
        "power of two",
    ),
    "dimensions": (raw(n_tensors=1, body=ARCHITECTURE + string("w") + struct.pack("<I", 2**31)), "dimensions"),
    "tensor size": (
        raw(n_tensors=1, body=ARCHITECTURE + string("w") + struct.pack("<I4QIQ", 4, *[HUGE] * 4, 0, 0)),
        "cut off",
    ),
    "tensor offset": (
        raw(n_tensors=1, body=ARCHITECTURE + string("w") + struct.pack("<IQIQ", 1, 1, 0, HUGE)),
        "cut off",
    ),
    "unknown tensor type past the end": (
        raw(n_tensors=1, body=ARCHITECTURE + string("w") + struct.pack("<IQIQ", 1, 1, 9999, 1 << 40)),
        "cut off",
    ),
}


@pytest.mark.parametrize(("data", "expected"), LIES.values(), ids=LIES.keys())
def test_a_lying_gguf_header_is_refused(data: bytes, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(data)
    assert expected in refusal(path, tmp_path)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit on the memory and time of a process")
def test_a_lying_header_in_a_huge_file_takes_bounded_time_and_memory(tmp_path: Path) -> None:
    """8 GB of nothing, claimed to be strings and numbers: refused within 1 GB and 60 s of processor time."""
    paths = []
    for i, kind in enumerate((8, 12)):
        for count in (999_999, 1 << 30):
            path = tmp_path / f"{i}{count}.gguf"
            body = ARCHITECTURE + string("a") + struct.pack("<IIQ", 9, kind, count)
            path.write_bytes(raw(n_keys=8_000, n_tensors=40_000, body=body))
            os.truncate(path, 8 << 30)
            paths.append(str(path))
    program = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from surefoot.core.errors import ConfigError\n"
        "from surefoot.engine.gguf_header import read_header\n"
        "for path in sys.argv[1:]:\n"
        "    try:\n"
        "        read_header(Path(path))\n"
        "    except ConfigError:\n"
        "        continue\n"
        "    sys.exit('read ' + path)\n"
        # Linux counts what the parent held before exec into ru_maxrss, and that may be gigabytes of other tests.
        "status = Path('/proc/self/status')\n"
        "own = [line for line in status.read_text().splitlines() if 'VmHWM' in line] if status.exists() else []\n"
        "print(own[0].split()[1] if own else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    )
    limit = lambda: resource.setrlimit(resource.RLIMIT_CPU, (60, 60))  # noqa: E731
    done = subprocess.run(
        [sys.executable, "-c", program, *paths], preexec_fn=limit, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 1 << 20


def test_a_whole_header_is_read(tmp_path: Path) -> None:
    path = gguf_files.write(tmp_path / "m.gguf", a__text="x", a__number=7, a__list=["p", "q"], a__flag=True)
    header = read_header(path)
    assert header.architecture == "llama"
    assert {key: header.metadata[key] for key in ("a.text", "a.number", "a.list", "a.flag")} == {
        "a.text": "x",
        "a.number": 7,
        "a.list": ["p", "q"],
        "a.flag": True,
    }
    assert [(t.name, t.shape) for t in header.tensors] == [("blk.0.weight", (32, 2)), ("blk.1.weight", (32, 2))]


# ---- what may not be read


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter; those of pytest are closed to others."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def as_nobody(code: str, *args: str) -> subprocess.CompletedProcess[str]:
    """The program, run by a user without rights where the tests are run by root."""
    program = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from surefoot.core.errors import ConfigError\n"
        "from surefoot.engine.models import resolve\n"
        "import gguf\n"
        "if os.geteuid() == 0: os.seteuid(65534)\n" + code
    )
    return subprocess.run([sys.executable, "-c", program, *args], capture_output=True, text=True, check=False)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such permissions")
@pytest.mark.parametrize("what", ["gguf", "folder", "weights", "config", "folder above"])
def test_what_may_not_be_read_is_told_in_one_sentence(what: str, open_folder: Path) -> None:
    folder = open_folder / "model"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "llama"}')
    weights = safetensors(folder / "model.safetensors")
    file = gguf_files.write(open_folder / "m.gguf")
    closed = {"gguf": file, "folder": folder, "weights": weights, "config": folder / "config.json"}.get(what, folder)
    name = {"gguf": file, "folder above": folder / "m.gguf"}.get(what, folder)
    code = "try: resolve(sys.argv[1], Path())\nexcept ConfigError as error: print(error)"
    assert "cannot be read" not in as_nobody(code, str(name)).stdout
    closed.chmod(0)
    done = as_nobody(code, str(name))
    closed.chmod(0o755)
    assert done.returncode == 0, done.stderr
    assert "cannot be read: " in done.stdout
    assert done.stdout.count("\n") == 1
