"""A deterministic toy model with a real cache: the public fake that shows cache and mask faults.

Its "attention" sums a hash of (token, position) over the visible slots, so a leaked, lost, stale or shifted
slot changes the bits of every later logit; a second, stronger term looks at the last `order` tokens only, so that text
repeats itself and lookup finds something. Every cache discipline of the real runtimes is here in small.
"""

from __future__ import annotations

from collections.abc import Sequence

from surefoot.core.errors import NotEligible
from surefoot.core.ports import Plugin
from surefoot.core.types import Caps
from surefoot.targets.toy.model import DISCIPLINES, Options
from surefoot.targets.toy.session import ToySession

__all__ = ["DISCIPLINES", "PLUGIN", "Options", "ToySession", "ToyTarget", "build"]


class ToyTarget:
    """A loaded toy. Holds no state."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.caps = Caps(
            backend="toy",
            vocab_size=options.vocab_size,
            max_length=options.max_length,
            max_rows=options.max_rows,
            discipline=options.discipline,
            can_pad=options.discipline == "fixed",
            can_tree=options.trees,
            tap_names=("sums",),
            row_class="identical",
        )

    def open(self, taps: Sequence[str] = ()) -> ToySession:
        """A new empty session."""
        for name in taps:
            if name not in self.caps.tap_names:
                raise NotEligible(f"the toy has no tap called {name!r}; it has {', '.join(self.caps.tap_names)}.")
        return ToySession(self.options, tuple(taps))


def build(options: Options, model: object = None) -> ToyTarget:
    """A toy; `model` names nothing, since its weights are a hash."""
    return ToyTarget(options)


PLUGIN = Plugin("toy", "a deterministic toy model, for tests", Options, build)
