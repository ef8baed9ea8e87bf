"""What drafting brings on a cost curve: expected speed by draft length, the best one, and a verdict in words.

Two conventions, never mixed: `draft_len` (K) counts guessed tokens, `rows` (S = K + 1) what is scored. `survival[i]` is
the chance that draft token i + 1 and all before it are accepted, so a round of K drafts emits 1 + survival[0] + ... +
survival[K - 1] tokens. The chance that one more holds, given those before it, is conditional acceptance; only
survivals add up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from surefoot.core.cost import CostCurve
from surefoot.core.errors import ConfigError

NEVER_GAIN = 1.1
"""chosen: where drafts that are always right gain less than a tenth, those that are sometimes wrong lose."""

ENOUGH_ROWS = 8
"""measured: MLX bf16 (ml-explore/mlx issue 4265), where 2 rows cost 1.98 times one row and 8 rows 2.05 times: a
sweep that ends before does not see what pays."""

WIDEST = 100.0
"""chosen: an interval of a factor of e^100 either way says that nothing is known, and its ends are numbers still."""

FINE = 0.5
"""chosen: two ends nearer than this are told apart by their second digit."""

ACCURACY = 1e-9
"""Of a break-even acceptance; far below what acceptance can be measured to."""


@dataclass(frozen=True, slots=True)
class DraftCost:
    """Seconds that a drafter takes for a round: fixed_s + token_s * draft_len."""

    fixed_s: float = 0.0
    token_s: float = 0.0

    def of(self, draft_len: int) -> float:
        """Seconds for so many tokens; 0 where nothing is drafted."""
        return self.fixed_s + self.token_s * draft_len if draft_len else 0.0


FREE = DraftCost()
"""A drafter whose time is lost in the noise, such as an n-gram look-up."""


@dataclass(frozen=True, slots=True)
class Expected:
    """A draft length and what it is expected to give.

    width: rows computed, padding included. tokens: emitted per round. bar: what they must reach to pay. gain: tokens
    by bar, which is speed by plain speed.
    """

    draft_len: int
    rows: int
    width: int
    tokens: float
    seconds: float
    bar: float

    @property
    def tokens_per_s(self) -> float:
        return self.tokens / self.seconds

    @property
    def gain(self) -> float:
        return self.tokens / self.bar


def geometric(acceptance: float, draft_len: int) -> tuple[float, ...]:
    """The survival of drafts each of whose tokens is accepted with the same chance, whatever came before.

    Source: arXiv 2211.17192 section 3.1.
    """
    return tuple(acceptance**position for position in range(1, draft_len + 1))


def expected(curve: CostCurve, survival: Sequence[float], depth: int, draft: DraftCost = FREE) -> tuple[Expected, ...]:
    """By draft length from 0 (plain decoding), as far as the survival and the curve reach.

    Raises: ConfigError for a survival that rises or is no chance.
    """
    _check(survival)
    found, tokens = [], 1.0
    for draft_len in range(min(len(survival), curve.max_rows - 1) + 1):
        rows = draft_len + 1
        tokens += survival[draft_len - 1] if draft_len else 0.0
        price, draft_s = curve.price(rows, depth), draft.of(draft_len)
        seconds, bar = curve.round_s(rows, depth, draft_s), curve.bar(rows, depth, draft_s)
        found.append(Expected(draft_len, rows, price.width, tokens, seconds, bar))
    return tuple(found)


def break_even(curve: CostCurve, rows: int, depth: int, draft: DraftCost = FREE) -> float | None:
    """The acceptance per token (the same at each position) at which rounds of so many rows are as fast as plain
    decoding.

    0 where they cost no more than a single row, None where even perfect drafts lose.
    """
    draft_len = rows - 1
    bar = curve.bar(rows, depth, draft.of(draft_len))
    if bar <= 1:
        return 0.0
    if bar > rows:
        return None
    low, high = 0.0, 1.0
    while high - low > ACCURACY:
        middle = (low + high) / 2
        low, high = (low, middle) if 1 + sum(geometric(middle, draft_len)) >= bar else (middle, high)
    return high


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a curve allows at all, before any text was written.

    perfect: the best draft length of at least 1 for drafts that are always right, and its gain. easiest: the draft
    length of least break-even acceptance, and that acceptance. never: even perfect drafts gain next to nothing, and
    enough rows were swept to know.
    """

    perfect: Expected
    easiest_draft_len: int
    easiest_acceptance: float
    never: bool
    text: str


