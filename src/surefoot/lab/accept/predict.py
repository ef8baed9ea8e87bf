"""What counted drafts would be worth where forwards cost what a curve says: tokens per second by draft length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from surefoot.core.cost import CostCurve
from surefoot.core.payoff import DraftCost
from surefoot.lab.accept.run import counting_of
from surefoot.lab.records import Counted, Step, Workload
from surefoot.lab.replay import NOTHING, Offer, Trace, plain_s
from surefoot.lab.simulate import fixed_at, on_texts
from surefoot.lab.store import Loaded


@dataclass(frozen=True, slots=True)
class Prediction:
    """One drafter on one workload at one temperature.

    found: `oracle`, the text written again with drafts of each length; `chain`, where a drafter cannot be replayed: the
    rounds of the chain, its drafts cut to each length, as if shorter ones would not begin elsewhere. tokens_per_s: by
    draft length from 1 on, as far as both the run and the curve reach. best: the length of most tokens per second; 0
    where that is plain decoding.
    """

    workload: Workload
    temperature: float
    arm: str
    found: Literal["oracle", "chain"]
    plain_tokens_per_s: float
    tokens_per_s: tuple[float, ...]

    @property
    def best(self) -> int:
        speeds = (self.plain_tokens_per_s, *self.tokens_per_s)
        return speeds.index(max(speeds))


def predict(loaded: Loaded, curve: CostCurve, drafts: Mapping[str, DraftCost]) -> tuple[Prediction, ...]:
    """By workload, temperature and arm, in the order of the run; groups of which something is missing are left out.

    drafts: what they cost, by the label of the arm; an arm that is not there is left out.
    """
    run, counting = loaded.run, counting_of(loaded.run)
    lengths = range(1, min(counting.draft_len, curve.max_rows - 1) + 1)
    counted = {(each.mode, each.arm, each.prompt, each.temperature): each for each in loaded.counted}
    n_prompts = {use.id: use.n_tokens for use in run.prompts}
    found = []
    for workload in dict.fromkeys(use.workload for use in run.prompts):
        names = [use.id for use in run.prompts if use.workload == workload]
        for temperature in counting.temperatures:
            for arm in [arm for arm in run.arms if arm.label in drafts]:
                mode: Literal["oracle", "chain"] = "chain" if arm.label in counting.no_oracle else "oracle"
                pairs = [
                    (counted["plain", "", name, temperature], counted[mode, arm.label, name, temperature])
                    for name in names
                    if (mode, arm.label, name, temperature) in counted
                ]
                long_enough = [pair for pair in pairs if len(pair[0].ids) > 1]
                speeds = _speeds(long_enough, n_prompts, curve, drafts[arm.label], lengths)
                if speeds:
                    found.append(Prediction(workload, temperature, arm.label, mode, *speeds))
    return tuple(found)


def _speeds(
    texts: Sequence[tuple[Counted, Counted]],
    n_prompts: Mapping[str, int],
    curve: CostCurve,
    draft: DraftCost,
    lengths: Sequence[int],
) -> tuple[float, tuple[float, ...]] | None:
    """Tokens per second without drafts, and by length; None without a text."""
    if not texts:
        return None
    traces = [_trace(plain, found, n_prompts[plain.prompt]) for plain, found in texts]
    if texts[0][1].mode == "oracle":
        (simulated,) = on_texts({"": traces}, [fixed_at(length) for length in lengths], curve, draft)
        by_length = tuple(outcome.tokens_per_s for outcome in simulated.outcomes)
        return simulated.plain_tokens_per_s, by_length
    tokens = sum(len(trace.ids) - 1 for trace in traces)
    steps = [step for _, chain in texts for step in chain.steps]
    plain = tokens / sum(plain_s(trace, curve) for trace in traces)
    return plain, tuple(_cut_speed(steps, length, curve, draft) for length in lengths)


def _trace(plain: Counted, found: Counted, n_prompt: int) -> Trace:
    """The plain text with the offers of an oracle; with none, where it is not one."""
    steps = found.steps if found.mode == "oracle" else ()
    offers = [Offer(step.evaluated, step.accepted, step.match_len, step.source) for step in steps]
    return Trace(n_prompt, tuple(plain.ids), (NOTHING, *offers, *[NOTHING] * (len(plain.ids) - 1 - len(offers))))


def _cut_speed(steps: Sequence[Step], length: int, curve: CostCurve, draft: DraftCost) -> float:
    """Tokens per second of these rounds if no draft were longer than that."""
    seconds, tokens = 0.0, 0
    for step in steps:
        scored = min(step.evaluated, length)
        seconds += curve.round_s(scored + 1, step.depth, draft.of(scored))
        tokens += min(step.emitted, min(step.accepted, length) + 1)
    return tokens / seconds
