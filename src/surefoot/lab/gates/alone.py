"""One at a time on this machine: what only counts when nobody else was at work is done under a lock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from surefoot.core.errors import ConfigError, NotEligible


@contextmanager
def alone(cache_dir: Path) -> Iterator[None]:
    """Held by one process of this machine at a time; the others wait.

    Raises: ConfigError when the cache folder cannot be written to; NotEligible when filelock is missing.
    """
    try:
        from filelock import FileLock
    except ImportError as error:
        raise NotEligible("filelock is needed to run a gate: pip install 'surefoot[text]'.") from error
    try:
        cache_dir.mkdir(parents=True, exist_ok=True)
        lock = FileLock(cache_dir / "gates.lock")
        lock.acquire()
    except OSError as error:
        raise ConfigError(f"the lock of the gates cannot be taken in {cache_dir}: {error.strerror or error}") from error
    try:
        yield
    finally:
        lock.release()
