"""What drafts are worth on a workload: the policy, every length and the best schedule replayed on the curve."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from surefoot.core.cost import CostCurve
from surefoot.core.payoff import WIDEST, DraftCost, Outlook, Verdict, between, judged, outlook
from surefoot.core.ports import Clock, Drafter, Policy
from surefoot.core.types import Ids, Round
from surefoot.engine.plans import Outcome, Workload
from surefoot.lab.oracle import oracle
from surefoot.lab.replay import Replayed, Trace, plain_s, record, replay
from surefoot.lab.tune.spread import Spread, spread
from surefoot.policies.fixed import FixedPolicy
from surefoot.policies.fixed import Options as FixedOptions
from surefoot.policies.goodput.ledger import FLOOR
from surefoot.policies.goodput.policy import GoodputPolicy
from surefoot.policies.goodput.policy import Options as GoodputOptions

LEAST_TOKENS = 3
"""The first comes of the prefill; one more round says nothing of how rounds follow each other."""


@dataclass(frozen=True, slots=True)
class Counted:
    """A text, what the drafter offers along it, and what its offers cost. own: the model that is tuned has written
    it."""

    workload: str
    trace: Trace
    draft: DraftCost
    own: bool


def count(
    workload: str, prompt: Ids, ids: Sequence[int], drafter: Drafter, longest: int, clock: Clock, *, own: bool
) -> Counted:
    """The offers of a drafter that goes by the history alone, each with the drafter's own time."""
    start = clock()
    # Such a drafter looks at no scores.
    trace = record(drafter, prompt, ids, None, longest)  # type: ignore[arg-type]
    return Counted(workload, trace, DraftCost(fixed_s=(clock() - start) / max(1, len(ids))), own)


def worth(texts: Sequence[Counted], curve: CostCurve, deepest: int) -> Workload | None:
    """The verdict on a workload, from its texts, and at which depth it ends; None where all of them are too short.

    The gain is that of `goodput`, which is the policy where there is a plan. deepest: the longest context that the
    verdict is looked at for.
    """
    texts = [each for each in texts if len(each.trace.ids) >= LEAST_TOKENS and plain_s(each.trace, curve) > 0]
    if not texts or curve.max_rows < 2:
        return None
    off_s = [plain_s(each.trace, curve) for each in texts]
    by_length = {k: _replayed(texts, curve, lambda k=k: _fixed(k)) for k in range(1, curve.max_rows)}  # type: ignore[misc]
    best = min(by_length, key=lambda k: (_seconds(by_length[k]), k))
    policy = _replayed(texts, curve, lambda: _goodput(curve))
    depth = _depth(texts)
    sure = spread(off_s, policy, curve)
    view = outlook(curve, depth, texts[0].draft)
    deeper = _deeper(curve, depth, deepest)
    rounds = [each for run in by_length[best] for each in run.rounds]
    reasons = (*_texts(texts, off_s, policy), *_reasons(rounds, curve, depth))
    found = judged(
        view, best, sum(off_s) / _seconds(policy), sure.both, reasons, least=_least(off_s, sure, curve, depth)
    )
    return Workload(
        name=texts[0].workload,
        depth=depth,
        tokens=sum(run.tokens for run in policy),
        rounds=len(rounds),
        offered=_offered(rounds),
        survival=_survival(rounds, best),
        outcome=_outcome(found, sure),
        fixed_gain=sum(off_s) / _seconds(by_length[best]),
        oracle_share=sum(oracle(each.trace, curve, each.draft).seconds for each in texts) / _seconds(policy),
        above=_above(by_length, curve, texts[0].draft, deeper) if found.kind == "draft" else None,
    )


def _depth(texts: Sequence[Counted]) -> int:
    """Tokens of context in the middle of the texts, each by its length."""
    tokens = sum(len(each.trace.ids) for each in texts)
    return round(sum(len(t.trace.ids) * (t.trace.n_prompt + len(t.trace.ids) / 2) for t in texts) / tokens)


def _least(off_s: Sequence[float], sure: Spread, curve: CostCurve, depth: int) -> float:
    """The gain that goodput cannot undercut, as far as the costs are known: its floor, on texts as long as these."""
    worst_s = len(off_s) * max(curve.round_s(rows, depth) for rows in range(1, curve.max_rows + 1))
    return sum(off_s) / ((1 + FLOOR) * sum(off_s) + worst_s) * math.exp(-min(sure.sweep, WIDEST))


def expectation(workloads: Sequence[Workload], view: Outlook) -> str:
    """One sentence over all workloads: what to draft, where, and what it brings."""
    if view.never:
        return view.text
    drafting = sorted((w for w in workloads if w.outcome.kind == "draft"), key=lambda w: -w.outcome.gain)
    said = [f"draft {w.outcome.draft_len} on {w.name}, expect {_between(w)}{_until(w)}" for w in drafting]
    silent = [w.name for w in workloads if w.outcome.kind in ("do not speculate", "never speculate")]
    if silent:
        said.append(f"do not speculate on {', '.join(silent)}")
    open_ = [f"{w.name} ({_between(w)})" for w in workloads if w.outcome.kind == "undecided"]
    if open_:
        said.append(f"undecided on {', '.join(open_)}, where goodput stops drafting while it loses")
    return "; ".join(said) or "no text was long enough to say anything"


