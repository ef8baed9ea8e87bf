"""The OpenVINO target keeps the promises of every target, and its own about stale rows."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("openvino", reason="the openvino extra is not installed")
torch = pytest.importorskip("torch", reason="torch is not installed, and it writes the models under test")

from openvino_tiny import expected_logits, tiny  # noqa: E402

from surefoot.core.errors import TargetError  # noqa: E402
from surefoot.targets.openvino import Options, build, slots  # noqa: E402
from surefoot.targets.openvino.export import export  # noqa: E402
from surefoot.testing.conformance import TARGET_CHECKS, check_target  # noqa: E402

F32 = Options(cache_precision="f32", threads=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, bool], Path]:
    root = tmp_path_factory.mktemp("openvino")

    def make(variant: str, trees: bool = False) -> Path:
        out = root / f"{variant}-{trees}"
        if not out.exists():
            tiny(variant).save_pretrained(root / f"{variant}-{trees}-source")
            export(root / f"{variant}-{trees}-source", out, trees=trees)
        return out

    return make


@pytest.mark.parametrize("check", TARGET_CHECKS)
@pytest.mark.parametrize("trees", [False, True], ids=["chains", "trees"])
@pytest.mark.parametrize("variant", ["llama", "qwen3-tied"])
def test_conformance(variant: str, trees: bool, check: str, folder: Any) -> None:
    check_target(lambda: build(F32, folder(variant, trees)), tolerance=1e-3, only=(check,))


@pytest.mark.parametrize("check", ["random_walk", "rejected_rows_leave_nothing", "resets"])
def test_conformance_with_stale_rows_removed_at_once(check: str, folder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "COPY_COST", 0)
    check_target(lambda: build(F32, folder("llama")), tolerance=1e-3, only=(check,))


@pytest.mark.parametrize("precision", ["f16", "bf16", "u8"])
def test_every_cache_precision_rolls_back_within_its_own_rounding(precision: str, folder: Any) -> None:
    options = Options(cache_precision=precision, threads=1)
    check_target(lambda: build(options, folder("llama")), tolerance=0.2, only=("random_walk",))


def test_logits_are_those_of_transformers_after_rejections_and_removals(folder: Any) -> None:
    model, target = tiny("qwen2"), build(F32, folder("qwen2"))
    rng = np.random.default_rng(1)
    session = target.open()
    kept = rng.integers(3, 211, 20).tolist()
    session.prefill(np.array(kept, np.int32))
    for _ in range(30):
        block = rng.integers(3, 211, 6).astype(np.int32)
        scores = session.extend(block, width=8)
        found = np.stack([scores.logits(row) for row in range(6)])
        np.testing.assert_allclose(found, expected_logits(model, kept + block.tolist())[len(kept) :], atol=1e-3)
        n = int(rng.integers(0, 4))
        session.commit(n)
        kept += block[:n].tolist()


def test_stale_rows_are_bounded(folder: Any) -> None:
    session = build(F32, folder("llama")).open()
    session.prefill(np.arange(10, dtype=np.int32))
    most = 0
    for _ in range(300):
        session.extend(np.arange(8, dtype=np.int32))
        session.commit(0)
        most = max(most, session._slots.used)
    assert session.length == 10
    assert most < 150


def rejected(session: Any) -> None:
    session.extend(np.array([8, 9], np.int32))
    session.commit(0)


def test_an_interrupt_inside_a_forward_leaves_the_committed_text(folder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model, target = tiny("llama"), build(F32, folder("llama"))
    session = target.open()
    ids = np.random.default_rng(2).integers(3, 211, 12).astype(np.int32)
    session.prefill(ids)
    session.extend(np.array([5, 6, 7], np.int32))
    session.commit(1)
    for name in ("forward", "keep_slots"):
        whole = getattr(session._runner, name)

        def interrupted(*args: Any, whole: Any = whole) -> Any:
            whole(*args)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(session._runner, name, interrupted)
            patch.setattr(slots, "COPY_COST", 0)
            with pytest.raises(KeyboardInterrupt):
                rejected(session)
        assert session.length == 13
        found = session.extend(np.array([11], np.int32)).logits(0)
        np.testing.assert_allclose(found, expected_logits(model, [*ids.tolist(), 5, 11])[-1], atol=1e-3)
        session.commit(0)


def test_a_failing_runtime_closes_the_session(folder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    session = build(F32, folder("llama")).open()
    session.prefill(np.arange(4, dtype=np.int32))

    def broken(*args: Any) -> Any:
        raise RuntimeError("Exception from src/inference\nout of memory")

    monkeypatch.setattr(session._runner, "forward", broken)
    with pytest.raises(TargetError, match="out of memory") as caught:
        session.extend(np.arange(2, dtype=np.int32))
    assert caught.value.operation == "extend"
    with pytest.raises(TargetError, match="closed"):
        session.commit(0)


def test_caps_say_what_decides_the_bits(folder: Any) -> None:
    caps = build(Options(threads=1), folder("llama")).caps
    assert caps.settings["KV_CACHE_PRECISION"] == "f32"
    assert caps.settings["INFERENCE_PRECISION_HINT"] == "f32"
    assert caps.settings["DYNAMIC_QUANTIZATION_GROUP_SIZE"] == "0"
    assert caps.settings["ENABLE_CPU_PINNING"] == "False"
    assert caps.settings["weights"] == "fp16"
    assert caps.row_class == "identical"
    assert (caps.vocab_size, caps.max_length) == (211, 256)
    for precision in ("u8", "f16"):
        near = build(Options(cache_precision=precision, threads=1), folder("llama")).caps
        assert (near.row_class, near.settings["KV_CACHE_PRECISION"]) == ("near-tie", precision)


def test_a_compiled_model_is_kept_where_the_caller_says(folder: Any, tmp_path: Path) -> None:
    options = Options(threads=1, cache_dir=str(tmp_path / "compiled"))
    first = build(options, folder("llama")).open().prefill(np.arange(5, dtype=np.int32)).logits(0).copy()
    assert list((tmp_path / "compiled").iterdir())
    again = build(options, folder("llama")).open().prefill(np.arange(5, dtype=np.int32)).logits(0)
    np.testing.assert_array_equal(first, again)


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_a_compiled_model_that_was_cut_off_is_made_again(share: float, folder: Any, tmp_path: Path) -> None:
    options = Options(threads=1, cache_dir=str(tmp_path))
    whole = build(options, folder("llama")).open().prefill(np.arange(5, dtype=np.int32)).logits(0).copy()
    (kept,) = tmp_path.glob("*.blob")
    content = kept.read_bytes()
    kept.unlink()
    kept.write_bytes(content[: int(share * len(content))])
    again = build(options, folder("llama")).open().prefill(np.arange(5, dtype=np.int32)).logits(0)
    np.testing.assert_array_equal(whole, again)


LEFT_IN_ORDER = """
import signal, sys
from pathlib import Path
from surefoot.targets.openvino import Options, build
one, two = (build(Options(threads=1), Path(sys.argv[1])) for _ in range(2))
del one
del two
try:
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no other stack for signals on Windows")
def test_ctrl_c_still_ends_well_when_models_are_gone(folder: Any) -> None:
    """With a core for each model, the stack for signals would be that of the first one, which is gone: SIGSEGV."""
    command = [sys.executable, "-c", LEFT_IN_ORDER, str(folder("llama"))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted\n", "")
