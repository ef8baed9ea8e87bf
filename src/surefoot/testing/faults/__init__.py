"""Bugs of this field, planted where they live, to show that a check catches them.

A fault is a faulty part (judge, limits, sampler, session) to use instead of the good one, or a context manager that
replaces one function of a module or one method of a class while it is open: of the toy's cache, of the session of a
real runtime, of the loop, of a drafter, of a metric. Logits are never perturbed. `GATED` says which gate catches what.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import import_module
from typing import Literal

from surefoot.testing.faults.judge import FirstUnverified, NoiseKeyedByRound, PenaltyOncePerRound, residual_from_p
from surefoot.testing.faults.loop import (
    LimitBeforeStop,
    carry_emitted_twice,
    conditional_sum,
    loop_emits_carry_twice,
    stale_drafter_position,
)
from surefoot.testing.faults.patching import replaced
from surefoot.testing.faults.session import CommitsOneTooMany, TrimsWrong, WithSessions
from surefoot.testing.faults.toy_cache import CACHE_FAULTS, hole_after_full_acceptance

__all__ = [
    "CACHE_FAULTS",
    "GATED",
    "CommitsOneTooMany",
    "FirstUnverified",
    "GatedFault",
    "LimitBeforeStop",
    "NoiseKeyedByRound",
    "PenaltyOncePerRound",
    "TrimsWrong",
    "WithSessions",
    "carry_emitted_twice",
    "hole_after_full_acceptance",
    "replaced",
    "residual_from_p",
]

Backend = Literal["toy", "hf", "openvino", "llamacpp"]

_MODULES: Mapping[Backend, str] = {
    "toy": "toy_cache", "hf": "hf_cache", "openvino": "openvino_cache", "llamacpp": "llamacpp_cache",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class GatedFault:
    """A fault and the gate of `surefoot gate` that catches it.

    planted: in words. part: the function that plants it in the loop, a drafter or a metric, whatever the runtime; None
    where each runtime has its own, called `name`, or what `names` calls it there.
    """

    name: str
    gate: Literal["rows", "lossless", "contamination"]
    planted: str
    part: Callable[[], AbstractContextManager[None]] | None = None
    names: Mapping[Backend, str] | None = None

    def plant(self, backend: Backend) -> AbstractContextManager[None]:
        """The fault, there while the context is open."""
        if self.part is not None:
            return self.part()
        module = import_module(f"surefoot.testing.faults.{_MODULES[backend]}")
        planted: AbstractContextManager[None] = getattr(module, (self.names or {}).get(backend, self.name))()
        return planted


GATED: tuple[GatedFault, ...] = (
    GatedFault("future_row_leak", "rows", "the attention mask"),
    GatedFault("lost_early_rows", "contamination", "the attention mask"),
    GatedFault("anchor_off_by_one", "contamination", "the positions of a block"),
    GatedFault("window_shifted", "contamination", "the positions after a rejection", names={"toy": "position_shift"}),
    GatedFault("hole_after_full_acceptance", "contamination", "the cache"),
    GatedFault("zero_filled_slots", "contamination", "the cache", names={"llamacpp": "foreign_slots"}),
    GatedFault("carry_emitted_twice", "lossless", "the loop", loop_emits_carry_twice),
    GatedFault("stale_drafter_position", "contamination", "the drafter", stale_drafter_position),
    GatedFault("conditional_sum", "lossless", "the metric", conditional_sum),
)
"""Every fault that a gate has to catch, on every runtime that it is planted in."""
