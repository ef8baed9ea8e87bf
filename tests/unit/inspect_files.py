"""Models for `inspect`: small whole ones in each format, and the pieces that hostile ones are made of."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent.parent / "data" / "inspect"
"""Files that the formats' own tools wrote; the scripts beside them say how."""

LLAMA: Mapping[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "vocab_size": 211,
}

TENSORS: Mapping[str, tuple[str, Sequence[int]]] = {
    "model.embed_tokens.weight": ("F16", (211, 64)),
    "model.layers.0.self_attn.q_proj.weight": ("F16", (64, 64)),
}

_BYTES = {"F16": 2, "BF16": 2, "F32": 4, "U32": 4}


def header(tensors: Mapping[str, tuple[str, Sequence[int]]], metadata: Mapping[str, str] | None = None) -> bytes:
    """The header of a safetensors file, and as many zeros as its tensors take."""
    entries: dict[str, Any] = {} if metadata is None else {"__metadata__": metadata}
    at = 0
    for name, (kind, shape) in tensors.items():
        end = at + _BYTES[kind]
        for size in shape:
            end = at + (end - at) * size
        entries[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text + bytes(at)


def folder(
    path: Path,
    config: Mapping[str, Any] = LLAMA,
    tensors: Mapping[str, tuple[str, Sequence[int]]] = TENSORS,
    metadata: Mapping[str, str] | None = None,
) -> Path:
    """A folder in transformers' layout."""
    path.mkdir(parents=True, exist_ok=True)
    (path / "config.json").write_text(json.dumps(config))
    (path / "model.safetensors").write_bytes(header(tensors, metadata))
    return path


def port(number: int, shape: Sequence[int], names: str = "") -> str:
    named = f' names="{names}"' if names else ""
    return f'<port id="{number}" precision="F32"{named}>{"".join(f"<dim>{size}</dim>" for size in shape)}</port>'


def layer(number: int, kind: str, inner: str, name: str = "") -> str:
    return f'<layer id="{number}" name="{name or kind}" type="{kind}" version="opset1">{inner}</layer>'


def ir(path: Path, layers: str, edges: str = "", config: Mapping[str, Any] | None = None) -> Path:
    """An OpenVINO folder of this graph."""
    path.mkdir(parents=True, exist_ok=True)
    text = f'<?xml version="1.0"?><net name="g" version="11"><layers>{layers}</layers><edges>{edges}</edges></net>'
    (path / "openvino_model.xml").write_text(text)
    (path / "openvino_model.bin").write_bytes(b"\0")
    if config is not None:
        (path / "config.json").write_text(json.dumps(config))
    return path


def varint(value: int) -> bytes:
    out = bytearray()
    while True:
        out.append(value & 127 | (128 if value > 127 else 0))
        value >>= 7
        if not value:
            return bytes(out)


def proto(*fields: tuple[int, int | bytes | str]) -> bytes:
    """A message of these fields: whole numbers, or bytes."""
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
        else:
            data = value.encode() if isinstance(value, str) else value
            out += varint(number << 3 | 2) + varint(len(data)) + data
    return out


def value_info(name: str, *sizes: int | str) -> bytes:
    """An input or output of an ONNX graph."""
    dims = [(1, proto((1, size) if isinstance(size, int) else (2, size))) for size in sizes]
    return proto((1, name), (2, proto((1, proto((1, 1), (2, proto(*dims)))))))


def onnx_model(*graph: tuple[int, bytes]) -> bytes:
    return proto((1, 10), (7, proto(*graph)))


def array(name: str, shape: Sequence[int], *, state: bool = False, kind: bytes = b"") -> bytes:
    """A feature of a Core ML model."""
    tensor = proto((1, b"".join(map(varint, shape)))) + kind
    return proto((1, name), (3, proto((8, proto((1, tensor)))) if state else proto((5, tensor))))


def package(path: Path, model: bytes, manifest: Any = None) -> Path:
    """A Core ML package of this specification."""
    place = path / "Data" / "com.apple.CoreML"
    place.mkdir(parents=True, exist_ok=True)
    (place / "model.mlmodel").write_bytes(model)
    entry = {"path": "com.apple.CoreML/model.mlmodel"}
    found = {"itemInfoEntries": {"a": entry}, "rootModelIdentifier": "a"} if manifest is None else manifest
    (path / "Manifest.json").write_text(found if isinstance(found, str) else json.dumps(found))
    return path
