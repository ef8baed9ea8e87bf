"""How a gate says how far it is."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[int, int], None]
"""progress(done, total), in steps of the gate's own."""


def silent(done: int, total: int) -> None:
    """Says nothing."""
