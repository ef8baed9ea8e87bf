"""What may come in between while llama.cpp loads or computes: Ctrl-C, threads, full memory, a fork, the end."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiny_gguf
from surefoot.core.errors import TargetError
from surefoot.targets.llamacpp import Options, api, build, memory
from surefoot.targets.llamacpp import load as loading

pytest.importorskip("xllamacpp", reason="the llamacpp extra is not installed")
PATIENCE_S = 300
"""Only to end a hang; nothing is judged by it."""


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_gguf.write(tmp_path_factory.mktemp("gguf") / "llama.gguf", context=64)


def raised(*_: object) -> None:
    raise KeyboardInterrupt


def pressed(real: Callable[..., Any]) -> Callable[..., Any]:
    """Ctrl-C at the first call, and the call all the same."""
    left = [1]

    def call(*given: Any) -> Any:
        if left:
            left.clear()
            os.kill(os.getpid(), signal.SIGINT)
        return real(*given)

    return call


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Python's own answer to Ctrl-C, also where the tests were started in the background, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("place", ["log", "progress"])
@pytest.mark.parametrize("how", ["raised", "pressed"])
def test_an_interrupt_in_a_callback_comes_out_of_loading(
    place: str, how: str, llama: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    owner: Any = api.open_api("auto") if place == "log" else loading
    name = "_note" if place == "log" else "shortage"
    monkeypatch.setattr(owner, name, raised if how == "raised" else pressed(getattr(owner, name)))
    with pytest.raises(KeyboardInterrupt):
        build(Options(threads=1), llama)
    monkeypatch.undo()
    assert build(Options(threads=1), llama).open().prefill(np.zeros(2, np.int32)).rows == 1
    assert capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("how", [raised, pressed])
def test_a_cache_is_freed_that_was_interrupted(how: Any, llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = build(Options(threads=1), llama)
    held = target.open()
    library, freed = target.weights.api, list[int]()
    free = library.fn.llama_free
    monkeypatch.setattr(library.fn, "llama_free", lambda address: freed.append(address) or free(address))
    monkeypatch.setattr(library, "_note", raised if how is raised else pressed(library._note))
    with pytest.raises(KeyboardInterrupt):
        target.open()
    assert len(freed) == 1
    monkeypatch.undo()
    assert {session.prefill(np.zeros(2, np.int32)).rows for session in (held, target.open())} == {1}


def test_threads_that_open_a_library_at_once_get_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second one would listen to the same log, and be freed with its callback when its model is."""
    made: list[Any] = []
    second = threading.Event()

    class Slow:
        def __init__(self, door: object) -> None:
            made.append(self)
            if len(made) > 1:
                second.set()
            second.wait(0.2)

        def check_process(self, operation: str) -> None: ...

    monkeypatch.setattr(api, "Api", Slow)
    monkeypatch.setattr(api, "_once", functools.cache(api._once.__wrapped__))
    with ThreadPoolExecutor(2) as pool:
        one, two = pool.map(api.open_api, ["xllamacpp"] * 2)
    assert one is two
    assert len(made) == 1


def test_threads_that_load_at_once_share_the_library(llama: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        one, two = pool.map(lambda _: build(Options(threads=1), llama), range(2))
    assert one.weights.api is two.weights.api
    assert one.weights.address != two.weights.address


def test_each_further_cache_has_to_fit(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = build(Options(threads=1), llama)
    first = target.open()
    monkeypatch.setattr(memory, "available_bytes", lambda: 1000)
    with pytest.raises(TargetError, match=r"a cache of 112 tokens needs .* are free: give a smaller ctx_size"):
        target.open()
    first.close()
    target.open()  # on the cache of the closed one


FORKED = """
import os, sys
from pathlib import Path
import numpy as np
from surefoot.core.errors import TargetError
from surefoot.targets.llamacpp import Options, build
path, ids = Path(sys.argv[1]), np.zeros(2, np.int32)
target = build(Options(threads=2), path)
session = target.open()
session.prefill(ids)
child = os.fork()
if child == 0:
    for use in (lambda: session.extend(ids), target.open, lambda: build(Options(threads=2), path)):
        try:
            print("not refused", use())
        except TargetError as error:
            print(error)
    sys.stdout.flush()
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), session.extend(ids).rows)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere processes are started and not forked")
def test_a_forked_process_is_refused_and_hangs_nowhere(llama: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKED, str(llama)], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    *told, last = done.stdout.splitlines()
    assert len(told) == 3
    for line in told:
        assert "forked from one that had loaded llama.cpp" in line, line
        assert "load the model after the fork only, or start processes with" in line, line
    assert told[0].startswith("llama.cpp failed in extend of 2 tokens behind 2: ")
    assert last == "7 2"


ENDING = """
import sys, threading
from pathlib import Path
import numpy as np
from surefoot.targets.llamacpp import Options, build
target = build(Options(threads=int(sys.argv[2])), Path(sys.argv[1]))
begun = threading.Semaphore(0)
def work():
    session = target.open()
    while True:
        begun.release()
        session.prefill(np.arange(400, dtype=np.int32) % 300)
        session.reset(0)
threading.Thread(target=work, daemon=True).start()
for _ in range(3):
    begun.acquire()
print("end")
"""


@pytest.mark.parametrize("threads", ["1", "2"])
def test_a_process_ends_well_while_a_daemon_thread_computes(threads: str, tmp_path: Path) -> None:
    file = tiny_gguf.write(tmp_path / "tiny.gguf", width=512, layers=4, context=600)
    command = [sys.executable, "-c", ENDING, str(file), threads]
    for _ in range(3):
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
        assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")
