"""No drafts: plain decoding, by the same loop as everything else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from surefoot.core.ports import Needs, Plugin, Scores, Target
from surefoot.core.types import EMPTY_DRAFT, Draft, Ids


@dataclass(frozen=True, slots=True)
class Options:
    """Nothing to choose."""


class Off:
    """Proposes nothing. Holds no state."""

    needs = Needs()

    def begin(self, prompt: Ids, root: int, scores: Scores) -> None:
        pass

    def propose(self, budget: int) -> Draft:
        return EMPTY_DRAFT

    def observe(self, new_ids: Sequence[int], scores: Scores) -> None:
        pass


def build(options: Options, target: Target) -> Off:
    """The drafter that never drafts."""
    return Off()


PLUGIN = Plugin("off", "no drafts: plain decoding", Options, build)
