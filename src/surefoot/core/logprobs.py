"""Log-probabilities of emitted tokens, under the model's own law before any processor."""

from __future__ import annotations

import numpy as np

from surefoot.core.ports import Scores
from surefoot.core.types import TokenLogprob


def token_logprob(scores: Scores, row: int, token: int, top: int) -> TokenLogprob:
    """Of the token that followed `row`, with the `top` likeliest tokens there, likeliest first (ties: lower id)."""
    logits = scores.logits(row)
    largest = logits.max()
    log_mass = float(largest) + float(np.log(np.exp(logits - largest).sum(dtype=np.float64)))
    ranked: tuple[tuple[int, float], ...] = ()
    if top:
        border = np.partition(logits, len(logits) - top)[len(logits) - top] if top < len(logits) else -np.inf
        ids = np.flatnonzero(logits >= border)
        ids = ids[np.argsort(-logits[ids], kind="stable")][:top]
        ranked = tuple((int(i), float(logits[i]) - log_mass) for i in ids)
    return TokenLogprob(token, float(logits[token]) - log_mass, ranked)
