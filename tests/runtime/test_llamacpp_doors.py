"""Every installed binding to llama.cpp is reached through the same layer, and is compared with its own generate."""

from __future__ import annotations

from pathlib import Path

import pytest
from same_text import check_equal

import tiny_gguf
from surefoot.core.errors import NotEligible
from surefoot.engine.config import load_config
from surefoot.engine.generator import Model, load
from surefoot.lab.gates.writing import plain
from surefoot.lab.vendor import open_vendor
from surefoot.targets.llamacpp import Options, build
from surefoot.targets.llamacpp.doors import DOORS, open_door
from surefoot.testing.conformance import check_target


@pytest.fixture(params=DOORS)
def binding(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    try:
        return open_door(name).name
    except NotEligible as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_0"])
def test_a_binding_keeps_the_contract_bit_for_bit(binding: str, kind: str, tmp_path: Path) -> None:
    file = tiny_gguf.write(tmp_path / "tiny.gguf", kind=kind)
    target = build(Options(binding=binding, threads=1), file)
    assert binding in target.caps.settings
    check_target(lambda: target, tolerance=0.0)


def model_of(binding: str, file: Path) -> Model:
    """A prompt is taken in parts of 48 tokens, so that texts are longer than a part."""
    wanted = {"runtime": {"name": "llamacpp", "binding": binding, "threads": 1, "ctx_size": 200, "ubatch": 48}}
    return load(str(file), load_config(overrides=wanted), cache_dir=file.parent / "cache")


def test_its_own_generate_writes_the_same(binding: str, tmp_path: Path) -> None:
    model = model_of(binding, tiny_gguf.write(tmp_path / "tiny.gguf", kind="Q8_0", context=256))
    prompt = model.encode("The stair has steps, the stair has steps, the stair")
    off = plain(model, prompt, 40)
    if binding == "llama-cpp-py-sync":
        with pytest.raises(NotEligible, match="generates text and no ids"):
            open_vendor(model)
        return
    vendor = open_vendor(model)
    assert binding.replace("xllamacpp", "server of xllamacpp") in vendor.name
    for side in (vendor.plain(prompt, 40), vendor.lookup(prompt, 40, 3), vendor.plain(prompt, 40)):
        check_equal(model, prompt, off, side.ids, "its generate and lookup")
        assert side.finish == ("stop" if off[-1] in model.tokenizer.eos_ids else "length")
        assert side.n_output == len(off)
