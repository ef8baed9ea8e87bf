"""A GGUF file whose matrices are stored anew in another format: SmolLM2 ships in one format only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np


def requantised(source: Path, out: Path, kind: gguf.GGMLQuantizationType) -> Path:
    """`source` written to `out` with every matrix dequantised and stored as `kind`; vectors stay in float32."""
    reader = gguf.GGUFReader(source)
    writer: Any = gguf.GGUFWriter(out, arch=str(reader.fields["general.architecture"].contents()))
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        if name == "general.file_type":
            writer.add_file_type(
                gguf.LlamaFileType.MOSTLY_F16 if kind.name == "F16" else gguf.LlamaFileType.MOSTLY_Q8_0
            )
            continue
        inner = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(name, field.contents(), field.types[0], sub_type=inner)
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).reshape(tuple(reversed(tensor.shape)))
        if values.ndim == 1:
            writer.add_tensor(tensor.name, values.astype(np.float32))
        elif kind == gguf.GGMLQuantizationType.F16:
            writer.add_tensor(tensor.name, values.astype(np.float16))
        else:
            writer.add_tensor(tensor.name, gguf.quants.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return out
