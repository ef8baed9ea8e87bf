"""Gates: facts gathered from a loaded model, and judged apart from the gathering. They fail closed.

rows           a row of a block is the row that one token alone gives
lossless       whole texts are the same with drafts on and off
baseline       plain decoding writes what the runtime's own call writes, and is no slower
contamination  rejected drafts leave no trace
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from surefoot.core.errors import ConfigError, NotEligible
from surefoot.core.ports import Clock
from surefoot.core.types import RowClass
from surefoot.engine import parts, plans
from surefoot.engine.generator import Model
from surefoot.lab.gates import baseline, contamination, lossless, rows
from surefoot.lab.gates.progress import Progress, silent
from surefoot.lab.records import Gate
from surefoot.lab.vendor import open_vendor

NAMES = ("rows", "lossless", "baseline", "contamination")
"""In the order in which they run: the class of the rows decides what a difference means in the others."""

__all__ = ["NAMES", "NotRun", "Progress", "check_names", "check_near_ties", "class_shown", "outcome", "run", "silent"]


@dataclass(frozen=True, slots=True)
class NotRun:
    """A gate that could not be tried. It counts as not passed. reason: what is missing, and what to do."""

    name: str
    reason: str


def check_names(names: Sequence[str]) -> None:
    """Raises: ConfigError for a gate that does not exist."""
    for name in names:
        if name not in NAMES:
            raise ConfigError(parts.unknown("gate", name, NAMES))


def outcome(
    name: str,
    model: Model,
    cache_dir: Path,
    *,
    quick: bool = False,
    clock: Clock = time.perf_counter,
    progress: Progress = silent,
) -> Gate | NotRun:
    """As `run`, with what cannot be tried here as a value."""
    try:
        return run(name, model, cache_dir, quick=quick, clock=clock, progress=progress)
    except NotEligible as error:
        return NotRun(name, str(error))


def run(
    name: str,
    model: Model,
    cache_dir: Path,
    *,
    quick: bool = False,
    clock: Clock = time.perf_counter,
    progress: Progress = silent,
) -> Gate:
    """The outcome of one gate; `quick` tries less, and says how much.

    `cache_dir` holds the lock under which a failure is tried again. `clock` times the pairs of baseline.
    Raises: ConfigError for an unknown name; NotEligible where this gate cannot be tried.
    """
    check_names([name])
    if model.config.lossy:
        return _lossy(name, model.config.lossy)
    caps = model.target.caps
    if caps.max_rows < 2:
        raise NotEligible(f"{caps.backend} computes one row at a time here, so that no draft can be checked.")
    if name == "rows":
        return rows.judge(rows.gather(model, quick, progress), caps)
    if name == "lossless":
        found_texts = lossless.gather(model, quick, cache_dir, progress)
        return lossless.judge(found_texts, model.row_class, near_tie_below(model))
    if name == "contamination":
        found, proposals = contamination.gather(model, quick, progress)
        return contamination.judge(found, proposals, model.row_class)
    vendor = open_vendor(model, clock)
    found_pairs = baseline.gather(model, vendor, quick, clock, progress)
    return baseline.judge(found_pairs, model.row_class, near_tie_below(model))


def class_shown(gate: Gate, known: RowClass) -> RowClass | None:
    """The class of the rows that this outcome leaves of `known`, where it leaves less; else None.

    A text that differs says as much of its rows as a row does: a single difference is the end of identical. With a
    lossy judge texts differ by design and say nothing.
    """
    shown: RowClass = known
    if gate.details.get("lossy"):
        return None
    if gate.name == "rows":
        shown = gate.details["row_class"]
    elif gate.name == "lossless" and gate.details.get("gaps"):
        shown = "near-tie" if max(gate.details["gaps"]) < 2 * rows.LIMIT_DELTA else "row-dependent"
    weakest = plans.weaker(shown, known)
    return weakest if weakest != known else None


def _lossy(name: str, why: str) -> Gate:
    """Failed, untried: what a gate proves is that drafts change nothing, and with this judge they may."""
    text = f"lossy: {why}, so no gate passes with it; leave the judge out, which is match"
    return Gate(name, False, 1.0, 0.0, "lossy judges", text, {"lossy": True})  # type: ignore[arg-type]


def near_tie_below(model: Model) -> float:
    """The top-two gap, in logits, below which a difference is a near tie here; 0 where none is allowed.

    Measured on few rows, at most twice the limit that the gate rows has for them.
    """
    if model.row_class == "identical":
        return 0.0
    return min(rows.gather(model, True, silent).tolerance, 2 * rows.LIMIT_DELTA)


def check_near_ties(model: Model, names: Sequence[str]) -> None:
    """Raises: NotEligible where these settings need the user's word for near ties, and a gate would use drafts."""
    caps = model.target.caps
    if model.row_class == "identical" or not {"lossless", "contamination"} & set(names):
        return
    settings = ", ".join(f"{key} {value}" for key, value in rows.deciding(caps).items())
    if model.row_class == "row-dependent":
        raise NotEligible(
            f"on {caps.backend} ({settings}) a row's result depends on the rows beside it, so there are no drafts to "
            "try: measure that with --only rows, or choose other settings."
        )
    if not model.allows_near_ties():
        raise NotEligible(
            f"on {caps.backend} ({settings}) rows of a block are not known to equal single rows: measure that with "
            "--only rows, and try the other gates with --allow-near-ties."
        )
