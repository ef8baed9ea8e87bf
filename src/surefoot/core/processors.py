"""The processors that change a row of logits before the next token is chosen.

Each takes (V,) float32 that it may write to, and the history of accepted tokens.
"""

from __future__ import annotations

import math

import numpy as np

from surefoot.core.history import History
from surefoot.core.sampling import Sampling
from surefoot.core.types import Floats


def process(logits: Floats, sampling: Sampling, history: History) -> Floats:
    """The logits after every processor that comes before the temperature; the input itself when none is active."""
    if not sampling.edits_logits:
        return logits
    out = logits.copy()
    for token, bias in sampling.logit_bias.items():
        out[token] += bias
    if sampling.repetition_penalty != 1:
        _repetition(out, sampling.repetition_penalty, history)
    if sampling.presence_penalty or sampling.frequency_penalty:
        tally = history.output
        out[tally.ids] -= (sampling.presence_penalty + sampling.frequency_penalty * tally.counts).astype(np.float32)
    if sampling.dry_multiplier:
        _dry(out, sampling, history)
    if sampling.banned:
        out[list(sampling.banned)] = -np.inf
    if history.n_output < sampling.min_tokens:
        out[[token for token in sampling.end_ids if token < len(out)]] = -np.inf
    forced = sampling.forced.get(history.n_output)
    if forced is not None:
        out[:] = -np.inf
        out[forced] = 0.0
    return out


def _repetition(logits: Floats, penalty: float, history: History) -> None:
    """Divide the positive and multiply the negative logits of every id seen.

    Source: arXiv 1909.05858, in the reading of transformers.
    """
    seen = history.context.ids
    values = logits[seen]
    factor = np.float32(penalty)
    logits[seen] = np.where(values < 0, values * factor, values / factor)


def _dry(logits: Floats, sampling: Sampling, history: History) -> None:
    """Subtract multiplier * base**(L - allowed) from each token that would extend a repeat of length L >= allowed.

    A repeat is a suffix of the history that occurred before; it does not cross a breaker, and only the last
    `dry_range` tokens count (0 is all of them).
    Source: the DRY sampler of llama.cpp and text-generation-webui.
    """
    tokens = history.tokens[-sampling.dry_range :] if sampling.dry_range else history.tokens
    breakers = np.isin(tokens, list(sampling.dry_breakers))
    if len(tokens) < 2 or breakers[-1]:
        return
    end = len(tokens) - 1
    ends = np.flatnonzero(tokens[:-1] == tokens[-1])
    length = 1
    longest: dict[int, int] = {}
    while len(ends):
        if length >= sampling.dry_allowed_length:
            longest.update(dict.fromkeys(tokens[ends + 1].tolist(), length))
        if length > end or breakers[end - length]:
            break
        ends = ends[ends >= length]
        ends = ends[tokens[ends - length] == tokens[end - length]]
        length += 1
    for token, repeat in longest.items():
        if token not in sampling.dry_breakers:
            exponent = min(repeat - sampling.dry_allowed_length, 700 / math.log(max(sampling.dry_base, 1.0001)))
            logits[token] -= np.float32(min(sampling.dry_multiplier * sampling.dry_base**exponent, 3e38))
