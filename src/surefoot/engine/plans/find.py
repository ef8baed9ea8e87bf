"""The plan of a loaded model: where it lies, whether it belongs, and what a gate changes in it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

from surefoot.core.errors import ConfigError
from surefoot.core.types import Caps, RowClass
from surefoot.engine.config import AUTO, Config
from surefoot.engine.plans import owner as owners
from surefoot.engine.plans.file import load, save
from surefoot.engine.plans.owner import Owner
from surefoot.engine.plans.plan import SCHEMA, Plan, RowFinding, weaker

OFF = "off"
"""In the place of a plan: none is looked for."""

_MOST = 50
"""chosen: plans of one model that are looked at for one that nearly fits; more are settings nobody remembers."""


@dataclass(frozen=True, slots=True)
class Found:
    """plan: the one that belongs, or None. path: its file. note: why one that is there is not used, in a sentence."""

    plan: Plan | None = None
    path: Path | None = None
    note: str = ""


def path_of(owner: Owner, cache_dir: Path) -> Path:
    """The file of the plan for this owner."""
    return _folder(cache_dir) / f"{_name(owner)}{owners.key(owner)}.json"


def find(owner: Owner, asked: str, cache_dir: Path, config: Config | None = None) -> Found:
    """The plan that `asked` names: auto is the owner's own in the cache folder, off is none, else it is a file.

    A file that was named has to fit. One that was found is passed over with a note where it does not. config: of this
    run, for the command that makes a new one.
    Raises: ConfigError for a named file that is no plan, or belongs to something else.
    """
    if asked == OFF:
        return Found()
    again = owners.command(owner, config or Config())
    if asked != AUTO:
        path = Path(asked).expanduser()
        plan = load(path)
        reason = owners.difference(plan.owner, owner)
        if reason is not None:
            raise ConfigError(f"the plan {path} {_refusal(reason, again)}")
        return Found(plan, path)
    path = path_of(owner, cache_dir)
    if not path.is_file():
        return Found(note=_nearly(owner, cache_dir, again))
    try:
        plan = load(path)
    except ConfigError as error:
        return Found(note=str(error))
    reason = owners.difference(plan.owner, owner)
    if reason is not None:
        return Found(note=f"the plan {path} {_refusal(reason, again)}")
    return Found(plan, path)


def demote(owner: Owner, caps: Caps, row_class: RowClass, text: str, found_by: str, when: str, cache_dir: Path) -> Path:
    """The file of the plan that knows now that rows are of this class, or a weaker one that was known before.

    Where there is no plan that belongs, one is made that knows nothing else. when: UTC, ISO 8601.
    """
    path = path_of(owner, cache_dir)
    before = find(owner, AUTO, cache_dir).plan
    finding = RowFinding(row_class, caps.row_class, text, found_by)
    if before is None:
        plan = Plan(SCHEMA, version("surefoot"), when, (), owner, finding, False, "", None, None, ())
    elif weaker(before.rows.row_class, row_class) == before.rows.row_class:
        return path
    else:
        plan = replace(before, rows=finding)
    save(plan, path)
    return path


def _refusal(reason: str, again: str) -> str:
    return f"is not used: {reason}; make a new one with '{again}'"


def _nearly(owner: Owner, cache_dir: Path, again: str) -> str:
    """Why the plan of this model that fits best does not fit; "" where it has none. again: the command for one."""
    best: tuple[int, str] | None = None
    for path in sorted(_folder(cache_dir).glob(f"{_name(owner)}*.json"))[:_MOST]:
        try:
            there = load(path).owner
        except ConfigError:
            continue
        reason = owners.difference(there, owner)
        # Another runtime, or the same name elsewhere, is another model's plan and nobody's mistake.
        if reason is None or there.path != owner.path or there.runtime != owner.runtime:
            continue
        n = owners.n_differences(there, owner)
        if best is None or n < best[0]:
            best = n, f"the plan {path} {_refusal(reason, again)}"
    return best[1] if best else ""


def _folder(cache_dir: Path) -> Path:
    return cache_dir / "plans"


def _name(owner: Owner) -> str:
    """The beginning of the file names of a model's plans, as much as people need to know it again."""
    stem = "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in Path(owner.path).stem)[:40]
    return f"{stem}-{owner.runtime}-"
