"""SmolLM2 on llama.cpp: drafts change no token, and off is what llama.cpp's own server writes with the same settings.

The shipped file in Q4_1, and the same weights stored anew in F16, Q8_0 and Q4_0. Two texts of the shipped file run
always; the twenty-four of the promise, 256 tokens each, in all of them, run with --slow (an hour on two cores).
"""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest
from own_memory import needs_smaps, own_bytes
from requantised import requantised
from same_text import PROMPTS, check_equal, check_same_text

from surefoot.core.sampling import Sampling
from surefoot.core.types import as_ids
from surefoot.engine.config import load_config
from surefoot.engine.generator import Model, load
from surefoot.lab.vendor import Vendor, open_vendor
from surefoot.targets.llamacpp import Options, build

pytest.importorskip("xllamacpp", reason="the llamacpp extra is not installed")
pytestmark = pytest.mark.model
ALWAYS = [2, 4]  # code and JSON: most drafts are accepted, so most rows of a block are put to the test
FORMATS = ["Q4_1", "Q8_0", "Q4_0", "F16 by two rows", "F16"]
"""F16 has the bits of single rows where two are computed at least, and is a near tie of them otherwise."""
ROUNDED = 0.05
"""Logits, chosen: rows of SmolLM2 in F16 move a top logit by 0.02 (99th percentile), and either of two may move."""


@pytest.fixture(scope="module", params=FORMATS)
def model(request: pytest.FixtureRequest, smollm2_gguf: Path, tmp_path_factory: pytest.TempPathFactory) -> Model:
    """With --slow on two threads, so that a single row behind 512 others could be split over them."""
    kind, _, by_two = request.param.partition(" ")
    folder, slow = tmp_path_factory.mktemp(kind), request.config.getoption("--slow")
    if kind != "Q4_1" and not slow:
        pytest.skip("stored anew with --slow only")
    file = smollm2_gguf
    if kind != "Q4_1":
        file = requantised(smollm2_gguf, folder / f"{kind}.gguf", gguf.GGMLQuantizationType[kind])
    runtime = {"name": "llamacpp", "threads": 2 if slow else 1, "ctx_size": 2048, "min_rows": 2 if by_two else 1}
    model = load(str(file), load_config(overrides={"runtime": runtime}), cache_dir=folder)
    assert model.target.caps.row_class == ("near-tie" if request.param == "F16" else "identical")
    return model


@pytest.fixture(scope="module")
def vendor(model: Model) -> Vendor:
    return open_vendor(model)


def check_greedy(vendor: Vendor, model: Model, number: int, n_tokens: int) -> None:
    """The server computes single rows, so where we compute two of F16 its text may part from ours in a near tie."""
    settings = model.target.caps.settings
    rounded = ROUNDED if settings["weights"] == "f16+f32" else 0.0
    prompt = model.encode(PROMPTS[number]["prompt"])
    off = check_same_text(model, prompt, Sampling(), n_tokens, 0.0 if settings["min_rows"] == "2" else rounded)
    theirs = vendor.plain(prompt, n_tokens)
    check_equal(model, prompt, off, theirs.ids, "the server", rounded)
    if tuple(theirs.ids) == off:
        assert theirs.finish == ("stop" if off[-1] in model.tokenizer.eos_ids else "length")


@pytest.mark.parametrize("number", ALWAYS)
def test_greedy_is_the_same_with_drafts_on_off_and_by_the_server(vendor: Vendor, model: Model, number: int) -> None:
    check_greedy(vendor, model, number, 40)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(PROMPTS)))
def test_greedy_is_the_same_over_256_tokens(vendor: Vendor, model: Model, number: int) -> None:
    check_greedy(vendor, model, number, 256)


def test_the_servers_lookup_writes_the_same(vendor: Vendor, model: Model) -> None:
    prompt = model.encode(PROMPTS[2]["prompt"])
    plain, drafted = vendor.plain(prompt, 32), vendor.lookup(prompt, 32, 5)
    check_equal(model, prompt, plain.ids, drafted.ids, "the lookup of the server")


def test_the_same_seed_writes_the_same_text(model: Model) -> None:
    if model.target.caps.row_class != "identical":
        pytest.skip("rounding moves what is drawn, too")
    prompt = model.encode(PROMPTS[2]["prompt"])
    check_same_text(model, prompt, Sampling(temperature=0.8, top_k=40, top_p=0.95, seed=7), 32)


@pytest.mark.slow
def test_rows_behind_a_deep_cache_have_the_same_bits(model: Model) -> None:
    """Behind 600 tokens, where a single row of f16 values would be split over both threads."""
    ids = np.resize(model.encode("\n".join(item["prompt"] for item in PROMPTS[:6])), 610).astype(np.int32)
    session = model.target.open()
    session.prefill(ids[:600])
    single = session.extend(as_ids(ids[600:601])).logits(0).copy()
    session.commit(0)
    row = session.extend(ids[600:606]).logits(0)
    same = model.target.caps.row_class == "identical"
    assert np.array_equal(row, single) if same else np.abs(row - single).max() < 1e-3 * np.ptp(single)


@needs_smaps
def test_the_weights_are_mapped_and_not_copied(smollm2_gguf: Path) -> None:
    build(Options(ctx_size=256, threads=1), smollm2_gguf)  # what is taken once in a process
    before = own_bytes()
    target = build(Options(ctx_size=256, threads=1, repack="off"), smollm2_gguf)
    target.open().prefill(as_ids([1, 2, 3]))
    assert own_bytes() - before < smollm2_gguf.stat().st_size / 2
