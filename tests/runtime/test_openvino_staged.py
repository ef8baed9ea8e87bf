"""One OpenVINO sequence whose cache the caller keeps: nothing is written before it is accepted; slips are caught."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("openvino", reason="the openvino extra is not installed")
pytest.importorskip("torch", reason="torch is not installed, and it writes the models under test")

from interrupts import TREES, check_every_line
from openvino_tiny import LONG, expected_logits, hidden_states, long_llama, tiny

from surefoot.core import blocks
from surefoot.core.errors import ConfigError, TargetError
from surefoot.core.types import as_ids
from surefoot.targets.openvino import Options, build, failures, history, runner, staged
from surefoot.targets.openvino.export import export
from surefoot.targets.openvino.history import History
from surefoot.targets.openvino.pages import PAGE
from surefoot.targets.openvino.staged import StagedSession
from surefoot.testing.conformance import TARGET_CHECKS, check_target

THREAD = Options(threads=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    root = tmp_path_factory.mktemp("openvino")

    def make(variant: str) -> Path:
        out = root / variant
        if not out.exists():
            (long_llama() if variant == "long" else tiny(variant)).save_pretrained(root / f"{variant}-source")
            export(root / f"{variant}-source", out, cache="caller")
        return out

    return make


def fresh(ids: Sequence[int]) -> np.ndarray:
    return np.asarray(expected_logits(long_llama(), list(ids))[-1])


def random_ids(n: int) -> np.ndarray:
    return np.random.default_rng(0).integers(3, 211, n).astype(np.int32)


@pytest.mark.parametrize("check", TARGET_CHECKS)
@pytest.mark.parametrize("variant", ["llama-one-kv-head", "qwen3-tied"])
def test_conformance(variant: str, check: str, folder: Any) -> None:
    check_target(lambda: build(THREAD, folder(variant)), tolerance=1e-3, only=(check,))


def test_caps_say_what_the_cache_is(folder: Any) -> None:
    caps = build(THREAD, folder("llama")).caps
    assert caps.discipline == "staged rows, written after acceptance"
    assert (caps.can_tree, caps.can_pad, caps.row_class) == (True, True, "identical")
    assert (caps.vocab_size, caps.max_length) == (211, 256)
    assert build(Options(threads=1, precision="bf16"), folder("llama")).caps.row_class == "near-tie"


@pytest.mark.parametrize("precision", ["f16", "bf16", "u8"])
def test_a_cache_precision_other_than_its_own_is_refused(precision: str, folder: Any) -> None:
    with pytest.raises(ConfigError, match=f"cache_precision is {precision}.* in 32 bits; leave the option out"):
        build(Options(threads=1, cache_precision=precision), folder("llama"))


def test_a_prompt_over_several_pages_is_one_forward_of_transformers(folder: Any) -> None:
    target, ids = build(THREAD, folder("long")), random_ids(LONG - 10)
    assert len(ids) > 4 * PAGE > 4 * staged.CHUNK
    session, hidden = target.open(("layer.1",)), hidden_states(long_llama(), ids)[2]
    start = len(ids) // 3
    for part, due in ((ids[:start], hidden[:start]), (ids[start:], hidden[start:])):
        scores = session.prefill(part)
        np.testing.assert_allclose(scores.tap("layer.1"), due, atol=2e-3)
    np.testing.assert_allclose(scores.logits(0), fresh(ids), atol=2e-3)
    np.testing.assert_allclose(session.extend(as_ids([7, 8])).logits(1), fresh([*ids, 7, 8]), atol=2e-3)


def test_rows_accepted_across_the_end_of_a_page_are_found_again(folder: Any) -> None:
    session, text = build(THREAD, folder("long")).open(), random_ids(PAGE + 40).tolist()
    session.prefill(as_ids(text[: PAGE - 3]))
    session.extend(as_ids(text[PAGE - 3 : PAGE - 1]))
    session.extend(as_ids(text[PAGE - 1 : PAGE + 4]))
    session.commit(7)
    found = session.extend(as_ids(text[PAGE + 4 : PAGE + 6])).logits(1)
    np.testing.assert_allclose(found, fresh(text[: PAGE + 6]), atol=1e-3)
    session.commit(0)
    session.reset(PAGE - 2)
    # Two branches, of which the second is kept, over the same places.
    session.extend(as_ids([9, 8, 7, 6, 5]), [-1, 0, -1, 2, 3])
    session.commit([2, 3, 4])
    found = session.extend(as_ids([4])).logits(0)
    np.testing.assert_allclose(found, fresh([*text[: PAGE - 2], 7, 6, 5, 4]), atol=1e-3)


def test_taps_are_the_hidden_states_of_transformers(folder: Any) -> None:
    ids, target = as_ids(range(20, 32)), build(THREAD, folder("long"))
    assert target.caps.tap_names == ("embed", "layer.0", "layer.1", "layer.2", "final")
    session = target.open(target.caps.tap_names)
    prompt = session.prefill(ids[:8])
    at = {name: prompt.tap(name) for name in target.caps.tap_names}
    block = session.extend(ids[8:], width=6)
    # transformers gives the last layer's output only after the final norm, so layer.2 has no counterpart there.
    states = hidden_states(long_llama(), ids)
    for name, due in zip(("embed", "layer.0", "layer.1", "final"), states, strict=True):
        np.testing.assert_allclose(np.concatenate([at[name], block.tap(name)]), due, atol=1e-3)


def test_nothing_is_written_before_it_is_accepted(folder: Any) -> None:
    session = build(THREAD, folder("long")).open()
    session.prefill(random_ids(20))
    session.extend(as_ids([5, 6, 7]), width=4)
    session.commit(0)
    before = [array.copy() for array in session._history._arrays]
    session.extend(as_ids([5, 6, 7]), width=5)
    session.extend(as_ids([8, 9]))
    session.commit(0)
    session.extend(as_ids([5, 6, 7]), [-1, -1, 0])
    assert all(np.array_equal(a, b) for a, b in zip(before, session._history._arrays, strict=True))
    session.commit([0, 2])
    for one, other in zip(before, session._history._arrays, strict=True):
        changed = np.unique(np.nonzero(one != other)[3 if one.shape[3] == PAGE else 2])
        assert changed.tolist() == [20, 21]


def test_the_history_grows_by_doubling_and_is_read_as_far_as_it_is_filled(folder: Any) -> None:
    session, sizes = build(THREAD, folder("long")).open(), []
    for part in np.split(random_ids(LONG - LONG % 50), LONG // 50):
        session.prefill(part)
        sizes.append((len(session._history._arrays[0]), session._history._bound))
    assert sorted({pages for pages, _ in sizes}) == [1, 2, 4, 5]
    assert sorted({read for _, read in sizes}) == [1, 2, 3, 4, 5]
    session.reset(10)
    session.extend(as_ids([3]))
    assert session._history._bound == 1


def test_an_interrupt_at_any_line_leaves_the_committed_text(folder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    target = build(THREAD, folder("long"))
    monkeypatch.setattr(staged, "CHUNK", 128)
    known: dict[tuple[int, ...], np.ndarray] = {}

    def row(ids: Sequence[int]) -> np.ndarray:
        return known[tuple(ids)] if tuple(ids) in known else known.setdefault(tuple(ids), fresh(ids))

    # The first block of the script goes over the end of a page.
    script = (("prefill", tuple(random_ids(PAGE - 10)), {}), *TREES)
    modules = [staged, history, runner, blocks, failures]
    assert check_every_line(target, modules, script, row, 1e-3) > 200


def test_a_tail_outlives_an_interrupt_of_the_extend_behind_it(folder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    session, ids = build(THREAD, folder("long")).open(), random_ids(12)
    session.prefill(ids)
    session.extend(as_ids([5, 6]))

    def interrupted(*args: Any, whole: Any = session._runner.forward) -> Any:
        whole(*args)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(session._runner, "forward", interrupted)
        with pytest.raises(KeyboardInterrupt):
            session.extend(as_ids([90, 91, 92]))
    session.commit(2)
    found = session.extend(as_ids([7])).logits(0)
    np.testing.assert_allclose(found, fresh([*ids, 5, 6, 7]), atol=1e-3)


def test_a_failing_runtime_closes_the_session(folder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    session = build(THREAD, folder("llama")).open()
    session.prefill(as_ids(range(4)))

    def broken(*args: Any) -> Any:
        raise RuntimeError("Exception from src/inference\nout of memory")

    monkeypatch.setattr(session._runner, "forward", broken)
    with pytest.raises(TargetError, match="out of memory") as caught:
        session.extend(as_ids([1, 2]))
    assert caught.value.operation == "extend"
    with pytest.raises(TargetError, match="closed"):
        session.commit(0)


def keeps(more: int, patch: pytest.MonkeyPatch) -> None:
    """A commit of one row more than it was asked to, or one less."""
    good = staged.kept_path

    def kept_path(keep: Any, tail: int, parents: Any) -> tuple[int, ...]:
        n = len(good(keep, tail, parents)) + more
        return tuple(range(n)) if 0 <= n <= tail else good(keep, tail, parents)

    patch.setattr(staged, "kept_path", kept_path)


def shows(more: int, patch: pytest.MonkeyPatch) -> None:
    """A forward that sees one row of the history more than are committed, or one less."""
    good = StagedSession._forward

    def forward(self: StagedSession, operation: str, block: Any, scored: int, held: Any) -> Any:
        wrong = replace(held, length=held.length + more) if operation == "extend" else held
        return good(self, operation, block, scored, wrong)

    patch.setattr(StagedSession, "_forward", forward)


def writes(more: int, patch: pytest.MonkeyPatch) -> None:
    """Accepted rows put one place too far on, or too far back."""
    good = History.write

    def write(self: History, start: int, path: Sequence[int], source: Any) -> None:
        self.reserve(start + more + len(path))
        good(self, max(0, start + more), path, source)

    patch.setattr(History, "write", write)


def resets(more: int, patch: pytest.MonkeyPatch) -> None:
    """A reset to one row more than it was asked to, or one less."""
    good = StagedSession.reset

    def reset(self: StagedSession, keep: int = 0) -> None:
        good(self, keep + more if 0 <= keep + more <= self.length else keep)

    patch.setattr(StagedSession, "reset", reset)


@pytest.mark.parametrize("more", [1, -1])
@pytest.mark.parametrize(
    ("fault", "check"),
    [
        (keeps, "rejected_rows_leave_nothing"),
        (keeps, "random_walk"),
        (shows, "rejected_rows_leave_nothing"),
        (shows, "random_walk"),
        (writes, "rejected_rows_leave_nothing"),
        (writes, "random_walk"),
        (resets, "resets"),
    ],
)
def test_planted_counts_off_by_one_are_caught(
    fault: Any, check: str, more: int, folder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = build(Options(threads=1, ctx_size=200), folder("llama"))
    suite = partial(check_target, lambda: target, tolerance=1e-3, only=(check,))
    suite()
    fault(more, monkeypatch)
    with pytest.raises(AssertionError, match=r"differs from a fresh prefill|length is"):
        suite()
