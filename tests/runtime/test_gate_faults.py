"""Every fault of the table is caught by the gate that the table names, and without a fault every gate passes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from gate_models import hf_model, llamacpp_model, openvino_model, toy_model

from surefoot.engine.config import load_config
from surefoot.engine.generator import Model, load
from surefoot.lab import gates
from surefoot.testing.faults import GATED, Backend, GatedFault

OWN = ("rows", "lossless", "contamination")
"""The gates that need nobody else's engine."""

MAKERS: dict[str, Callable[[Path], Model]] = {
    "toy-mask": lambda folder: toy_model("mask"),
    "toy-truncate": lambda folder: toy_model("truncate"),
    "toy-staged": lambda folder: toy_model("staged"),
    "hf": hf_model,
    "hf-eager": lambda folder: hf_model(folder, "eager"),
    "openvino": openvino_model,
    "llamacpp": llamacpp_model,
}
BUILT: dict[str, Model] = {}


@pytest.fixture(params=MAKERS)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Model:
    name = request.param
    if name not in BUILT:
        BUILT[name] = MAKERS[name](tmp_path_factory.mktemp(name))
    return BUILT[name]


def backend(model: Model) -> Backend:
    found = model.target.caps.backend
    assert found == "toy" or found == "hf" or found == "openvino" or found == "llamacpp"
    return found


@pytest.mark.parametrize("name", OWN)
def test_without_a_fault_every_gate_passes(model: Model, name: str, tmp_path: Path) -> None:
    gate = gates.run(name, model, tmp_path, quick=True)
    assert gate.passed, gate.text
    assert gate.figure <= gate.limit


@pytest.mark.parametrize("fault", GATED, ids=lambda fault: fault.name)
def test_every_fault_is_caught_by_its_gate(model: Model, fault: GatedFault, tmp_path: Path) -> None:
    with fault.plant(backend(model)):
        gate = gates.run(fault.gate, model, tmp_path, quick=True)
    assert not gate.passed, f"{fault.name}, planted in {fault.planted}, went through {fault.gate}: {gate.text}"


@pytest.fixture(scope="module", params=["hf", "openvino", "llamacpp"])
def smollm2(request: pytest.FixtureRequest, smollm2_gguf: Path, tmp_path_factory: pytest.TempPathFactory) -> Model:
    """SmolLM2; on OpenVINO exported with trees, so that its attention mask is made outside the graph."""
    name, cache = request.param, tmp_path_factory.mktemp("cache")
    modules = {"hf": "torch", "openvino": "openvino", "llamacpp": "xllamacpp"}
    pytest.importorskip(modules[name], reason="the runtime of this test")
    config = load_config(overrides={"runtime": name})
    if name != "openvino":
        return load(str(smollm2_gguf), config, cache_dir=cache)
    from surefoot.engine import conversion, models
    from surefoot.targets.openvino.export import export

    files = models.resolve(str(smollm2_gguf), cache)
    extra = conversion._tokenizer_files(files)
    export(files.path, cache / "trees", "fp16", trees=True, extra_files=extra)
    return load(str(cache / "trees"), config, cache_dir=cache)


@pytest.mark.slow
@pytest.mark.model
@pytest.mark.parametrize("name", OWN)
def test_smollm2_passes_every_gate(smollm2: Model, name: str, tmp_path: Path) -> None:
    gate = gates.run(name, smollm2, tmp_path, quick=True)
    assert gate.passed, gate.text


@pytest.mark.slow
@pytest.mark.model
@pytest.mark.parametrize("fault", GATED, ids=lambda fault: fault.name)
def test_faults_on_smollm2_are_caught_by_their_gates(smollm2: Model, fault: GatedFault, tmp_path: Path) -> None:
    with fault.plant(backend(smollm2)):
        gate = gates.run(fault.gate, smollm2, tmp_path, quick=True)
    assert not gate.passed, f"{fault.name}, planted in {fault.planted}, went through {fault.gate}: {gate.text}"
