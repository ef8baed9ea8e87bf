"""A suffix automaton that grows by one token at a time and counts what it has seen.

Its states are the classes of substrings that end at the same places of the text. So the longest suffix of the text that
occurred before is one look away, and what followed it, how often and when last, is what leads out of one state.
Source: A. Blumer and others, The smallest automaton recognizing the subwords of a text, TCS 40:31, 1985.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable

COUNTED = 32
"""chosen: classes of suffixes whose counts a new token raises. Natural text has about ten; a loop has one per token,
which would make it quadratic. There the counts of the shorter suffixes are too low, and everything goes on the same
way."""

_NONE = -1


class Automaton:
    """The substrings of a text, their counts and latest ends. Holds changing state: grows with every token.

    Per state: the length of its longest substring, the link to the longest suffix that ends in more places, how often
    and where last it ended, and its first way out; the others, which few states have, are in `_more`.
    Cost: amortised O(1) a token. At most two states and three ways out a token, 24 bytes a state and, where a state has
    several ways out, a dictionary.
    """

    def __init__(self) -> None:
        self._length = array("i", (0,))
        self._link = array("i", (_NONE,))
        self._count = array("i", (0,))
        self._last = array("i", (_NONE,))
        self._token = array("i", (_NONE,))
        self._next = array("i", (_NONE,))
        self._more: dict[int, dict[int, int]] = {}
        self._end = 0
        self._size = 0

    @property
    def size(self) -> int:
        """Tokens so far."""
        return self._size

    @property
    def states(self) -> int:
        return len(self._length)

    @property
    def repeated(self) -> int:
        """The state of the longest suffix of the text that occurred before; the root where none did."""
        return max(0, self._link[self._end])

    def length(self, state: int) -> int:
        """Tokens of the longest substring of this class."""
        return self._length[state]

    def count(self, state: int) -> int:
        """How often it occurred, its latest occurrence included; less than that far down a loop (see `COUNTED`)."""
        return self._count[state]

    def last(self, state: int) -> int:
        """The place of the last token of its latest occurrence; an earlier one far down a loop."""
        return self._last[state]

    def shorter(self, state: int) -> int:
        """The class of the longest suffix of it that occurred in more places."""
        return self._link[state]

    def after(self, state: int) -> list[tuple[int, int]]:
        """The tokens that followed it, each with the state it leads to."""
        if self._token[state] == _NONE:
            return []
        first = (self._token[state], self._next[state])
        more = self._more.get(state)
        return [first, *more.items()] if more else [first]

    def step(self, state: int, token: int) -> int:
        """The state after one more token, or -1 where it never followed."""
        if self._token[state] == token:
            return self._next[state]
        more = self._more.get(state)
        return _NONE if more is None else more.get(token, _NONE)

    def extend(self, ids: Iterable[int]) -> None:
        """Take in the tokens, none of which may be negative."""
        for token in ids:
            self._add(token)

    def _add(self, token: int) -> None:
        lengths, links, tokens, nexts = self._length, self._link, self._token, self._next
        before, added = self._end, len(lengths)
        self._state(lengths[before] + 1, 0, 0, _NONE, _NONE, _NONE)
        state = before
        while state != _NONE:
            found = tokens[state]
            if found == _NONE:
                tokens[state], nexts[state] = token, added
            elif found == token:
                break
            else:
                more = self._more.get(state)
                if more is None:
                    self._more[state] = {token: added}
                elif token in more:
                    break
                else:
                    more[token] = added
            state = links[state]
        if state != _NONE:
            reached = self.step(state, token)
            if lengths[reached] == lengths[state] + 1:
                links[added] = reached
            else:
                links[added] = self._split(state, token, reached)
        self._end = added
        self._note(added)
        self._size += 1

    def _state(self, length: int, link: int, count: int, last: int, token: int, following: int) -> None:
        self._length.append(length)
        self._link.append(link)
        self._count.append(count)
        self._last.append(last)
        self._token.append(token)
        self._next.append(following)

    def _split(self, state: int, token: int, reached: int) -> int:
        """A new class for the shorter substrings of `reached`, which from now on end in one place more."""
        lengths, links = self._length, self._link
        clone = len(lengths)
        self._state(
            lengths[state] + 1, links[reached], self._count[reached], self._last[reached],
            self._token[reached], self._next[reached],
        )  # fmt: skip
        more = self._more.get(reached)
        if more is not None:
            self._more[clone] = dict(more)
        links[reached] = clone
        while state != _NONE and self.step(state, token) == reached:
            if self._token[state] == token:
                self._next[state] = clone
            else:
                self._more[state][token] = clone
            state = links[state]
        return clone

    def _note(self, state: int) -> None:
        """One more occurrence of every suffix of the text, the longest first."""
        links, counts, lasts, place = self._link, self._count, self._last, self._size
        for _ in range(COUNTED):
            if state <= 0:
                return
            counts[state] += 1
            lasts[state] = place
            state = links[state]
