"""Creates or refreshes a virtual environment that has this project installed, editable.

    python tools/environment.py FOLDER EXTRAS [TORCH]

EXTRAS is a comma-separated list from pyproject.toml. TORCH is `cpu` (PyTorch's CPU build) or a pip requirement;
without it nothing is done about torch. A second call returns at once as long as nothing that decides the content has
changed: pyproject.toml, these scripts, the extras, TORCH and the Python that is used.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STAMP = "surefoot-environment"
OLDEST = (3, 11)


def fingerprint(extras: str, torch: str) -> str:
    """A digest of everything that decides what the environment holds."""
    digest = hashlib.sha256()
    for name in ("pyproject.toml", "tools/environment.py", "tools/install_torch_cpu.py"):
        digest.update((ROOT / name).read_bytes())
    for part in (extras, torch, sys.version, sys.base_prefix, str(ROOT)):
        digest.update(b"\0" + part.encode())
    return digest.hexdigest()


def python_in(folder: Path) -> Path:
    """The interpreter of a virtual environment."""
    return folder / "Scripts" / "python.exe" if os.name == "nt" else folder / "bin" / "python"


def create(folder: Path) -> None:
    """An empty environment with pip, where nothing or a half-made one was before."""
    if folder.exists():
        shutil.rmtree(folder)
    done = subprocess.run([sys.executable, "-m", "venv", str(folder)], capture_output=True, text=True)
    if done.returncode == 0:
        return
    # Debian and Ubuntu ship Python without ensurepip; the pip that is outside can fill an environment as well.
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    outside = [sys.executable, "-m", "pip", "--python", str(python_in(folder)), "install", "pip"]
    if subprocess.run(outside).returncode:
        shutil.rmtree(folder, ignore_errors=True)
        raise SystemExit(
            f"No virtual environment could be made in {folder}: {sys.executable} has neither ensurepip nor a pip of "
            "22.3 or later; install python3-venv (or a newer pip) and run the same command again."
        )


def fill(folder: Path, extras: str, torch: str) -> None:
    """Installs torch where asked for, then this project with its extras."""
    python = str(python_in(folder))
    quiet = [] if sys.stdout.isatty() else ["--quiet"]
    if torch:
        subprocess.run([python, str(ROOT / "tools" / "install_torch_cpu.py"), torch], check=True)
    project = f"{ROOT}[{extras}]" if extras else str(ROOT)
    subprocess.run([python, "-m", "pip", "install", *quiet, "--editable", project], check=True)


def main(arguments: list[str]) -> int:
    if sys.version_info < OLDEST:
        found = ".".join(map(str, sys.version_info[:3]))
        print(f"Surefoot needs Python 3.11 or later and {sys.executable} is {found}; run make with PYTHON=python3.11.")
        return 2
    if len(arguments) not in (2, 3):
        print(__doc__)
        return 2
    folder, extras, torch = Path(arguments[0]), arguments[1], arguments[2] if len(arguments) == 3 else ""
    stamp, wanted = folder / STAMP, fingerprint(extras, torch)
    have = stamp.read_text().split() if stamp.exists() else []
    if have[:1] == [wanted]:
        return 0
    print(f"Preparing {folder} ({extras or 'no extras'}); this happens once.", flush=True)
    python_identity = hashlib.sha256((sys.version + sys.base_prefix).encode()).hexdigest()
    if have[1:] != [python_identity]:
        create(folder)
    stamp.unlink(missing_ok=True)
    try:
        fill(folder, extras, torch)
    except subprocess.CalledProcessError as error:
        print(f"Preparing {folder} failed: {' '.join(map(str, error.cmd))} ended with {error.returncode}.")
        return 1
    stamp.write_text(f"{wanted}\n{python_identity}\n")
    return 0


if __name__ == "__main__":
    try:
        raise SystemExit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        raise SystemExit(130) from None
