"""The transformers target on real tiny models: every row equals that of a fresh prefill, whatever happened before."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import hf_tiny
import numpy as np
import pytest

from surefoot.core.errors import CapacityError, ConfigError, LawError, NotEligible, TargetError
from surefoot.core.types import as_ids
from surefoot.targets.hf import PLUGIN, Options, cache
from surefoot.targets.hf.session import HfSession
from surefoot.testing.conformance import check_target

pytest.importorskip("torch", reason="the transformers target needs torch")
pytest.importorskip("transformers", reason="the transformers target needs transformers")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("hf")
    return {family: hf_tiny.write(root / family, hf_tiny.config(family)) for family in hf_tiny.FAMILIES}


@pytest.fixture(scope="module")
def targets(folders: dict[str, Path]) -> dict[str, Any]:
    import torch

    torch.set_num_threads(1)
    return {family: PLUGIN.build(Options(), folder) for family, folder in folders.items()}


@pytest.fixture
def llama(targets: dict[str, Any]) -> Any:
    return targets["llama"]


@pytest.fixture
def torch_model(llama: Any) -> Any:
    """The module behind the llama target, to plant faults in."""
    return llama._runner.model


def ids_of(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.integers(0, hf_tiny.VOCAB, n).astype(np.int32)


def fresh_row(target: Any, ids: np.ndarray) -> np.ndarray:
    session = target.open()
    row = session.prefill(ids).logits(0)
    session.close()
    return row


def assert_same(row: np.ndarray, expected: np.ndarray) -> None:
    assert np.abs(row - expected).max() < hf_tiny.TOLERANCE
    top = np.sort(expected)[-2:]
    if top[1] - top[0] > 2 * hf_tiny.TOLERANCE:
        assert row.argmax() == expected.argmax()


def hooks_of(model: Any) -> int:
    """How many hooks hang in the model, transformers' own ones included."""
    return sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules())


def random_tree(rng: np.random.Generator, rows: int) -> list[int]:
    return [-1, *(int(rng.integers(-1, row)) for row in range(1, rows))]


def path_to(parents: list[int], row: int) -> list[int]:
    path = []
    while row >= 0:
        path.append(row)
        row = parents[row]
    return path[::-1]


class TestMixes:
    """A1: after any mix of verbs, rows are those of a fresh prefill of the committed ids."""

    @pytest.mark.parametrize("family", hf_tiny.FAMILIES)
    @pytest.mark.parametrize("seed", range(2))
    def test_any_mix_of_verbs_leaves_no_trace(self, targets: dict[str, Any], family: str, seed: int) -> None:
        target, rng = targets[family], np.random.default_rng(seed)
        session = target.open()
        committed = ids_of(rng, int(rng.integers(1, 12)))
        session.prefill(committed)
        for _ in range(8):
            kept = self.play(target, session, rng, committed)
            committed = kept
            assert session.length == len(committed)
            probe = ids_of(rng, 1)
            row = session.extend(probe).logits(0)
            session.commit(0)
            assert_same(row, fresh_row(target, np.concatenate([committed, probe])))

    def play(self, target: Any, session: Any, rng: np.random.Generator, committed: np.ndarray) -> np.ndarray:
        """One random turn; the ids that are committed after it."""
        kind = rng.choice(["chain", "chains", "tree", "prefill", "reset"])
        if kind == "reset":
            keep = int(rng.integers(1, len(committed) + 1))
            session.extend(ids_of(rng, 2))
            session.reset(keep)
            return committed[:keep]
        if kind == "prefill":
            more = ids_of(rng, int(rng.integers(1, 4)))
            session.prefill(more)
            return np.concatenate([committed, more])
        if kind == "tree" and target.caps.can_tree:
            block = ids_of(rng, 6)
            parents = random_tree(rng, 6)
            session.extend(block, parents, width=int(rng.integers(6, 9)))
            path = path_to(parents, int(rng.integers(0, 6)))
            path = path[: int(rng.integers(0, len(path) + 1))]
            session.commit(path)
            return np.concatenate([committed, block[path]])
        blocks = [ids_of(rng, int(rng.integers(1, 5))) for _ in range(1 if kind == "chain" else 3)]
        for block in blocks:
            wide = len(block) + int(rng.integers(0, 3)) if target.caps.can_pad else None
            session.extend(block, width=wide)
        tail = np.concatenate(blocks)
        keep = int(rng.integers(0, len(tail) + 1))
        session.commit(keep if rng.random() < 0.5 else list(range(keep)))
        return np.concatenate([committed, tail[:keep]])

    @pytest.mark.parametrize("family", hf_tiny.FAMILIES)
    def test_every_row_of_a_block_is_that_of_a_fresh_prefill(self, targets: dict[str, Any], family: str) -> None:
        target, rng = targets[family], np.random.default_rng(3)
        prompt, block = ids_of(rng, 11), ids_of(rng, 9)
        session = target.open()
        assert_same(session.prefill(prompt).logits(0), fresh_row(target, prompt))
        scores = session.extend(block)
        assert scores.rows == scores.width == 9
        for row in range(9):
            expected = fresh_row(target, np.concatenate([prompt, block[: row + 1]]))
            assert_same(scores.logits(row), expected)
            assert scores.argmax()[row] == expected.argmax()

    def test_an_extend_before_any_prefill_starts_the_sequence(self, llama: Any) -> None:
        session = llama.open()
        block = as_ids([3, 4, 5])
        assert_same(session.extend(block).logits(2), fresh_row(llama, block))
        session.commit(2)
        assert_same(session.extend(as_ids([9])).logits(0), fresh_row(llama, as_ids([3, 4, 9])))

    def test_sessions_of_one_target_do_not_touch_each_other(self, llama: Any) -> None:
        one, two = llama.open(), llama.open(taps=("final",))
        scores = one.prefill(as_ids([1, 2, 3]))
        two.prefill(as_ids([9, 8]))
        two.extend(as_ids([7, 6]))
        two.close()
        assert_same(scores.logits(0), fresh_row(llama, as_ids([1, 2, 3])))
        assert_same(one.extend(as_ids([4])).logits(0), fresh_row(llama, as_ids([1, 2, 3, 4])))


