"""A9 on transformers: a Ctrl-C at any line of a session leaves it at the text it had committed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import hf_tiny
import numpy as np
import pytest
from interrupts import TREES, check_every_line

from surefoot.core import blocks
from surefoot.core.types import as_ids
from surefoot.targets.hf import PLUGIN, Options, cache, runner, session, taps

pytest.importorskip("torch", reason="the transformers target needs torch")
pytest.importorskip("transformers", reason="the transformers target needs transformers")


def test_an_interrupt_at_any_line_leaves_the_committed_text(tmp_path: Path) -> None:
    target = PLUGIN.build(Options(), hf_tiny.write(tmp_path / "llama", hf_tiny.config("llama")))
    known: dict[tuple[int, ...], np.ndarray] = {}

    def fresh(ids: Sequence[int]) -> np.ndarray:
        if tuple(ids) not in known:
            known[tuple(ids)] = target.open().prefill(as_ids(ids)).logits(0).copy()
        return known[tuple(ids)]

    assert check_every_line(target, [session, cache, runner, taps, blocks], TREES, fresh, hf_tiny.TOLERANCE) > 200
