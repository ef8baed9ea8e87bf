"""SmolLM2 on OpenVINO: drafts change no token, and off is what OpenVINO GenAI itself writes with the same settings.

Our own conversions, and the models that GenAI writes when it reads a GGUF file in 16 bits or q8_0. A few texts run
always; the twenty-four of the promise, 256 tokens each, run with --slow (about half an hour), and so does the gate
that holds rows of blocks against single rows (--slow -k rows).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openvino", reason="the runtime of these tests: pip install 'surefoot[openvino]'")

import gguf
from requantised import requantised
from same_text import PROMPTS, check_equal, check_same_text, plainly

from surefoot.core.errors import NotEligible
from surefoot.core.sampling import Sampling
from surefoot.engine.config import load_config
from surefoot.engine.generator import Model, load
from surefoot.lab import gates, machine
from surefoot.lab.vendor import Vendor, open_vendor
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
    if machine.look().cores < 2:
        pytest.skip("OpenVINO GenAI 2026.4 divides by zero where it reads a GGUF file in F16 with one core")
    genai.LLMPipeline(str(file), "CPU", enable_save_ov_model=True)


@pytest.fixture(scope="module")
def vendor(model: Model) -> Vendor:
    """OpenVINO GenAI on the same folder, with the settings that the target reports."""
    pytest.importorskip("openvino_genai", reason="openvino-genai is not installed, and it is the reference")
    return open_vendor(model)


def check_greedy(vendor: Vendor, model: Model, number: int, n_tokens: int) -> None:
    prompt = model.encode(PROMPTS[number]["prompt"])
    off = check_same_text(model, prompt, Sampling(), n_tokens)
    theirs = vendor.plain(prompt, n_tokens)
    check_equal(model, prompt, off, theirs.ids, "the vendor")
    assert theirs.n_output == len(off)
    assert theirs.finish == ("stop" if off[-1] in model.tokenizer.eos_ids else "length")


@pytest.mark.parametrize("number", ALWAYS)
def test_greedy_is_the_same_with_drafts_on_off_and_by_the_vendor(vendor: Vendor, model: Model, number: int) -> None:
    assert model.target.caps.row_class == "identical"
    for name, value in model.target.caps.settings.items():
        assert not name.isupper() or vendor.settings[name] == value, name
    check_greedy(vendor, model, number, 64)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(PROMPTS)))
def test_greedy_is_the_same_over_256_tokens(vendor: Vendor, model: Model, number: int) -> None:
    check_greedy(vendor, model, number, 256)


@pytest.fixture(scope="module")
def caller(smollm2_gguf: Path, cache: Path) -> Model:
    config = load_config(overrides={"runtime": "openvino", "weights": "fp16", "cache": "caller"})
    return load(str(smollm2_gguf), config, cache_dir=cache)


def check_rows(model: Model, cache: Path, record_property: Any) -> None:
    """No row of a block has another argmax than the single row, and nothing but rounding moves its logits."""
    gate = gates.run("rows", model, cache)
    record_property("gate", gate.text)
    assert gate.passed, gate.text
    assert gate.details["claimed"] == gate.details["row_class"] == "identical"
    assert gate.details["inputs"] == 6


@pytest.mark.slow
def test_rows_of_a_block_equal_single_rows(model: Model, cache: Path, record_property: Any) -> None:
    check_rows(model, cache, record_property)


@pytest.mark.slow
def test_rows_of_a_block_equal_single_rows_where_the_caller_keeps_the_cache(
    caller: Model, cache: Path, record_property: Any
) -> None:
    check_rows(caller, cache, record_property)


def check_caller(caller: Model, number: int, n_tokens: int) -> tuple[int, ...]:
    assert caller.target.caps.row_class == "identical"
    return check_same_text(caller, caller.encode(PROMPTS[number]["prompt"]), Sampling(), n_tokens)


@pytest.mark.parametrize("number", ALWAYS[1:2])
def test_greedy_is_the_same_where_the_caller_keeps_the_cache(
    caller: Model, number: int, smollm2_gguf: Path, cache: Path
) -> None:
    off = check_caller(caller, number, 64)
    config = load_config(overrides={"runtime": "openvino", "weights": "fp16"})
    state = load(str(smollm2_gguf), config, cache_dir=cache)
    prompt = caller.encode(PROMPTS[number]["prompt"])
    other = plainly(state, prompt, Sampling(), 64)
    check_equal(caller, prompt, off, other, "the cache in the model")


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(PROMPTS)))
def test_greedy_is_the_same_over_256_tokens_where_the_caller_keeps_the_cache(caller: Model, number: int) -> None:
    check_caller(caller, number, 256)


def test_the_vendors_lookup_writes_the_same_in_fewer_rounds(vendor: Vendor, model: Model) -> None:
    """On paged attention, which other engines rarely find fit: the graph is named as it has to be."""
    prompt = model.encode(PROMPTS[2]["prompt"])
    plain, drafted = vendor.plain(prompt, 48), vendor.lookup(prompt, 48, 5)
    check_equal(model, prompt, plain.ids, drafted.ids, "the lookup of the vendor")
    assert drafted.steps is None
    assert vendor.lookup_settings["ATTENTION_BACKEND"] == "PA"
    with pytest.raises(NotEligible, match="at least 1 token"):
        vendor.lookup(prompt, 8, 0)


@pytest.mark.parametrize("temperature", [0.3, 1.3])
def test_the_same_seed_writes_the_same_text(model: Model, temperature: float) -> None:
    prompt = model.encode(PROMPTS[2]["prompt"])
    check_same_text(model, prompt, Sampling(temperature=temperature, top_k=40, top_p=0.95, seed=7), 64)