class TestTrees:
    @pytest.mark.parametrize("family", [f for f in hf_tiny.FAMILIES if f not in hf_tiny.WITHOUT_TREES])
    @pytest.mark.parametrize("committed", [3, 17])
    def test_tree_rows_equal_separate_chains(self, targets: dict[str, Any], family: str, committed: int) -> None:
        target, rng = targets[family], np.random.default_rng(committed)
        assert target.caps.can_tree
        prompt, block = ids_of(rng, committed), ids_of(rng, 10)
        # Deep enough that a window of five hides ancestors too.
        parents = [-1, 0, 1, 2, 3, 4, -1, 6, 1, 8]
        session = target.open()
        session.prefill(prompt)
        scores = session.extend(block, parents)
        for row in range(10):
            chain = block[path_to(parents, row)]
            assert_same(scores.logits(row), fresh_row(target, np.concatenate([prompt, chain])))

    @pytest.mark.parametrize("family", hf_tiny.WITHOUT_TREES)
    def test_a_model_that_cannot_mask_trees_says_so_and_refuses_them(
        self, targets: dict[str, Any], family: str
    ) -> None:
        assert not targets[family].caps.can_tree
        session = targets[family].open()
        session.prefill(as_ids([1, 2]))
        with pytest.raises(LawError, match="can_tree"):
            session.extend(as_ids([3, 4]), parents=[-1, -1])

    def test_eager_attention_takes_trees_too(self, folders: dict[str, Path]) -> None:
        target = PLUGIN.build(Options(attn="eager"), folders["qwen2"])
        assert target.caps.settings["attention"] == "eager"
        self.test_tree_rows_equal_separate_chains({"qwen2": target}, "qwen2", 17)

    @pytest.mark.parametrize("keep", [[1], [0, 2], [0, 1, 2], [2, 0], [0, 0], [3], [-1], 2])
    def test_only_a_path_from_the_root_can_be_kept(self, llama: Any, keep: Any) -> None:
        session = llama.open()
        session.prefill(as_ids([1, 2]))
        session.extend(as_ids([3, 4, 5]), parents=[-1, -1, 1])
        if keep == [1]:
            session.commit(keep)
            assert session.length == 3
            return
        with pytest.raises(LawError):
            session.commit(keep)
        session.commit([1, 2])
        assert_same(session.extend(as_ids([6])).logits(0), fresh_row(llama, as_ids([1, 2, 4, 5, 6])))

    def test_a_tree_is_the_only_extend_before_its_commit(self, llama: Any) -> None:
        session = llama.open()
        session.prefill(as_ids([1, 2]))
        session.extend(as_ids([3]))
        with pytest.raises(LawError, match="only extend"):
            session.extend(as_ids([4]), parents=[-1])
        session.commit(0)
        session.extend(as_ids([4]), parents=[-1])
        with pytest.raises(LawError, match="only extend"):
            session.extend(as_ids([3]))

    @pytest.mark.parametrize("parents", [[-1], [0, -1], [-1, 1], [-1, -2]])
    def test_parents_stand_before_their_children(self, llama: Any, parents: list[int]) -> None:
        session = llama.open()
        session.prefill(as_ids([1]))
        with pytest.raises(LawError):
            session.extend(as_ids([2, 3]), parents=parents)


