"""The library's front door: the only place besides the command line that looks at the environment."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from surefoot.app import environment
from surefoot.engine import generator
from surefoot.engine.config import load_config
from surefoot.engine.embedded import Progress


def load(
    model: str, *, config: Path | str | None = None, progress: Progress | None = None, **settings: Any
) -> generator.Model:
    """A model ready to write: a folder, a GGUF file, a Hub id, or smollm2-135m.

    `config` is a TOML file; `settings` are those of the command line with underscores (drafts="off", draft_len=4,
    temperature=0.7, threads=2, ...) and go before the file.

        model = surefoot.load("smollm2-135m")
        for piece in model.generate("Write a limerick about stairs."):
            print(piece, end="", flush=True)

    Raises: ConfigError for what you can fix, NotEligible where it cannot work.
    """
    loaded = load_config(Path(config) if config else None, settings)
    return generator.load(model, loaded, cache_dir=environment.read(os.environ).cache_dir(), progress=progress)
