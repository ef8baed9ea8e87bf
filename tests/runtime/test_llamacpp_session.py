"""One llama.cpp sequence: long prompts in parts, sessions side by side, an interrupt at any line, planted slips."""

from __future__ import annotations

import gc
import threading
import tracemalloc
import weakref
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from interrupts import CHAINS, check_every_line

import tiny_gguf
from surefoot.core import blocks
from surefoot.core.errors import TargetError
from surefoot.core.types import as_ids
from surefoot.targets.llamacpp import Options, build, runtime, session
from surefoot.targets.llamacpp.runtime import Context
from surefoot.targets.llamacpp.session import LlamacppSession
from surefoot.targets.llamacpp.target import LlamacppTarget
from surefoot.testing.conformance import check_target
from surefoot.testing.references import fresh_logits

pytest.importorskip("xllamacpp", reason="the llamacpp extra is not installed")
EXACT = {"threads": 1, "flash_attn": "off", "cache_type_k": "f32", "cache_type_v": "f32"}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gguf")
    tiny_gguf.write(folder / "llama.gguf", "llama", context=600)
    tiny_gguf.write(folder / "gemma3.gguf", "gemma3", context=600, layers=7)
    return folder


def make(models: Path, name: str = "llama", **options: Any) -> LlamacppTarget:
    return build(Options(**{**EXACT, **options}), models / f"{name}.gguf")


def random_ids(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 300, n).astype(np.int32)


@pytest.mark.parametrize("name", ["llama", "gemma3"])
def test_a_prompt_in_parts_is_the_same_as_in_one(name: str, models: Path) -> None:
    """gemma3 slides: seven layers of a window of eight tokens, of which the sixth sees everything."""
    ids = random_ids(500)
    whole = make(models, name).open().prefill(ids).logits(0).copy()
    parts = make(models, name, ubatch=64).open()
    parts.prefill(ids[:100])
    np.testing.assert_allclose(parts.prefill(ids[100:]).logits(0), whole, atol=1e-3)
    single = make(models, name).open()
    single.prefill(ids[:490])
    rows = [single.extend(ids[at : at + 1]).logits(0).copy() for at in range(490, 500)]
    np.testing.assert_allclose(rows[-1], whole, atol=1e-3)
    single.reset(490)
    np.testing.assert_allclose(single.extend(ids[490:]).logits(3), rows[3], atol=1e-3)


def test_rejected_rows_behind_a_window_come_back_to_nothing(models: Path) -> None:
    """Drafts longer than the window are rejected: the rows before them must still be seen."""
    target = make(models, "gemma3")
    ids = random_ids(60)
    probe = target.open()
    probe.prefill(ids)
    for seed in range(4):
        probe.extend(random_ids(3 * tiny_gguf.WINDOW, seed))
        probe.commit(1)
        ids = np.append(ids, random_ids(3 * tiny_gguf.WINDOW, seed)[0])
    row = probe.extend(as_ids([5])).logits(0)
    assert np.abs(row - fresh_logits(target, [*ids.tolist(), 5])).max() < 1e-3


def test_sessions_share_the_weights_and_nothing_else(models: Path) -> None:
    target = make(models)
    one, two = target.open(), target.open()
    ids = random_ids(40)
    due = one.prefill(ids).logits(0).copy()
    two.prefill(random_ids(90, 1))
    assert np.array_equal(target.open().prefill(ids).logits(0), due)
    one.close()
    # The context of the closed session is used again, and holds nothing of it.
    three = target.open()
    assert np.array_equal(three.prefill(ids).logits(0), due)
    assert two.length == 90


def test_two_threads_write_at_once_what_each_writes_alone(models: Path) -> None:
    target = make(models, threads=2)
    prompts = [random_ids(30, seed) for seed in range(2)]

    def written(ids: np.ndarray, start: threading.Barrier) -> list[int]:
        session = target.open()
        start.wait()
        scores, found = session.prefill(ids), list[int]()
        for _ in range(150):
            found.append(int(scores.argmax()[0]))
            scores = session.extend(as_ids([found[-1]]))
            session.commit(1)
        session.close()
        return found

    alone = [written(ids, threading.Barrier(1)) for ids in prompts]
    assert alone[0] != alone[1]
    together = threading.Barrier(2)
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(written, prompts, [together] * 2)) == alone


