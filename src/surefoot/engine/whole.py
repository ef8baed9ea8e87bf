"""Files that appear whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from surefoot.core.errors import ConfigError


def write_whole(path: Path, text: str, what: str = "") -> None:
    """Nothing; the file holds the text, on the disk. what: names the file in an error, before its path.

    Raises: ConfigError where the disk refuses, and then a file that was there is as it was.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        raise ConfigError(f"{what}{path} cannot be written: {error.strerror or error}") from error
    finally:
        part.unlink(missing_ok=True)