class TestWidths:
    @pytest.mark.parametrize("family", hf_tiny.FAMILIES)
    def test_padding_cannot_be_seen(self, targets: dict[str, Any], family: str) -> None:
        target = targets[family]
        if not target.caps.can_pad:
            with pytest.raises(LawError, match="can_pad"):
                target.open().extend(as_ids([1]), width=2)
            return
        prompt, block = as_ids(range(10)), as_ids([11, 12, 13])
        plain, padded = target.open(), target.open()
        plain.prefill(prompt), padded.prefill(prompt)
        for keep in (2, 0, 3):
            one, two = plain.extend(block), padded.extend(block, width=8)
            assert (two.rows, two.width) == (3, 8)
            assert len(two.argmax()) == 3
            for row in range(3):
                assert_same(two.logits(row), one.logits(row))
            plain.commit(keep), padded.commit(keep)
            assert plain.length == padded.length

    def test_padding_may_hang_over_the_end_of_the_context(self, targets: dict[str, Any]) -> None:
        for family in ("gpt2", "opt", "llama"):
            target = targets[family]
            prompt = as_ids(np.arange(hf_tiny.CONTEXT - 2) % hf_tiny.VOCAB)
            session = target.open()
            session.prefill(prompt)
            scores = session.extend(as_ids([5, 6]), width=8)
            assert_same(scores.logits(1), fresh_row(target, np.concatenate([prompt, as_ids([5, 6])])))
            session.commit(2)
            assert session.length == hf_tiny.CONTEXT

    def test_a_row_is_never_read_past_the_block(self, llama: Any) -> None:
        scores = llama.open().extend(as_ids([1, 2]), width=4)
        for row in (2, -1):
            with pytest.raises(LawError, match="row"):
                scores.logits(row)

    def test_a_width_under_the_rows_is_refused(self, llama: Any) -> None:
        with pytest.raises(LawError, match="width"):
            llama.open().extend(as_ids([1, 2]), width=1)


class TestTaps:
    @pytest.mark.parametrize("family", hf_tiny.FAMILIES)
    def test_taps_are_the_hidden_states_of_transformers(self, targets: dict[str, Any], family: str) -> None:
        import torch

        target = targets[family]
        model, ids = target._runner.model, as_ids([5, 6, 7, 8, 9, 10, 11, 12])
        with torch.inference_mode():
            expected = model(torch.tensor(ids[None].astype(np.int64)), output_hidden_states=True).hidden_states
        names = target.caps.tap_names
        assert names == ("embed", "layer.0", "layer.1", "layer.2", "layer.3", "final")
        session = target.open(taps=names)
        prompt = session.prefill(ids[:5])
        at = {name: prompt.tap(name).clone() for name in names}
        block = session.extend(ids[5:], width=6 if target.caps.can_pad else None)
        # transformers gives the last layer's output only after the final norm, so layer.3 has no counterpart there.
        for name, states in zip(("embed", "layer.0", "layer.1", "layer.2", "final"), expected, strict=True):
            assert at[name].shape == (5, 32)
            assert block.tap(name).shape == (3, 32)
            both = torch.cat([at[name], block.tap(name)])
            assert float((both - states[0]).abs().max()) < hf_tiny.TOLERANCE

    def test_hooks_are_gone_after_each_forward(self, llama: Any, torch_model: Any) -> None:
        before = hooks_of(torch_model)
        session = llama.open(taps=("embed", "layer.1", "final"))
        session.prefill(as_ids([1, 2]))
        assert hooks_of(torch_model) == before

    def test_a_forward_of_another_session_in_another_thread_is_not_recorded(self, llama: Any, torch_model: Any) -> None:
        expected = llama.open(taps=("layer.0",)).prefill(as_ids([1, 2, 3])).tap("layer.0").clone()
        other = llama.open()

        def meanwhile(*_: Any) -> None:
            handle.remove()
            thread = threading.Thread(target=other.prefill, args=(as_ids([7, 8]),))
            thread.start()
            thread.join()

        handle = torch_model.model.layers[2].register_forward_hook(meanwhile)
        tapped = llama.open(taps=("layer.0",)).prefill(as_ids([1, 2, 3])).tap("layer.0")
        assert other.length == 2
        assert tapped.shape == expected.shape
        assert float((tapped - expected).abs().max()) < hf_tiny.TOLERANCE

    def test_a_tap_nobody_asked_for_is_refused(self, llama: Any) -> None:
        scores = llama.open(taps=("final",)).prefill(as_ids([1]))
        with pytest.raises(LawError, match=r"layer\.0"):
            scores.tap("layer.0")

    def test_an_unknown_tap_is_not_eligible(self, llama: Any) -> None:
        with pytest.raises(NotEligible, match=r"layer\.99"):
            llama.open(taps=("layer.99",))


