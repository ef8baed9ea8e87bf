"""A text that copies now and then, as four numbers: fitted to fixed draft lengths, it predicts what adapts.

A published table of speed-ups has no texts in it. This is a small process that explains one: the text is copying
something that the drafter has found, or it is not. While it copies, drafts are right; elsewhere the drafter sometimes
proposes something, which is right by luck.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from surefoot.core.cost import CostCurve
from surefoot.core.errors import ConfigError, NotEligible
from surefoot.lab.replay import NOTHING, Offer, Trace

Doubles = npt.NDArray[np.float64]

LENGTHS = (*range(3, 17), 18, 20, 22, 25, 30, 35, 40, 50, 60)
"""chosen: tables are of texts of a few hundred tokens; longer copies could not be told from each other."""

NUMBERS = 4
"""Of the process; speed-ups of fewer draft lengths would leave some of them open."""

STARTS = ((0.02, 0.3, 0.1), (0.1, 0.8, 0.3))
"""chosen: where the search for begins, offered and lucky starts; more starts found nothing better."""


@dataclass(frozen=True, slots=True)
class Copying:
    """begins: the chance that a token outside of a copy is the first of one. length: tokens of a copy, the first of
    which no drafter sees coming. offered: the chance of a draft outside, each of whose tokens is right with the chance
    `lucky`.
    """

    begins: float
    length: int
    offered: float
    lucky: float


def speedup(process: Copying, draft_len: int, curve: CostCurve, depth: int) -> float:
    """Tokens per second of this fixed draft length by those of plain decoding, over an endless text, exactly.

    Source: tokens by seconds under the stationary law of the round starts. State 0 is outside; state j inside, with j
    right tokens to follow.
    """
    n, k, cost = process.length, draft_len, curve.bar(draft_len + 1, depth)
    ahead = _ahead(process, k + 1)
    moves = np.zeros((n, n))
    emitted, paid = np.full(n, 1.0 + k), np.full(n, cost)
    for j in range(1, n):
        if j > k:
            moves[j, j - k - 1] = 1.0
        else:
            emitted[j] = j + 1
            moves[j] = ahead[1]
    right = np.arange(k + 1)
    chances = process.lucky**right * np.where(right < k, 1 - process.lucky, 1.0)
    moves[0] = (1 - process.offered) * ahead[1] + process.offered * (chances @ ahead[1:])
    emitted[0] = 1 + process.offered * float(chances @ right)
    paid[0] = 1 - process.offered + process.offered * cost
    stays = np.linalg.lstsq(
        np.vstack([moves.T - np.eye(n), np.ones(n)]), np.append(np.zeros(n), 1.0), rcond=None
    )[0]  # fmt: skip
    return float(stays @ emitted / (stays @ paid))


def _ahead(process: Copying, most: int) -> Doubles:
    """(most + 1, length): the law of the state after 0, 1, 2 ... tokens from outside."""
    laws = np.zeros((most + 1, process.length))
    laws[0, 0] = 1.0
    for at in range(most):
        laws[at + 1, :-1] = laws[at, 1:]
        laws[at + 1, 0] += laws[at, 0] * (1 - process.begins)
        laws[at + 1, -1] += laws[at, 0] * process.begins
    return laws


def fit_copying(speedups: Mapping[int, float], curve: CostCurve, depth: int) -> Copying:
    """The process that comes closest, in relative terms, to these speed-ups by fixed draft length.

    Raises: ConfigError for fewer lengths than the process has numbers; NotEligible where scipy is not installed.
    """
    if len(speedups) < NUMBERS or min(speedups.values()) <= 0:
        raise ConfigError(
            f"the process has {NUMBERS} numbers: give speed-ups above 0 of as many draft lengths at least"
        )
    try:
        from scipy.optimize import least_squares
    except ImportError as error:
        raise NotEligible("scipy is needed to fit a process: pip install 'surefoot[bench]'.") from error

    def process_of(numbers: Doubles, length: int) -> Copying:
        return Copying(float(numbers[0]), length, float(numbers[1]), float(numbers[2]))

    def misses(numbers: Doubles, length: int) -> list[float]:
        process = process_of(numbers, length)
        return [math.log(speedup(process, k, curve, depth) / found) for k, found in speedups.items()]

    bounds = ((1e-4, 0.0, 0.0), (0.9, 1.0, 0.9))
    fits = [
        (float(found.cost), process_of(found.x, length))
        for length in LENGTHS
        for found in (least_squares(misses, start, bounds=bounds, args=(length,)) for start in STARTS)
    ]
    return min(fits, key=lambda each: each[0])[1]


def write(process: Copying, n_tokens: int, n_prompt: int, seed: int, longest: int = 64) -> Trace:
    """A text of this process with what its drafter offers at each token. Its ids are those of no model.

    Source: PCG64, numpy.random.default_rng(seed).
    """
    rng = np.random.default_rng(seed)
    chances = rng.random((n_tokens, 3)).tolist()
    # The text begins as it goes on: in a copy with the share that copies have of it.
    copied = process.length * process.begins
    follow = int(chances[0][1] * process.length) if chances[0][0] < copied / (1 + copied) else 0
    offers = [NOTHING]
    for at, (begin, offer, luck) in enumerate(chances[1:], 1):
        if follow:
            offers.append(Offer(longest, min(follow, longest, n_tokens - at), 0, "copying"))
            follow -= 1
            continue
        if offer < process.offered:
            lucky = int(math.log(1 - luck) / math.log(process.lucky)) if process.lucky > 0 else 0
            offers.append(Offer(longest, min(lucky, longest, n_tokens - at), 0, "copying"))
        else:
            offers.append(NOTHING)
        follow = process.length - 1 if begin < process.begins else 0
    return Trace(n_prompt, tuple(range(0, 2 * n_tokens, 2)), tuple(offers))
