"""One OpenVINO sequence: long prompts in parts, taps, an interrupt at any line, and slips that its suite must catch."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("openvino", reason="the openvino extra is not installed")
pytest.importorskip("torch", reason="torch is not installed, and it writes the models under test")

import openvino as ov
from interrupts import CHAINS, TREES, check_every_line
from openvino import opset13 as ops
from openvino_tiny import LONG, expected_logits, hidden_states, long_llama

from surefoot.core import blocks
from surefoot.core.types import as_ids
from surefoot.targets.openvino import Options, build, failures, runner, slots
from surefoot.targets.openvino import session as session_module
from surefoot.targets.openvino.export import export
from surefoot.targets.openvino.slots import Slots
from surefoot.testing.conformance import check_target

F32 = Options(cache_precision="f32", threads=1)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("openvino")
    long_llama().save_pretrained(root / "source")
    export(root / "source", root / "chains")
    export(root / "source", root / "trees", trees=True)
    (root / "unsliced").mkdir()
    shutil.copy(root / "chains/config.json", root / "unsliced")
    graph = ov.Core().read_model(root / "chains/openvino_model.xml")
    result = graph.output("logits").get_node()
    # A head behind which something stands is not cut to the last rows, as in exports that cap their logits.
    result.input(0).replace_source_output(ops.clamp(result.input_value(0), -1e6, 1e6).output(0))
    ov.save_model(graph, root / "unsliced/openvino_model.xml", compress_to_fp16=False)
    return {name: root / name for name in ("chains", "trees", "unsliced")}


def fresh(ids: Sequence[int]) -> np.ndarray:
    return np.asarray(expected_logits(long_llama(), list(ids))[-1])


@pytest.mark.parametrize("kind", ["chains", "trees", "unsliced"])
def test_a_prompt_read_in_parts_is_one_forward_of_transformers(kind: str, folders: dict[str, Path]) -> None:
    target = build(F32, folders[kind])
    session = target.open(("layer.1",))
    assert session._runner.slices is (kind != "unsliced")
    ids = np.random.default_rng(0).integers(3, 211, LONG - 10).astype(np.int32)
    assert len(ids) > 2 * session_module.CHUNK > 2 * session_module.CHUNK_OF_LOGITS
    hidden = hidden_states(long_llama(), ids)[2]
    start = len(ids) // 3
    for part, due in ((ids[:start], hidden[:start]), (ids[start:], hidden[start:])):
        scores = session.prefill(part)
        np.testing.assert_allclose(scores.tap("layer.1"), due, atol=2e-3)
    np.testing.assert_allclose(scores.logits(0), fresh(ids), atol=2e-3)
    np.testing.assert_allclose(session.extend(as_ids([7, 8])).logits(1), fresh([*ids, 7, 8]), atol=2e-3)


def test_taps_are_the_hidden_states_of_transformers(folders: dict[str, Path]) -> None:
    ids = as_ids(range(20, 32))
    states = hidden_states(long_llama(), ids)
    target = build(F32, folders["chains"])
    assert target.caps.tap_names == ("embed", "layer.0", "layer.1", "layer.2", "final")
    session = target.open(target.caps.tap_names)
    prompt = session.prefill(ids[:8])
    at = {name: prompt.tap(name) for name in target.caps.tap_names}
    block = session.extend(ids[8:], width=6)
    # transformers gives the last layer's output only after the final norm, so layer.2 has no counterpart there.
    for name, due in zip(("embed", "layer.0", "layer.1", "final"), states, strict=True):
        np.testing.assert_allclose(np.concatenate([at[name], block.tap(name)]), due, atol=1e-3)


@pytest.mark.parametrize(
    ("kind", "script", "cost"), [("chains", CHAINS, 0), ("trees", TREES, 20)], ids=["removed at once", "left, trees"]
)
def test_an_interrupt_at_any_line_leaves_the_committed_text(
    kind: str, script: Any, cost: int, folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    target = build(F32, folders[kind])
    monkeypatch.setattr(slots, "COPY_COST", cost)
    monkeypatch.setattr(session_module, "CHUNK", 4)
    known: dict[tuple[int, ...], np.ndarray] = {}

    def row(ids: Sequence[int]) -> np.ndarray:
        return known[tuple(ids)] if tuple(ids) in known else known.setdefault(tuple(ids), fresh(ids))

    lines = check_every_line(target, [session_module, slots, runner, blocks, failures], script, row, 1e-3)
    assert lines > 200


def commits(more: int) -> Any:
    """Slots.commit that keeps one row more of the tail than it was asked to, or one less."""
    good = Slots.commit

    def commit(self: Slots, path: Sequence[int]) -> None:
        n = len(path) + more
        good(self, range(n) if 0 <= n <= len(self.tail) else path)

    return commit


def keeps(more: int) -> Any:
    """Slots.keep of one row more than it was asked to, or one less."""
    good = Slots.keep
    return lambda self, count: good(self, count + more)


@pytest.mark.parametrize("more", [1, -1])
@pytest.mark.parametrize(
    ("verb", "fault", "check"),
    [("commit", commits, "rejected_rows_leave_nothing"), ("commit", commits, "random_walk"), ("keep", keeps, "resets")],
)
def test_planted_kept_counts_off_by_one_are_caught(
    verb: str, fault: Any, check: str, more: int, folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    target = build(Options(cache_precision="f32", threads=1, ctx_size=200), folders["chains"])
    suite = partial(check_target, lambda: target, tolerance=1e-3, only=(check,))
    suite()
    monkeypatch.setattr(Slots, verb, fault(more))
    with pytest.raises(AssertionError, match="differs from a fresh prefill"):
        suite()
