"""Installs PyTorch into the environment of the Python that runs this, without a CUDA toolkit.

    python tools/install_torch_cpu.py [cpu | REQUIREMENT]

On Linux the default index serves torch with several gigabytes of CUDA libraries. The CPU build has a local version of
its own, `+cpu`: it is taken from the indexes and folders that pip is configured with, and where they lack it from
PyTorch's own index of CPU wheels. Everywhere else the default build is the CPU build. A torch that is there already
is left alone. REQUIREMENT (for example `torch` or `torch==2.13.0`) asks pip for exactly that instead.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys

VERSION = "2.13.0"
CPU_INDEX = "https://download.pytorch.org/whl/cpu"  # Source: the install line of pytorch.org for Linux, pip, CPU.


def install(*arguments: str, hide_errors: bool = False) -> bool:
    """Whether pip could install that."""
    quiet = [] if sys.stdout.isatty() else ["--quiet"]
    command = [sys.executable, "-m", "pip", "install", *quiet, *arguments]
    return subprocess.run(command, stderr=subprocess.DEVNULL if hide_errors else None).returncode == 0


def main(arguments: list[str]) -> int:
    wanted = arguments[0] if arguments else "cpu"
    if wanted != "cpu":
        return 0 if install(wanted) else 1
    if importlib.util.find_spec("torch") is not None:
        return 0
    print(f"Installing PyTorch {VERSION}, CPU build (about 200 MB).", flush=True)
    if not sys.platform.startswith("linux"):
        return 0 if install(f"torch=={VERSION}") else 1
    requirement = f"torch=={VERSION}+cpu"
    if install(requirement, hide_errors=True) or install(requirement, "--index-url", CPU_INDEX):
        return 0
    print(
        f"{requirement} was found neither in pip's configured indexes nor at {CPU_INDEX}; put its wheel in a folder "
        "and name that in PIP_FIND_LINKS, or run make with TORCH=torch to accept the default build."
    )
    return 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
