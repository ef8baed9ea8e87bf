"""`surefoot generate ANY.gguf`: models of every family, whole or in shards, with drafts that change nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cli_run import assert_refused, surefoot

import tiny_gguf
from surefoot.app.cli.errors import NOT_ELIGIBLE
from surefoot.engine.config import load_config
from surefoot.engine.generator import load
from surefoot.lab.gates.writing import plain

pytest.importorskip("xllamacpp", reason="the llamacpp extra is not installed")

PROMPT = "The stair has steps, the stair has steps, the stair"
N_TOKENS = 40
ARGUMENTS = (
    "--runtime", "llamacpp", "--threads", 1, "--allow-near-ties", "--raw", "--json", "-p", PROMPT,
    "--max-tokens", N_TOKENS,
)  # fmt: skip

TEXT = ("--runtime", "llamacpp", "--threads", 1, "--raw", "-p", "stairs", "--max-tokens", 4)


def document(file: Path, *options: object) -> dict[str, Any]:
    done = surefoot("generate", file, *ARGUMENTS, *options)
    assert done.code == 0, done.err
    found: dict[str, Any] = json.loads(done.out)
    return found


def without_drafts(file: Path) -> list[int]:
    config = load_config(overrides={"runtime": {"name": "llamacpp", "threads": 1}})
    model = load(str(file), config, cache_dir=file.parent / "cache")
    return list(plain(model, model.encode(PROMPT, raw=True), N_TOKENS))


@pytest.mark.parametrize("family", tiny_gguf.FAMILIES)
def test_every_family(family: str, tmp_path: Path) -> None:
    file = tiny_gguf.write(tmp_path / "tiny.gguf", family, context=256)
    found = document(file)
    assert found["ids"] == without_drafts(file)
    assert found["model"]["runtime"] == "llamacpp"
    assert found["stats"]["evaluated"] > 0


def test_the_line_says_that_quantised_rows_are_identical(tmp_path: Path) -> None:
    file = tiny_gguf.write(tmp_path / "tiny.gguf", kind="Q8_0", context=256)
    built_for = document(file)["model"]["settings"]["built_for"].split(",")
    if "AVX2" not in built_for or "AMX_INT8" in built_for:
        pytest.skip("nothing is claimed of rows on this library: it was not built for AVX2 or AVX-512")
    done = surefoot("generate", file, *TEXT)
    assert done.code == 0, done.err
    assert "ngram/additive, rows identical; greedy." in done.err


def test_near_ties_are_refused_by_class_and_allowed_once(tmp_path: Path) -> None:
    file = tiny_gguf.write(tmp_path / "tiny.gguf", kind="F16")
    refused = surefoot("generate", file, *TEXT)
    assert_refused(refused, NOT_ELIGIBLE, "rows are near-tie", "allow it once with --allow-near-ties")
    allowed = surefoot("generate", file, *TEXT, "--allow-near-ties")
    assert allowed.code == 0, allowed.err
    assert "ngram/additive, near ties allowed; greedy." in allowed.err
    assert surefoot("generate", file, *TEXT).code == NOT_ELIGIBLE


def test_shards(tmp_path: Path) -> None:
    whole = tiny_gguf.write(tmp_path / "whole.gguf", context=256)
    first = tiny_gguf.write(tmp_path / "parts.gguf", context=256, shard_tensors=5)
    assert len(list(tmp_path.glob("parts-*.gguf"))) > 2
    assert document(first)["ids"] == document(whole)["ids"] == without_drafts(whole)