class TestGreedy:
    @pytest.mark.parametrize("family", hf_tiny.FAMILIES)
    def test_plain_decoding_is_transformers_own_generate(
        self, targets: dict[str, Any], folders: dict[str, Path], family: str
    ) -> None:
        import torch
        from transformers import AutoModelForCausalLM

        prompt = as_ids([3, 1, 4, 1, 5, 9, 2, 6])
        model = AutoModelForCausalLM.from_pretrained(folders[family], dtype=torch.float32).eval()
        expected = model.generate(torch.tensor(prompt[None].astype(np.int64)), do_sample=False, max_new_tokens=30)
        session = targets[family].open()
        written = [int(session.prefill(prompt).argmax()[0])]
        while len(written) < 30:
            scores = session.extend(as_ids(written[-1:]))
            written.append(int(scores.argmax()[0]))
            session.commit(1)
        assert written == expected[0, len(prompt) :].tolist()

    def test_the_first_index_wins_a_tie(self, llama: Any, torch_model: Any) -> None:
        """Two equal columns in the head give equal logits in every row."""
        import torch

        head = torch_model.get_output_embeddings().weight
        saved = head.detach().clone()
        try:
            with torch.no_grad():
                winner = int(llama.open().prefill(as_ids([1, 2])).argmax()[0])
                head[:] = 0.0
                head[[90, 40, winner]] = saved[winner]
            row = llama.open().prefill(as_ids([1, 2]))
            assert row.logits(0)[90] == row.logits(0)[40] == row.logits(0).max()
            assert row.argmax()[0] == min(40, winner)
        finally:
            with torch.no_grad():
                head[:] = saved


class TestScores:
    def test_a_prefill_computes_the_logits_of_its_last_row_only(self, llama: Any, torch_model: Any) -> None:
        rows = []
        handle = torch_model.lm_head.register_forward_hook(lambda _, __, logits: rows.append(logits.shape[1]))
        session = llama.open()
        session.prefill(as_ids([1, 2, 3, 4, 5]))
        session.extend(as_ids([6, 7]))
        handle.remove()
        assert rows == [1, 2]

    def test_reading_after_the_session_moved_on_is_an_error(self, llama: Any) -> None:
        session = llama.open()
        moves = (
            lambda: session.prefill(as_ids([4])),
            lambda: session.extend(as_ids([4])),
            lambda: session.reset(0),
            lambda: session.close(),
        )
        for move in moves:
            session.commit(0)
            scores = session.extend(as_ids([1, 2]))
            session.commit(1)
            assert len(scores.argmax()) == 2
            assert scores.logits(1).dtype == np.float32
            move()
            with pytest.raises(LawError, match="after their session's next"):
                scores.argmax()

    def test_logits_cannot_be_written_to(self, llama: Any) -> None:
        row = llama.open().prefill(as_ids([1])).logits(0)
        with pytest.raises(ValueError, match="read-only"):
            row[0] = 1.0

    def test_argmax_is_int32(self, llama: Any) -> None:
        assert llama.open().prefill(as_ids([1])).argmax().dtype == np.int32