def outlook(curve: CostCurve, depth: int, draft: DraftCost = FREE) -> Outlook:
    """Whether drafting can pay on this curve, and how good drafts must be.

    Raises: ConfigError for a curve of single rows, which says nothing of drafts.
    """
    drafted = expected(curve, [1.0] * (curve.max_rows - 1), depth, draft)[1:]
    if not drafted:
        raise ConfigError("what drafts can bring needs the cost of two rows at least, and one was measured")
    perfect = max(drafted, key=lambda each: each.tokens_per_s)
    needs = [(break_even(curve, rows, depth, draft), rows - 1) for rows in curve.rows if rows > 1]
    acceptance, draft_len = min(((a, k) for a, k in needs if a is not None), default=(1.0, 0))
    never = perfect.gain < NEVER_GAIN and curve.max_rows >= ENOUGH_ROWS
    if perfect.gain >= NEVER_GAIN:
        text = (
            f"draft_len {draft_len} pays from an acceptance of {acceptance:.0%} on; drafts that are always right would "
            f"give {perfect.gain:.2f}x at draft_len {perfect.draft_len}"
        )
    else:
        loss = (
            f"{perfect.rows} rows cost {perfect.bar:.2f} times one row, so even drafts that are always right would "
            f"give {perfect.gain:.2f}x"
        )
        text = f"never speculate here: {loss}"
        if not never:
            swept = f"of the {curve.max_rows} rows that were swept none is worth a draft"
            text = f"{swept}: {loss}; what more rows cost is not known"
    return Outlook(perfect, draft_len, acceptance, never, text)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to do on one workload. gain with its 95 % interval; draft_len: the best fixed length, 0 where none is sure
    to pay."""

    kind: Literal["draft", "undecided", "do not speculate", "never speculate"]
    draft_len: int
    gain: float
    low: float
    high: float
    reasons: tuple[str, ...]
    text: str


def judged(
    view: Outlook, draft_len: int, gain: float, spread: float, reasons: Sequence[str], *, least: float = 0.0
) -> Verdict:
    """The verdict on the best draft length, however its gain was found.

    spread: half the 95 % interval of the logarithm of the gain; least: where it ends at the latest, because something
    else holds it up. An interval around 1 is undecided. draft_len is what a fixed length is told: 0 unless the whole
    interval is above 1. A policy that chooses for itself does not look at it.
    """
    spread = min(spread, WIDEST)
    low, high = max(gain * math.exp(-spread), min(least, gain)), gain * math.exp(spread)
    if view.never:
        return Verdict("never speculate", 0, gain, low, high, (view.text, *reasons), view.text)
    at = f"draft_len {draft_len} ({draft_len + 1} rows)"
    if low > 1:
        text = f"draft {draft_len} ({draft_len + 1} rows): expect {between(low, high)}"
        return Verdict("draft", draft_len, gain, low, high, tuple(reasons), text)
    if high < 1:
        text = f"do not speculate: {at}, the best, would give {between(low, high)}"
        return Verdict("do not speculate", 0, gain, low, high, tuple(reasons), text)
    text = f"undecided: {at}, the best, gives {between(low, high)}"
    return Verdict("undecided", 0, gain, low, high, tuple(reasons), text)


def between(low: float, high: float) -> str:
    """1.31 and 1.92 as 1.3x to 1.9x, and as one figure where both are written alike; no digit finer than their
    distance."""
    digits = 2 if high - low < FINE else 1
    first, last = f"{low:.{digits}f}x", f"{high:.{digits}f}x"
    return first if first == last else f"{first} to {last}"


def _check(survival: Sequence[float]) -> None:
    previous = 1.0
    for position, chance in enumerate(survival, 1):
        if not 0 <= chance <= previous + ACCURACY:
            raise ConfigError(
                f"survival at position {position} is {chance}, after {previous}: it is a chance and cannot rise; "
                "a conditional acceptance is not a survival"
            )
        previous = chance
