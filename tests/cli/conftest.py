"""What the tests of the command share: models, built once for all of them and never changed."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_tiny import write_gguf, write_model


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole model folder."""
    return write_model(tmp_path_factory.mktemp("cli") / "tiny-llama")


@pytest.fixture(scope="session")
def gguf_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gguf(tmp_path_factory.mktemp("cli") / "tiny.gguf")
