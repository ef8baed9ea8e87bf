"""What `--runtime auto` and the device names do, on a tiny model."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
from cli_run import assert_refused, surefoot

import tiny_gguf
from surefoot.app.cli.errors import NOT_ELIGIBLE
from surefoot.engine import generator

pytest.importorskip("openvino", reason="the runtime of these tests: pip install 'surefoot[openvino]'")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return {"SUREFOOT_CACHE": str(tmp_path_factory.mktemp("cache"))}


def test_a_device_is_named_in_any_case(tiny: Path, cache: dict[str, str]) -> None:
    done = surefoot(
        "generate", tiny, "-p", "x", "--max-tokens", 2, "--runtime", "openvino", "--device", "cpu", env=cache
    )
    assert done.code == 0, done


def test_a_device_that_is_not_there_is_refused_by_name(tiny: Path, cache: dict[str, str]) -> None:
    done = surefoot("generate", tiny, "-p", "x", "--runtime", "openvino", "--device", "npu", env=cache)
    assert_refused(done, NOT_ELIGIBLE, "NPU", "CPU")


def test_auto_takes_the_runtime_that_has_the_option(tiny: Path, cache: dict[str, str]) -> None:
    pytest.importorskip("torch", reason="the runtime that has the option: pip install 'surefoot[hf]'")
    done = surefoot("generate", tiny, "-p", "x", "--max-tokens", 2, "--set", "runtime.dtype=float32", env=cache)
    assert done.code == 0, done
    assert "passed over openvino: it has no option dtype" in done.err


def test_auto_goes_on_to_a_runtime_that_reads_the_files(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """llama.cpp stands before transformers and reads no safetensors."""
    pytest.importorskip("xllamacpp", reason="the runtime in between: pip install 'surefoot[llamacpp]'")
    pytest.importorskip("torch", reason="the runtime that reads them: pip install 'surefoot[hf]'")
    monkeypatch.setattr(generator, "find_spec", lambda name: None if name == "openvino" else find_spec(name))
    model = generator.load(str(tiny), cache_dir=tiny / "cache")
    assert model.target.caps.backend == "hf"
    assert [line.partition(":")[0] for line in model.passed_over] == ["llamacpp"]


GGUF = ("--raw", "-p", "The stair has steps, the stair", "--max-tokens", 4)


@pytest.mark.parametrize("family", ["gemma", "phi3"])
def test_a_gguf_that_openvino_cannot_read_runs_on_llama_cpp(family: str, tmp_path: Path, cache: dict[str, str]) -> None:
    pytest.importorskip("xllamacpp", reason="the runtime that reads it: pip install 'surefoot[llamacpp]'")
    file = tiny_gguf.write(tmp_path / "any.gguf", family, context=256)
    done = surefoot("generate", file, *GGUF, "--json", "--allow-near-ties", env=cache)
    assert done.code == 0, done
    assert json.loads(done.out)["model"]["runtime"] == "llamacpp"
    passed_over, line = done.err.splitlines()
    assert passed_over.startswith("surefoot: passed over openvino: ")
    assert f"holds a '{family}' model; the OpenVINO export reads GGUF files of llama" in passed_over
    assert "ngram/additive, near ties allowed" in line


@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_a_gguf_that_openvino_can_read_runs_there(family: str, tmp_path: Path, cache: dict[str, str]) -> None:
    file = tiny_gguf.write(tmp_path / "any.gguf", family, context=256)
    done = surefoot("generate", file, *GGUF, "--json", env=cache)
    assert done.code == 0, done
    assert json.loads(done.out)["model"]["runtime"] == "openvino"
    assert "passed over" not in done.err
