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

_SORT_WHOLE = 256
"""chosen: below this many tokens one sort is cheaper than a histogram and a sort of one bin."""


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
    Raises: TargetError when the model gave NaN; ConfigError when no token is left.
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
        law = _subset(law, _nucleus(law.weights, sampling.top_p * law.mass, (1 - sampling.top_p) * law.mass))
    if sampling.min_p > 0:
        law = _subset(law, np.flatnonzero(law.weights >= sampling.min_p))
    return law


def _check(largest: float) -> None:
    if np.isnan(largest):
        raise TargetError("the model gave logits that are not numbers", backend="any", operation="logits")
    if largest == -np.inf:
        raise ConfigError("every token is banned at this position; take some out of banned or logit_bias.")


def _subset(law: Law, places: npt.NDArray[np.intp]) -> Law:
    """The law on some places of its support, ascending."""
    return Law(law.weights[places], places.astype(np.int32) if law.ids is None else law.ids[places])


def _nucleus(weights: Floats | Doubles, inside: float, outside: float) -> npt.NDArray[np.intp]:
    """Places, ascending, where the weight of the likelier tokens is below `inside`; `outside` is what may be left out.

    Tokens too light to matter go first: m of them together weigh less than `outside`. Of many that are left, a
    histogram over the top bits of the float32 pattern (an eighth of an octave a bin) finds the bin in which the border
    lies, and only that bin is sorted.
    """
    heavy = np.flatnonzero(weights >= outside / len(weights))
    weights = weights[heavy]
    if len(weights) <= _SORT_WHOLE:
        return heavy[_lightest_kept(weights, inside, 0.0)]
    bins = (weights.astype(np.float32).view(np.uint32) >> 20).astype(np.intp)
    mass = np.bincount(bins, weights=weights, minlength=1024)
    above = np.cumsum(mass[::-1])[::-1] - mass
    border = int(np.flatnonzero((above < inside) & (mass > 0))[0])
    keep = bins > border
    level = np.flatnonzero(bins == border)
    keep[level] = _lightest_kept(weights[level], inside, float(above[border]))
    return heavy[keep]


def _lightest_kept(weights: Floats | Doubles, inside: float, before: float) -> npt.NDArray[np.bool_]:
    """(m,) True where `before` and the weight of the likelier ones stay below `inside`."""
    order = np.argsort(-weights, kind="stable")
    held = weights[order].astype(np.float64)
    keep = np.zeros(len(weights), np.bool_)
    keep[order] = before + np.cumsum(held) - held < inside
    return keep
