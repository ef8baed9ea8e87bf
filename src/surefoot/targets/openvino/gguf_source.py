"""Weights of a GGUF file (or its shards), mapped and dequantised row by row."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.core.errors import DamagedModel, NotEligible
from surefoot.core.types import Floats
from surefoot.targets.openvino.claims import check_spec, reading
from surefoot.targets.openvino.spec import ModelSpec, Rope, plain_inv_freq, yarn

_ARCHITECTURES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM"}

_GLOBAL = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}
_LAYER = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_LAYER_NAME = re.compile(r"model\.layers\.(\d+)\.(.+)\.(weight|bias)")


class GgufSource:
    """A GGUF file of architecture llama, qwen2 or qwen3, as a `Source`."""

    def __init__(self, path: Path) -> None:
        from gguf import GGUFReader

        self._files = shard_files(path)
        try:
            readers = [GGUFReader(file) for file in self._files]
            self._fields = {k: f.contents() for k, f in readers[0].fields.items() if not k.startswith("tokenizer.ggml")}
            special = ("bos_token_id", "eos_token_id", "padding_token_id")
            found = readers[0].fields
            self._special = {
                k: int(found[f"tokenizer.ggml.{k}"].contents()) for k in special if f"tokenizer.ggml.{k}" in found
            }
        except (OSError, ValueError, IndexError, KeyError, TypeError) as error:
            raise DamagedModel(f"{path} is damaged or no GGUF file ({error}); download it again") from error
        self._tensors = {t.name: t for reader in readers for t in reader.tensors}
        with reading(path):
            self._spec = check_spec(self._read_spec(path), path)

    @property
    def spec(self) -> ModelSpec:
        return self._spec

    @property
    def files(self) -> tuple[Path, ...]:
        return self._files

    @property
    def block(self) -> int:
        """32: every 4-bit format of llama.cpp scales, or sub-scales, that many weights at a time."""
        return 32

    @property
    def documents(self) -> Mapping[str, bytes]:
        """config.json and generation_config.json, written from the file's metadata."""
        s, arch = self._spec, str(self._fields["general.architecture"])
        ids = {k.replace("padding", "pad"): v for k, v in self._special.items()}
        config = {
            "architectures": [_ARCHITECTURES[arch]],
            "model_type": s.family,
            "hidden_act": "silu",
            "hidden_size": s.hidden,
            "intermediate_size": self.shape("model.layers.0.mlp.gate_proj.weight")[0],
            "num_hidden_layers": s.layers,
            "num_attention_heads": s.heads,
            "num_key_value_heads": s.kv_heads,
            "head_dim": s.head_dim,
            "vocab_size": s.vocab,
            "rms_norm_eps": s.eps,
            "max_position_embeddings": s.max_length,
            "tie_word_embeddings": s.tied,
            "rope_theta": self._field("rope.freq_base", 10000.0),
            **ids,
        }
        generation = {"_from_model_config": True, **ids}
        return {
            "config.json": json.dumps(config, indent=2).encode(),
            "generation_config.json": json.dumps(generation, indent=2).encode(),
        }

    def has(self, name: str) -> bool:
        return gguf_name(name) in self._tensors

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(int(n) for n in reversed(self._tensors[gguf_name(name)].shape))

    def rows(self, name: str, start: int, stop: int) -> Floats:
        from gguf.quants import dequantize

        tensor = self._tensors[gguf_name(name)]
        picked: Any = slice(start, stop)
        if (".q_proj." in name or ".k_proj." in name) and self._spec.family == "llama":
            heads = self._spec.heads if ".q_proj." in name else self._spec.kv_heads
            picked = half_split_order(heads, self._spec.head_dim)[start:stop]
        try:
            return np.array(dequantize(tensor.data[picked], tensor.tensor_type), np.float32)
        except NotImplementedError as error:
            raise NotEligible(
                f"weights of type {tensor.tensor_type.name} in {self._files[0]} cannot be read"
            ) from error

    def _field(self, key: str, default: Any = None) -> Any:
        return self._fields.get(f"{self._fields['general.architecture']}.{key}", default)

    def _read_spec(self, path: Path) -> ModelSpec:
        check_fields(self._fields, self._tensors, path)
        arch = str(self._fields["general.architecture"])
        missing = [n for n in ("token_embd.weight", "output_norm.weight") if n not in self._tensors]
        if missing:
            raise DamagedModel(f"{path} lacks the tensor {missing[0]}; with shards, name the first one")
        heads, hidden = int(self._field("attention.head_count")), int(self._field("embedding_length"))
        head_dim = int(self._field("attention.key_length", hidden // heads))
        return ModelSpec(
            family=arch,
            layers=int(self._field("block_count")),
            hidden=hidden,
            heads=heads,
            kv_heads=int(self._field("attention.head_count_kv", heads)),
            head_dim=head_dim,
            vocab=int(self._tensors["token_embd.weight"].shape[1]),
            eps=float(self._field("attention.layer_norm_rms_epsilon", 1e-6)),
            rope=self._read_rope(head_dim),
            max_length=self._read_max_length(),
            tied="output.weight" not in self._tensors,
        )

    def _read_max_length(self) -> int:
        longest, window = int(self._field("context_length", 2048)), self._field("attention.sliding_window")
        return min(longest, int(window)) if window else longest

    def _read_rope(self, head_dim: int) -> Rope:
        theta = float(self._field("rope.freq_base", 10000.0))
        freq = plain_inv_freq(head_dim, theta)
        if "rope_freqs.weight" in self._tensors:
            return Rope((freq / self.rows("rope_freqs.weight", 0, len(freq))).astype(np.float32))
        kind, factor = self._field("rope.scaling.type", "none"), self._field("rope.scaling.factor", 1.0)
        if kind == "yarn":
            old = self._field("rope.scaling.original_context_length")
            wanted = {"factor": factor, "original_max_position_embeddings": old}
            return yarn(freq, theta, wanted, int(self._field("context_length", 2048)))
        return Rope((freq / float(factor if kind == "linear" else 1.0)).astype(np.float32))


def check_fields(fields: Mapping[str, Any], tensors: Collection[str], path: Path) -> None:
    """Nothing, when the export can write a model of this metadata and these tensors.

    Raises: NotEligible for a kind that it does not write; DamagedModel for metadata that means nothing.
    """
    with reading(path):
        _check_kind(fields, tensors, path)


def _check_kind(fields: Mapping[str, Any], tensors: Collection[str], path: Path) -> None:
    arch = str(fields.get("general.architecture"))
    if arch not in _ARCHITECTURES:
        raise NotEligible(
            f"{path} holds a {arch!r} model; the OpenVINO export reads GGUF files of {', '.join(_ARCHITECTURES)}"
        )
    if fields.get(f"{arch}.expert_count"):
        raise NotEligible(f"{path} is a mixture of experts, which the OpenVINO export does not write")
    heads, hidden = int(fields[f"{arch}.attention.head_count"]), int(fields[f"{arch}.embedding_length"])
    head_dim = int(fields.get(f"{arch}.attention.key_length", hidden // heads))
    if int(fields.get(f"{arch}.rope.dimension_count", head_dim)) != head_dim:
        raise NotEligible(f"{path} rotates only a part of each head, which the OpenVINO export does not write")
    kind = fields.get(f"{arch}.rope.scaling.type", "none")
    if kind not in ("none", "linear", "yarn") and "rope_freqs.weight" not in tensors:
        raise NotEligible(f"rotary scaling {kind!r} is not one of none, linear, yarn, which the export writes")


def gguf_name(name: str) -> str:
    """The GGUF name of a tensor that transformers calls `name`; itself when there is no other."""
    if name in _GLOBAL:
        return _GLOBAL[name]
    match = _LAYER_NAME.fullmatch(name)
    return f"blk.{match[1]}.{_LAYER[match[2]]}.{match[3]}" if match and match[2] in _LAYER else name


def half_split_order(heads: int, head_dim: int) -> Any:
    """Stored row of each wanted row: a llama GGUF keeps rotary pairs side by side, this export in two halves."""
    return np.arange(heads * head_dim).reshape(heads, head_dim // 2, 2).swapaxes(1, 2).reshape(-1)


def shard_files(path: Path) -> tuple[Path, ...]:
    """The file itself, or all shards of the set it is the first of. Raises: DamagedModel where one is missing."""
    match = re.fullmatch(r"(.*-)(\d{5})(-of-)(\d{5})\.gguf", path.name)
    files = [path]
    if match:
        files = [path.with_name(f"{match[1]}{i:05d}{match[3]}{match[4]}.gguf") for i in range(1, int(match[4]) + 1)]
    missing = [f.name for f in files if not f.is_file()]
    if missing:
        raise DamagedModel(f"there is no file {path.with_name(missing[0])}")
    return tuple(files)