def test_views_of_logits_are_read_only_and_are_not_copied(models: Path) -> None:
    scores = make(models).open().prefill(random_ids(9))
    row = scores.logits(0)
    assert np.shares_memory(row, scores.logits(0))
    with pytest.raises(ValueError, match="read-only"):
        row[0] = 1


def test_a_model_that_nobody_holds_is_freed_and_a_view_of_its_logits_keeps_it(models: Path) -> None:
    target = make(models)
    freed = weakref.ref(target.weights)
    session = target.open()
    session.prefill(as_ids([1, 2]))
    view = session.extend(as_ids([3, 4])).logits(1)
    due = view.copy()
    session.close()
    del session, target
    gc.collect()
    assert freed() is not None
    np.testing.assert_array_equal(view, due)
    del view
    gc.collect()
    assert freed() is None


@pytest.mark.parametrize("taps", [(), ("final",)], ids=["logits", "hidden states too"])
def test_results_never_move_in_memory(taps: tuple[str, ...], models: Path) -> None:
    """A view that somebody still holds shows other numbers after the next forward, but never memory that is gone."""
    target = make(models)
    places = set()
    for rows in (1, 2, 7, 48, 3):
        session = target.open(taps)
        places.add(session.prefill(random_ids(20)).logits(0).ctypes.data)
        places.add(session.extend(random_ids(rows)).logits(0).ctypes.data)
        session.close()
    assert len(places) == 1


def test_an_interrupt_at_any_line_leaves_the_committed_text(models: Path) -> None:
    target = make(models, ubatch=64)
    target._chunk = 4
    known: dict[tuple[int, ...], np.ndarray] = {}

    def fresh(ids: Sequence[int]) -> np.ndarray:
        if tuple(ids) not in known:
            known[tuple(ids)] = np.array(fresh_logits(target, list(ids)))
        return known[tuple(ids)]

    assert check_every_line(target, [session, runtime, blocks], CHAINS, fresh, 1e-3) > 150


def test_the_largest_logits_are_found_where_they_lie(models: Path) -> None:
    """numpy would copy an array that is not writable, and the whole vocabulary with it, in every round."""
    target = make(models)
    scores = target.open().prefill(random_ids(3))
    tracemalloc.start()
    try:
        scores.argmax()
        assert tracemalloc.get_traced_memory()[1] < 4 * target.caps.vocab_size
    finally:
        tracemalloc.stop()


def test_a_failing_forward_closes_the_session_and_leaves_the_others(models: Path) -> None:
    target = make(models)
    one, two = target.open(), target.open()
    for each in (one, two):
        each.prefill(random_ids(5))
    one._context.forward = partial(_refused, one._context)  # type: ignore[method-assign]
    with pytest.raises(TargetError, match=r"failed in extend of 2 tokens behind 5: llama\.cpp was given nothing"):
        one.extend(as_ids([1, 2]))
    with pytest.raises(TargetError, match="closed session"):
        one.extend(as_ids([1]))
    one.close()
    assert two.extend(as_ids([1])).rows == 1


def _refused(context: Context, ids: Any, start: int, scored: int) -> Any:
    raise RuntimeError("llama.cpp was given nothing")


def commits(more: int) -> Any:
    """A commit that keeps one row more of the tail than it was asked to, or one less."""
    good = LlamacppSession.commit

    def commit(self: LlamacppSession, keep: int | Sequence[int]) -> None:
        n = (keep if isinstance(keep, int) else len(keep)) + more
        good(self, n if 0 <= n <= self._held[1] else keep)

    return commit


def cuts(more: int) -> Any:
    """A removal that begins one position too late, or too early."""
    good = Context.cut
    return lambda self, start: good(self, max(1, start + more))


@pytest.mark.parametrize("more", [1, -1])
@pytest.mark.parametrize(
    ("owner", "verb", "fault"), [(LlamacppSession, "commit", commits), (Context, "cut", cuts)], ids=["commit", "cut"]
)
@pytest.mark.parametrize("check", ["rejected_rows_leave_nothing", "random_walk"])
def test_planted_kept_counts_off_by_one_are_caught(
    owner: type, verb: str, fault: Any, check: str, more: int, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = make(models, ctx_size=200)
    suite = partial(check_target, lambda: target, tolerance=1e-3, only=(check,))
    suite()
    monkeypatch.setattr(owner, verb, fault(more))
    with pytest.raises((AssertionError, TargetError)):
        suite()
