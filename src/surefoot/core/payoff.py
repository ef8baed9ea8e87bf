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


def best(curve: CostCurve, survival: Sequence[float], depth: int, draft: DraftCost = FREE) -> Expected:
    """The draft length of most tokens per second; the shortest of equals, 0 where drafting does not pay."""
    return max(expected(curve, survival, depth, draft), key=lambda each: each.tokens_per_s)


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

    perfect: the draft length and gain of drafts that are always right. easiest: the draft length of least break-even
    acceptance, and that acceptance.
    """

    perfect: Expected
    easiest_draft_len: int
    easiest_acceptance: float
    never: bool
    text: str


def outlook(curve: CostCurve, depth: int, draft: DraftCost = FREE) -> Outlook:
    """Whether drafting can pay on this curve, and how good drafts must be."""
    perfect = best(curve, [1.0] * (curve.max_rows - 1), depth, draft)
    needs = [(break_even(curve, rows, depth, draft), rows - 1) for rows in curve.rows if rows > 1]
    acceptance, draft_len = min(((a, k) for a, k in needs if a is not None), default=(1.0, 0))
    never = perfect.gain < NEVER_GAIN
    if never:
        text = (
            f"never speculate here: {perfect.rows} rows cost {perfect.bar:.2f} times one row, so even drafts that are "
            f"always right would give {perfect.gain:.2f}x"
        )
    else:
        text = (
            f"draft_len {draft_len} pays from an acceptance of {acceptance:.0%} on; drafts that are always right would "
            f"give {perfect.gain:.2f}x at draft_len {perfect.draft_len}"
        )
    return Outlook(perfect, draft_len, acceptance, never, text)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to do on one workload. gain with its 95 % interval; draft_len 0 where drafts should stay off."""

    kind: Literal["draft", "undecided", "do not speculate", "never speculate"]
    draft_len: int
    gain: float
    low: float
    high: float
    reasons: tuple[str, ...]
    text: str


def verdict(curve: CostCurve, survival: Sequence[float], offered: int, depth: int, draft: DraftCost = FREE) -> Verdict:
    """The draft length to use, or not to speculate, and why.

    `offered`: drafts that the survival was counted from. The interval holds what the sweep and the count leave open:
    the noise of both costs, and the spread of the accepted tokens over that many drafts. An interval around 1 is
    undecided, and drafts stay off.
    """
    if offered < 1:
        raise ConfigError("a verdict needs drafts that were counted; run the workload first")
    choices = expected(curve, survival, depth, draft)[1:]
    if not choices:
        raise ConfigError("a verdict needs the survival of one draft token and the cost of two rows at least")
    choice = max(choices, key=lambda each: each.gain)
    spread = 1.96 * _log_error(curve, survival, offered, choice)
    reasons = _reasons(curve, choice, offered, depth)
    return judged(outlook(curve, depth, draft), choice.draft_len, choice.gain, spread, reasons)


def judged(
    view: Outlook, draft_len: int, gain: float, spread: float, reasons: Sequence[str], *, least: float = 0.0
) -> Verdict:
    """The verdict on the best draft length, however its gain was found.

    spread: half the 95 % interval of the logarithm of the gain; least: where it ends at the latest, because something
    else holds it up. An interval around 1 is undecided, and drafts stay off.
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


def _log_error(curve: CostCurve, survival: Sequence[float], offered: int, choice: Expected) -> float:
    """One standard deviation of the logarithm of the gain.

    Source: of accepted tokens A, E[A^2] is the sum of (2 i - 1) survival(i); errors of independent factors add in
    squares.
    """
    lived = survival[: choice.draft_len]
    mean = sum(lived)
    square = sum((2 * position - 1) * chance for position, chance in enumerate(lived, 1))
    # chosen: half of one more draft, so that a count of none or of all is not taken for certainty.
    variance = (max(0.0, square - mean * mean) + choice.draft_len**2 / (4 * offered)) / offered
    return math.sqrt(variance / choice.tokens**2 + curve.error(choice.width) ** 2 + curve.error(1) ** 2)


def _reasons(curve: CostCurve, choice: Expected, offered: int, depth: int) -> tuple[str, ...]:
    rows = f"{choice.rows} rows" if choice.width == choice.rows else f"{choice.rows} rows, padded to {choice.width},"
    reasons = [
        f"{rows} cost {choice.bar:.2f} times plain decoding at {depth} tokens of context, "
        f"and emit {choice.tokens:.2f} tokens a round, counted over {offered} drafts"
    ]
    if choice.rows in curve.holes:
        reasons.append(f"{choice.rows} rows were not measured: the price is that of the dearer neighbour")
    if not curve.has_depth_slope:
        reasons.append("the curve was measured at one depth only; at a longer context the verdict may be another")
    return tuple(reasons)


def _check(survival: Sequence[float]) -> None:
    previous = 1.0
    for position, chance in enumerate(survival, 1):
        if not 0 <= chance <= previous + ACCURACY:
            raise ConfigError(
                f"survival at position {position} is {chance}, after {previous}: it is a chance and cannot rise; "
                "a conditional acceptance is not a survival"
            )
        previous = chance
