"""What may happen while llama.cpp loads a model or takes a cache: other threads."""

from __future__ import annotations

import functools
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import tiny_gguf
from surefoot.targets.llamacpp import Options, api, build

pytest.importorskip("xllamacpp", reason="the llamacpp extra is not installed")


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_gguf.write(tmp_path_factory.mktemp("gguf") / "llama.gguf", context=64)


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
