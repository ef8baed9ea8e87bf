"""Speculative decoding that never changes a token and never loses time."""

from __future__ import annotations

from typing import Any

__all__ = [
    "ConfigError", "DamagedModel", "Generation", "LawError", "Model", "NotEligible", "SurefootError", "TargetError",
    "load",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """The public names, imported on first use so that `import surefoot` stays light."""
    if name == "__version__":
        from importlib import metadata

        return metadata.version("surefoot")
    if name == "load":
        from surefoot.app.library import load

        return load
    if name in ("Generation", "Model"):
        from surefoot.engine import generator

        return getattr(generator, name)
    if name in __all__:
        from surefoot.core import errors

        return getattr(errors, name)
    raise AttributeError(f"module 'surefoot' has no attribute {name!r}")
