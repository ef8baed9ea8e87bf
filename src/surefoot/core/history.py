"""What has been said so far, as processors need to see it."""

from __future__ import annotations

from copy import copy

import numpy as np

from surefoot.core.types import Doubles, Ids


class Tally:
    """How often each id occurred. Holds changing state: grows with every id added."""

    def __init__(self, ids: Ids) -> None:
        unique, counts = np.unique(ids, return_counts=True)
        self._slots = {int(token): slot for slot, token in enumerate(unique)}
        self._ids = unique.astype(np.int32)
        self._counts = counts.astype(np.float64)

    def add(self, token: int) -> None:
        """Count one more."""
        slot = self._slots.setdefault(token, len(self._slots))
        if slot == len(self._ids):
            grown = max(64, 2 * len(self._ids))
            self._ids = np.resize(self._ids, grown) if slot else np.zeros(grown, np.int32)
            self._counts = np.concatenate([self._counts, np.zeros(grown - slot)])
        if self._counts[slot] == 0:
            self._ids[slot] = token
        self._counts[slot] += 1

    def fork(self) -> Tally:
        """A copy that counts on by itself, in time proportional to the distinct ids."""
        twin = copy(self)
        twin._slots, twin._ids, twin._counts = dict(self._slots), self._ids.copy(), self._counts.copy()
        return twin

    @property
    def ids(self) -> Ids:
        """(u,) the distinct ids, in no order."""
        return self._ids[: len(self._slots)]

    @property
    def counts(self) -> Doubles:
        """(u,) occurrences of each of `ids`."""
        return self._counts[: len(self._slots)]


class History:
    """The prompt and the accepted output. Holds changing state: one `push` per accepted token.

    A judge pushes every token it lets through before it looks at the next row, so that a processor sees the
    accepted prefix and never a draft that was turned down. Tallies and the array are built when first asked for.
    """

    def __init__(self, prompt: Ids) -> None:
        self.n_prompt = len(prompt)
        self._tokens = prompt.astype(np.int32)
        self._settled = len(prompt)
        self._output_ids: list[int] = []
        self._context: Tally | None = None
        self._output: Tally | None = None

    def push(self, token: int) -> None:
        """Append one accepted output token."""
        self._output_ids.append(token)
        if self._context is not None:
            self._context.add(token)
        if self._output is not None:
            self._output.add(token)

    def fork(self) -> History:
        """A copy to push guesses onto, in time proportional to its tokens."""
        twin = copy(self)
        twin._tokens, twin._output_ids = self._tokens.copy(), self._output_ids.copy()
        twin._context = None if self._context is None else self._context.fork()
        twin._output = None if self._output is None else self._output.fork()
        return twin

    @property
    def n_output(self) -> int:
        """Output tokens so far: the position of the next one, counted from 0."""
        return len(self._output_ids)

    @property
    def tokens(self) -> Ids:
        """(prompt + output,) a view; read it before the next push."""
        length = self.n_prompt + len(self._output_ids)
        if length > len(self._tokens):
            self._tokens = np.concatenate([self._tokens, np.zeros(length, np.int32)])
        if self._settled < length:
            self._tokens[self._settled : length] = self._output_ids[self._settled - self.n_prompt :]
            self._settled = length
        return self._tokens[:length]

    @property
    def context(self) -> Tally:
        """Occurrences in prompt and output."""
        if self._context is None:
            self._context = Tally(self.tokens)
        return self._context

    @property
    def output(self) -> Tally:
        """Occurrences in the output alone."""
        if self._output is None:
            self._output = Tally(self.tokens[self.n_prompt :])
        return self._output
