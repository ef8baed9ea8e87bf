"""JSON from files that others wrote, in bounded time and memory: how much is read is decided before it is parsed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from surefoot.core.errors import ConfigError

MAX_BYTES = 16 * 2**20
"""chosen: twice the largest index of a published model (DeepSeek-V3's is 8.9 MB); settings are far smaller."""

MAX_ITEMS = 2_000_000
"""chosen: the header of a model of 100,000 tensors in one file holds half as many. An item costs up to 70 bytes once it
is parsed, so this bounds the memory at 140 MB."""


def json_object(path: Path, max_bytes: int = MAX_BYTES) -> dict[str, Any]:
    """The settings in a JSON file; {} when there is no such file.

    Raises: ConfigError when it is unreadable, too large, or holds something else.
    """
    try:
        with path.open("rb") as file:
            data = file.read(max_bytes + 1)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from error
    if len(data) > max_bytes:
        raise ConfigError(f"{path} is larger than {max_bytes // 2**20} MiB, and no settings of a model are")
    return parse_object(data, str(path))


def parse_object(data: bytes, where: str) -> dict[str, Any]:
    """The object that these bytes hold; `where` names them in an error. Raises: ConfigError, in one sentence."""
    items = sum(map(data.count, (b"[", b"{", b",", b":")))
    if items > MAX_ITEMS:
        raise ConfigError(f"{where} holds {items} JSON items, and no model has more than {MAX_ITEMS}: it is damaged")
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{where} is damaged, it is not JSON: {_short(error)}") from error
    if not isinstance(value, dict):
        raise ConfigError(f"{where} is damaged, it holds a {type(value).__name__} where settings by name belong")
    return value


def _short(error: Exception) -> str:
    """The reason without what the file says, which may be megabytes."""
    text = str(error)
    return text if len(text) <= 120 else f"{text[:120]}..."
