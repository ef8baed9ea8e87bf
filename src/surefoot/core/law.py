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

_SORT_WHOLE = 4096
"""chosen: below this many tokens one sort is cheaper than a histogram and a sort of one bin."""


@dataclass(frozen=True, slots=True, eq=False)
class Law:
    """A distribution over a support.

    Shapes: logits (m,) float32 or float64, natural log up to a constant; ids (m,) int32 ascending, None = all tokens.
    """

    logits: Floats | Doubles
    ids: Ids | None = None

    def probs(self) -> Doubles:
        """(m,) probabilities over the support, summing to 1."""
        weights: Doubles = np.exp(self.logits - self.logits.max()).astype(np.float64)
        weights /= weights.sum()
        return weights

    def token(self, index: int) -> int:
        """The id at a place of the support."""
        return index if self.ids is None else int(self.ids[index])

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
    scaled = process(logits, sampling, history) / np.float32(sampling.temperature)
    _check(float(scaled.max()))
    if sampling.top_k == 0 and sampling.top_p == 1 and sampling.min_p == 0:
        return Law(scaled)
    return _truncate(scaled, sampling)


def _check(largest: float) -> None:
    if np.isnan(largest):
        raise TargetError("the model gave logits that are not numbers", backend="any", operation="logits")
    if largest == -np.inf:
        raise ConfigError("every token is banned at this position; take some out of banned or logit_bias.")


def _truncate(scaled: Floats, sampling: Sampling) -> Law:
    ids: Ids | None = None
    if 0 < sampling.top_k < len(scaled):
        border = np.partition(scaled, len(scaled) - sampling.top_k)[len(scaled) - sampling.top_k]
        ids = _support(ids, scaled >= max(border, np.finfo(np.float32).min))
    if sampling.top_p < 1:
        probs = Law(scaled if ids is None else scaled[ids]).probs()
        ids = _support(ids, _nucleus(probs, sampling.top_p))
    if sampling.min_p > 0:
        held = scaled if ids is None else scaled[ids]
        ids = _support(ids, held >= held.max() + np.float32(np.log(sampling.min_p)))
    return Law(scaled if ids is None else scaled[ids], ids)


def _support(ids: Ids | None, keep: npt.NDArray[np.bool_]) -> Ids:
    """The ids left after `keep` is applied to the present support."""
    return np.flatnonzero(keep).astype(np.int32) if ids is None else ids[keep]


def _nucleus(probs: Doubles, top_p: float) -> npt.NDArray[np.bool_]:
    """(m,) True where the mass of the likelier tokens is below top_p.

    A large support is not sorted: a histogram over the top bits of the float32 pattern (an eighth of an octave a bin)
    finds the bin in which the border lies, and only that bin is sorted.
    """
    if len(probs) <= _SORT_WHOLE:
        return _nucleus_sorted(probs, top_p, 0.0)
    bins = probs.astype(np.float32).view(np.uint32) >> 20
    mass = np.bincount(bins, weights=probs, minlength=1024)
    above = np.cumsum(mass[::-1])[::-1] - mass
    border = int(np.flatnonzero((above < top_p) & (mass > 0))[0])
    keep = bins > border
    inside = np.flatnonzero(bins == border)
    keep[inside] = _nucleus_sorted(probs[inside], top_p, float(above[border]))
    return keep


def _nucleus_sorted(probs: Doubles, top_p: float, before: float) -> npt.NDArray[np.bool_]:
    order = np.argsort(-probs, kind="stable")
    held = probs[order]
    keep = np.zeros(len(probs), np.bool_)
    keep[order] = before + np.cumsum(held) - held < top_p
    return keep
