"""What the environment variables say; nothing below `app` reads one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Environment:
    """SUREFOOT_CACHE (the folder for what is fetched), NO_COLOR, and all others for the rules of the platform."""

    cache: str
    no_color: bool
    variables: Mapping[str, str]

    def cache_dir(self) -> Path:
        """The folder for what is fetched: SUREFOOT_CACHE, else Surefoot's place in the user's cache."""
        if self.cache:
            return Path(self.cache).expanduser()
        from surefoot.engine.embedded import user_cache_dir

        return user_cache_dir(self.variables)


def read(variables: Mapping[str, str]) -> Environment:
    """The environment in `variables`. Source: no-color.org, any text in NO_COLOR switches colour off."""
    return Environment(variables.get("SUREFOOT_CACHE", ""), bool(variables.get("NO_COLOR")), variables)
