"""What drafts are worth on a workload: every length, the policy and the best schedule replayed on the curve."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from surefoot.core.cost import CostCurve
from surefoot.core.payoff import DraftCost, Outlook, judged, outlook
from surefoot.core.ports import Clock, Drafter, Policy
from surefoot.core.types import Round
from surefoot.engine.plans import Outcome, Workload
from surefoot.lab.oracle import oracle
from surefoot.lab.replay import Replayed, Trace, plain_s, record, replay
from surefoot.lab.tune.texts import Written
from surefoot.policies.fixed import FixedPolicy
from surefoot.policies.fixed import Options as FixedOptions
from surefoot.policies.goodput.policy import GoodputPolicy
from surefoot.policies.goodput.policy import Options as GoodputOptions

BATCH = 6
"""chosen: rounds that follow each other are alike (a copy goes on), six of them less so; a text has ten batches."""

_Z = 1.96


@dataclass(frozen=True, slots=True)
class Counted:
    """A text, what the drafter offers along it, and what its offers cost."""

    workload: str
    trace: Trace
    draft: DraftCost


def count(text: Written, drafter: Drafter, longest: int, clock: Clock) -> Counted:
    """The offers of a drafter that goes by the history alone, each with the drafter's own time."""
    start = clock()
    # Such a drafter looks at no scores.
    trace = record(drafter, text.prompt, text.ids, None, longest)  # type: ignore[arg-type]
    return Counted(text.workload, trace, DraftCost(fixed_s=(clock() - start) / max(1, len(text.ids))))


def worth(counted: Counted, curve: CostCurve, deepest: int) -> Workload | None:
    """The verdict on a workload, and at which depth it ends; None for a text that is too short to count anything.

    deepest: the longest context that the verdict is looked at for.
    """
    trace, draft = counted.trace, counted.draft
    off_s = plain_s(trace, curve)
    if len(trace.ids) < 3 or curve.max_rows < 2 or off_s <= 0:
        return None
    by_length = {k: replay(trace, _fixed(k), curve, draft) for k in range(1, curve.max_rows)}
    best = min(by_length, key=lambda k: (by_length[k].seconds, k))
    chosen = by_length[best]
    depth = trace.n_prompt + len(trace.ids) // 2
    gain, spread = off_s / chosen.seconds, _spread(chosen.rounds, curve)
    view = outlook(curve, depth, draft)
    found = judged(view, best, gain, spread, _reasons(chosen, curve, depth))
    policy = replay(trace, _goodput(curve), curve, draft)
    return Workload(
        name=counted.workload,
        depth=depth,
        tokens=len(trace.ids) - 1,
        rounds=len(chosen.rounds),
        offered=_offered(chosen.rounds),
        survival=_survival(chosen.rounds, best),
        outcome=Outcome(found.kind, found.draft_len, found.gain, found.low, found.high, found.text, found.reasons),
        policy_gain=off_s / policy.seconds,
        oracle_share=oracle(trace, curve, draft).share(policy),
        above=_above(by_length, curve, draft, deepest) if found.kind == "draft" else None,
    )


def expectation(workloads: Sequence[Workload], view: Outlook) -> str:
    """One sentence over all workloads: what to draft, where, and what it brings."""
    if view.never:
        return view.text
    drafting = sorted((w for w in workloads if w.outcome.kind == "draft"), key=lambda w: -w.outcome.gain)
    said = [f"draft {w.outcome.draft_len} on {w.name}, expect {w.outcome.gain:.1f}x{_until(w)}" for w in drafting]
    silent = [w.name for w in workloads if w.outcome.kind in ("do not speculate", "never speculate")]
    if silent:
        said.append(f"do not speculate on {', '.join(silent)}")
    open_ = [w.name for w in workloads if w.outcome.kind == "undecided"]
    if open_:
        said.append(f"undecided on {', '.join(open_)}")
    return "; ".join(said) or "no text was long enough to say anything"


def _until(workload: Workload) -> str:
    return f" (not above {thousands(workload.above)} tokens)" if workload.above else ""


