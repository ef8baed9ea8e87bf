"""Weights that move to large pages keep their contents, and what is not to move stays."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("openvino", reason="the openvino extra is not installed")
pytest.importorskip("torch", reason="torch is not installed, and it writes the models under test")

from openvino_tiny import tiny

from surefoot.targets import large_pages
from surefoot.targets.openvino import Options, build
from surefoot.targets.openvino.export import export


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("pages")
    tiny("llama").save_pretrained(root / "source")
    export(root / "source", root / "model")
    return root / "model"


def large_bytes(address: int) -> int:
    """Bytes on large pages in the mapping that holds `address`."""
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        words = line.split()
        if not words[0].endswith(":"):
            start, end = (int(part, 16) for part in words[0].split("-"))
            inside = start <= address < end
        elif inside and words[0] == "AnonHugePages:":
            return int(words[1]) * 1024
    return 0


@pytest.mark.skipif(not large_pages.available(), reason="this system gives no large pages")
def test_memory_allocated_in_the_block_moves_to_large_pages_and_keeps_its_contents() -> None:
    with large_pages.for_new_memory():
        values = np.arange(8 << 20, dtype=np.int32)
    for thread in threading.enumerate():
        if thread.name == "surefoot-large-pages":
            thread.join()
    if large_bytes(values.ctypes.data + values.nbytes // 2) == 0:
        pytest.skip("this kernel moves no memory on request, which came with Linux 6.1, or has no large page left")
    assert large_bytes(values.ctypes.data + values.nbytes // 2) >= values.nbytes // 2
    assert np.array_equal(values, np.arange(8 << 20, dtype=np.int32))


def test_memory_that_was_there_before_and_small_or_unwritten_memory_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = [{0x1000: 0x800000, 0x5000000: 0x6000000}, {0x1000: 0x800000, 0x5000000: 0x6800000}]
    monkeypatch.setattr(large_pages, "_regions", lambda: seen.pop(0))
    moved: list[object] = []
    monkeypatch.setattr(large_pages, "_move", moved.append)
    with large_pages.for_new_memory():
        pass
    for thread in threading.enumerate():
        if thread.name == "surefoot-large-pages":
            thread.join()
    assert moved == [{0x5000000: 0x6800000}]
    table = [
        "10000000-10800000 rw-p 00000000 00:00 0 ", "Size: 8192 kB", "Rss: 8192 kB", "AnonHugePages: 0 kB",
        "20000000-20100000 rw-p 00000000 00:00 0 ", "Size: 1024 kB", "Rss: 1024 kB",
        "30000000-30800000 rw-p 00000000 00:00 0                          [heap]", "Rss: 100 kB",
        "40000000-40800000 r--p 00000000 00:00 0 ", "Rss: 8192 kB",
        "50000000-50800000 rw-p 00000000 fe:00 77                         /a file", "Rss: 8192 kB",
    ]  # fmt: skip
    assert [(start, end) for start, end, _ in large_pages._mappings(table)] == [
        (0x10000000, 0x10800000),
        (0x20000000, 0x20100000),
        (0x30000000, 0x30800000),
    ]


def test_a_system_that_never_gives_large_pages_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setting = tmp_path / "enabled"
    monkeypatch.setattr(large_pages, "_SETTING", setting)
    assert not large_pages.available()
    setting.write_text("always madvise [never]\n")
    assert not large_pages.available()
    setting.write_text("always [madvise] never\n")
    assert large_pages.available() is (sys.platform == "linux")


@pytest.mark.skipif(not large_pages.available(), reason="this system gives no large pages")
@pytest.mark.parametrize("wanted", [True, False])
def test_the_compiled_form_is_read_into_memory_where_its_weights_are_to_move(
    wanted: bool, folder: Path, tmp_path: Path
) -> None:
    options = Options(threads=1, cache_dir=str(tmp_path), large_pages=wanted)
    build(options, folder)
    again = build(options, folder)
    assert list(tmp_path.glob("*.blob"))
    mapped = str(tmp_path) in Path("/proc/self/maps").read_text()
    assert mapped is not wanted
    assert ("large_pages" in again.caps.settings) is wanted
