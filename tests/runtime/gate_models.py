"""Tiny models that write, as the gates want them, on the toy and on real runtimes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

import tiny_gguf
from surefoot.core.ports import Target
from surefoot.core.types import Ids, as_ids
from surefoot.engine.config import load_config
from surefoot.engine.generator import Model
from surefoot.engine.models import ModelFiles
from surefoot.engine.tokenizer import Tokenizer

VOCABULARY, CONTEXT = 96, 1024


@dataclass(frozen=True)
class Letters:
    """A tokenizer of one token for each printable letter. No text ends by itself."""

    vocab_size: int = VOCABULARY
    eos_ids: frozenset[int] = frozenset()
    has_template: bool = False
    special_ids: frozenset[int] = frozenset()
    spelling: str = "text"

    def encode(self, text: str) -> Ids:
        return as_ids([ord(letter) % self.vocab_size for letter in text])

    def token_bytes(self, token_id: int) -> bytes:
        return self.decode([token_id]).encode()

    def is_byte(self, token_id: int) -> bool:
        return False

    def decode(self, ids: Sequence[int], skip_special: bool = True) -> str:
        return "".join(chr(32 + token) for token in ids)


def model_of(target: Target, path: Path = Path(), **settings: Any) -> Model:
    """A model on this target that reads and writes letters."""
    files = ModelFiles("tiny", path, "safetensors", ())
    return Model(files, path, target, cast(Tokenizer, Letters()), load_config(overrides=settings))


def toy_model(discipline: str = "mask", **options: Any) -> Model:
    from surefoot.targets.toy import Options, ToyTarget

    return model_of(ToyTarget(Options(vocab_size=VOCABULARY, order=1, discipline=discipline, **options)))


def llama(folder: Path) -> Path:
    """A Llama of random weights, its logits spread as widely as those of a trained model."""
    torch = pytest.importorskip("torch", reason="torch is not installed, and it writes the model under test")
    import transformers

    torch.set_num_threads(1)
    torch.manual_seed(0)
    build: Any = transformers.LlamaConfig
    config = build(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=CONTEXT,
        initializer_range=0.3,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=None,
    )
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def hf_model(folder: Path, attn: str = "auto") -> Model:
    from surefoot.targets.hf import PLUGIN, Options

    path = llama(folder)
    return model_of(PLUGIN.build(Options(threads=1, attn=attn), path), path, runtime="hf")


def llamacpp_model(folder: Path) -> Model:
    pytest.importorskip("xllamacpp", reason="the llamacpp extra is not installed")
    from surefoot.targets.llamacpp import PLUGIN, Options

    path = tiny_gguf.write(folder / "llama.gguf", kind="Q8_0", context=CONTEXT)
    return model_of(PLUGIN.build(Options(threads=1), path), path, runtime="llamacpp")


def openvino_model(folder: Path) -> Model:
    pytest.importorskip("openvino", reason="openvino is not installed")
    from surefoot.targets.openvino import PLUGIN, Options
    from surefoot.targets.openvino.export import export

    export(llama(folder / "llama"), folder / "openvino", trees=True)
    return model_of(PLUGIN.build(Options(threads=1), folder / "openvino"), folder / "openvino", runtime="openvino")
