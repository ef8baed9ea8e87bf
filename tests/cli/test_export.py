"""`surefoot export`, and what `auto` does with a model that is not in OpenVINO's format."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_run import assert_refused, surefoot

from surefoot.app.cli.errors import BAD_USAGE as USAGE
from surefoot.app.cli.errors import NOT_ELIGIBLE

pytest.importorskip("openvino", reason="the runtime of these tests: pip install 'surefoot[openvino]'")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return {"SUREFOOT_CACHE": str(tmp_path_factory.mktemp("cache"))}


def ids(model: Path, cache: dict[str, str], *options: object) -> list[int]:
    done = surefoot("generate", model, "-p", "stairs stairs", "--max-tokens", 24, "--json", *options, env=cache)
    assert done.code == 0, done
    found: list[int] = json.loads(done.out)["ids"]
    return found


def test_an_exported_folder_writes_what_the_converted_model_writes(
    tiny: Path, cache: dict[str, str], tmp_path: Path
) -> None:
    out = tmp_path / "exported"
    done = surefoot("export", tiny, "--out", out, "--weights", "fp16", env=cache)
    assert done.code == 0, done
    assert done.out == f"{out}\n"
    assert "surefoot generate" in done.err
    converted = ids(tiny, cache, "--weights", "fp16")
    assert ids(out, cache) == converted
    assert ids(out, cache, "--drafts", "off") == converted
    kept = [path.name for path in (Path(cache["SUREFOOT_CACHE"]) / "openvino").iterdir()]
    assert sorted(name.split("-fp16-")[0] for name in kept) == ["compiled", "tiny-llama"]


def test_a_cache_that_the_caller_keeps_writes_the_same_with_and_without_drafts(
    tiny: Path, cache: dict[str, str], tmp_path: Path
) -> None:
    out = tmp_path / "caller"
    done = surefoot("export", tiny, "--out", out, "--weights", "fp16", "--cache", "caller", env=cache)
    assert done.code == 0, done
    converted = ids(tiny, cache, "--weights", "fp16", "--cache", "state")
    for options in ((), ("--drafts", "off"), ("--policy", "fixed", "--draft-len", 7)):
        assert ids(out, cache, *options) == converted
        assert ids(tiny, cache, "--weights", "fp16", "--cache", "caller", *options) == converted
    shown = surefoot("generate", out, "-p", "x", "--max-tokens", 2, "--json", env=cache)
    assert json.loads(shown.out)["model"]["discipline"] == "staged rows, written after acceptance"
    kept = {path.name for path in (Path(cache["SUREFOOT_CACHE"]) / "openvino").iterdir()}
    assert len([name for name in kept if "-fp16-caller-" in name]) == 1


def test_a_kind_of_cache_is_asked_of_conversions_only(tiny: Path, cache: dict[str, str], tmp_path: Path) -> None:
    out = tmp_path / "state"
    assert surefoot("export", tiny, "--out", out, env=cache).code == 0
    done = surefoot("generate", out, "--runtime", "openvino", "-p", "x", "--cache", "caller", env=cache)
    assert_refused(done, NOT_ELIGIBLE, "cache caller was asked for", str(out), "leave it out")
    done = surefoot("generate", out, "-p", "x", "--cache", "caller", env=cache)
    assert_refused(done, NOT_ELIGIBLE, "cache caller was asked for, and openvino reads", "it has no option cache")
    assert_refused(surefoot("generate", tiny, "-p", "x", "--cache", "mine", env=cache), USAGE, "'mine'", "caller")
    assert_refused(surefoot("export", tiny, "--cache", "mine", env=cache), USAGE, "mine", "caller")


def test_the_document_tells_size_time_and_memory(tiny: Path, cache: dict[str, str], tmp_path: Path) -> None:
    done = surefoot("export", tiny, "--out", tmp_path / "int8", "--weights", "int8", "--json", env=cache)
    report = json.loads(done.out)["report"]
    assert report["weights"] == "int8"
    assert report["model_bytes"] == sum(file.stat().st_size for file in (tmp_path / "int8").iterdir())
    assert report["peak_bytes"] > 0


def test_a_folder_in_the_way_is_left_alone(tiny: Path, cache: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("keep")
    assert_refused(surefoot("export", tiny, "--out", tmp_path, env=cache), USAGE, str(tmp_path), "exists already")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_parent_that_does_not_exist_is_not_made(tiny: Path, cache: dict[str, str], tmp_path: Path) -> None:
    out = tmp_path / "no" / "out"
    assert_refused(surefoot("export", tiny, "--out", out, env=cache), USAGE, "does not exist")
    assert not out.parent.exists()


@pytest.fixture(scope="module")
def gpt2(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A family that the export does not know, with the tokenizer of the tiny Llama."""
    torch = pytest.importorskip("torch", reason="transformers writes the model with it")
    import shutil

    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("gpt2") / "tiny-gpt2"
    config = GPT2Config(vocab_size=258, n_positions=128, n_embd=32, n_layer=2, n_head=4, eos_token_id=257)
    GPT2LMHeadModel(config).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tiny / name, folder)
    return folder


def test_a_family_that_cannot_be_exported_is_refused_by_name(gpt2: Path, cache: dict[str, str], tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert_refused(surefoot("export", gpt2, "--out", out, env=cache), NOT_ELIGIBLE, "gpt2")
    assert not out.exists()


def test_auto_goes_on_to_a_runtime_that_can_and_says_so(gpt2: Path, cache: dict[str, str]) -> None:
    done = surefoot("generate", gpt2, "-p", "stairs", "--max-tokens", 4, env=cache)
    assert done.code == 0, done
    assert "surefoot: passed over openvino: " in done.err
    assert "gpt2" in done.err
