"""The safetensors files of a model folder, found and checked by their headers without reading a weight."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from surefoot.core.errors import ConfigError, DamagedModel
from surefoot.engine.bounded import json_object, parse_object

INDEX = "model.safetensors.index.json"
_SINGLE = "model.safetensors"

_MAX_HEADER_BYTES = 100_000_000
"""Source: MAX_HEADER_SIZE in the safetensors library, which refuses more."""


@dataclass(frozen=True, slots=True)
class SafetensorsHeader:
    """What a safetensors file says of itself. tensors: (dtype, shape) by name. metadata: what its writer noted."""

    path: Path
    tensors: Mapping[str, tuple[str, tuple[int, ...]]]
    metadata: Mapping[str, Any]
    size_bytes: int


def weights_in(folder: Path) -> tuple[Path, ...]:
    """Every file that holds weights of the model in `folder`, each one whole; () when there is none.

    Raises: DamagedModel when a file is missing, cut off or not in this format.
    """
    if (folder / _SINGLE).exists():
        files: tuple[Path, ...] = (folder / _SINGLE,)
    elif (folder / INDEX).exists():
        files = _indexed(folder / INDEX)
    elif list(folder.glob("model-*.safetensors")):
        raise DamagedModel(f"{folder} holds parts of a model but not {INDEX}, which says what they are: fetch it again")
    else:
        return ()
    for file in files:
        read_header(file)
    return files


def read_header(path: Path) -> SafetensorsHeader:
    """The header of a safetensors file whose tensors end where the file ends.

    Raises: DamagedModel when it is cut off, or is not what that format writes; ConfigError when it cannot be read.
    """
    try:
        size_bytes = path.stat().st_size
        with path.open("rb") as file:
            header_bytes = int.from_bytes(file.read(8), "little")
            if not 2 <= header_bytes <= min(_MAX_HEADER_BYTES, size_bytes - 8):
                raise DamagedModel(
                    f"{path} is cut off or not a safetensors file: it has {size_bytes} bytes "
                    f"and its first eight claim a header of {header_bytes}"
                )
            data = file.read(header_bytes)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from error
    try:
        header = parse_object(data, f"the header of {path}")
        metadata = dict(header.pop("__metadata__", {}))
        end = 8 + header_bytes + max((entry["data_offsets"][1] for entry in header.values()), default=0)
        tensors = {name: (str(entry["dtype"]), _shape(entry["shape"])) for name, entry in header.items()}
    except (ConfigError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise DamagedModel(f"{path} is not a safetensors file: its header is not what that format writes") from error
    if end != size_bytes:
        raise DamagedModel(f"{path} is cut off or damaged: its tensors end at byte {end} and it has {size_bytes} bytes")
    return SafetensorsHeader(path, tensors, metadata, size_bytes)


def _shape(value: list[int]) -> tuple[int, ...]:
    if not all(type(size) is int and size >= 0 for size in value):
        raise ValueError("a size that is no whole number")
    return tuple(value)


def _indexed(index: Path) -> tuple[Path, ...]:
    try:
        names = sorted(set(json_object(index)["weight_map"].values()))
        files = tuple(index.parent / Path(name).name for name in names)
    except (ConfigError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedModel(f"{index} is damaged, it does not map weights to files: fetch it again") from error
    missing = [file.name for file in files if not file.exists()]
    if missing:
        raise DamagedModel(
            f"{index.parent} lacks {len(missing)} of the {len(files)} weight files that its index names: "
            f"{', '.join(missing[:3])}{' ...' if len(missing) > 3 else ''}"
        )
    return files
