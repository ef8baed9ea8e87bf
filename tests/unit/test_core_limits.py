"""Limits name the first cause in token order; a stop comes before the limit at the same token."""

from __future__ import annotations

import pytest

from surefoot.core.errors import ConfigError, LawError
from surefoot.core.limits import Limits

IDS = (4, 5, 6, 7)


@pytest.mark.parametrize("room", range(1, 6))
@pytest.mark.parametrize("stop", [None, 0, 1, 2, 3])
@pytest.mark.parametrize("scanned", [None, 1, 2, 3, 4])
def test_every_order_of_causes(room: int, stop: int | None, scanned: int | None) -> None:
    def scan(ids: tuple[int, ...]) -> int | None:
        assert len(ids) <= room, "the scanner was shown what the limit cuts off"
        return scanned if scanned is not None and scanned <= len(ids) else None

    limits = Limits(100, frozenset() if stop is None else frozenset({IDS[stop]}), scan)
    stops = [place for place in (None if stop is None else stop + 1, scanned) if place is not None]
    first = min(stops, default=99)
    if first <= min(room, len(IDS)):
        assert limits.clip(IDS, room, "length") == (first, "stop")
    elif room <= len(IDS):
        assert limits.clip(IDS, room, "context") == (room, "context")
    else:
        assert limits.clip(IDS, room, "length") == (len(IDS), None)


@pytest.mark.parametrize("wrong", [0, -1, 5])
def test_a_scanner_that_keeps_what_it_was_not_shown_breaks_the_law(wrong: int) -> None:
    with pytest.raises(LawError, match="the scanner keeps"):
        Limits(10, scan=lambda ids: wrong).clip(IDS, 10, "length")


def test_no_output_is_refused() -> None:
    with pytest.raises(ConfigError, match="max_tokens must be at least 1; got 0"):
        Limits(0)
