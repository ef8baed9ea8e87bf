"""Where chance comes from: noise keyed by (seed, position, token), the same with drafts on or off.

The draw is a race, the Gumbel-max trick without logarithms: every token waits an exponential time with its weight as
rate, and the first one wins; it follows the law exactly when the waits are independent. Keying them by the output
position n and the token, not by the round, is what makes the text independent of how rounds fall. A drafter that
uses the same noise agrees more often than chance (arXiv 2408.07978).
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from surefoot.core.law import Law

_U32 = npt.NDArray[np.uint32]
_DIRECT = 2048
"""chosen: up to this many tokens every wait is computed exactly; above, only those that can win."""

_MATCH_STREAM, _RATIO_STREAM = 0, 1


class Sampler(Protocol):
    """What a judge asks of chance."""

    def draw(self, law: Law, n: int) -> int:
        """A token id that follows `law`, for output position n."""
        ...

    def accept(self, chance: float, n: int, attempt: int) -> bool:
        """True with probability `chance`; independent for every (n, attempt) and of every draw."""
        ...


def _mix32(x: _U32, shifted: _U32) -> _U32:
    """A bijection of 32-bit words that flips each output bit with probability one half, in place.

    `shifted` is room for as many words. Source: "lowbias32", Chris Wellons, hash-prospector (public domain).
    """
    x ^= np.right_shift(x, np.uint32(16), out=shifted)
    x *= np.uint32(0x7FEB352D)
    x ^= np.right_shift(x, np.uint32(15), out=shifted)
    x *= np.uint32(0x846CA68B)
    x ^= np.right_shift(x, np.uint32(16), out=shifted)
    return x


def _mix64(x: int) -> int:
    """A bijection of 64-bit words. Source: SplitMix64, Steele, Lea and Flood 2014 (doi 10.1145/2660193.2660195)."""
    mask = 0xFFFFFFFFFFFFFFFF
    x = (x + 0x9E3779B97F4A7C15) & mask
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & mask
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask
    return x ^ (x >> 31)


def _key(*words: int) -> int:
    key = 0
    for word in words:
        key = _mix64(key ^ word)
    return key


class KeyedSampler:
    """Draws that depend on nothing but (seed, stream, n, token).

    Streams keep uses apart: the match judge and drafters that share its noise read one, the ratio judge another,
    since its residual must be independent of the draft. `_scrambled` is a cache of hashed token ids and `_room` is kept
    because fresh memory of that size costs more than what is computed in it; neither is state.
    """

    def __init__(self, seed: int, *, stream: int = _MATCH_STREAM) -> None:
        self._seed = seed
        self._stream = stream
        self._scrambled = np.zeros(0, np.uint32)
        self._room = np.zeros((3, 0), np.uint32)

    @classmethod
    def for_ratio(cls, seed: int) -> KeyedSampler:
        """The sampler of the ratio judge: independent of what drafters draw."""
        return cls(seed, stream=_RATIO_STREAM)

    def draw(self, law: Law, n: int) -> int:
        """A token id that follows `law`. The noise has 64 bits a token; the race is decided in float64."""
        key = _key(self._seed, self._stream, n)
        if len(law.weights) <= _DIRECT:
            return law.token(int((law.weights / self._waits(law, None, key)).argmax()))
        # A wait -log(1 - v) is at least v, and close to it where it is short, so that weight / v bounds the speed from
        # above. One float32 pass leaves the few tokens that can still win; the slack covers its rounding.
        words = self._words(law, None, key)
        bound = self._room[2, : len(words)].view(np.float32)
        bound[:] = words
        bound += np.float32(2.0**-33)  # changes 0 alone
        np.divide(law.weights, bound, out=bound, casting="same_kind")
        first = np.asarray([int(bound.argmax())])
        reached = float(law.weights[first[0]] / self._waits(law, first, key)[0]) * 2.0**-32
        rivals = np.flatnonzero(bound >= np.float32(reached * (1 - 1e-6)))
        speeds = law.weights[rivals] / self._waits(law, rivals, key)
        return law.token(int(rivals[speeds.argmax()]))

    def accept(self, chance: float, n: int, attempt: int) -> bool:
        """True with probability `chance`, up to 2**-53."""
        return (_key(self._seed, self._stream, n, 0xACCE97, attempt) >> 11) * 2.0**-53 < chance

    def _waits(self, law: Law, places: npt.NDArray[Any] | None, key: int) -> npt.NDArray[np.float64]:
        """Standard exponential variables for the tokens at `places` of the support (all: None)."""
        high = self._words(law, places, key).astype(np.float64)
        low = self._words(law, places, _mix64(key)).astype(np.float64)
        uniform = (high + (low + 0.5) * 2.0**-32) * 2.0**-32
        return np.asarray(-np.log1p(-np.minimum(uniform, 1 - 2.0**-53)))

    def _words(self, law: Law, places: npt.NDArray[Any] | None, key: int) -> _U32:
        """32 hashed bits for each token, in memory that the next call uses again."""
        if law.ids is None:
            self._reserve(len(law.weights))
            hashed = self._scrambled[: len(law.weights)] if places is None else self._scrambled[places]
        else:
            self._reserve(int(law.ids[-1]) + 1)
            hashed = self._scrambled[law.ids if places is None else law.ids[places]]
        count = len(hashed)
        if self._room.shape[1] < count:
            self._room = np.zeros((3, count), np.uint32)
        words, shifted, _ = self._room[:, :count]
        np.bitwise_xor(hashed, np.uint32(key & 0xFFFFFFFF), out=words)
        words += np.uint32(key >> 32)
        return _mix32(words, shifted)

    def _reserve(self, vocab_size: int) -> None:
        if len(self._scrambled) < vocab_size:
            ids = np.arange(vocab_size, dtype=np.uint32)
            self._scrambled = _mix32(ids + np.uint32(0x9E3779B9), ids)
