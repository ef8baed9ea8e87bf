"""How sure a gain is: what the texts leave open, and what the sweep does, apart from each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from surefoot.core.cost import CostCurve
from surefoot.core.types import Round
from surefoot.lab.replay import Replayed

BATCH = 6
"""chosen: rounds that follow each other are alike (a copy goes on), six of them less so; a text has ten batches."""

LEAST_TEXTS = 3
"""chosen: two texts say that they differ, and not by how much."""

_Z = 1.96


@dataclass(frozen=True, slots=True)
class Spread:
    """Half the 95 % interval of the logarithm of a gain. texts: because texts differ; sweep: because costs have noise.

    least, most: the gains of single texts.
    """

    texts: float
    sweep: float
    least: float
    most: float

    @property
    def both(self) -> float:
        """Half the interval of the two together, which know nothing of each other."""
        return math.hypot(self.texts, self.sweep)


def spread(off_s: Sequence[float], runs: Sequence[Replayed], curve: CostCurve) -> Spread:
    """How sure the gain of these runs is against plain decoding of the same texts, off_s, in the same order.

    Several texts are compared with each other: they differ more than stretches of one do. Of one or two, stretches are.
    """
    on_s = [run.seconds for run in runs]
    if len(runs) >= LEAST_TEXTS:
        texts = _ratio_error(off_s, on_s)
    else:
        texts = _ratio_error(*_batches([each for run in runs for each in run.rounds], curve))
    gains = [off / on for off, on in zip(off_s, on_s, strict=True)]
    return Spread(
        texts, _Z * _sweep_error([each for run in runs for each in run.rounds], curve), min(gains), max(gains)
    )


def _batches(rounds: Sequence[Round], curve: CostCurve) -> tuple[Sequence[float], Sequence[float]]:
    """Seconds of plain decoding and of these rounds, by stretches of `BATCH` rounds."""
    worth = np.asarray([len(each.new_ids) * curve.round_s(1, each.depth) for each in rounds])
    spent = np.asarray([each.draft_s + each.extend_s + each.host_s for each in rounds])
    n = max(1, len(rounds) // BATCH)
    off_s, on_s = ([float(part.sum()) for part in np.array_split(each, n)] for each in (worth, spent))
    return off_s, on_s


def _ratio_error(off_s: Sequence[float], on_s: Sequence[float]) -> float:
    """Half the 95 % interval of the logarithm of the one sum by the other.

    Source: the ratio estimator (W. G. Cochran, Sampling Techniques, 1977, section 2.11); the quantile of Student's law
    by its first two terms (R. A. Fisher and E. A. Cornish, Technometrics 2:209, 1960).
    """
    off, on = np.asarray(off_s), np.asarray(on_s)
    n, z = len(off), _Z
    if n < 2:
        return math.log(2)  # one batch says nothing of how much they differ
    rest = off - off.sum() / on.sum() * on
    error = math.sqrt(n / (n - 1) * float((rest**2).sum())) / float(off.sum())
    freedom = n - 1
    quantile = z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
    return quantile * error


def _sweep_error(rounds: Sequence[Round], curve: CostCurve) -> float:
    """One standard deviation of the logarithm of the gain, from the noise of the costs it rests on."""
    total = sum(each.extend_s for each in rounds)
    shares: dict[int, float] = {}
    for each in rounds:
        shares[each.width] = shares.get(each.width, 0.0) + each.extend_s / total
    # One row stands in both times, and its error cancels as far as rounds have one row.
    plain = 1 - shares.pop(1, 0.0)
    return math.sqrt(
        (plain * curve.error(1)) ** 2 + sum((share * curve.error(width)) ** 2 for width, share in shares.items())
    )
