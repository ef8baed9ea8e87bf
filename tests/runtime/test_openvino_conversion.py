"""A model is turned into OpenVINO's format once, kept, and made anew when anything that it was made from changes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openvino", reason="the openvino extra is not installed")
pytest.importorskip("torch", reason="torch is not installed, and it writes the models under test")

from openvino_tiny import tiny

import tiny_gguf
from surefoot.core.errors import ConfigError, NotEligible
from surefoot.engine import models
from surefoot.engine.conversion import export_openvino, openvino_folder
from surefoot.engine.tokenizer import load_tokenizer
from surefoot.targets.openvino import export
from surefoot.targets.openvino.names import is_exported


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tiny("llama").save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def files_of(folder: Path) -> models.ModelFiles:
    return models.resolve(str(folder), folder.parent / "cache", formats=("safetensors",))


def convert(folder: Path) -> tuple[Path, bool]:
    """Where the converted model is, and whether it was made now."""
    steps: list[int] = []
    out = openvino_folder(files_of(folder), folder.parent / "cache", "auto", lambda done, _: steps.append(done))
    assert is_exported(out)
    return out, bool(steps)


def test_what_is_kept_is_taken_until_its_source_changes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, made = convert(folder)
    assert made
    assert convert(folder) == (first, False)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "rms_norm_eps": 0.25}))
    second, made = convert(folder)
    assert made
    weights = folder / "model.safetensors"
    os.utime(weights, ns=(0, weights.stat().st_mtime_ns + 10**9))
    third, made = convert(folder)
    assert made
    monkeypatch.setattr(export, "SCHEMA", export.SCHEMA + 1)
    fourth, made = convert(folder)
    assert made
    assert len({first, second, third, fourth}) == 4


def test_each_kind_of_cache_is_kept_for_itself(folder: Path) -> None:
    files, cache = files_of(folder), folder.parent / "cache"
    state, caller = (openvino_folder(files, cache, "fp16", None, kind) for kind in ("auto", "caller"))
    assert state != caller
    assert (openvino_folder(files, cache, "fp16", None, "state"), convert(folder)) == (state, (state, False))
    kinds = [json.loads((path / "surefoot_export.json").read_text())["cache"] for path in (state, caller)]
    assert kinds == ["state", "caller"]
    with pytest.raises(ConfigError, match="cache must be auto, state or caller; got mine"):
        openvino_folder(files, cache, "fp16", None, "mine")


def test_two_at_once_end_with_one_whole_model(folder: Path) -> None:
    inner: list[Path] = []

    def meanwhile(done: int, total: int) -> None:
        if not inner:
            inner.append(convert(folder)[0])

    cache = folder.parent / "cache"
    outer = openvino_folder(files_of(folder), cache, "auto", meanwhile)
    assert inner == [outer]
    assert is_exported(outer)
    assert [path.name for path in (cache / "openvino").iterdir()] == [outer.name]


def test_a_failure_that_is_not_a_race_is_still_one(folder: Path) -> None:
    files = files_of(folder)
    (folder / "model.safetensors").write_bytes(b"nonsense, not weights")
    with pytest.raises(ConfigError, match="damaged"):
        openvino_folder(files, folder.parent / "cache", "fp16")


def test_a_family_is_refused_before_its_tokenizer_is_read(tmp_path: Path) -> None:
    """Reading a large one takes seconds, and `auto` goes on to another runtime: one that is broken goes unseen."""
    file = tiny_gguf.write(
        tmp_path / "any.gguf", "gemma3", change=lambda writer: writer.kv_data[0].pop("tokenizer.ggml.model")
    )
    files = models.resolve(str(file), tmp_path)
    with pytest.raises(NotEligible, match="holds a 'gemma3' model; the OpenVINO export reads GGUF files of llama"):
        openvino_folder(files, tmp_path / "cache", "auto")


def test_an_export_keeps_the_ends_and_ids_of_its_file(tmp_path: Path) -> None:
    """Where a file names one end of text and llama.cpp knows more, whoever runs the folder stops at all of them."""

    def change(writer: Any) -> None:
        for name, value in (("tokens", "<|im_end|>"), ("token_type", 1), ("scores", -1000.0)):
            writer.kv_data[0][f"tokenizer.ggml.{name}"].value.append(value)

    files = models.resolve(str(tiny_gguf.write(tmp_path / "tiny.gguf", change=change)), tmp_path)
    export_openvino(files, tmp_path / "out", "fp16")
    ours, exported = load_tokenizer(files), load_tokenizer(models.resolve(str(tmp_path / "out"), tmp_path))
    assert exported.eos_ids == ours.eos_ids
    assert "<|im_end|>" in map(ours.token_text, ours.eos_ids)
    for text in (" the  stair", "a<|im_end|>b"):
        assert exported.encode(text).tolist() == ours.encode(text).tolist()
