"""The draft length of most expected tokens per second, from the cost curve and from what drafts gave so far."""

from __future__ import annotations

from surefoot.core.cost import CostCurve
from surefoot.core.ports import Plugin
from surefoot.policies.goodput.policy import GoodputPolicy, Options


def _build(options: Options, curve: CostCurve | None) -> GoodputPolicy:
    return GoodputPolicy(options, curve)


PLUGIN = Plugin(
    name="goodput",
    summary="the length of most expected tokens per second on the measured cost curve; stops drafting where it loses",
    options=Options,
    build=_build,
)
