"""The public conformance suite on the transformers target, family by family."""

from __future__ import annotations

from typing import Any

import hf_tiny
import numpy as np
import pytest

from surefoot.targets.hf import PLUGIN, Options
from surefoot.testing.conformance import TARGET_CHECKS

pytest.importorskip("torch", reason="the transformers target needs torch")
pytest.importorskip("transformers", reason="the transformers target needs transformers")


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    import torch

    torch.set_num_threads(1)
    root = tmp_path_factory.mktemp("hf")
    folders = {family: hf_tiny.write(root / family, hf_tiny.config(family)) for family in hf_tiny.FAMILIES}
    return {family: PLUGIN.build(Options(), folder) for family, folder in folders.items()}


@pytest.mark.parametrize("check", TARGET_CHECKS)
@pytest.mark.parametrize("family", hf_tiny.FAMILIES)
def test_the_target_keeps_the_contract(targets: dict[str, Any], family: str, check: str) -> None:
    TARGET_CHECKS[check](targets[family], hf_tiny.TOLERANCE, np.random.default_rng(0))
