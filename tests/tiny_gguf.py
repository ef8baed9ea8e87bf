"""Random GGUF models of two or a few layers, of each family, with a vocabulary that text can be written in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

HEADS, KV_HEADS = 4, 2
FAMILIES = ("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3", "phi3")
WINDOW = 8
"""Tokens that the sliding layers of gemma2 and gemma3 see."""

_ARCHITECTURE = {"mistral": "llama"}
_SLIDING = ("gemma2", "gemma3")
_NORMED = ("qwen3", "gemma3")
_TEMPLATE = (
    "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}> {% endif %}"
)


def write(
    path: Path, family: str = "llama", *, context: int = 48, kind: str = "F32", layers: int = 2, seed: int = 0,
    tensors: bool = True, shard_tensors: int = 0, empty_first: bool = False, width: int = 64,
    change: Callable[[Any], object] | None = None,
) -> Path:  # fmt: skip
    """A model of `family` at `path`; its matrices are of the type `kind`. Without `tensors`, a vocabulary only.

    K-quants want a `width` of 256. `change` may have its own way with the writer's metadata.

    With `shard_tensors`, shards of so many tensors, of which the first is given back; with `empty_first` it holds
    metadata only, as llama-gguf-split --no-tensor-first-split writes it.

    Its logits are spread about as widely as those of a trained model.
    """
    import gguf

    writer: Any = gguf.GGUFWriter(
        path, _ARCHITECTURE.get(family, family), split_max_tensors=shard_tensors, small_first_shard=empty_first
    )
    _add_sizes(writer, family, context, layers, width, 2 * width)
    n_vocab = add_vocabulary(writer, family)
    if change is not None:
        change(writer)
    if tensors:
        wanted = getattr(gguf.GGMLQuantizationType, kind)
        for name, values in _tensors(family, layers, n_vocab, width, np.random.default_rng(seed)):
            _add(writer, name, values, wanted)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return next(iter(sorted(path.parent.glob(f"{path.stem}-00001-of-*.gguf"))), path) if shard_tensors else path


def write_experts(
    path: Path, experts: int, inner: int, *, context: int = 48, width: int = 256, kind: str = "Q4_K"
) -> Path:
    """A Llama of one layer whose `experts` have `inner` rows of the type `kind`, all of them zero: it writes the same
    text however many and large they are.

    They stand before all other tensors, as a hole in the file: it may be far larger than what the disk holds of it.
    """
    import gguf

    writer: Any = gguf.GGUFWriter(path, "llama")
    _add_sizes(writer, "llama", context, 1, width, inner)
    writer.add_expert_count(experts)
    writer.add_expert_used_count(1)
    n_vocab = add_vocabulary(writer, "llama")
    rng = np.random.default_rng(0)
    dense = {f"{k}.weight": v for k, v in _tensors("llama", 1, n_vocab, width, rng) if "ffn_" not in k or "norm" in k}
    dense["blk.0.ffn_gate_inp.weight"] = np.zeros((experts, width), np.float32)
    shapes = {"gate": (experts, inner, width), "up": (experts, inner, width), "down": (experts, width, inner)}
    zeros = {f"blk.0.ffn_{part}_exps.weight": shape for part, shape in shapes.items()}
    _write_behind_a_hole(writer, zeros, getattr(gguf.GGMLQuantizationType, kind), dense)
    return path


def write_zeros(path: Path, *, layers: int, width: int, inner: int, n_vocab: int) -> Path:
    """A Llama without a tokenizer whose matrices are zeros in 16 bits, its head the embedding.

    They are a hole in the file: it may be far larger than what the disk holds of it.
    """
    import gguf

    writer: Any = gguf.GGUFWriter(path, "llama")
    _add_sizes(writer, "llama", 48, layers, width, inner)
    zeros, dense = {"token_embd.weight": (n_vocab, width)}, {"output_norm.weight": np.ones(width, np.float32)}
    kept = width // HEADS * KV_HEADS
    for i in range(layers):
        for name, rows, columns in (
            ("attn_q", width, width), ("attn_k", kept, width), ("attn_v", kept, width), ("attn_output", width, width),
            ("ffn_gate", inner, width), ("ffn_up", inner, width), ("ffn_down", width, inner),
        ):  # fmt: skip
            zeros[f"blk.{i}.{name}.weight"] = (rows, columns)
        for name in ("attn_norm", "ffn_norm"):
            dense[f"blk.{i}.{name}.weight"] = np.ones(width, np.float32)
    _write_behind_a_hole(writer, zeros, gguf.GGMLQuantizationType.F16, dense)
    return path


def _write_behind_a_hole(
    writer: Any, zeros: Mapping[str, tuple[int, ...]], kind: Any, dense: Mapping[str, np.ndarray]
) -> None:
    """Write the whole file; the tensors `zeros` of this kind stand before all others, and nothing is written there."""
    import gguf

    per_block, n_bytes = gguf.GGML_QUANT_SIZES[kind]
    hole = 0
    for name, shape in zeros.items():
        stored = (*shape[:-1], shape[-1] // per_block * n_bytes)
        size = int(np.prod(stored))
        writer.add_tensor_info(name, stored, np.dtype(np.uint8), size, kind)
        hole += gguf.GGUFWriter.ggml_pad(size, writer.data_alignment)
    for name, values in dense.items():
        writer.add_tensor_info(name, values.shape, values.dtype, values.nbytes)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    file = writer.fout[0]
    writer.write_padding(file, file.tell())
    file.seek(hole, 1)
    for values in dense.values():
        file.write(values.tobytes())
        writer.write_padding(file, values.nbytes)
    writer.close()


def _add_sizes(writer: Any, family: str, context: int, layers: int, width: int, inner: int) -> None:
    writer.add_name("random")  # llama.cpp looks for tokens of their own in models with some names
    writer.add_context_length(context)
    writer.add_embedding_length(width)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_key_length(width // HEADS)
    writer.add_value_length(width // HEADS)
    writer.add_rope_dimension_count(width // HEADS)
    writer.add_rope_freq_base(1e6 if family == "mistral" else 1e4)
    writer.add_layer_norm_rms_eps(1e-6)
    if family in _SLIDING:
        writer.add_sliding_window(WINDOW)
    if family == "gemma2":
        writer.add_attn_logit_softcapping(50.0)
        writer.add_final_logit_softcapping(30.0)


def add_vocabulary(writer: Any, family: str) -> int:
    """How many tokens it wrote: a vocabulary of bytes as in GPT-2 for Qwen, else one of SentencePiece's kind."""
    import gguf

    control, byte, normal = gguf.TokenType.CONTROL, gguf.TokenType.BYTE, gguf.TokenType.NORMAL
    if family.startswith("qwen"):
        from transformers.convert_slow_tokenizer import bytes_to_unicode

        alphabet: Any = bytes_to_unicode
        tokens = [*alphabet().values(), "\u0120t", "he", "<|endoftext|>", "<|end|>", "<|start|>"]
        kinds = [normal] * (len(tokens) - 3) + [control] * 3
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre("qwen2")
        writer.add_token_merges(["\u0120 t", "h e"])
        eos, bos = len(tokens) - 2, len(tokens) - 1
    else:
        letters = [chr(code) for code in range(33, 127)]
        named = ["<unk>", "<s>", "</s>"]
        if family.startswith("gemma"):  # transformers puts the names of its Gemma in, wherever they are
            named = ["<unk>", "<bos>", "<eos>", "<pad>", "<mask>", "<start_of_turn>", "<end_of_turn>"]
        tokens = [*named, *(f"<0x{i:02X}>" for i in range(256)), "\u2581", *letters, "th", "\u2581th"]
        kinds = [gguf.TokenType.UNKNOWN, *[control] * (len(named) - 1), *[byte] * 256]
        kinds += [normal] * (len(tokens) - len(kinds))
        writer.add_tokenizer_model("llama")
        writer.add_tokenizer_pre("default")
        writer.add_token_scores([-float(i) for i in range(len(tokens))])
        writer.add_unk_token_id(0)
        eos, bos = 2, 1
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_bos_token_id(bos)
    writer.add_eos_token_id(eos)
    writer.add_add_bos_token(False)
    writer.add_chat_template(_TEMPLATE)
    return len(tokens)


