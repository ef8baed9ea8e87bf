"""Shards of a GGUF file joined into one, for runtimes that read single files."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from surefoot.core.errors import ConfigError
from surefoot.engine.models import ModelFiles, identity


def merged_gguf(files: ModelFiles, cache_dir: Path) -> Path:
    """The model as one GGUF file in the cache folder, made now when it is not there; the file itself if it is single.

    Raises: ConfigError when it cannot be written; nothing half written is left.
    """
    if len(files.weights) == 1:
        return files.path
    out = cache_dir / "merged" / f"{files.path.stem}-{identity(files)}.gguf"
    if out.is_file():
        return out
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".merging-", dir=out.parent) as folder:
            whole = Path(folder) / out.name
            _merge(files.weights, whole)
            with whole.open("rb") as file:
                os.fsync(file.fileno())
            whole.replace(out)
    except OSError as error:
        raise ConfigError(
            f"the {len(files.weights)} shards of {files.name} cannot be joined in {out.parent}: "
            f"{error.strerror or error}; make room there, or choose another cache folder with SUREFOOT_CACHE."
        ) from error
    return out


def _merge(shards: tuple[Path, ...], out: Path) -> None:
    """Write the first shard's metadata, then every tensor as it is. Tensors are mapped, never held."""
    import gguf

    readers = [gguf.GGUFReader(shard) for shard in shards]
    tensors = [tensor for reader in readers for tensor in reader.tensors]
    fields = readers[0].fields
    writer: Any = gguf.GGUFWriter(
        out, arch=str(fields["general.architecture"].contents()), endianess=readers[0].endianess
    )
    for name, field in fields.items():
        # The writer sets the GGUF.* ones and the architecture itself; split.* is what is undone here.
        if name.startswith(("GGUF.", "split.")) or name == "general.architecture":
            continue
        kind = field.types[0]
        inner = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(name, field.contents(), kind, sub_type=inner)
    for tensor in tensors:
        writer.add_tensor_info(
            tensor.name, tensor.data.shape, tensor.data.dtype, tensor.data.nbytes, tensor.tensor_type
        )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for tensor in tensors:
        writer.write_tensor_data(tensor.data, tensor_endianess=readers[0].endianess)
    writer.close()
