"""The safetensors files of a model folder, found and checked by their headers without reading a weight."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from surefoot.core.errors import ConfigError

_INDEX = "model.safetensors.index.json"
_SINGLE = "model.safetensors"
_MAX_HEADER_BYTES = 100_000_000  # Source: MAX_HEADER_SIZE in the safetensors library, which refuses more


def weights_in(folder: Path) -> tuple[Path, ...]:
    """Every file that holds weights of the model in `folder`, each one whole; () when there is none.

    Raises: ConfigError when a file is missing, cut off or not in this format.
    """
    if (folder / _SINGLE).exists():
        files: tuple[Path, ...] = (folder / _SINGLE,)
    elif (folder / _INDEX).exists():
        files = _indexed(folder / _INDEX)
    elif list(folder.glob("model-*.safetensors")):
        raise ConfigError(f"{folder} holds parts of a model but not {_INDEX}, which says what they are: fetch it again")
    else:
        return ()
    for file in files:
        _check(file)
    return files


def _indexed(index: Path) -> tuple[Path, ...]:
    try:
        names = sorted(set(json.loads(index.read_bytes())["weight_map"].values()))
        files = tuple(index.parent / Path(name).name for name in names)
    except OSError as error:
        raise ConfigError(f"{index} cannot be read: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{index} is damaged, it does not map weights to files: fetch it again") from error
    missing = [file.name for file in files if not file.exists()]
    if missing:
        raise ConfigError(
            f"{index.parent} lacks {len(missing)} of the {len(files)} weight files that its index names: "
            f"{', '.join(missing[:3])}{' ...' if len(missing) > 3 else ''}"
        )
    return files


def _check(path: Path) -> None:
    """The header is readable and its tensors end where the file ends."""
    try:
        size_bytes = path.stat().st_size
        with path.open("rb") as file:
            header_bytes = int.from_bytes(file.read(8), "little")
            if not 2 <= header_bytes <= min(_MAX_HEADER_BYTES, size_bytes - 8):
                raise ConfigError(
                    f"{path} is cut off or not a safetensors file: it has {size_bytes} bytes "
                    f"and its first eight claim a header of {header_bytes}"
                )
            header: dict[str, Any] = json.loads(file.read(header_bytes))
        end = (
            8 + header_bytes + max((t["data_offsets"][1] for n, t in header.items() if n != "__metadata__"), default=0)
        )
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise ConfigError(f"{path} is not a safetensors file: its header is not what that format writes") from error
    if end != size_bytes:
        raise ConfigError(f"{path} is cut off or damaged: its tensors end at byte {end} and it has {size_bytes} bytes")
