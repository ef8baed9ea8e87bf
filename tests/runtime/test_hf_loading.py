"""What the transformers target loads, what it refuses and in which words, and what it says of itself."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import hf_tiny
import numpy as np
import pytest

from surefoot.core.errors import ConfigError, DamagedModel, NotEligible
from surefoot.core.types import as_ids
from surefoot.targets.hf import PLUGIN, Options

pytest.importorskip("torch", reason="the transformers target needs torch")
pytest.importorskip("transformers", reason="the transformers target needs transformers")


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hf_tiny.write(tmp_path_factory.mktemp("hf") / "llama", hf_tiny.config("llama"))


@pytest.fixture(scope="module")
def shipped_in_shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hf_tiny.write(tmp_path_factory.mktemp("hf") / "shards", hf_tiny.config("llama"), max_shard_size="20KB")


@pytest.fixture
def folder(shipped: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(shipped, tmp_path / "model"))


@pytest.fixture
def shards(shipped_in_shards: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(shipped_in_shards, tmp_path / "model"))


def build(model: Path, **options: Any) -> Any:
    return PLUGIN.build(Options(**options), model)


def with_config(folder: Path, **changes: Any) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return folder


def config_only(folder: Path, settings: Any) -> Path:
    """A model folder whose weights are no weights at all: what is refused here is refused without reading them."""
    settings.save_pretrained(folder)
    (folder / "model.safetensors").write_bytes(b"no weights")
    return folder


def assert_one_sentence(error: BaseException) -> None:
    text = str(error)
    assert "\n" not in text
    assert len(text) < 400


def refusal(model: Path, kind: type[Exception], **options: Any) -> str:
    with pytest.raises(kind) as caught:
        build(model, **options)
    assert type(caught.value) is kind
    assert_one_sentence(caught.value)
    return str(caught.value)


class TestLoads:
    def test_shards_give_the_same_rows_as_one_file(self, shipped: Path, shipped_in_shards: Path) -> None:
        assert len(list(shipped_in_shards.glob("*.safetensors"))) > 1
        rows = [build(path).open().prefill(as_ids([1, 2, 3])).logits(0) for path in (shipped, shipped_in_shards)]
        # Not bit for bit: where a file puts a tensor decides how it is aligned, and that the order of sums.
        assert np.abs(rows[0] - rows[1]).max() < hf_tiny.TOLERANCE

    def test_a_gguf_file_gives_the_rows_of_the_model_it_was_made_from(self, tmp_path: Path) -> None:
        from openvino_tiny import expected_logits, tiny, write_gguf

        model = tiny("llama")
        write_gguf(model, tmp_path / "tiny.gguf")
        target = build(tmp_path / "tiny.gguf")
        assert target.caps.settings["weights"] == "gguf"
        ids = [5, 6, 7, 8]
        scores = target.open().extend(as_ids(ids))
        for row, expected in enumerate(expected_logits(model, ids)):
            assert np.abs(scores.logits(row) - expected).max() < hf_tiny.TOLERANCE

    def test_loading_prints_nothing_and_puts_the_loggers_back(
        self, shipped_in_shards: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        from openvino_tiny import tiny, write_gguf
        from transformers.utils import logging

        write_gguf(tiny("llama"), tmp_path / "tiny.gguf")
        capfd.readouterr()
        before = (logging.get_verbosity(), logging.is_progress_bar_enabled())
        build(shipped_in_shards)
        build(tmp_path / "tiny.gguf")
        assert capfd.readouterr() == ("", "")
        assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == before

    def test_the_loggers_are_put_back_after_a_refusal_too(self, folder: Path) -> None:
        from transformers.utils import logging

        before = (logging.get_verbosity(), logging.is_progress_bar_enabled())
        refusal(with_config(folder, num_hidden_layers=6), DamagedModel)
        assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == before


class TestCaps:
    def test_caps_say_what_decides_a_bit_of_the_result(self, shipped: Path) -> None:
        import torch
        import transformers

        threads = torch.get_num_threads()
        try:
            caps = build(shipped, threads=1, ctx_size=40).caps
        finally:
            torch.set_num_threads(threads)
        assert (caps.backend, caps.device, caps.discipline) == ("hf", "cpu", "truncate")
        assert (caps.vocab_size, caps.max_length) == (hf_tiny.VOCAB, 40)
        assert (caps.can_pad, caps.can_tree) == (True, True)
        assert caps.row_class == "identical"
        assert caps.settings["dtype"] == "float32"
        assert caps.settings["attention"] == "sdpa"
        assert caps.settings["threads"] == "1"
        assert caps.settings["torch"] == torch.__version__
        assert caps.settings["transformers"] == transformers.__version__

    @pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
    def test_half_precision_works_and_is_not_called_identical(self, shipped: Path, dtype: str) -> None:
        target = build(shipped, dtype=dtype)
        assert target.caps.settings["dtype"] == dtype
        assert target.caps.row_class == "near-tie"
        session = target.open()
        session.prefill(as_ids([1, 2]))
        assert session.extend(as_ids([3, 4]), parents=[-1, -1]).logits(1).dtype == np.float32

    def test_a_bfloat16_checkpoint_is_widened_on_a_cpu(self, tmp_path: Path) -> None:
        import torch

        settings = hf_tiny.config("llama")
        settings.dtype = torch.bfloat16
        assert build(hf_tiny.write(tmp_path / "m", settings)).caps.settings["dtype"] == "float32"

    def test_every_option_explains_itself(self) -> None:
        assert all(field.metadata["help"] for field in fields(Options))

    def test_rotary_positions_that_change_scale_bound_the_context(self, tmp_path: Path) -> None:
        """Rows cached under the short scale are not those that a prefill past it would give."""
        import torch
        import transformers

        from surefoot.targets.hf.session import HfSession

        factors = {"short_factor": [1.0] * 4, "long_factor": [4.0] * 4}
        rope = {"rope_type": "longrope", "rope_theta": 1e4, "original_max_position_embeddings": 16, **factors}
        same = hf_tiny.config("llama").to_dict()
        sizes = {name: same[name] for name in ("vocab_size", "hidden_size", "intermediate_size", "num_attention_heads")}
        settings = transformers.Phi3Config(
            **sizes,
            num_hidden_layers=4,
            num_key_value_heads=2,
            max_position_embeddings=64,
            original_max_position_embeddings=16,
            rope_parameters=rope,
            pad_token_id=None,
        )
        folder = hf_tiny.write(tmp_path / "m", settings)
        target = build(folder)
        assert target.caps.max_length == 16
        assert "16" in refusal(folder, NotEligible, ctx_size=17)
        too_long = replace(target._runner, places=torch.arange(40))
        ids = as_ids(np.arange(1, 31))
        grown, fresh = HfSession(too_long, (), 32), HfSession(too_long, (), 32)
        grown.prefill(ids[:12])
        assert np.abs(grown.extend(ids[12:]).logits(17) - fresh.prefill(ids).logits(0)).max() > 0.1


class TestOptions:
    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"device": "gpu"}, "device 'gpu'"),
            ({"device": "cuda:x"}, "device 'cuda:x'"),
            ({"device": "cpu:1"}, "device 'cpu:1'"),
            ({"device": "cuda:9"}, "CUDA devices"),
            ({"dtype": "int4"}, "dtype 'int4'"),
            ({"attn": "flash"}, "attn 'flash'"),
            ({"threads": 0}, "threads 0"),
            ({"threads": -2}, "threads -2"),
            ({"ctx_size": 0}, "ctx_size 0"),
            ({"ctx_size": -1}, "ctx_size -1"),
        ],
    )
    def test_an_option_that_cannot_be_met_is_refused_not_bent(
        self, shipped: Path, options: dict[str, Any], words: str
    ) -> None:
        assert words in refusal(shipped, ConfigError, **options)


class TestFiles:
    """What the user can fix: one sentence that names the file."""

    def test_there_is_nothing(self, tmp_path: Path) -> None:
        assert "does not exist" in refusal(tmp_path / "nothing", ConfigError)

    @pytest.mark.parametrize("name", ["model.bin", "model.pt", "model.pth", "model.ckpt", "model.pkl"])
    def test_a_pickle_is_never_opened(self, tmp_path: Path, name: str) -> None:
        (tmp_path / name).write_bytes(b"\x80\x04")
        assert "is a pickle" in refusal(tmp_path / name, ConfigError)

    def test_a_folder_of_pickles_is_refused_by_their_name(self, folder: Path) -> None:
        (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
        assert "pytorch_model.bin is a pickle" in refusal(folder, ConfigError)

    def test_pickles_beside_safetensors_are_left_alone(self, folder: Path) -> None:
        (folder / "pytorch_model.bin").write_bytes(b"this would fail if it were read")
        assert build(folder).caps.vocab_size == hf_tiny.VOCAB

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            (lambda f: (f / "config.json").unlink(), "has no config.json"),
            (lambda f: (f / "config.json").write_text("{}"), "names no model_type"),
            (lambda f: (f / "model.safetensors").unlink(), "holds no model.safetensors"),
        ],
    )
    def test_a_folder_that_is_no_model(self, folder: Path, change: Callable[[Path], Any], words: str) -> None:
        change(folder)
        assert words in refusal(folder, ConfigError)

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            (lambda f: (f / "config.json").write_text("{not json"), "not a valid JSON"),
            (lambda f: (f / "config.json").write_text("[]"), "cannot read"),
            (lambda f: with_config(f, num_attention_heads="many"), "num_attention_heads"),
            (lambda f: (f / "model.safetensors").write_bytes(b""), "damaged, cut off or incomplete"),
            (lambda f: (f / "model.safetensors").write_bytes(b"not weights at all"), "damaged, cut off or incomplete"),
            (lambda f: cut(f / "model.safetensors", -100), "damaged, cut off or incomplete"),
            (lambda f: cut(f / "model.safetensors", 100), "damaged, cut off or incomplete"),
            (lambda f: lie(f / "model.safetensors"), "damaged, cut off or incomplete"),
            (lambda f: with_config(f, num_hidden_layers=6), "lack"),
            (lambda f: with_config(f, vocab_size=120), "other shapes"),
        ],
    )
    def test_damaged_files(self, folder: Path, change: Callable[[Path], Any], words: str) -> None:
        change(folder)
        assert words in refusal(folder, DamagedModel)

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            (lambda f: next(f.glob("*-00002-*")).unlink(), "model-00002-of-"),
            (lambda f: cut(next(f.glob("*-00002-*")), -9), "damaged, cut off or incomplete"),
            (lambda f: (f / "model.safetensors.index.json").write_text("{"), "damaged, cut off or incomplete"),
            (lambda f: (f / "model.safetensors.index.json").write_text("{}"), "damaged, cut off or incomplete"),
        ],
    )
    def test_broken_shards(self, shards: Path, change: Callable[[Path], Any], words: str) -> None:
        change(shards)
        assert words in refusal(shards, DamagedModel)

    def test_a_single_weight_file_is_not_a_model(self, folder: Path) -> None:
        assert "give the folder" in refusal(folder / "model.safetensors", ConfigError)

    @pytest.mark.parametrize("size", [0, 3, 4, 1000, 20_000])
    def test_a_gguf_file_that_is_cut_off(self, tmp_path: Path, size: int) -> None:
        from openvino_tiny import tiny, write_gguf

        path = tmp_path / "tiny.gguf"
        write_gguf(tiny("llama"), path)
        assert path.stat().st_size > size
        cut(path, size)
        assert "tiny.gguf" in refusal(path, DamagedModel)

    def test_a_folder_of_gguf_says_to_name_the_file(self, tmp_path: Path) -> None:
        (tmp_path / "some.gguf").write_bytes(b"GGUF")
        assert "to run some.gguf, give that file itself" in refusal(tmp_path, ConfigError)

    def test_a_file_of_another_kind(self, tmp_path: Path) -> None:
        (tmp_path / "model.gguf").write_bytes(b"PK\x03\x04")
        assert "starts with" in refusal(tmp_path / "model.gguf", DamagedModel)


def cut(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])


def lie(path: Path) -> None:
    """The header claims to be longer than the file."""
    path.write_bytes((10**9).to_bytes(8, "little") + path.read_bytes()[8:])


class TestEligibility:
    """What cannot work: refused by name and reason, and from the config alone where that suffices."""

    @pytest.mark.parametrize(
        ("make", "words"),
        [
            ("MambaConfig", "mamba cannot be used with truncation of its cache: its recurrent state"),
            ("Mamba2Config", "its recurrent state cannot drop rejected tokens"),
            ("FalconMambaConfig", "its recurrent state cannot drop rejected tokens"),
            ("RwkvConfig", "its recurrent state cannot drop rejected tokens"),
            ("RecurrentGemmaConfig", "its recurrent state cannot drop rejected tokens"),
            ("JambaConfig", "its recurrent state cannot drop rejected tokens"),
            ("BambaConfig", "its recurrent state cannot drop rejected tokens"),
            ("Qwen3NextConfig", "its recurrent state cannot drop rejected tokens"),
            ("GraniteMoeHybridConfig", "its recurrent state cannot drop rejected tokens"),
            ("T5Config", "t5 is an encoder-decoder"),
            ("CLIPConfig", "no causal language model for clip"),
        ],
    )
    def test_a_model_that_cannot_be_rolled_back_is_refused_before_its_weights_are_read(
        self, tmp_path: Path, make: str, words: str
    ) -> None:
        import transformers

        assert words in refusal(config_only(tmp_path, getattr(transformers, make)()), NotEligible)

    def test_a_hybrid_is_refused_by_the_kind_of_its_layers(self, tmp_path: Path) -> None:
        import transformers

        settings = transformers.Lfm2Config(num_hidden_layers=3, layer_types=["conv", "full_attention", "conv"])
        words = "lfm2 cannot be used with truncation of its cache: its LinearAttentionLayer cannot drop rejected tokens"
        assert words in refusal(config_only(tmp_path, settings), NotEligible)

    def test_a_model_without_a_language_model_head(self, folder: Path) -> None:
        with_config(folder, architectures=["LlamaForSequenceClassification"])
        (folder / "model.safetensors").write_bytes(b"no weights")
        assert "LlamaForSequenceClassification, which has no language-model head" in refusal(folder, NotEligible)

    @pytest.mark.parametrize("extra", [{}, {"auto_map": {"AutoModelForCausalLM": "modeling_own.Own"}}])
    def test_code_that_comes_with_a_model_is_never_run(self, folder: Path, extra: dict[str, Any]) -> None:
        (folder / "modeling_own.py").write_text("raise SystemExit('this code was run')")
        with_config(folder, model_type="own_type", **extra)
        assert "does not know the model type own_type" in refusal(folder, NotEligible)

    def test_code_beside_a_known_model_is_ignored(self, folder: Path) -> None:
        (folder / "modeling_own.py").write_text("raise SystemExit('this code was run')")
        with_config(folder, auto_map={"AutoConfig": "modeling_own.C", "AutoModelForCausalLM": "modeling_own.Own"})
        assert build(folder).caps.settings["model"] == "LlamaForCausalLM"

    def test_a_model_that_looks_ahead(self, tmp_path: Path) -> None:
        import transformers

        settings = transformers.BertConfig(
            vocab_size=97, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48
        )
        assert "the model is not causal" in refusal(hf_tiny.write(tmp_path / "m", settings), NotEligible)

    def test_a_model_without_a_cache(self, tmp_path: Path) -> None:
        import transformers

        settings = transformers.OpenAIGPTConfig(vocab_size=97, n_embd=32, n_layer=2, n_head=4, n_positions=64)
        assert "keeps no cache" in refusal(hf_tiny.write(tmp_path / "m", settings), NotEligible)

    def test_gguf_shards(self, tmp_path: Path) -> None:
        path = tmp_path / "big-00001-of-00003.gguf"
        path.write_bytes(b"GGUF")
        assert "one of 3 GGUF shards" in refusal(path, NotEligible)

    def test_a_gguf_architecture_that_transformers_does_not_know(self, tmp_path: Path) -> None:
        import gguf

        writer = gguf.GGUFWriter(tmp_path / "odd.gguf", "oddarch")
        writer.add_block_count(1)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        assert "oddarch" in refusal(tmp_path / "odd.gguf", NotEligible)

    @pytest.mark.parametrize("absent", ["torch", "transformers", "gguf", "accelerate"])
    def test_a_missing_package_is_named_with_the_line_that_installs_it(
        self, shipped: Path, monkeypatch: pytest.MonkeyPatch, absent: str
    ) -> None:
        import importlib.util

        find = importlib.util.find_spec
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == absent else find(name))
        assert f'needs {absent}: pip install "surefoot[hf]"' in refusal(shipped, NotEligible)


class TestTrial:
    """What only a forward can show: each planted in a real model, each found before the first token."""

    @pytest.fixture
    def runner(self, shipped: Path) -> Any:
        return build(shipped)._runner

    @staticmethod
    def wrapped(runner: Any, forward: Callable[..., Any]) -> Any:
        """The runner, its model called through `forward(model, **call)`."""

        class Wrapped:
            dtype = runner.model.dtype

            def __call__(self, **call: Any) -> Any:
                return forward(runner.model, **call)

        return replace(runner, model=Wrapped())

    def try_out(self, runner: Any) -> Any:
        from surefoot.targets.hf.target import try_out

        return try_out(runner)

    def test_a_sound_model_passes(self, runner: Any) -> None:
        trial = self.try_out(self.wrapped(runner, lambda model, **call: model(**call)))
        assert (trial.vocab_size, trial.steerable) == (hf_tiny.VOCAB, True)

    def test_a_head_on_the_last_row_only(self, runner: Any) -> None:
        def last_row(model: Any, **call: Any) -> Any:
            return model(**call | {"logits_to_keep": 1})

        with pytest.raises(NotEligible, match="1 row of logits for 3 tokens"):
            self.try_out(self.wrapped(runner, last_row))

    def test_a_cache_that_is_not_written(self, runner: Any) -> None:
        def forgetful(model: Any, **call: Any) -> Any:
            del call[runner.cache_name]
            return model(**call)

        with pytest.raises(NotEligible, match="did not write the cache"):
            self.try_out(self.wrapped(runner, forgetful))

    def test_a_cache_of_another_kind(self, runner: Any) -> None:
        from transformers import StaticCache

        def static(model: Any, **call: Any) -> Any:
            cache = call[runner.cache_name]
            if type(cache.layers[0]).__name__ != "StaticLayer":
                cache.layers = StaticCache(config=runner.config, max_cache_len=32).layers
            return model(**call)

        with pytest.raises(NotEligible, match="a StaticLayer into its cache"):
            self.try_out(self.wrapped(runner, static))

    def test_a_cache_that_holds_something_else_than_a_row_per_token(self, runner: Any) -> None:
        def sparse(model: Any, **call: Any) -> Any:
            output = model(**call)
            for layer in call[runner.cache_name].layers:
                layer.keys, layer.values = layer.keys[:, :, ::2], layer.values[:, :, ::2]
            return output

        with pytest.raises(NotEligible, match="2 rows after 4 tokens"):
            self.try_out(self.wrapped(runner, sparse))

    def test_rows_that_see_the_future(self, runner: Any) -> None:
        import torch

        def leaky(model: Any, **call: Any) -> Any:
            rows = call["input_ids"].shape[1]
            seen = torch.ones(1, 1, rows, call[runner.cache_name].get_seq_length() + rows, dtype=torch.bool)
            return model(**call | {"attention_mask": seen})

        with pytest.raises(NotEligible, match="not causal"):
            self.try_out(self.wrapped(runner, leaky))

    def test_a_rollback_that_leaves_a_trace(self, runner: Any) -> None:
        """A model that counts every token it was ever shown, the rejected ones too."""
        seen = [0]

        def counting(model: Any, **call: Any) -> Any:
            if call[runner.cache_name].get_seq_length() == 0:
                seen[0] = 0
            positions = torch.arange(seen[0], seen[0] + call["input_ids"].shape[1])[None]
            seen[0] += call["input_ids"].shape[1]
            return model(**call | {"position_ids": positions})

        import torch

        with pytest.raises(NotEligible):
            self.try_out(self.wrapped(runner, counting))

    def test_a_mask_that_is_not_obeyed_rules_out_trees_and_padding(self, runner: Any) -> None:
        def deaf(model: Any, **call: Any) -> Any:
            call.pop("attention_mask", None)
            return model(**call)

        assert not self.try_out(self.wrapped(runner, deaf)).steerable

    def test_positions_that_are_not_obeyed_rule_out_trees_and_padding(self, runner: Any) -> None:
        def stubborn(model: Any, **call: Any) -> Any:
            del call["position_ids"]
            return model(**call)

        assert not self.try_out(self.wrapped(runner, stubborn)).steerable

    def test_a_model_that_fails_in_its_forward(self, runner: Any) -> None:
        def failing(model: Any, **call: Any) -> Any:
            raise RuntimeError("no such kernel")

        with pytest.raises(NotEligible, match="no such kernel"):
            self.try_out(self.wrapped(runner, failing))
