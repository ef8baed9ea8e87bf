"""Tiny models for the targets that need one. A target is asked for by the name of its entry point.

A target without a recipe here is skipped by name: give it one line in `RECIPES`.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tiny_gguf
from surefoot.core.errors import NotEligible
from surefoot.targets.toy import DISCIPLINES

CONTEXT = 48


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to build a target: its options, a maker of its model, what it needs, and how far a row may be off."""

    label: str
    options: Mapping[str, Any] = field(default_factory=dict)
    model: Callable[[Path], Path | None] = lambda folder: None
    needs: tuple[str, ...] = ()
    tolerance: float = 0.0
    """In logits. Not 0 where rows of one block add up in another order than a prefill does."""

    def missing(self) -> list[str]:
        """The modules it needs that are not installed."""
        return [name for name in self.needs if importlib.util.find_spec(name) is None]


def llama(folder: Path) -> Path:
    """A random Llama of two layers, its logits spread as widely as those of a trained model."""
    import torch
    import transformers

    torch.set_num_threads(1)
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=CONTEXT,
        initializer_range=0.3,
        tie_word_embeddings=False,
    )
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def openvino_llama(folder: Path) -> Path:
    """The same Llama as an OpenVINO model."""
    from surefoot.targets.openvino.export import export

    export(llama(folder / "llama"), folder / "openvino")
    return folder / "openvino"


def openvino_llama_trees(folder: Path) -> Path:
    """The same, with a mask that takes trees."""
    from surefoot.targets.openvino.export import export

    export(llama(folder / "llama"), folder / "openvino", trees=True)
    return folder / "openvino"


def openvino_llama_caller(folder: Path) -> Path:
    """The same, with its cache kept by the caller."""
    from surefoot.targets.openvino.export import export

    export(llama(folder / "llama"), folder / "openvino", cache="caller")
    return folder / "openvino"


def gguf_of(family: str, kind: str = "F32") -> Callable[[Path], Path]:
    """A maker of a tiny GGUF model of this family, its matrices of this type."""
    return lambda folder: tiny_gguf.write(folder / "tiny.gguf", family, context=CONTEXT, kind=kind)


def gguf_variant(family: str, tolerance: float, kind: str = "F32", **options: Any) -> Variant:
    """A tiny GGUF model on llama.cpp."""
    label = "-".join([family, kind.lower(), *map(str, options.values())])
    return Variant(label, {"threads": 1, **options}, gguf_of(family, kind), ("gguf",), tolerance)


RECIPES: Mapping[str, tuple[Variant, ...]] = {
    "toy": (
        *(Variant(name, {"discipline": name, "max_length": 64, "max_rows": 12}) for name in DISCIPLINES),
        *(Variant(f"{name}-ties", {"discipline": name, "quantum": 2.0, "max_length": 40}) for name in DISCIPLINES),
        *(Variant(f"{name}-chains", {"discipline": name, "trees": False, "max_rows": 5}) for name in DISCIPLINES),
        *(Variant(f"{name}-one-row", {"discipline": name, "max_rows": 1, "max_length": 30}) for name in DISCIPLINES),
    ),
    "hf": (
        Variant("llama-sdpa", {"threads": 1}, llama, ("torch", "transformers"), 1e-3),
        Variant("llama-eager", {"threads": 1, "attn": "eager"}, llama, ("torch", "transformers"), 1e-3),
    ),
    "openvino": (
        Variant("llama", {"threads": 1}, openvino_llama, ("openvino", "torch", "transformers"), 2e-2),
        Variant("llama-trees", {"threads": 1}, openvino_llama_trees, ("openvino", "torch", "transformers"), 2e-2),
        Variant("llama-caller", {"threads": 1}, openvino_llama_caller, ("openvino", "torch", "transformers"), 1e-3),
    ),
    "llamacpp": (
        *(gguf_variant(family, 1e-2) for family in tiny_gguf.FAMILIES),
        gguf_variant("llama", 2e-2, "F16"),
        gguf_variant("llama", 0.0, "Q8_0"),
        gguf_variant("llama", 0.0, "Q4_0"),
        gguf_variant("qwen3", 0.0, "Q4_1"),
        gguf_variant("mistral", 0.0, "F16", min_rows=2),
        gguf_variant("gemma3", 1e-2, flash_attn="off"),
        gguf_variant("qwen3", 1e-4, flash_attn="off", cache_type_k="f32", cache_type_v="f32"),
    ),
}


def refused(error: NotEligible) -> str:
    """Why a target that is installed cannot run here."""
    return f"not eligible here: {error}"