def _tensors(
    family: str, layers: int, n_vocab: int, width: int, rng: np.random.Generator
) -> Iterator[tuple[str, np.ndarray]]:
    head, inner = width // HEADS, 2 * width

    def matrix(rows: int, columns: int) -> np.ndarray:
        return rng.normal(0, 1.5 / np.sqrt(columns), (rows, columns)).astype(np.float32)

    def gains(size: int) -> np.ndarray:
        return rng.normal(1, 0.2, size).astype(np.float32)

    yield "token_embd", rng.normal(0, 1, (n_vocab, width)).astype(np.float32)
    yield "output_norm", gains(width)
    if not family.startswith("gemma"):
        yield "output", matrix(n_vocab, width) * 2
    for i in range(layers):
        yield f"blk.{i}.attn_norm", gains(width)
        yield f"blk.{i}.ffn_norm", gains(width)
        if family == "phi3":
            yield f"blk.{i}.attn_qkv", matrix((HEADS + 2 * KV_HEADS) * head, width)
            yield f"blk.{i}.ffn_up", matrix(2 * inner, width)
        else:
            for name, rows in (("attn_q", HEADS * head), ("attn_k", KV_HEADS * head), ("attn_v", KV_HEADS * head)):
                yield f"blk.{i}.{name}", matrix(rows, width)
                if family == "qwen2":
                    yield f"blk.{i}.{name}.bias", rng.normal(0, 0.2, rows).astype(np.float32)
            yield f"blk.{i}.ffn_gate", matrix(inner, width)
            yield f"blk.{i}.ffn_up", matrix(inner, width)
        yield f"blk.{i}.attn_output", matrix(width, HEADS * head)
        yield f"blk.{i}.ffn_down", matrix(width, inner)
        if family in _NORMED:
            yield f"blk.{i}.attn_q_norm", gains(head)
            yield f"blk.{i}.attn_k_norm", gains(head)
        if family in _SLIDING:
            yield f"blk.{i}.post_attention_norm", gains(width)
            yield f"blk.{i}.post_ffw_norm", gains(width)