def thousands(tokens: int) -> str:
    """4096 as 4k."""
    return f"{tokens // 1024}k" if tokens >= 1024 and tokens % 1024 == 0 else str(tokens)


def _fixed(draft_len: int) -> Policy:
    return FixedPolicy(FixedOptions(draft_len))


def _goodput(curve: CostCurve) -> Policy:
    return GoodputPolicy(GoodputOptions(reproducible=True), curve)


def _offered(rounds: Sequence[Round]) -> float:
    """The share of rounds in which the drafter had something."""
    return sum(each.drafted > 0 for each in rounds) / len(rounds)


def _survival(rounds: Sequence[Round], longest: int) -> tuple[float, ...]:
    """The chance that a draft lives to each position, where there was a draft."""
    drafted = [each for each in rounds if each.drafted]
    if not drafted:
        return ()
    return tuple(sum(each.accepted >= k for each in drafted) / len(drafted) for k in range(1, longest + 1))


def _spread(rounds: Sequence[Round], curve: CostCurve) -> float:
    """Half the 95 % interval of the logarithm of the gain: what the text and the sweep leave open.

    Source: the ratio estimator with batch means (W. G. Cochran, Sampling Techniques, 1977, section 2.11); the quantile
    of Student's law by its first term (R. A. Fisher and E. A. Cornish, Technometrics 2:209, 1960).
    """
    worth = np.asarray([len(each.new_ids) * curve.round_s(1, each.depth) for each in rounds])
    spent = np.asarray([each.draft_s + each.extend_s + each.judge_s for each in rounds])
    n = max(1, len(rounds) // BATCH)
    worth, spent = (np.asarray([part.sum() for part in np.array_split(each, n)]) for each in (worth, spent))
    sweep = _sweep_error(rounds, curve)
    if n < 2:
        return math.log(2) + _Z * sweep  # one batch says nothing of how much texts differ
    rest = worth - worth.sum() / spent.sum() * spent
    text = math.sqrt(n / (n - 1) * float((rest**2).sum())) / float(worth.sum())
    quantile = _Z + (_Z**3 + _Z) / (4 * (n - 1))
    return math.hypot(quantile * text, _Z * sweep)


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


def _reasons(chosen: Replayed, curve: CostCurve, depth: int) -> tuple[str, ...]:
    rounds = chosen.rounds
    drafted = [each for each in rounds if each.drafted]
    accepted = sum(each.accepted for each in rounds) / len(rounds)
    said = [
        f"{chosen.tokens} tokens in {len(rounds)} rounds: drafts in {_offered(rounds):.0%} of them, {accepted:.2f} "
        "accepted per round"
    ]
    if drafted:
        rows = max(each.rows for each in drafted)
        price = curve.price(rows, depth)
        padded = f", padded to {price.width}," if price.padded else ""
        said.append(f"{rows} rows{padded} cost {curve.relative(rows, depth):.2f} times one row at {depth} tokens")
        if rows in curve.holes:
            said.append(f"{rows} rows were not measured: the price is that of the dearer neighbour")
    if not curve.has_depth_slope:
        said.append("the curve was measured at one depth only; at a longer context the verdict may be another")
    return tuple(said)


def _above(by_length: Mapping[int, Replayed], curve: CostCurve, draft: DraftCost, deepest: int) -> int | None:
    """The depth from which on no length pays, looked for at powers of two; None where one pays as far as that."""
    if not curve.has_depth_slope:
        return None
    shapes = {k: Counter((each.rows, each.drafted) for each in run.rounds) for k, run in by_length.items()}
    for depth in _powers(max(curve.depths), deepest):
        plain = curve.round_s(1, depth)
        cost = {rows: curve.round_s(rows, depth) for rows in range(1, curve.max_rows + 1)}
        if all(
            plain * by_length[k].tokens
            <= sum(times * (cost[rows] + draft.of(drafted)) for (rows, drafted), times in shape.items())
            for k, shape in shapes.items()
        ):
            return depth
    return None


def _powers(above: int, deepest: int) -> Iterator[int]:
    depth = 1 << above.bit_length()
    while depth <= deepest:
        yield depth
        depth *= 2
