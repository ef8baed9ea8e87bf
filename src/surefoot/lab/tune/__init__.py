"""Tuning: rows are tried, costs are swept, workloads are counted, and a plan is written.

run      the steps, in their order, and what comes of them
kept     what was measured so far, so that an interruption costs little
texts    short texts of every workload
worth    what drafts are worth on each
plain    what one row costs, where drafts would change the text
compare  several runtimes, weights and settings of one model
"""

from __future__ import annotations

from surefoot.lab.tune.kept import Begin, Kept
from surefoot.lab.tune.plain import plain
from surefoot.lab.tune.run import FULL, QUICK, RowDependentError, Size, Step, Tuned, World, check_lossless, tune

__all__ = [
    "FULL",
    "QUICK",
    "Begin",
    "Kept",
    "RowDependentError",
    "Size",
    "Step",
    "Tuned",
    "World",
    "check_lossless",
    "plain",
    "tune",
]
