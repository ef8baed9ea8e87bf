"""SmolLM2 exported from its GGUF file has transformers' logits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("openvino", reason="the openvino extra is not installed")
torch = pytest.importorskip("torch", reason="torch is not installed, and it computes the expected logits")

from openvino_run import ov_logits  # noqa: E402

from surefoot.targets.openvino.export import export  # noqa: E402

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def exported(smollm2_gguf: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("openvino") / "fp16"
    export(smollm2_gguf, out)
    return out


def test_logits_are_those_of_transformers(smollm2_gguf: Path, exported: Path) -> None:
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(smollm2_gguf.parent, gguf_file=smollm2_gguf.name, dtype=torch.float32)
    ids = np.random.default_rng(0).integers(0, 49152, 40).tolist()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.half().float() if parameter.ndim == 2 else parameter)
        expected = model(torch.tensor([ids])).logits[0].numpy()
    found = ov_logits(exported, [ids[:25], ids[25:26], ids[26:34], [1, 2, 3], ids[34:]], hidden=(3,))
    np.testing.assert_allclose(found, expected, atol=1e-3, rtol=0)
