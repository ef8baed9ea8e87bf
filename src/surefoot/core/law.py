"""The law of the next token: the processed, scaled and truncated distribution that a draw is made from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from surefoot.core.errors import ConfigError, TargetError
from surefoot.core.history import History
from surefoot.core.processors import process
from surefoot.core.sampling import Sampling
from surefoot.core.types import Doubles, Floats, Ids

_SORT_WHOLE = 16384
"""chosen: up to this many weights one sort (about 0.1 ms) is cheaper than looking for a bracket first."""

_SAMPLE = 2048
"""chosen: weights looked at to guess where the border of top-p lies; a wrong guess costs a sort, never the result."""


@dataclass(frozen=True, slots=True, eq=False)
class Law:
    """A distribution over a support, not normalised.

    Shapes: weights (m,) float32 or float64, not negative, one at least above 0; ids (m,) int32 ascending, None = all.
    """

    weights: Floats | Doubles
    ids: Ids | None = None

    @property
    def mass(self) -> float:
        """The sum of the weights, in float64."""
        return float(self.weights.sum(dtype=np.float64))

    def probs(self) -> Doubles:
        """(m,) probabilities over the support, summing to 1."""
        weights: Doubles = self.weights.astype(np.float64)
        weights /= weights.sum()
        return weights

    def token(self, place: int) -> int:
        """The id at a place of the support."""
        return place if self.ids is None else int(self.ids[place])

    def place(self, token: int) -> int | None:
        """Where `token` stands in the support; None outside it."""
        if self.ids is None:
            return token
        place = int(np.searchsorted(self.ids, token))
        return place if place < len(self.ids) and self.ids[place] == token else None

    def prob(self, token: int) -> float:
        """The probability of one token."""
        place = self.place(token)
        return 0.0 if place is None else float(self.weights[place]) / self.mass

    def dense(self, vocab_size: int) -> Doubles:
        """(V,) probabilities of all tokens, 0 outside the support."""
        if self.ids is None:
            return self.probs()
        full = np.zeros(vocab_size)
        full[self.ids] = self.probs()
        return full


def best(logits: Floats, sampling: Sampling, history: History) -> int:
    """The argmax after the processors, the first among equals."""
    processed = process(logits, sampling, history)
    token = int(processed.argmax())
    _check(float(processed[token]))
    return token


def next_law(logits: Floats, sampling: Sampling, history: History) -> Law:
    """The law that the next token is drawn from.

    Shapes: logits (V,) float32, untouched.
    Raises: TargetError when the model gave NaN or +inf; ConfigError when no token is left.
    Source: order and edges of the warpers of transformers: ties at the top-k border stay, top-p keeps a token while
    the mass of the likelier ones is below p (equal probabilities: lower id first), min-p compares with the largest.
    """
    processed = process(logits, sampling, history)
    largest = processed.max()
    _check(float(largest))
    ids: Ids | None = None
    if 0 < sampling.top_k < len(processed):
        border = np.partition(processed, len(processed) - sampling.top_k)[len(processed) - sampling.top_k]
        ids = np.flatnonzero(processed >= max(border, np.finfo(np.float32).min)).astype(np.int32)
        processed = processed[ids]
    weights = np.subtract(processed, largest)
    weights /= np.float32(sampling.temperature)
    law = Law(np.exp(weights, out=weights), ids)
    if sampling.top_p < 1:
        law = _nucleus(law, sampling.top_p)
    if sampling.min_p > 0:
        law = _subset(law, np.flatnonzero(law.weights >= sampling.min_p))
    return law


def _check(largest: float) -> None:
    if np.isnan(largest) or largest == np.inf:
        raise TargetError(
            f"the model gave a logit of {largest}, from which no token can be drawn", backend="any", operation="logits"
        )
    if largest == -np.inf:
        raise ConfigError("every token is banned at this position; take some out of banned or logit_bias.")


def _subset(law: Law, places: npt.NDArray[np.intp]) -> Law:
    """The law on some places of its support, ascending."""
    return Law(law.weights[places], places.astype(np.int32) if law.ids is None else law.ids[places])


def _nucleus(law: Law, top_p: float) -> Law:
    """The law on the fewest tokens that hold `top_p` of its mass.

    Tokens too light to matter are passed over first: all of them together weigh less than what may be left out. A
    nucleus of thousands keeps its place in the whole vocabulary, lighter tokens weighing nothing, since gathering it
    would cost more than looking at zeros.
    """
    weights, mass = law.weights, law.mass
    heavy = weights >= (1 - top_p) * mass / len(weights)
    if np.count_nonzero(heavy) > _SORT_WHOLE:
        border, level = _border(weights, top_p, mass)
        kept = np.where(weights >= border, weights, weights.dtype.type(0))
        kept[np.flatnonzero(weights == border)[level:]] = 0
        return Law(kept, law.ids)
    places = np.flatnonzero(heavy)
    border, level = _border(weights[places], top_p, mass)
    places = places[weights[places] >= border]
    surplus = places[weights[places] == border][level:]
    return _subset(law, np.setdiff1d(places, surplus, assume_unique=True))


def _border(weights: Floats | Doubles, top_p: float, mass: float) -> tuple[float, int]:
    """The lightest weight kept, and how many of that weight: those whose likelier ones weigh less than top_p * mass."""
    before, inside = 0.0, top_p * mass
    if len(weights) > _SORT_WHOLE:
        bracket = _bracket(weights, top_p, inside)
        if bracket is not None:
            weights, before = bracket
    rising = np.sort(weights)
    falling = rising[::-1]
    ahead = before + (np.cumsum(falling, dtype=np.float64) - falling.astype(np.float64))
    count = int(np.searchsorted(ahead, inside))
    border = float(falling[count - 1])
    return border, count - (len(rising) - int(np.searchsorted(rising, falling[count - 1], side="right")))


def _bracket(weights: Floats | Doubles, top_p: float, inside: float) -> tuple[Floats | Doubles, float] | None:
    """The weights among which the border lies, and the weight of all heavier ones; None where the guess was wrong."""
    sample = np.sort(weights[:: len(weights) // _SAMPLE])[::-1]
    reached = np.cumsum(sample, dtype=np.float64)
    guess = int(np.searchsorted(reached, top_p * reached[-1]))
    high = sample[max(0, guess - len(sample) // 20)]
    low = sample[min(len(sample) - 1, guess + len(sample) // 20)]
    before = float(np.sum(weights * (weights > high), dtype=np.float64))
    level = weights[(weights <= high) & (weights >= low)]
    found = before < inside <= before + float(level.sum(dtype=np.float64)) and len(level) < len(weights)
    return (level, before) if found else None
