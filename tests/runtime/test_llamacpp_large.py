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


_REFUSED = """
import resource, sys
from pathlib import Path
from surefoot.core.errors import TargetError
from surefoot.targets.llamacpp import Options, build
file = Path(sys.argv[1])
taken = 4096 * int(Path("/proc/self/statm").read_text().split()[0])
limit = taken + file.stat().st_size * 3 // 2
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    build(Options(threads=1, repack="on"), file)
except TargetError as error:
    print(error)
print(build(Options(threads=1), file).caps.settings["repack"])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits of address space are set as on Linux")
def test_a_copy_that_the_system_refuses_leaves_the_weights_in_the_file(tmp_path: Path) -> None:
    """Enough memory is free, but the process may take no more than the file and half of it again."""
    file = tiny_gguf.write_experts(tmp_path / "model.gguf", 64, 16_384, kind="Q4_0")
    assert file.stat().st_size > 400 * 2**20
    command = [sys.executable, "-c", _REFUSED, str(file)]
    told = subprocess.run(command, capture_output=True, check=True, text=True).stdout.splitlines()
    assert "would rearrange do not fit into memory" in told[0]
    assert "leave them in the file with repack off" in told[0]
    assert told[1:] == ["off"]
