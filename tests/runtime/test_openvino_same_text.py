"""SmolLM2 on OpenVINO: drafts change no token, and off is what OpenVINO GenAI itself writes with the same settings.

Our own conversions, and the models that GenAI writes when it reads a GGUF file in 16 bits or q8_0. A few texts run
always; the twenty-four of the promise, 256 tokens each, run with --slow (about half an hour).
"""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("openvino", reason="the runtime of these tests: pip install 'surefoot[openvino]'")

import gguf
from requantised import requantised
from same_text import PROMPTS, check_same_text, gap_at, plainly

from surefoot.core.sampling import Sampling
from surefoot.core.types import Ids
from surefoot.engine.config import load_config
from surefoot.engine.generator import Model, load
from surefoot.targets.openvino import Options, build

pytestmark = pytest.mark.model
ALWAYS = [0, 2, 4]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module", params=["fp16", "int8", "genai F16", "genai Q8_0"])
def model(request: Any, smollm2_gguf: Path, cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Model:
    weights = "fp16" if request.param.startswith("genai") else request.param
    ours = load_config(overrides={"runtime.name": "openvino", "runtime.threads": 1, "weights": weights})
    model = load(str(smollm2_gguf), ours, cache_dir=cache)
    if request.param.startswith("genai"):
        kind = request.param.split()[1]
        folder = tmp_path_factory.mktemp(kind)
        written_by_vendor(requantised(smollm2_gguf, folder / f"{kind}.gguf", gguf.GGMLQuantizationType[kind]))
        model = replace(model, path=folder, target=build(Options(ctx_size=2048, threads=1), folder))
    return model


def written_by_vendor(file: Path) -> None:
    """Beside a GGUF file, the model and the tokenizer that OpenVINO GenAI writes when it reads it."""
    genai = pytest.importorskip("openvino_genai", reason="openvino-genai is not installed, and it is the reference")
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("OpenVINO GenAI 2026.4 divides by zero where it reads a GGUF file in F16 with one core")
    genai.LLMPipeline(str(file), "CPU", enable_save_ov_model=True)


@pytest.fixture(scope="module")
def vendor(model: Model, smollm2_gguf: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """OpenVINO GenAI's pipeline on the same folder, with the settings that the target reports."""
    genai = pytest.importorskip("openvino_genai", reason="openvino-genai is not installed, and it is the reference")
    folder = tmp_path_factory.mktemp("vendor")
    (folder / smollm2_gguf.name).symlink_to(smollm2_gguf)
    written_by_vendor(folder / smollm2_gguf.name)
    for file in model.path.glob("openvino_model.*"):
        shutil.copy(file, folder)
    settings = model.target.caps.settings
    names = ("INFERENCE_PRECISION_HINT", "KV_CACHE_PRECISION", "DYNAMIC_QUANTIZATION_GROUP_SIZE")
    return genai.LLMPipeline(
        str(folder),
        "CPU",
        **{name: settings[name] for name in names},
        INFERENCE_NUM_THREADS=int(settings["threads"]),
        ATTENTION_BACKEND="SDPA",
    )


def by_vendor(vendor: Any, model: Model, prompt: Ids, n_tokens: int) -> tuple[int, ...]:
    import openvino as ov
    import openvino_genai as genai

    wanted = genai.GenerationConfig(max_new_tokens=n_tokens, eos_token_id=min(model.tokenizer.eos_ids))
    wanted.stop_token_ids = set(model.tokenizer.eos_ids)
    return tuple(vendor.generate(ov.Tensor(np.asarray([prompt], np.int64)), wanted).tokens[0])


def check_greedy(vendor: Any, model: Model, number: int, n_tokens: int) -> None:
    prompt = model.encode(PROMPTS[number]["prompt"])
    off = check_same_text(model, prompt, Sampling(), n_tokens)
    theirs = by_vendor(vendor, model, prompt, n_tokens)
    assert off == theirs, gap_at(model, prompt, off, theirs)


@pytest.mark.parametrize("number", ALWAYS)
def test_greedy_is_the_same_with_drafts_on_off_and_by_the_vendor(vendor: Any, model: Model, number: int) -> None:
    assert model.target.caps.row_class == "identical"
    check_greedy(vendor, model, number, 64)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(PROMPTS)))
def test_greedy_is_the_same_over_256_tokens(vendor: Any, model: Model, number: int) -> None:
    check_greedy(vendor, model, number, 256)


@pytest.fixture(scope="module")
def caller(smollm2_gguf: Path, cache: Path) -> Model:
    config = load_config(overrides={"runtime": "openvino", "weights": "fp16", "cache": "caller"})
    return load(str(smollm2_gguf), config, cache_dir=cache)


def check_caller(caller: Model, number: int, n_tokens: int) -> tuple[int, ...]:
    assert caller.target.caps.row_class == "identical"
    return check_same_text(caller, caller.encode(PROMPTS[number]["prompt"]), Sampling(), n_tokens)


@pytest.mark.parametrize("number", ALWAYS)
def test_greedy_is_the_same_where_the_caller_keeps_the_cache(
    caller: Model, number: int, smollm2_gguf: Path, cache: Path
) -> None:
    off = check_caller(caller, number, 64)
    config = load_config(overrides={"runtime": "openvino", "weights": "fp16"})
    state = load(str(smollm2_gguf), config, cache_dir=cache)
    prompt = caller.encode(PROMPTS[number]["prompt"])
    other = plainly(state, prompt, Sampling(), 64)
    assert off == other, gap_at(caller, prompt, off, other)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(PROMPTS)))
def test_greedy_is_the_same_over_256_tokens_where_the_caller_keeps_the_cache(caller: Model, number: int) -> None:
    check_caller(caller, number, 256)


@pytest.mark.parametrize("temperature", [0.3, 1.3])
def test_the_same_seed_writes_the_same_text(model: Model, temperature: float) -> None:
    prompt = model.encode(PROMPTS[2]["prompt"])
    check_same_text(model, prompt, Sampling(temperature=temperature, top_k=40, top_p=0.95, seed=7), 64)