def _add(writer: Any, name: str, values: np.ndarray, kind: Any) -> None:
    import gguf

    stored = name if name.endswith(".bias") else f"{name}.weight"
    if values.ndim == 1 or kind.name == "F32":
        writer.add_tensor(stored, values)
    elif kind.name == "F16":
        writer.add_tensor(stored, values.astype(np.float16))
    else:
        try:
            data = gguf.quants.quantize(values, kind)
        except NotImplementedError:
            data = _random_blocks(values, kind)
        writer.add_tensor(stored, data, raw_dtype=kind)


# Where the 16-bit scales of a block lie, and the step that one unit of its codes makes. Source: ggml-common.h.
_SCALES = {
    "Q2_K": ((80, 82), 6), "Q3_K": ((108,), 60), "Q4_K": ((0, 2), 200), "Q5_K": ((0, 2), 400), "Q6_K": ((208,), 1000),
    "IQ4_XS": ((0,), 1500),
}  # fmt: skip


def _random_blocks(values: np.ndarray, kind: Any) -> np.ndarray:
    """Random codes in a format that the gguf package does not write, scaled to weights of the usual size."""
    import gguf

    per_block, n_bytes = gguf.GGML_QUANT_SIZES[kind]
    rng = np.random.default_rng(values.size)
    blocks = rng.integers(0, 256, (values.size // per_block, n_bytes), dtype=np.uint8)
    places, units = _SCALES[kind.name]
    scale = np.frombuffer(np.float16(values.std() / units).tobytes(), np.uint8)
    for place in places:
        blocks[:, place : place + 2] = scale
    return blocks.reshape(len(values), -1)
