"""GGUF files of every family on llama.cpp, through the engine: the same text with and without drafts, as the vendor's.

Tiny random models in F32, whose rows in a block are their single rows but for rounding.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from same_text import check_equal, check_same_text

import tiny_gguf
from surefoot.core.errors import NotEligible
from surefoot.core.sampling import Sampling
from surefoot.engine import models
from surefoot.engine.config import load_config
from surefoot.engine.generator import Model, load
from surefoot.engine.gguf_header import read_header
from surefoot.engine.gguf_merge import merged_gguf
from surefoot.engine.inspect import inspect
from surefoot.lab.gates.writing import plain
from surefoot.lab.vendor import llama_server, open_vendor

pytest.importorskip("xllamacpp", reason="the llamacpp extra is not installed")
PROMPT = "The stair has steps, the stair has steps, the stair"


def model_of(file: Path, **runtime: Any) -> Model:
    wanted = {"runtime": {"name": "llamacpp", "threads": 1, **runtime}, "allow_near_ties": True}
    return load(str(file), load_config(overrides=wanted), cache_dir=file.parent / "cache")


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return model_of(tiny_gguf.write(tmp_path_factory.mktemp("gguf") / "llama.gguf", context=256))


@pytest.mark.parametrize("family", tiny_gguf.FAMILIES)
def test_every_family_writes_the_same_with_drafts_without_and_by_the_server(family: str, tmp_path: Path) -> None:
    model = model_of(tiny_gguf.write(tmp_path / "tiny.gguf", family, context=256))
    prompt = model.encode(PROMPT)
    off = check_same_text(model, prompt, Sampling(), 60)
    theirs = open_vendor(model).plain(prompt, 60)
    check_equal(model, prompt, off, theirs.ids, "the server")


def test_the_same_seed_writes_the_same_text(llama: Model) -> None:
    check_same_text(llama, llama.encode(PROMPT), Sampling(temperature=0.8, top_k=40, seed=3), 60)


def test_shards_write_what_the_single_file_writes(llama: Model, tmp_path: Path) -> None:
    first = tiny_gguf.write(tmp_path / "tiny.gguf", context=256, shard_tensors=5)
    assert first.name.startswith("tiny-00001-of-")
    model = model_of(sorted(tmp_path.glob("tiny-*.gguf"))[1])
    assert model.path == first
    assert plain(model, model.encode(PROMPT), 30) == plain(llama, llama.encode(PROMPT), 30)


def test_shards_of_which_the_first_holds_no_weights(llama: Model, tmp_path: Path) -> None:
    tiny_gguf.write(tmp_path / "tiny.gguf", context=256, shard_tensors=8, empty_first=True)
    shards = sorted(tmp_path.glob("tiny-*.gguf"))
    assert [len(read_header(shard).tensors) for shard in shards] == [0, 8, 8, 5]
    model = model_of(shards[2])
    due = plain(llama, llama.encode(PROMPT), 30)
    assert plain(model, model.encode(PROMPT), 30) == due
    sizes = [inspect(str(path), tmp_path).facts.size for path in (shards[0], llama.path)]
    assert len({size and size.value.parameters for size in sizes}) == 1
    joined = model_of(merged_gguf(models.resolve(str(shards[0]), tmp_path), tmp_path))
    assert plain(joined, joined.encode(PROMPT), 30) == due


def test_the_vendor_runs_with_the_settings_of_the_target(llama: Model) -> None:
    vendor = open_vendor(llama)
    assert vendor.name.startswith("llama.cpp's server of xllamacpp ")
    ours = {"xllamacpp", "max_rows", "min_rows"}
    assert vendor.settings == {name: value for name, value in llama.target.caps.settings.items() if name not in ours}
    assert vendor.lookup_settings["spec_type"] == "ngram-simple"


def test_sides_of_the_vendor_say_what_a_record_needs(llama: Model) -> None:
    vendor = open_vendor(llama, itertools.count().__next__)
    prompt = llama.encode(PROMPT)
    due = plain(llama, prompt, 40)
    for side in (vendor.plain(prompt, 40), vendor.lookup(prompt, 40, 4)):
        assert tuple(side.ids) == due
        assert (side.n_output, side.n_first, side.steps) == (len(due), 1, None)
        assert side.finish == ("stop" if due[-1] in llama.tokenizer.eos_ids else "length")
        assert side.decode_s > 0
    with pytest.raises(NotEligible, match="at least 1 token"):
        vendor.lookup(prompt, 8, 0)


def test_the_context_ends_a_text_as_it_does_ours(llama: Model) -> None:
    """Where it is shorter than the model's own, at whose end the server stops a token earlier."""
    short = model_of(llama.path, ctx_size=200)
    prompt = short.encode(PROMPT * 12)[:197]
    side = open_vendor(short).plain(prompt, 40)
    assert (side.n_output, side.finish) == (4, "context")
    assert tuple(side.ids) == plain(short, prompt, 4)


