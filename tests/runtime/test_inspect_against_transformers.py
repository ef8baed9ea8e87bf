"""The answer for transformers from a config.json alone is that of the runtime, which asks transformers' own classes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed")

from transformers import CONFIG_MAPPING, MODEL_FOR_CAUSAL_LM_MAPPING

from surefoot.core.errors import NotEligible
from surefoot.engine.inspect import config_json, verdicts
from surefoot.engine.inspect.findings import Facts, Found, Rows, Size
from surefoot.targets.hf.eligibility import check_config

NO_DEFAULTS = {"blt", "gemma4_assistant", "musicgen", "musicgen_melody"}
"""Their default configurations are none that transformers itself can use."""

FEW = (
    "bamba", "bart", "cohere2", "deepseek_v32", "falcon_h1", "gpt2", "jamba", "lfm2", "llama", "llama4_text", "mamba",
    "mixtral", "nemotron_h", "qwen3_next", "recurrent_gemma", "rwkv",
)  # fmt: skip
"""chosen: each kind of layer that there is; the others are looked at with --slow."""

ALL = sorted(kind for kind in CONFIG_MAPPING if kind not in NO_DEFAULTS)


def default(kind: str) -> Any:
    """The family's default configuration; None where it writes no text."""
    family = CONFIG_MAPPING[kind]
    return family() if family in MODEL_FOR_CAUSAL_LM_MAPPING else None


def by_files(config: Any, folder: Path) -> str:
    """The answer from what `save_pretrained` writes."""
    folder.mkdir(parents=True)
    config.save_pretrained(folder)
    read = config_json.read(folder)
    assert read is not None
    facts = Facts(
        format="safetensors", path=folder, files=(), size=Found(Size(0, 0, {}), ()),
        architecture=Found(read.model_type, ()), layers=config_json.layers(read), vocabulary=Found(2, ()),
        head=Found("all rows", ()), rows=Found(Rows(), ()), stated=config_json.objections(read), settings=read.whole,
    )  # fmt: skip
    return next(each.answer for each in verdicts.by_runtime(facts) if each.runtime == "hf")


def by_runtime(config: Any) -> str:
    try:
        check_config(config)
    except NotEligible:
        return "no"
    return "yes"


def check(kinds: tuple[str, ...] | list[str], folder: Path) -> int:
    wrong, n = {}, 0
    for kind in kinds:
        config = default(kind)
        if config is not None:
            answers = by_files(config, folder / kind), by_runtime(config)
            n += 1
            # Where the installed transformers keeps a family under another name, the files cannot tell.
            if answers[0] != answers[1] and answers != ("not known", "yes"):
                wrong[kind] = answers
    assert not wrong, json.dumps(wrong)
    return n


def test_the_answer_of_the_files_is_that_of_the_runtime(tmp_path: Path) -> None:
    assert check(FEW, tmp_path) == len(FEW)


@pytest.mark.slow
def test_the_answer_of_the_files_is_that_of_the_runtime_for_every_family(tmp_path: Path) -> None:
    assert check(ALL, tmp_path) > 150
