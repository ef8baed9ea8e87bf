"""Runs the real command in a process of its own, and says what a good refusal looks like."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

PATIENCE_S = 300
"""Only to end a hang; nothing is judged by it."""


@dataclass(frozen=True)
class Done:
    """How the command ended. Both texts are strict UTF-8."""

    code: int
    out: str
    err: str


def environment(**changes: str) -> dict[str, str]:
    """This environment, offline, one thread, and without what would change the output."""
    dropped = {"NO_COLOR", "FORCE_COLOR", "SUREFOOT_CACHE", "PYTHONWARNINGS"}
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    return kept | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"} | changes


def start(
    arguments: Sequence[str], *, stdin: int = subprocess.DEVNULL, stdout: int = subprocess.PIPE, **changes: str
) -> subprocess.Popen[bytes]:
    """The command, started and not waited for, Ctrl-C not ignored even where this process ignores it."""
    return subprocess.Popen(
        [sys.executable, *arguments],
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.PIPE,
        env=environment(**changes),
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def wait(process: subprocess.Popen[bytes], stdin: bytes | None = None) -> Done:
    out, err = process.communicate(stdin, timeout=PATIENCE_S)
    return Done(process.returncode, (out or b"").decode(), err.decode())


def surefoot(*arguments: object, stdin: bytes | None = None, env: Mapping[str, str] | None = None) -> Done:
    """`surefoot ARGUMENTS`, run to its end; stdin is empty, not a terminal, unless given."""
    process = start(
        ["-m", "surefoot", *map(str, arguments)],
        stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
        **(env or {}),
    )
    return wait(process, stdin)


def assert_one_sentence(err: str) -> None:
    lines = err.splitlines()
    assert len(lines) == 1, err
    assert lines[0].startswith("surefoot: "), err
    assert lines[0].endswith((".", "?", "!")), err
    assert "Traceback" not in err


def assert_refused(done: Done, code: int, *words: str) -> None:
    """One sentence on stderr that holds `words`, nothing on stdout, the right exit code."""
    assert done.code == code, done
    assert done.out == ""
    assert_one_sentence(done.err)
    for word in words:
        assert word in done.err, done.err
