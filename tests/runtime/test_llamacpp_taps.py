"""The hidden states that llama.cpp gives out: those of transformers, and no bit of the text is another for them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from interrupts import CHAINS, check_every_line

import tiny_gguf
from surefoot.core import blocks
from surefoot.core.errors import LawError, NotEligible, TargetError
from surefoot.core.types import Ids, as_ids
from surefoot.targets.llamacpp import Options, build, runtime, session
from surefoot.targets.llamacpp.session import LlamacppSession
from surefoot.targets.llamacpp.settings import MAX_ROWS
from surefoot.targets.llamacpp.target import LlamacppTarget
from surefoot.testing.references import fresh_logits

pytest.importorskip("xllamacpp", reason="the llamacpp extra is not installed")
EXACT: dict[str, Any] = {"threads": 1, "flash_attn": "off", "cache_type_k": "f32", "cache_type_v": "f32"}
LONG = 2 * MAX_ROWS + 1
"""Tokens of a prompt whose hidden states are read in three parts, the last of one token; without a tap in one."""


def make(folder: Path, kind: str = "F32", change: Any = None, **options: Any) -> LlamacppTarget:
    # K-quants want a wide model.
    file = tiny_gguf.write(
        folder / "tiny.gguf", kind=kind, context=400, width=256 if "_K" in kind else 64, change=change
    )
    return build(Options(**{"threads": 1, **options}), file)


def random_ids(n: int, seed: int = 0) -> Ids:
    return np.random.default_rng(seed).integers(0, 300, n).astype(np.int32)


def last_pooled(writer: Any) -> None:
    """A file that says that its hidden states are to be summed up in the last one, as those for retrieval do."""
    import gguf

    writer.add_pooling_type(gguf.PoolingType.LAST)


def hidden_states(file: Path, ids: Ids) -> np.ndarray:
    """(n, D) of what enters the head, by transformers from the same file."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    load = transformers.AutoModel.from_pretrained
    model = load(file.parent, gguf_file=file.name, dtype=torch.float32)
    with torch.no_grad():
        states: np.ndarray = model(torch.tensor([ids.tolist()])).last_hidden_state[0].numpy()
    return states


@pytest.mark.parametrize("change", [None, last_pooled], ids=["as written", "a model for retrieval"])
def test_the_tap_is_the_hidden_state_of_transformers(change: Any, tmp_path: Path) -> None:
    target = make(tmp_path, change=change, **EXACT)
    assert target.caps.tap_names == ("final",)
    ids = random_ids(9 + LONG + 20)
    prompt, rest = ids[: 9 + LONG], ids[9 + LONG :]
    opened = target.open(("final",))
    found = [opened.prefill(prompt[:9]).tap("final"), opened.prefill(prompt[9:]).tap("final")]
    assert [len(part) for part in found] == [9, LONG]
    found += [opened.extend(rest[:8]).tap("final").copy()]
    found += [opened.extend(rest[8:], width=20).tap("final")]
    due = hidden_states(tmp_path / "tiny.gguf", ids)
    assert np.abs(np.concatenate(found) - due).max() < 1e-3 * due.std()


def written(opened: LlamacppSession, n: int) -> list[np.ndarray]:
    """The rows of two prompts of n tokens, and of blocks of one and several rows behind each."""
    rows = []
    for seed in range(2):
        rows.append(opened.prefill(random_ids(n, seed)).logits(0).copy())
        for width in (1, 2, 5, 7):
            scores = opened.extend(random_ids(width, width))
            rows += [scores.logits(row).copy() for row in range(width)]
            opened.commit(width - 1)
    return rows


@pytest.mark.parametrize("kind", ["F32", "F16", "Q8_0", "Q4_0", "Q4_K"])
@pytest.mark.parametrize("n", [30, LONG])
def test_a_tap_changes_no_bit_during_a_session_or_in_the_next(kind: str, n: int, tmp_path: Path) -> None:
    """Also where other numbers of rows give other bits: what stays in the cache comes from the forwards of no tap."""
    target = make(tmp_path, kind)
    due = written(target.open(), n)
    tapped = target.open(("final",))
    context = tapped._context
    check_same(written(tapped, n), due)
    tapped.close()
    again = target.open()
    assert again._context is context
    check_same(written(again, n), due)


def check_same(found: list[np.ndarray], due: list[np.ndarray]) -> None:
    assert [np.array_equal(row, wanted) for row, wanted in zip(found, due, strict=True)] == [True] * len(due)


def test_no_more_rows_are_scored_at_a_time_than_logits_are_reserved_for(tmp_path: Path) -> None:
    """llama.cpp would end the process; and a long prompt's logits would fill the memory."""
    opened = make(tmp_path).open(("final",))
    assert opened.prefill(random_ids(LONG)).tap("final").shape == (LONG, 64)
    assert max(rows for _, rows, _ in opened._context._views) == MAX_ROWS


def test_hidden_states_of_a_block_are_read_only_and_are_not_copied(tmp_path: Path) -> None:
    scores = make(tmp_path).open(("final",)).extend(random_ids(3))
    assert np.shares_memory(scores.tap("final"), scores.tap("final"))
    with pytest.raises(ValueError, match="read-only"):
        scores.tap("final")[0] = 1


def test_other_taps_are_refused_and_those_not_asked_for_are_not_there(tmp_path: Path) -> None:
    target = make(tmp_path)
    with pytest.raises(NotEligible, match=r"no tap 'layer\.0'; on llama\.cpp it has final"):
        target.open(("final", "layer.0"))
    with pytest.raises(LawError, match="not asked for"):
        target.open().prefill(as_ids([1])).tap("final")


def test_no_tap_is_offered_where_several_streams_come_out(tmp_path: Path) -> None:
    target = make(tmp_path, change=lambda writer: writer.add_uint32("llama.embedding_length_out", 128))
    assert target.caps.tap_names == ()
    with pytest.raises(NotEligible, match="it has none"):
        target.open(("final",))


class Tapped:
    """A target each of whose sessions has the tap."""

    def __init__(self, target: LlamacppTarget) -> None:
        self._target = target

    def open(self) -> LlamacppSession:
        return self._target.open(("final",))


def test_an_interrupt_at_any_line_leaves_the_committed_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = make(tmp_path, **EXACT)
    target._chunk = 4
    monkeypatch.setattr(session, "MAX_ROWS", 4)
    known: dict[tuple[int, ...], np.ndarray] = {}

    def fresh(ids: Sequence[int]) -> np.ndarray:
        if tuple(ids) not in known:
            known[tuple(ids)] = np.array(fresh_logits(target, list(ids)))
        return known[tuple(ids)]

    assert check_every_line(Tapped(target), [session, runtime, blocks], CHAINS, fresh, 1e-3) > 250


def test_a_failure_to_give_hidden_states_closes_the_session(tmp_path: Path) -> None:
    opened = make(tmp_path).open(("final",))
    opened._context.give_hidden = lambda given: None  # type: ignore[method-assign]
    with pytest.raises(TargetError, match=r"failed in prefill of 5 tokens behind 0: llama\.cpp gave no result"):
        opened.prefill(random_ids(5))
    with pytest.raises(TargetError, match="closed session"):
        opened.extend(as_ids([1]))
