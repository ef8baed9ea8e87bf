"""Plans: what tuning found out about one model on one runtime with these settings on this machine, kept as a file.

owner    what a plan belongs to, and what is another one
plan     what a plan says
file     plans as JSON files: written whole, refused where they were changed
find     the plan of a loaded model
padding  how many rows to compute, by the curve
"""

from __future__ import annotations

from surefoot.engine.plans.file import digest_of, document, load, read, save
from surefoot.engine.plans.find import Found, demote, find, path_of
from surefoot.engine.plans.owner import Owner, difference, owner_of
from surefoot.engine.plans.padding import padding
from surefoot.engine.plans.plan import (
    GOODPUT,
    SCHEMA,
    Outcome,
    Plan,
    RowFinding,
    SweepFacts,
    Workload,
    policy_in_use,
    told_cost,
    weaker,
)

__all__ = [
    "GOODPUT",
    "SCHEMA",
    "Found",
    "Outcome",
    "Owner",
    "Plan",
    "RowFinding",
    "SweepFacts",
    "Workload",
    "demote",
    "difference",
    "digest_of",
    "document",
    "find",
    "load",
    "owner_of",
    "padding",
    "path_of",
    "policy_in_use",
    "read",
    "save",
    "told_cost",
    "weaker",
]
