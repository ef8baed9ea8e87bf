"""Gate baseline: our plain decoding writes what the runtime's own call writes, and is no slower."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from surefoot.core.ports import Clock
from surefoot.core.types import RowClass
from surefoot.engine.generator import Model
from surefoot.lab import sides
from surefoot.lab.gates.inputs import Input, inputs
from surefoot.lab.gates.progress import Progress
from surefoot.lab.gates.texts import Divergence, divergence
from surefoot.lab.gates.writing import greedy
from surefoot.lab.records import Gate, Side
from surefoot.lab.stats import MIN_VALUES, Interval, median_interval
from surefoot.lab.vendor import Vendor

LIMIT = 0.97
"""Of the vendor's tokens per second. Source: the promise of issue 4, F3."""
TOO_WIDE = 0.06
"""chosen: an interval that holds the limit and is wider than twice the 3 % that the limit leaves says nothing yet."""
_WARM_UP_TOKENS = 8  # chosen: enough for the first allocations, too few to be noticed

Verdict = Literal["good", "slower", "undecided"]


@dataclass(frozen=True, slots=True)
class Pair:
    """The same text by both, seconds apart."""

    label: str
    ours: Side
    theirs: Side

    @property
    def ratio(self) -> float:
        """Our tokens per second by theirs; 0 where there is nothing to divide by."""
        base = self.theirs.tokens_per_second
        return self.ours.tokens_per_second / base if base > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Comparison:
    """All pairs, the texts that differ by what they asked for, and what the vendor was given."""

    vendor: str
    settings: Mapping[str, str]
    pairs: Sequence[Pair]
    differences: Mapping[str, Divergence]


def verdict(interval: Interval) -> Verdict:
    """good: at the limit or above. Where the interval holds the limit, its middle decides when it is narrow enough."""
    if interval.low >= LIMIT:
        return "good"
    if interval.high < LIMIT:
        return "slower"
    if interval.high - interval.low > TOO_WIDE:
        return "undecided"
    return "good" if interval.estimate >= LIMIT else "slower"


def interval(pairs: Sequence[Pair]) -> Interval:
    """The median ratio with its interval; without bounds where the pairs are too few to have any."""
    ratios = sorted(pair.ratio for pair in pairs)
    middle = ratios[len(ratios) // 2] if ratios else 0.0
    return median_interval(ratios) or Interval(middle, 0.0, float(np.finfo(np.float64).max), len(ratios))


def judge(found: Comparison, row_class: RowClass, tolerance: float) -> Gate:
    """Passed when all texts are the same, near ties aside where those are allowed, and the speed is decided and good.

    Units: tolerance in logits.
    """
    ratios = interval(found.pairs)
    speed = verdict(ratios)
    ties = [at for at in found.differences.values() if row_class == "near-tie" and at.gap < tolerance]
    wrong = {label: at for label, at in found.differences.items() if at not in ties}
    words = [
        f"{ratios.estimate:.3f} of the tokens per second of {found.vendor} "
        f"[{ratios.low:.3f}, {ratios.high:.3f}], {len(found.pairs)} pairs"
    ]
    if wrong:
        label, at = next(iter(wrong.items()))
        words.append(
            f"{len(wrong)} texts differ, first {label} at token {at.index} (top-two gap {at.gap:.2g}) "
            f"after {at.before!r}"
        )
    else:
        words.append("same text" if not ties else f"same text but for {len(ties)} near ties")
    if speed == "undecided":
        words.append(
            f"undecided, the interval is {ratios.high - ratios.low:.2f} wide: close other programs and run it again"
        )
    return Gate(
        name="baseline",
        passed=speed == "good" and not wrong,
        figure=ratios.estimate,
        limit=LIMIT,
        unit="x the vendor's tokens per second",
        text="; ".join(words),
        details={
            "vendor": found.vendor,
            "settings": dict(found.settings),
            "speed": speed,
            "low": ratios.low,
            "high": ratios.high,
            "pairs": [
                {
                    "input": pair.label,
                    "tokens": [pair.ours.n_output, pair.theirs.n_output],
                    "tokens_per_second": [pair.ours.tokens_per_second, pair.theirs.tokens_per_second],
                }
                for pair in found.pairs
            ],
            "differences": {label: at.describe() for label, at in found.differences.items()},
            "near_ties": len(ties),
        },
    )


# --- gathering -------------------------------------------------------------------------------------------------------


def gather(model: Model, vendor: Vendor, quick: bool, clock: Clock, progress: Progress) -> Comparison:
    """Alternating pairs over several inputs, the fewest that have an interval and more while the speed is undecided."""
    n_inputs, n_tokens, fewest, most = (2, 48, MIN_VALUES, 2 * MIN_VALUES) if quick else (3, 64, 21, 63)
    ours = greedy(model)
    config = replace(ours.config, max_tokens=n_tokens)
    texts = inputs(model, n_inputs, min(n_tokens, model.target.caps.max_length // 2))
    for text in texts[:1]:
        sides.write(ours, text.ids, replace(config, max_tokens=_WARM_UP_TOKENS), clock)
        vendor.plain(text.ids, _WARM_UP_TOKENS)
    pairs: list[Pair] = []
    differences: dict[str, Divergence] = {}
    while len(pairs) < fewest or (len(pairs) < most and _undecided(pairs)):
        text = texts[len(pairs) % len(texts)]
        pairs.append(_pair(ours, vendor, text, n_tokens, len(pairs) % 2 == 1, clock))
        progress(len(pairs), max(fewest, len(pairs)))
        if text.label not in differences:
            at = divergence(model, text.ids, pairs[-1].ours.ids, pairs[-1].theirs.ids)
            if at is not None:
                differences[text.label] = at
    return Comparison(vendor.name, vendor.settings, pairs, differences)


def _pair(ours: Model, vendor: Vendor, text: Input, n_tokens: int, theirs_first: bool, clock: Clock) -> Pair:
    config = replace(ours.config, max_tokens=n_tokens)
    if theirs_first:
        other = vendor.plain(text.ids, n_tokens)
        return Pair(text.label, sides.write(ours, text.ids, config, clock), other)
    own = sides.write(ours, text.ids, config, clock)
    return Pair(text.label, own, vendor.plain(text.ids, n_tokens))


def _undecided(pairs: Sequence[Pair]) -> bool:
    return verdict(interval(pairs)) == "undecided"
