"""`surefoot doctor`: what is installed, what works here, and what to install for the rest."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata

from surefoot.app.cli import errors
from surefoot.app.cli.command import Commands, Context, begin, finish

SCHEMA = 1
_PACKAGES = {
    "surefoot": "",
    "numpy": "",
    "transformers": "text and the runtime hf",
    "tokenizers": "text",
    "jinja2": "chat templates",
    "gguf": "GGUF files",
    "huggingface-hub": "models from the Hub",
    "safetensors": "weights of the runtime hf",
    "torch": "the runtime hf",
    "accelerate": "the runtime hf",
    "openvino": "",
    "xllamacpp": "",
    "llama-cpp-py-sync": "",
    "llama-cpp-python": "",
    "onnxruntime": "",
    "mlx": "",
}
"""What the doctor looks for, and what Surefoot uses it for; empty where nothing more need be said."""
_TEXT = ("transformers", "tokenizers", "jinja2", "gguf")
# chosen: importing torch from a cold disk takes half a minute; whoever needs four times that hangs.
_TIMEOUT_S = 120


@dataclass(frozen=True, slots=True)
class Runtime:
    """How a runtime did on a tiny model, in a process of its own."""

    name: str
    works: bool
    detail: str
    device: str | None = None
    settings: dict[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Package:
    """A package, its version (None when it is not installed), and what it is for."""

    name: str
    version: str | None
    use: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What --json prints. Units: memory in bytes, None where the system does not tell."""

    schema: int
    cpu: str
    cores: int
    memory_bytes: int | None
    os: str
    python: str
    cache_dir: str
    packages: Sequence[Package]
    runtimes: Sequence[Runtime]
    to_install: Sequence[str]


def add_to(commands: Commands, with_parts: bool) -> None:
    """Add this command to `surefoot`."""
    parser = begin(
        commands,
        "doctor",
        "what is installed, what works on this machine, what to install for the rest",
        "Runs a tiny model on every installed runtime, each in a process of its own, and says how it went.",
    )
    finish(parser, run, "the table")


def run(args: argparse.Namespace, context: Context) -> int:
    """The exit code, which is good whatever was found."""
    from surefoot.app.cli.document import as_json
    from surefoot.engine import parts

    runtimes = []
    for name in parts.names("target"):
        with context.console.working(f"trying {name}"):
            runtimes.append(try_runtime(name))
    found = diagnose(runtimes, context)
    context.console.write(as_json(found) if args.json else "\n".join(_report(found, context)) + "\n")
    return errors.GOOD


def diagnose(runtimes: Sequence[Runtime], context: Context) -> Diagnosis:
    """The machine, the packages, and what the runtimes showed."""
    from surefoot.lab.machine import look

    machine = look(tuple(_PACKAGES))
    packages = tuple(Package(name, machine.packages[name], use) for name, use in _PACKAGES.items())
    return Diagnosis(
        schema=SCHEMA,
        cpu=machine.cpu,
        cores=machine.cores,
        memory_bytes=_memory_bytes(),
        os=machine.os,
        python=machine.python,
        cache_dir=str(context.cache_dir),
        packages=packages,
        runtimes=tuple(runtimes),
        to_install=tuple(_to_install(packages, runtimes)),
    )


def try_runtime(name: str) -> Runtime:
    """How the runtime `name` did. Whatever its process does, this returns."""
    command = [sys.executable, "-m", "surefoot.app.cli.probe", name]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TIMEOUT_S, check=False, text=True,
            errors="replace",
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Runtime(name, False, f"it hung: no answer in {_TIMEOUT_S} s")
    try:
        answer = json.loads(done.stdout.strip().splitlines()[-1])
        return Runtime(name, **answer)
    except (IndexError, ValueError, TypeError):
        said = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        return Runtime(name, False, f"it crashed ({_ending(done.returncode)}): {said}")


def _ending(code: int) -> str:
    try:
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"
    except ValueError:
        return f"signal {-code}"


def _to_install(packages: Sequence[Package], runtimes: Sequence[Runtime]) -> Iterator[str]:
    """A pip line for each extra that would make something work."""
    missing = {package.name for package in packages if package.version is None}
    if missing.intersection(_TEXT):
        yield "pip install 'surefoot[text]'"
    extras = set(metadata.metadata("surefoot").get_all("Provides-Extra") or ())
    for runtime in runtimes:
        if not runtime.works and runtime.name in extras:
            yield f"pip install 'surefoot[{runtime.name}]'"


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return None


def _report(found: Diagnosis, context: Context) -> Iterator[str]:
    console = context.console
    memory = "memory unknown" if found.memory_bytes is None else f"{found.memory_bytes / 1e9:.0f} GB memory"
    yield console.styled("machine", "1")
    yield f"  {found.cpu}, {found.cores} cores, {memory}"
    yield f"  {found.os}, Python {found.python}"
    yield f"  cache folder {found.cache_dir}"
    yield console.styled("runtimes", "1")
    for runtime in found.runtimes:
        state = console.styled("works", "32") if runtime.works else console.styled("no   ", "31")
        yield f"  {runtime.name:18} {state}  {_how(runtime)}".rstrip()
    yield console.styled("packages", "1")
    for package in found.packages:
        version = package.version or "-"
        yield f"  {package.name:18} {version:14} {package.use}".rstrip()
    yield console.styled("to install", "1")
    for line in found.to_install or ("nothing",):
        yield f"  {line}"


def _how(runtime: Runtime) -> str:
    if not runtime.works:
        return errors.as_line(runtime.detail)
    settings = ", ".join(f"{key} {value}" for key, value in (runtime.settings or {}).items())
    return f"on {runtime.device}" + (f" ({settings})" if settings else "")
