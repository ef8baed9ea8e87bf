"""Text for the toy: every token is a short piece, so that stop strings span tokens and blocks."""

from __future__ import annotations

from collections.abc import Sequence


class PieceScanner:
    """A scan for stop strings over pieces of text. Holds changing state: the text so far.

    `pieces[id]` is the text of a token. Implements core.ports.Scan.
    """

    def __init__(self, pieces: Sequence[str], stops: Sequence[str]) -> None:
        self._pieces = pieces
        self._stops = tuple(stops)
        self._text = ""

    def __call__(self, new_ids: Sequence[int]) -> int | None:
        """How many are kept when a stop string ends in them."""
        for place, token in enumerate(new_ids):
            self._text += self._pieces[token]
            if any(stop in self._text for stop in self._stops):
                return place + 1
        return None


def first_stop(pieces: Sequence[str], stops: Sequence[str], text: Sequence[int]) -> int | None:
    """How many tokens of a whole text are kept, by looking at every prefix: what a scan must find."""
    for n in range(1, len(text) + 1):
        if any(stop in "".join(pieces[token] for token in text[:n]) for stop in stops):
            return n
    return None
