"""GGUF files for tests: small whole ones from the gguf package's own writer, and damaged ones byte by byte."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import gguf
import numpy as np


def write(path: Path, *, n_tensors: int = 2, **metadata: Any) -> Path:
    """A small GGUF file; `metadata` keys have __ for dots."""
    writer = gguf.GGUFWriter(path, "llama")
    for name, value in metadata.items():
        key = name.replace("__", ".")
        if isinstance(value, bool):
            writer.add_bool(key, value)
        elif isinstance(value, int):
            writer.add_uint32(key, value)
        elif isinstance(value, str):
            writer.add_string(key, value)
        else:
            writer.add_array(key, value)
    for i in range(n_tensors):
        writer.add_tensor(f"blk.{i}.weight", np.arange(64, dtype=np.float32).reshape(2, 32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def string(text: str | bytes) -> bytes:
    data = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(data)) + data


ARCHITECTURE = string("general.architecture") + struct.pack("<I", 8) + string("llama")


def raw(*, version: int = 3, n_tensors: int = 0, n_keys: int = 1, body: bytes = ARCHITECTURE) -> bytes:
    """The bytes of a header that claims what it is told to."""
    return b"GGUF" + struct.pack("<IQQ", version, n_tensors, n_keys) + body
