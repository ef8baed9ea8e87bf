"""What a gate found out about rows, kept where every later command looks: in the plan of the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surefoot.app.cli import errors
from surefoot.app.cli.command import Context

if TYPE_CHECKING:
    from surefoot.engine.generator import Model
    from surefoot.lab.records import Gate


def keep(model: Model, gate: Gate, found_by: str, context: Context) -> None:
    """Nothing; where the outcome leaves less of the class of the rows than was known, the plan says so from now on."""
    from surefoot.app.cli.bench_world import now
    from surefoot.engine import plans
    from surefoot.lab.gates import class_shown

    shown = class_shown(gate, model.row_class)
    if shown is None:
        return
    caps = model.target.caps
    owner = plans.owner_of(model.files, caps, model.config)
    path = plans.demote(owner, caps, shown, errors.as_line(gate.text).rstrip("."), found_by, now(), context.cache_dir)
    needs = "drafts need --allow-near-ties" if shown == "near-tie" else "drafts are refused"
    context.console.note(f"rows are {shown} here and not {model.row_class}: from now on {needs} ({path}).")