def _between(workload: Workload) -> str:
    return between(workload.outcome.low, workload.outcome.high)


def _until(workload: Workload) -> str:
    return f" (not above {thousands(workload.above)} tokens)" if workload.above else ""


def thousands(tokens: int) -> str:
    """4096 as 4k."""
    return f"{tokens // 1024}k" if tokens >= 1024 and tokens % 1024 == 0 else str(tokens)


def _outcome(found: Verdict, sure: Spread) -> Outcome:
    """The verdict with words for its interval, and where it is open what would close it."""
    text, reasons = found.text, found.reasons
    if found.kind == "undecided":
        reasons = (_decides(sure), *reasons)
        text = f"{text}; {reasons[0]}"
    return Outcome(found.kind, found.draft_len, found.gain, found.low, found.high, text, reasons)


def _decides(sure: Spread) -> str:
    """What would make an interval around 1 narrower: that which makes it wide."""
    if sure.sweep > sure.texts:
        return "the sweep is what leaves it open: tune again without --quick, with other programs closed"
    return (
        f"single texts differ, {between(sure.least, sure.most)}: texts of yours decide, "
        "'surefoot bench MODEL --prompts FILE'"
    )


def _replayed(texts: Sequence[Counted], curve: CostCurve, policy: Callable[[], Policy]) -> list[Replayed]:
    """Each text, begun with a policy that knows nothing of the others."""
    return [replay(each.trace, policy(), curve, each.draft) for each in texts]


def _seconds(runs: Sequence[Replayed]) -> float:
    return sum(run.seconds for run in runs)


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


def _texts(texts: Sequence[Counted], off_s: Sequence[float], runs: Sequence[Replayed]) -> Iterator[str]:
    """What single texts gave, those of this model first."""
    gains = [(each.own, off / run.seconds) for each, off, run in zip(texts, off_s, runs, strict=True)]
    for own, whose in ((True, "of this model"), (False, "that ship with Surefoot, of SmolLM2-135M")):
        found = [gain for each, gain in gains if each == own]
        if found:
            yield f"{len(found)} text{'s' if len(found) > 1 else ''} {whose}: {between(min(found), max(found))}"


def _reasons(rounds: Sequence[Round], curve: CostCurve, depth: int) -> Iterator[str]:
    drafted = [each for each in rounds if each.drafted]
    accepted = sum(each.accepted for each in rounds) / len(rounds)
    yield (
        f"at the best fixed length {sum(len(each.new_ids) for each in rounds)} tokens in {len(rounds)} rounds: drafts "
        f"in {_offered(rounds):.0%} of them, {accepted:.2f} accepted per round"
    )
    if drafted:
        rows = max(each.rows for each in drafted)
        price = curve.price(rows, depth)
        padded = f", padded to {price.width}," if price.padded else ""
        yield f"{rows} rows{padded} cost {curve.relative(rows, depth):.2f} times one row at {depth} tokens"
        if rows in curve.holes:
            yield f"{rows} rows were not measured: the price is that of the dearer neighbour"
    if not curve.has_depth_slope:
        yield "the curve was measured at one depth only; at a longer context the verdict may be another"


def _above(
    by_length: Mapping[int, Sequence[Replayed]], curve: CostCurve, draft: DraftCost, depths: Sequence[int]
) -> int | None:
    """The first of these ascending depths from which on no length pays; None where one pays at the last."""
    shapes = {
        k: Counter((each.rows, each.drafted) for run in runs for each in run.rounds) for k, runs in by_length.items()
    }
    tokens = {k: sum(run.tokens for run in runs) for k, runs in by_length.items()}
    above = None
    for depth in reversed(depths):
        plain = curve.round_s(1, depth)
        cost = {rows: curve.round_s(rows, depth) for rows in range(1, curve.max_rows + 1)}
        if any(
            sum(times * (cost[rows] + draft.of(drafted)) for (rows, drafted), times in shape.items())
            < plain * tokens[k]
            for k, shape in shapes.items()
        ):
            break
        above = depth
    return above


def _deeper(curve: CostCurve, depth: int, deepest: int) -> tuple[int, ...]:
    """Where a verdict for `depth` is looked at again: every measured depth and every power of two behind it; nowhere
    where the curve says nothing of depths."""
    if not curve.has_depth_slope:
        return ()
    powers = {1 << bits for bits in range(depth.bit_length(), deepest.bit_length())}
    return tuple(sorted(each for each in powers | set(curve.depths) if depth < each <= deepest))
