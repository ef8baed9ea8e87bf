"""A GGUF file of more than 4 GiB is read where it lies: none of it is copied, and what stands behind 4 GiB is found."""

from __future__ import annotations

from pathlib import Path

import pytest
from own_memory import needs_smaps, own_bytes

import tiny_gguf
from surefoot.engine.config import load_config
from surefoot.engine.generator import Model, load
from surefoot.lab.gates.writing import plain

pytest.importorskip("xllamacpp", reason="the llamacpp extra is not installed")

EXPERTS, INNER = 512, 20_480
"""So many rows in Q4_K are 4.5 GB, of which a token reads one expert, 9 MB."""


def model_of(file: Path) -> Model:
    wanted = {"runtime": {"name": "llamacpp", "threads": 1}, "allow_near_ties": True}
    return load(str(file), load_config(overrides=wanted), cache_dir=file.parent / "cache")


@needs_smaps
def test_a_file_of_more_than_4_gib_is_not_copied(tmp_path: Path) -> None:
    small = model_of(tiny_gguf.write_experts(tmp_path / "small.gguf", 2, 256))
    prompt = small.encode("The stair has steps")
    due = plain(small, prompt, 12)
    file = tiny_gguf.write_experts(tmp_path / "large.gguf", EXPERTS, INNER)
    size = file.stat().st_size
    assert size > 2**32
    if file.stat().st_blocks * 512 > size / 2:
        pytest.skip("this file system keeps no holes, and would need the whole 4.5 GB")
    before = own_bytes()
    large = model_of(file)
    assert plain(large, prompt, 12) == due
    assert own_bytes() - before < size / 50