class TestLimits:
    def test_the_context_is_filled_to_the_last_token_and_not_further(self, llama: Any) -> None:
        assert llama.caps.max_length == hf_tiny.CONTEXT
        session = llama.open()
        session.prefill(as_ids([1] * (hf_tiny.CONTEXT - 2)))
        with pytest.raises(CapacityError, match="context of 64"):
            session.extend(as_ids([1, 2, 3]))
        session.extend(as_ids([1, 2]))
        with pytest.raises(CapacityError):
            session.extend(as_ids([1]))
        session.commit(2)
        with pytest.raises(CapacityError):
            session.prefill(as_ids([1]))

    def test_more_rows_than_max_rows_are_refused(self, folders: dict[str, Path]) -> None:
        target = PLUGIN.build(Options(ctx_size=16), folders["llama"])
        assert target.caps.max_rows == 16
        with pytest.raises(CapacityError, match="17 rows"):
            target.open().extend(as_ids([1]), width=17)

    @pytest.mark.parametrize("wrong", [-1, hf_tiny.VOCAB, 10**6])
    def test_an_id_outside_the_vocabulary_is_refused_before_the_runtime_sees_it(self, llama: Any, wrong: int) -> None:
        session = llama.open()
        session.prefill(as_ids([1, 2]))
        with pytest.raises(ConfigError, match=f"token id {wrong}"):
            session.extend(as_ids([3, wrong]))
        assert_same(session.extend(as_ids([3])).logits(0), fresh_row(llama, as_ids([1, 2, 3])))

    def test_misuse_of_the_verbs_is_an_error_and_changes_nothing(self, llama: Any) -> None:
        session = llama.open()
        session.prefill(as_ids([1, 2]))
        session.extend(as_ids([3]))
        for misuse in (
            lambda: session.prefill(as_ids([4])),
            lambda: session.extend(as_ids([])),
            lambda: session.commit(2),
            lambda: session.commit(-1),
            lambda: session.reset(3),
            lambda: session.reset(-1),
        ):
            with pytest.raises(LawError):
                misuse()
        session.commit(1)
        with pytest.raises(LawError):
            session.prefill(as_ids([]))
        assert session.length == 3
        assert_same(session.extend(as_ids([4])).logits(0), fresh_row(llama, as_ids([1, 2, 3, 4])))

    def test_every_verb_after_close_says_that_the_session_is_closed(self, llama: Any) -> None:
        session = llama.open()
        session.prefill(as_ids([1]))
        session.close()
        session.close()
        for verb in (
            lambda: session.prefill(as_ids([1])),
            lambda: session.extend(as_ids([1])),
            lambda: session.commit(0),
            lambda: session.reset(),
        ):
            with pytest.raises(TargetError, match="closed session"):
                verb()


