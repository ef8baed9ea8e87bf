"""The conformance suites: what a target, a drafter and a policy must keep, whoever wrote it.

Each raises AssertionError with one sentence about the promise that is broken. `installed` finds the parts behind the
entry points, so that a new part is tested without being named anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator

from surefoot.core.ports import Plugin
from surefoot.engine import parts
from surefoot.testing.drafter_suite import DRAFTER_CHECKS, check_drafter
from surefoot.testing.policy_suite import check_policy
from surefoot.testing.target_suite import TARGET_CHECKS, check_target

__all__ = ["DRAFTER_CHECKS", "TARGET_CHECKS", "check_drafter", "check_policy", "check_target", "installed"]


def installed(kind: parts.Kind) -> Iterator[Plugin]:
    """Every part of this kind that an installed package offers; only importing it can fail, with NotEligible."""
    for name in parts.names(kind):
        yield parts.find(kind, name)
