"""Where the weights of a GGUF file lie: in the file, behind 4 GiB too, unless llama.cpp rearranges them in memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from own_memory import needs_smaps, own_bytes

import tiny_gguf
from surefoot.engine.config import load_config
from surefoot.engine.generator import Model, load
from surefoot.lab.gates.writing import plain
from surefoot.targets import large_pages

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


_BUILD = """
import sys, threading
from pathlib import Path
from surefoot.targets import large_pages
from surefoot.targets.llamacpp import Options, build
moved = []
large_pages._move = lambda areas: moved.append(sum(end - start for start, end in areas.items()))
build(Options(threads=1, ctx_size=256, repack=sys.argv[2]), Path(sys.argv[1]))
for thread in threading.enumerate():
    if thread.name == "surefoot-large-pages":
        thread.join()
print(sum(moved))
"""


@pytest.mark.skipif(not large_pages.available(), reason="this system gives no large pages")
def test_rearranged_weights_and_no_others_are_put_on_large_pages(tmp_path: Path) -> None:
    """In processes of their own, where no memory of other tests lies beside them."""
    file = tiny_gguf.write(tmp_path / "model.gguf", kind="Q4_0", width=1024, context=256)
    moved = {}
    for repack in ("off", "on"):
        told = subprocess.run([sys.executable, "-c", _BUILD, str(file), repack], capture_output=True, check=True)
        moved[repack] = int(told.stdout)
    assert moved["off"] == 0
    assert moved["on"] > 8 * 2**20  # 18.6 million weights of 4.5 bits
