"""Tiny random models of every family that the OpenVINO export claims, as transformers, safetensors and GGUF."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, MistralConfig, Qwen2Config, Qwen3Config

SIZES = {
    "vocab_size": 211,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "bos_token_id": 1,
    "eos_token_id": 2,
}

LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
YARN = {"rope_type": "yarn", "rope_theta": 500.0, "factor": 4.0, "original_max_position_embeddings": 64}

VARIANTS: Mapping[str, Any] = {
    "llama": LlamaConfig(**SIZES),
    "llama-tied": LlamaConfig(**SIZES, tie_word_embeddings=True),
    "llama-biases": LlamaConfig(**SIZES, attention_bias=True, mlp_bias=True),
    "llama-head-dim": LlamaConfig(**SIZES, head_dim=32),
    "llama-all-heads": LlamaConfig(**{**SIZES, "num_key_value_heads": 4}),
    "llama-one-kv-head": LlamaConfig(**{**SIZES, "num_key_value_heads": 1}),
    "llama-linear": LlamaConfig(**SIZES, rope_parameters={"rope_type": "linear", "rope_theta": 500.0, "factor": 4.0}),
    "llama-llama3": LlamaConfig(**SIZES, rope_parameters=LLAMA3),
    "llama-yarn": LlamaConfig(**SIZES, rope_parameters=YARN),
    "mistral": MistralConfig(**SIZES, sliding_window=None),
    "qwen2": Qwen2Config(**SIZES),
    "qwen2-tied": Qwen2Config(**SIZES, tie_word_embeddings=True),
    "qwen3": Qwen3Config(**SIZES, head_dim=32),
    "qwen3-tied": Qwen3Config(**SIZES, head_dim=32, tie_word_embeddings=True),
}


def tiny(variant: str, dtype: torch.dtype = torch.float16) -> Any:
    """A float32 model whose weights are exact in `dtype`, with norms and biases away from their idle values."""
    torch.manual_seed(5)
    model = AutoModelForCausalLM.from_config(VARIANTS[variant], dtype=torch.float32).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn_like(parameter)
            parameter.copy_(1 + 0.2 * noise if "norm" in name else 0.12 * noise)
            parameter.copy_(parameter.to(dtype).float())
    return model


LONG = 1200


@cache
def long_llama() -> Any:
    """A Llama whose context holds several parts of a prompt, its weights exact in 16 bits."""
    torch.manual_seed(5)
    config = LlamaConfig(**{**SIZES, "max_position_embeddings": LONG, "initializer_range": 0.15})
    model = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.half().float())
    return model


def hidden_states(model: Any, ids: Sequence[int]) -> tuple[np.ndarray, ...]:
    """(n, D) of what enters each layer, and last of what enters the head."""
    with torch.no_grad():
        states = model(torch.tensor([list(map(int, ids))]), output_hidden_states=True).hidden_states
    return tuple(state[0].numpy() for state in states)


def expected_logits(model: Any, ids: list[int]) -> np.ndarray:
    """(n, V) float32 of a fresh forward over the ids."""
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0].float().numpy()


def write_gguf(model: Any, path: Path, quantised: bool = False) -> None:
    """The model as llama.cpp's converter would write it: its names, and llama's rotary pairs side by side."""
    import gguf

    config = model.config
    arch = {"llama": "llama", "mistral": "llama", "qwen2": "qwen2", "qwen3": "qwen3"}[config.model_type]
    writer = gguf.GGUFWriter(path, arch)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_vocab_size(config.vocab_size)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    _add_rope(writer, config, head_dim)
    names = gguf.get_tensor_name_map(getattr(gguf.MODEL_ARCH, arch.upper()), config.num_hidden_layers)
    for name, parameter in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        data = parameter.numpy()
        if arch == "llama" and ("q_proj" in name or "k_proj" in name):
            heads = config.num_attention_heads if "q_proj" in name else config.num_key_value_heads
            data = data.reshape(heads, 2, head_dim // 2, *data.shape[1:]).swapaxes(1, 2).reshape(data.shape)
        stored = names.get_name(name, try_suffixes=(".weight", ".bias"))
        if quantised and data.ndim == 2:
            kind = gguf.GGMLQuantizationType.Q8_0
            writer.add_tensor(stored, gguf.quants.quantize(data, kind), raw_dtype=kind)
        else:
            writer.add_tensor(stored, data.astype(np.float16 if data.ndim == 2 else np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_rope(writer: Any, config: Any, head_dim: int) -> None:
    import gguf
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    rope = config.rope_parameters
    if rope["rope_type"] == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(rope["factor"])
    if rope["rope_type"] == "yarn":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(rope["factor"])
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    if rope["rope_type"] == "llama3":
        plain = rope["rope_theta"] ** -(np.arange(0, head_dim, 2) / head_dim)
        scaled, _ = ROPE_INIT_FUNCTIONS["llama3"](config, "cpu")
        writer.add_tensor("rope_freqs.weight", (plain / scaled.numpy()).astype(np.float32))