class TestFaults:
    """A9: whatever breaks off a forward, the session is usable at its last committed length, or closed."""

    @staticmethod
    def plant(module: Any, fault: BaseException) -> Any:
        def raise_it(*_: Any) -> None:
            raise fault

        return module.register_forward_hook(raise_it)

    @pytest.mark.parametrize("layer", [0, 2, 3])
    @pytest.mark.parametrize("place", ["layer", "keys"])
    @pytest.mark.parametrize("verb", ["prefill", "extend", "second extend", "tree"])
    def test_an_interrupt_leaves_the_last_committed_state(
        self, llama: Any, torch_model: Any, layer: int, place: str, verb: str
    ) -> None:
        session = llama.open()
        session.prefill(as_ids([1, 2, 3]))
        if verb == "second extend":
            session.extend(as_ids([8, 9]))
        whole = torch_model.model.layers[layer]
        handle = self.plant(whole if place == "layer" else whole.self_attn.v_proj, KeyboardInterrupt())
        parents = [-1, -1] if verb == "tree" else None
        call = session.prefill if verb == "prefill" else partial(session.extend, parents=parents)
        with pytest.raises(KeyboardInterrupt):
            call(as_ids([5, 6]))
        handle.remove()
        assert session.length == 3
        assert_same(session.extend(as_ids([4, 5])).logits(1), fresh_row(llama, as_ids([1, 2, 3, 4, 5])))
        session.commit(1)
        assert_same(session.prefill(as_ids([6])).logits(0), fresh_row(llama, as_ids([1, 2, 3, 4, 6])))

    def test_an_interrupt_between_keys_and_values_of_a_layer_is_repaired(self, llama: Any) -> None:
        session = llama.open()
        session.prefill(as_ids([1, 2, 3]))
        layer = session._cache.layers[1]
        original = layer.update

        def half(key_states: Any, value_states: Any, *args: Any, **kwargs: Any) -> None:
            values = layer.values
            original(key_states, value_states, *args, **kwargs)
            layer.values = values
            raise KeyboardInterrupt

        layer.update = half
        with pytest.raises(KeyboardInterrupt):
            session.extend(as_ids([5, 6]))
        layer.update = original
        assert_same(session.extend(as_ids([4])).logits(0), fresh_row(llama, as_ids([1, 2, 3, 4])))

    def test_an_interrupt_in_the_first_prefill_leaves_an_empty_session(self, llama: Any, torch_model: Any) -> None:
        session = llama.open()
        handle = self.plant(torch_model.model.layers[1], KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            session.prefill(as_ids([5, 6, 7]))
        handle.remove()
        assert session.length == 0
        assert_same(session.prefill(as_ids([1, 2])).logits(0), fresh_row(llama, as_ids([1, 2])))

    @pytest.mark.parametrize("verb", ["commit", "reset"])
    def test_an_interrupted_extend_counts_as_never_made(self, llama: Any, torch_model: Any, verb: str) -> None:
        session = llama.open()
        session.prefill(as_ids([1, 2, 3]))
        handle = self.plant(torch_model.model.layers[2], KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            session.extend(as_ids([5, 6]))
        handle.remove()
        if verb == "commit":
            with pytest.raises(LawError, match="tail of 0"):
                session.commit(1)
            session.commit(0)
        else:
            session.reset(2)
            session.prefill(as_ids([3]))
        assert_same(session.extend(as_ids([4])).logits(0), fresh_row(llama, as_ids([1, 2, 3, 4])))

    @pytest.mark.parametrize("layer", [0, 3])
    def test_a_failure_closes_the_session_and_says_where(self, llama: Any, torch_model: Any, layer: int) -> None:
        session = llama.open()
        session.prefill(as_ids([1, 2, 3]))
        fault = RuntimeError("out of something")
        handle = self.plant(torch_model.model.layers[layer], fault)
        with pytest.raises(TargetError, match="out of something") as caught:
            session.extend(as_ids([5, 6]))
        handle.remove()
        assert caught.value.__cause__ is fault
        assert (caught.value.backend, caught.value.operation) == ("hf", "extend")
        assert caught.value.shapes == {"ids": (2,), "cache": (3,)}
        with pytest.raises(TargetError, match="closed session"):
            session.extend(as_ids([5]))
        assert_same(llama.open().prefill(as_ids([1, 2])).logits(0), fresh_row(llama, as_ids([1, 2])))

    def test_taps_survive_an_interrupt(self, llama: Any, torch_model: Any) -> None:
        before = hooks_of(torch_model)
        session = llama.open(taps=("layer.0",))
        handle = self.plant(torch_model.model.layers[2], KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            session.prefill(as_ids([1, 2]))
        handle.remove()
        assert hooks_of(torch_model) == before
        assert session.prefill(as_ids([1, 2])).tap("layer.0").shape == (2, 32)


def commits(more: int, patch: pytest.MonkeyPatch) -> None:
    """A commit that keeps one row more of the tail than it was asked to, or one less."""
    good = HfSession.commit

    def commit(self: HfSession, keep: int | Sequence[int]) -> None:
        n = (keep if isinstance(keep, int) else len(keep)) + more
        good(self, n if 0 <= n <= self._kept.tail else keep)

    patch.setattr(HfSession, "commit", commit)


def cuts(more: int, patch: pytest.MonkeyPatch) -> None:
    """A cut that leaves one row more in the cache than it was asked to, or one less; what is counted stays right."""
    good = cache.truncate
    patch.setattr(cache, "truncate", lambda layers, length: good(layers, max(0, length + more)))


def moves(more: int, patch: pytest.MonkeyPatch) -> None:
    """The kept path of a tree, one row too far on in the cache, or too far back."""
    good = cache.gather
    patch.setattr(cache, "gather", lambda layers, start, path, index: good(layers, start + more, path, index))


def resets(more: int, patch: pytest.MonkeyPatch) -> None:
    """A reset to one row more than it was asked to, or one less."""
    good = HfSession.reset

    def reset(self: HfSession, keep: int = 0) -> None:
        good(self, keep + more if 0 <= keep + more <= self.length else keep)

    patch.setattr(HfSession, "reset", reset)


@pytest.mark.parametrize("more", [1, -1])
@pytest.mark.parametrize(
    ("fault", "check"),
    [
        (commits, "rejected_rows_leave_nothing"),
        (commits, "random_walk"),
        (cuts, "rejected_rows_leave_nothing"),
        (cuts, "random_walk"),
        (moves, "trees"),
        (resets, "resets"),
    ],
)
def test_planted_counts_off_by_one_are_caught(
    fault: Any, check: str, more: int, llama: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = partial(check_target, lambda: llama, tolerance=hf_tiny.TOLERANCE, only=(check,))
    suite()
    fault(more, monkeypatch)
    with pytest.raises(AssertionError, match=r"differs from a fresh prefill|length is"):
        suite()
