"""What runtime tests share: the shipped model's file, and how many threads torch may take."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from surefoot.core.errors import SurefootError


@pytest.fixture(scope="session")
def smollm2_gguf() -> Path:
    """SmolLM2-135M-Instruct as GGUF: the file in SUREFOOT_TEST_GGUF, else the one that Surefoot fetches and keeps."""
    named = os.environ.get("SUREFOOT_TEST_GGUF")
    if named:
        return Path(named)
    from surefoot.engine import models

    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "surefoot"
    try:
        return models.resolve("smollm2-135m", cache, formats=("gguf",)).path
    except SurefootError as error:
        if os.environ.get("CI"):
            raise  # where everything is checked, the proofs on a real model must not vanish unseen
        pytest.skip(f"SmolLM2 could not be fetched ({error}); set SUREFOOT_TEST_GGUF to its GGUF file")
