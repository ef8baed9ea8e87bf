"""Tokens to text as they come: whole characters only, and never a stop string or the beginning of one.

What may be shown is what no later token can change. How far that goes depends on how tokens spell:

byte_level      the text is the bytes of all tokens, one after the other, so a character is final once it is whole.
byte_fallback   a run of byte tokens is a text when all of it is UTF-8, and one U+FFFD per byte when any of it is
                not. So nothing of a run is final before it ends.
text            only whole lists of tokens can be decoded: text is final unless it ends in U+FFFD.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import Protocol

from surefoot.core.errors import ConfigError, LawError
from surefoot.engine.tokenizer import Tokenizer


class TextStream:
    """What to show of a text while it is written. Holds changing state: the text not yet taken, and whether it ended.

    `take` and `finish` together give tokenizer.decode(kept ids), cut where the stop string begins.
    A stop string that is the name of a special token, which has no text, stops at that token.
    Raises: ConfigError for an empty stop string.
    """

    def __init__(self, tokenizer: Tokenizer, stops: Sequence[str] = ()) -> None:
        if not all(stops):
            raise ConfigError("a stop string is empty, and every text ends with that: leave it out")
        self._stops = tuple(stops)
        self._first_characters = frozenset(stop[0] for stop in stops)
        self._longest = max(map(len, stops), default=1)
        self._stop_ids = frozenset(i for i in tokenizer.special_ids if tokenizer.token_text(i) in stops)
        self._speller: _Speller = _Bytes(tokenizer) if tokenizer.spelling == "byte_level" else _Window(tokenizer)
        self._ready: list[str] = []
        self._held = ""
        self._ended = False

    def scan(self, new_ids: Sequence[int]) -> int | None:
        """How many of these ids are kept when a stop string is complete with one of them, else None."""
        if self._ended:
            raise LawError(f"{len(new_ids)} tokens were emitted after the text had ended")
        if not self._stops:
            self._ready.extend(map(self._speller.push, new_ids))
            return None
        for i, token_id in enumerate(new_ids):
            if self._ends_with(token_id):
                return i + 1
        return None

    def take(self) -> str:
        """The text that is final and was not taken before."""
        text = "".join(self._ready)
        self._ready.clear()
        return text

    def finish(self) -> str:
        """All the text that is left; what was held for a stop string or a character that never came is in it."""
        self._end(self._held + self._speller.rest())
        return self.take()

    def _ends_with(self, token_id: int) -> bool:
        if token_id in self._stop_ids:
            self._end(self._held + self._speller.rest())
            return True
        final = self._held + self._speller.push(token_id)
        text = final + self._speller.provisional()
        starts = [start for start in (text.find(stop) for stop in self._stops) if start >= 0]
        if starts:
            self._end(text[: min(starts)])
            return True
        n_free = self._first_possible_stop(final)
        self._ready.append(final[:n_free])
        self._held = final[n_free:]
        return False

    def _end(self, text: str) -> None:
        if not self._ended:
            self._ready.append(text)
        self._held, self._ended = "", True

    def _first_possible_stop(self, text: str) -> int:
        """Where the earliest stop string begins that later text could complete; the length when there is none."""
        for start in range(max(0, len(text) - self._longest + 1), len(text)):
            if text[start] in self._first_characters and any(stop.startswith(text[start:]) for stop in self._stops):
                return start
        return len(text)


class _Speller(Protocol):
    """Spells tokens. Holds changing state: the tokens whose text is not final."""

    def push(self, token_id: int) -> str:
        """The text that this token made final."""
        ...

    def provisional(self) -> str:
        """What the other tokens spell if none follows, without an unfinished character at its end."""
        ...

    def rest(self) -> str:
        """What the other tokens spell if none follows."""
        ...


class _Bytes:
    """Spells byte-level tokens. Holds changing state: the bytes of an unfinished character."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._known, self._shown = tokenizer.known, tokenizer.shown
        self._characters = codecs.getincrementaldecoder("utf-8")("replace")
        self._unfinished = False

    def push(self, token_id: int) -> str:
        shown = self._known.get(token_id)
        if shown is None:
            shown = self._shown(token_id)
        if isinstance(shown, str):
            if not self._unfinished:
                return shown
            shown = shown.encode()
        text = self._characters.decode(shown)
        self._unfinished = bool(self._characters.getstate()[0])
        return text

    def provisional(self) -> str:
        return ""

    def rest(self) -> str:
        return self._characters.decode(b"", final=True)


class _Window:
    """Spells tokens by decoding the last few. Holds changing state: these tokens.

    Decoders look at the beginning of a text, to drop a leading space, and at neighbours. So a text is decoded with
    the tokens before it, and what those spell on their own is taken off.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._ids: list[int] = []
        self._n_known = 0
        self._known = ""
        self._run = bytearray()

    def push(self, token_id: int) -> str:
        token = self._tokenizer
        if token_id in token.special_ids or not (spelled := token.token_bytes(token_id)):
            return ""
        self._ids.append(token_id)
        if token.is_byte(token_id):
            self._run += spelled
            return ""
        self._run.clear()
        text = token.decode(self._ids)
        if token.spelling == "text" and text.endswith("\ufffd"):
            return ""
        new = text[len(self._known) :]
        # What this token completed is final, and enough to decode the next tokens after.
        self._ids = self._ids[self._n_known :]
        self._n_known, self._known = len(self._ids), token.decode(self._ids)
        return new

    def provisional(self) -> str:
        if len(self._ids) == self._n_known:
            return ""
        text = self._tokenizer.decode(self._ids[: len(self._ids) - _n_unfinished(self._run)])
        if self._tokenizer.spelling == "text":
            text = text.rstrip("\ufffd")
        return text[len(self._known) :]

    def rest(self) -> str:
        return self._tokenizer.decode(self._ids)[len(self._known) :]


def _n_unfinished(run: bytearray) -> int:
    """Bytes at the end of `run` that begin a character; 0 when they are whole, or can never be one."""
    try:
        run.decode()
    except UnicodeDecodeError as error:
        return len(run) - error.start if error.reason == "unexpected end of data" else 0
    return 0
