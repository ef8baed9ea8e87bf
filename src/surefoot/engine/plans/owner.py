"""What a plan belongs to: weights, runtime, settings and machine. On anything else its figures say nothing."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from surefoot.core.types import Caps
from surefoot.engine import hardware
from surefoot.engine.config import Config
from surefoot.engine.models import ModelFiles, identity
from surefoot.engine.parts import GROUPS

_FLAGS = {"device": "--device", "threads": "--threads", "ctx_size": "--ctx-size"}
"""Options of a runtime that have a flag of their own."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The one configuration that a plan is about.

    model: as it was asked for; path: its files; weights: their identity (models.identity). discipline: how the cache is
    rolled back. settings: those that the runtime reports, the format of the weights and the threads among them, without
    versions. machine: the fingerprint of the hardware.
    """

    model: str
    path: str
    weights: str
    runtime: str
    device: str
    discipline: str
    settings: Mapping[str, str]
    versions: Mapping[str, str]
    machine: str
    cpu: str
    cores: int


def owner_of(files: ModelFiles, caps: Caps, config: Config) -> Owner:
    """The owner of plans of this loaded model."""
    here = hardware.look()
    versions = _versions(caps)
    settings = {name: value for name, value in caps.settings.items() if name not in versions}
    threads = config.runtime.options.get("threads")
    if threads is not None:
        settings.setdefault("threads", str(threads))
    return Owner(
        model=files.name,
        path=str(files.path.resolve()),
        weights=identity(files),
        runtime=caps.backend,
        device=caps.device,
        discipline=caps.discipline,
        settings=settings,
        versions=versions,
        machine=hardware.fingerprint(here),
        cpu=here.cpu,
        cores=here.cores,
    )


def key(owner: Owner) -> str:
    """16 hexadecimal digits for what a user chooses: model, runtime, device, settings.

    What changes behind the user's back is not in it (the bytes at that path, versions, the machine), so that a plan
    which has become a stranger is found and refused with its reason, and not passed over in silence.
    """
    chosen = (owner.path, owner.runtime, owner.device, owner.discipline, sorted(owner.settings.items()))
    return hashlib.sha256(repr(chosen).encode()).hexdigest()[:16]


def difference(then: Owner, now: Owner) -> str | None:
    """Why a plan of `then` says nothing about `now`, in half a sentence; None where it does."""
    for reason in _differences(then, now):
        return reason
    return None


def n_differences(then: Owner, now: Owner) -> int:
    """How many things differ."""
    return sum(1 for _ in _differences(then, now))


def command(owner: Owner, config: Config) -> str:
    """The command that makes a plan for this owner, with what `config` was given for the runtime and the conversion."""
    given = ["surefoot", "tune", owner.model, "--runtime", owner.runtime]
    for name, value in config.runtime.options.items():
        if name in _FLAGS:
            given += [_FLAGS[name], str(value)]
        else:
            given += ["--set", f"runtime.{name}={str(value).lower() if isinstance(value, bool) else value}"]
    usual = Config()
    given += ["--weights", config.weights] if config.weights != usual.weights else []
    given += ["--cache", config.cache] if config.cache != usual.cache else []
    return shlex.join(given)


def _differences(then: Owner, now: Owner) -> Iterator[str]:
    if then.runtime != now.runtime:
        yield f"it is for the runtime {then.runtime}, and this is {now.runtime}"
    if then.weights != now.weights:
        where = "" if then.path == now.path else f", {then.path}, and these are {now.path}"
        yield f"it is for other weights{where or ', which have changed since'}"
    for name in sorted({*then.versions, *now.versions}):
        old, new = then.versions.get(name, "none"), now.versions.get(name, "none")
        if old != new:
            yield f"it was made with {name} {old}, and this is {new}"
    for name, was, here in (
        ("device", then.device, now.device),
        ("cache discipline", then.discipline, now.discipline),
        *((f"setting {key}", then.settings.get(key), now.settings.get(key)) for key in _keys(then, now)),
    ):
        if was != here:
            yield f"it was made with the {name} {_shown(was)}, and this runs with {_shown(here)}"
    if then.machine != now.machine:
        yield f"it was made on another machine ({then.cpu}, {then.cores} cores; here {now.cpu}, {now.cores} cores)"


def _keys(then: Owner, now: Owner) -> list[str]:
    return sorted({*then.settings, *now.settings})


def _shown(value: Any) -> str:
    return "none" if value is None else str(value)


def _versions(caps: Caps) -> dict[str, str]:
    """Of the packages that compute: ours or that of the part, and those whose version the runtime reports itself."""
    entries = metadata.entry_points(group=GROUPS["target"], name=caps.backend)
    found = {"surefoot": metadata.version("surefoot")}
    found |= {entry.dist.name: entry.dist.version for entry in entries if entry.dist is not None}
    return found | {name: value for name, value in caps.settings.items() if _is_package(name)}


def _is_package(name: str) -> bool:
    try:
        metadata.distribution(name)
    except (metadata.PackageNotFoundError, ValueError):
        return False
    return True
