"""One look at one runtime, in a process of its own: `python -m surefoot.app.cli.probe NAME` prints a JSON line.

It runs apart because an import may crash, hang or print, and must not take the doctor with it.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.core.errors import NotEligible, SurefootError
from surefoot.core.ports import Target
from surefoot.core.types import as_ids
from surefoot.engine import parts
from surefoot.engine.generator import RUNTIMES

# chosen: the smallest Llama with grouped heads, two layers and an even head width; it loads in milliseconds.
_LAYERS, _WIDTH, _INNER, _HEADS, _KV_HEADS = 2, 32, 64, 4, 2
_VOCABULARY, _CONTEXT = 96, 64


def look_at_runtime(name: str) -> dict[str, Any]:
    """What happened when a tiny model wrote, drafted and rolled back on the runtime `name`."""
    with tempfile.TemporaryDirectory(prefix="surefoot-") as folder:
        try:
            plugin = parts.find("target", name)
            target: Target = plugin.build(plugin.options(), _tiny_model(name, Path(folder)))
            return _try(target)
        except NotEligible as error:
            return {"works": False, "detail": str(error)}
        except (SurefootError, ImportError, OSError) as error:
            return {"works": False, "detail": f"{type(error).__name__}: {error}"}


def _tiny_model(name: str, folder: Path) -> Path:
    """A tiny model in the format that the runtime `name` reads best."""
    runtime = RUNTIMES.get(name)
    if runtime is not None and runtime.reads[0] == "gguf":
        write_tiny_gguf(folder / "tiny.gguf")
        return folder / "tiny.gguf"
    write_tiny_llama(folder)
    if runtime is not None and runtime.reads[0] == "openvino" and any(map(find_spec, runtime.modules)):
        from surefoot.targets.openvino.export import export

        export(folder, folder / "openvino")
        return folder / "openvino"
    return folder


def _try(target: Target) -> dict[str, Any]:
    session = target.open()
    session.prefill(as_ids([1, 2, 3]))
    first = session.extend(as_ids([4, 5, 6])).argmax().tolist()
    session.commit(0)
    again = session.extend(as_ids([4, 5, 6])).argmax().tolist()
    session.close()
    caps = target.caps
    if first != again:
        return {"works": False, "detail": f"three rows gave {first}, and after a rollback {again}"}
    return {"works": True, "detail": "", "device": caps.device, "settings": dict(caps.settings)}


def write_tiny_llama(folder: Path, vocabulary: int = _VOCABULARY, context: int = _CONTEXT) -> None:
    """A Llama of random weights, as config.json and model.safetensors, in `folder`."""
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": _WIDTH,
        "intermediate_size": _INNER,
        "num_hidden_layers": _LAYERS,
        "num_attention_heads": _HEADS,
        "num_key_value_heads": _KV_HEADS,
        "vocab_size": vocabulary,
        "max_position_embeddings": context,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": True,
        "torch_dtype": "float32",
    }
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "model.safetensors").write_bytes(_safetensors(dict(_weights(vocabulary))))


def write_tiny_gguf(path: Path) -> None:
    """The same as a GGUF file, without a vocabulary."""
    import gguf

    writer: Any = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(_CONTEXT)
    writer.add_embedding_length(_WIDTH)
    writer.add_block_count(_LAYERS)
    writer.add_feed_forward_length(_INNER)
    writer.add_head_count(_HEADS)
    writer.add_head_count_kv(_KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("none")
    writer.add_vocab_size(_VOCABULARY)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, _LAYERS)
    for tensor, values in _weights(_VOCABULARY):
        writer.add_tensor(names.get_name(tensor, (".weight",)), values)
    for write in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file):
        write()
    writer.close()


def _weights(vocabulary: int) -> Iterator[tuple[str, np.ndarray[Any, np.dtype[np.float32]]]]:
    noise = np.random.default_rng(0)
    inner = _WIDTH // _HEADS * _KV_HEADS
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens": (vocabulary, _WIDTH), "model.norm": (_WIDTH,)}
    for layer in range(_LAYERS):
        for name, shape in (
            ("self_attn.q_proj", (_WIDTH, _WIDTH)),
            ("self_attn.k_proj", (inner, _WIDTH)),
            ("self_attn.v_proj", (inner, _WIDTH)),
            ("self_attn.o_proj", (_WIDTH, _WIDTH)),
            ("mlp.gate_proj", (_INNER, _WIDTH)),
            ("mlp.up_proj", (_INNER, _WIDTH)),
            ("mlp.down_proj", (_WIDTH, _INNER)),
            ("input_layernorm", (_WIDTH,)),
            ("post_attention_layernorm", (_WIDTH,)),
        ):
            shapes[f"model.layers.{layer}.{name}"] = shape
    for tensor, size in shapes.items():
        values = noise.normal(size=size) / np.sqrt(_WIDTH) if len(size) == 2 else np.ones(size)
        yield f"{tensor}.weight", values.astype(np.float32)


def _safetensors(tensors: Mapping[str, np.ndarray[Any, np.dtype[np.float32]]]) -> bytes:
    """Source: the safetensors format, header length, JSON header, then the tensors without gaps."""
    header, end = {}, 0
    for name, values in tensors.items():
        header[name] = {"dtype": "F32", "shape": values.shape, "data_offsets": [end, end + values.nbytes]}
        end += values.nbytes
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + b"".join(values.tobytes() for values in tensors.values())


if __name__ == "__main__":
    print(json.dumps(look_at_runtime(sys.argv[1])))  # noqa: T201 - this line is what the process is for
