"""What the environment variables say; nothing below `app` reads one."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
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


def hush(variables: MutableMapping[str, str], quiet: bool) -> None:
    """Tell libraries not to talk on stderr: what matters in what they say is raised or reported by us.

    What the user has set stays. transformers 5 reads its level from nowhere else before it is imported.
    """
    variables.setdefault("TRANSFORMERS_VERBOSITY", "error")
    if quiet:
        variables.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")


def read(variables: Mapping[str, str]) -> Environment:
    """The environment in `variables`. Source: no-color.org, any text in NO_COLOR switches colour off."""
    return Environment(variables.get("SUREFOOT_CACHE", ""), bool(variables.get("NO_COLOR")), variables)
