"""Tiny causal language models of many families, with random weights, written as transformers writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

VOCAB = 97
WINDOW = 5
CONTEXT = 64
# chosen: float32 rounding moves these logits (spread about 30) by less than 1e-4, a wrong mask or position by over 0.1.
TOLERANCE = 2e-3

# Families that differ in their caches, masks and positions. Every sliding window is far shorter than the tests' texts.
FAMILIES = (
    "llama",
    "mistral",
    "qwen2",
    "qwen3",
    "gemma2",
    "gemma3",
    "gpt2",
    "gpt_neox",
    "phi",
    "phi3",
    "opt",
    "bloom",
    "mpt",
    "gpt_neo",
    "mixtral",
    "gpt_oss",
    "deepseek_v3",
)
# These place tokens by their cache row or build masks of their own, so that a tree cannot be told to them.
WITHOUT_TREES = ("bloom", "mpt", "gpt_neo")


def config(family: str) -> Any:
    """The config of a tiny model of this family."""
    import transformers as hf

    common = {
        "vocab_size": VOCAB,
        "hidden_size": 32,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "max_position_embeddings": CONTEXT,
        "bos_token_id": 0,
        "eos_token_id": None,
        "pad_token_id": None,
    }
    llama = common | {"intermediate_size": 48, "num_key_value_heads": 2}
    sliding = {"sliding_window": WINDOW}
    gpt = {"vocab_size": VOCAB, "n_embd": 32, "n_layer": 4, "n_head": 4, "bos_token_id": 0, "eos_token_id": None}
    experts = {"num_local_experts": 4, "num_experts_per_tok": 2}
    latent = {"q_lora_rank": 8, "kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 4, "v_head_dim": 8}
    routed = {
        "n_routed_experts": 4,
        "num_experts_per_tok": 2,
        "n_group": 2,
        "topk_group": 1,
        "moe_intermediate_size": 16,
    }
    alternating = {"layer_types": ["sliding_attention", "full_attention"] * 2}
    local = {"attention_types": [[["global", "local"], 2]], "window_size": WINDOW, "num_layers": 4, "num_heads": 4}
    yarn_off = {"rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0}}
    makers = {
        "llama": lambda: hf.LlamaConfig(**llama),
        "mistral": lambda: hf.MistralConfig(**llama, **sliding),
        "qwen2": lambda: hf.Qwen2Config(**llama, **sliding, use_sliding_window=True, max_window_layers=2),
        "qwen3": lambda: hf.Qwen3Config(**llama, head_dim=8),
        "gemma2": lambda: hf.Gemma2Config(**llama, **sliding, head_dim=8, query_pre_attn_scalar=8),
        "gemma3": lambda: hf.Gemma3TextConfig(**llama, **sliding, **alternating, head_dim=8, query_pre_attn_scalar=8),
        "gpt2": lambda: hf.GPT2Config(**gpt, n_positions=CONTEXT),
        "gpt_neox": lambda: hf.GPTNeoXConfig(**common, intermediate_size=48),
        "phi": lambda: hf.PhiConfig(**llama),
        "phi3": lambda: hf.Phi3Config(**llama, **sliding, original_max_position_embeddings=CONTEXT),
        "opt": lambda: hf.OPTConfig(**common, ffn_dim=48, word_embed_proj_dim=32),
        "bloom": lambda: hf.BloomConfig(vocab_size=VOCAB, hidden_size=32, n_layer=4, n_head=4, eos_token_id=None),
        "mpt": lambda: hf.MptConfig(vocab_size=VOCAB, d_model=32, n_layers=4, n_heads=4, max_seq_len=CONTEXT),
        "gpt_neo": lambda: hf.GPTNeoConfig(
            vocab_size=VOCAB,
            hidden_size=32,
            max_position_embeddings=CONTEXT,
            **local,
            eos_token_id=None,
            bos_token_id=0,
        ),
        "mixtral": lambda: hf.MixtralConfig(**llama, **experts),
        "gpt_oss": lambda: hf.GptOssConfig(**llama, **sliding, **experts, **yarn_off, head_dim=8),
        "deepseek_v3": lambda: hf.DeepseekV3Config(
            **(llama | {"num_key_value_heads": 4}), **latent, **routed, first_k_dense_replace=1
        ),
    }
    return makers[family]()


def write(folder: Path, settings: Any, *, head: Any = None, **save: Any) -> Path:
    """`folder`, holding a model of this config as safetensors. The weights are large enough that argmaxes differ."""
    import torch
    from transformers import AutoModelForCausalLM

    torch.manual_seed(7)
    model = AutoModelForCausalLM.from_config(settings) if head is None else head(settings)
    for weights in model.parameters():
        if weights.dim() > 1:
            torch.nn.init.normal_(weights, std=0.3)
    model.save_pretrained(folder, **save)
    return folder