UNANSWERED = """
import sys
from pathlib import Path
from surefoot.core.errors import TargetError
from surefoot.engine.config import load_config
from surefoot.engine.generator import load
from surefoot.lab.vendor import llamacpp, open_vendor
def failing(url, body, name):
    raise TargetError(f"{name} failed", backend="llamacpp", operation="generate")
llamacpp._post = failing
wanted = {"runtime": {"name": "llamacpp", "threads": 1}, "allow_near_ties": True}
model = load(sys.argv[1], load_config(overrides=wanted), cache_dir=Path(sys.argv[1]).parent / "cache")
vendor = open_vendor(model)
try:
    vendor.plain(model.encode("stairs"), 2)
except TargetError as error:
    print(error)
del vendor
print("dropped")
"""
PATIENCE_S = 300
"""Only to end a hang; nothing is judged by it."""


def test_the_server_is_another_process_and_ends_with_its_vendor(llama: Model) -> None:
    """In this one its threads would slow ours down: what is compared with it would be wrong."""
    psutil = pytest.importorskip("psutil", reason="the bench extra is not installed")
    me = psutil.Process()
    before = set(me.children())
    vendor = open_vendor(llama)
    assert vendor.plain(llama.encode("stairs"), 4).n_output == 4
    (server,) = set(me.children()) - before
    threads = me.num_threads()
    vendor.lookup(llama.encode("stairs"), 4, 2)
    assert len(set(me.children()) - before) == 2
    assert me.num_threads() == threads
    vendor.lookup(llama.encode("stairs"), 4, 3)
    assert len(set(me.children()) - before) == 2, "the one for another draft length is gone"
    del vendor
    assert set(me.children()) == before
    assert not server.is_running()


def test_a_server_that_does_not_start_says_why(llama: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llama_server, "__name__", "surefoot.no_such_module")
    with pytest.raises(NotEligible, match="does not start: its process ended"):
        open_vendor(llama).plain(llama.encode("stairs"), 4)


def test_a_server_that_never_answered_hangs_nothing(llama: Model) -> None:
    """Neither where its vendor is dropped nor at the end of the process."""
    done = subprocess.run(
        [sys.executable, "-c", UNANSWERED, str(llama.path)], capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].endswith(" failed")
    assert done.stdout.splitlines()[1:] == ["dropped"]


QUIET = """
import sys, time
from pathlib import Path
import numpy as np
from surefoot.targets.llamacpp import Options, build
def tasks(): return len(list(Path("/proc/self/task").iterdir()))
before = tasks()
session = build(Options(threads=int(sys.argv[2])), Path(sys.argv[1])).open()
session.prefill(np.arange(20, dtype=np.int32))
for _ in range(5):
    session.extend(np.arange(4, dtype=np.int32)).argmax()
    session.commit(2)
# The thread that loads and the one that moves weights end, and the system takes its time to drop them.
for _ in range(3000):
    if tasks() - before == int(sys.argv[2]) - 1: break
    time.sleep(0.01)
print(tasks() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="only Linux lists a process's threads there")
@pytest.mark.parametrize("threads", [1, 2])
def test_no_thread_but_those_asked_for_and_nothing_printed(llama: Model, threads: int) -> None:
    """The host's own work runs on the calling thread, which is the first of llama.cpp's."""
    done = subprocess.run(
        [sys.executable, "-c", QUIET, str(llama.path), str(threads)],
        capture_output=True, text=True, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert (done.stdout, done.stderr) == (f"{threads - 1}\n", "")
