"""What drafts are worth on a workload: the best of all lengths by replay, its interval, and the depth where it ends."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from surefoot.core.cost import CostCurve, fit_curve, published
from surefoot.core.payoff import FREE, outlook
from surefoot.engine.plans import Outcome, Workload
from surefoot.lab.replay import NOTHING, Offer, Trace, plain_s, replay
from surefoot.lab.tune import compare
from surefoot.lab.tune.worth import Counted, expectation, thousands, worth
from surefoot.policies.fixed import FixedPolicy, Options

ROWS = range(1, 18)


def curve(cost: Callable[[int], float], slope: Callable[[int], float] = lambda rows: 0.0) -> CostCurve:
    points = [
        point
        for depth in (200, 850)
        for point in published({rows: cost(rows) + depth * slope(rows) for rows in ROWS}, depth)
    ]
    return fit_curve(points)


def stairs(rows: int) -> float:
    return 0.020 if rows <= 3 else 0.028 if rows <= 8 else 0.050


def text(offered: float, held: float, n: int = 400, seed: int = 0, n_prompt: int = 150) -> Trace:
    """A text where the drafter has something at a share of positions, and each of its tokens holds with one chance."""
    rng = np.random.default_rng(seed)
    offers = [NOTHING]
    for at in range(1, n):
        right = min(int(rng.geometric(1 - held)) - 1, 16, n - at)
        offers.append(Offer(16, right, 2, "ngram") if rng.random() < offered else NOTHING)
    return Trace(n_prompt, tuple(range(n)), tuple(offers))


def found(trace: Trace, cost: CostCurve, deepest: int = 8192) -> Workload:
    each = worth(Counted("code", trace, FREE), cost, deepest)
    assert each is not None
    return each


@pytest.mark.parametrize(("offered", "held"), [(0.9, 0.9), (0.5, 0.7), (0.3, 0.2), (1.0, 0.0)])
def test_it_is_the_best_of_all_lengths(offered: float, held: float) -> None:
    trace, cost = text(offered, held), curve(stairs)
    each = found(trace, cost)
    gains = {k: plain_s(trace, cost) / replay(trace, FixedPolicy(Options(k)), cost).seconds for k in range(1, 17)}
    assert each.outcome.gain == pytest.approx(max(gains.values()))
    assert each.outcome.low <= each.outcome.gain <= each.outcome.high
    if each.outcome.kind == "draft":
        assert gains[each.outcome.draft_len] == pytest.approx(max(gains.values()))
        assert each.outcome.low > 1
    else:
        assert each.outcome.draft_len == 0
    assert each.tokens == 399
    assert 0 < each.oracle_share <= 1
    assert list(each.survival) == sorted(each.survival, reverse=True)


def test_copies_are_drafted_and_noise_is_not() -> None:
    copies = found(text(0.9, 0.95), curve(stairs))
    noise = found(text(0.9, 0.02), curve(lambda rows: 0.020 + 0.004 * (rows - 1)))
    assert (copies.outcome.kind, noise.outcome.kind) == ("draft", "do not speculate")
    assert copies.outcome.draft_len in (7, 16)
    assert copies.policy_gain > 1.5
    assert noise.policy_gain > 0.98


def test_where_rows_cost_what_they_are_nothing_is_ever_drafted() -> None:
    each = found(text(0.9, 0.95), curve(lambda rows: 0.02 * rows))
    assert each.outcome.kind == "never speculate"
    assert each.outcome.draft_len == 0
    sentence = expectation([each], outlook(curve(lambda rows: 0.02 * rows), 200))
    assert sentence.startswith("never speculate here")


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    cost = curve(stairs)

    def gain(trace: Trace) -> float:
        return math.log(plain_s(trace, cost) / replay(trace, FixedPolicy(Options(7)), cost).seconds)

    truth = gain(text(0.7, 0.8, n=20_000, seed=999))
    inside = 0
    for seed in range(40):
        each = found(text(0.7, 0.8, n=200, seed=seed), cost).outcome
        inside += math.log(each.low) - 0.02 <= truth <= math.log(each.high) + 0.02
    assert inside >= 36  # of 40; two are expected to lie outside


def test_a_single_short_text_decides_little() -> None:
    long, short = found(text(0.9, 0.6, n=600), curve(stairs)), found(text(0.9, 0.6, n=20), curve(stairs))
    assert long.outcome.high / long.outcome.low < short.outcome.high / short.outcome.low
    assert worth(Counted("chat", Trace(9, (1, 2), (NOTHING, NOTHING)), FREE), curve(stairs), 8192) is None


def test_the_depth_where_drafting_ends() -> None:
    """Seven drafts are worth 1.6 plain rounds; their rows grow dearer with the context, one row hardly."""
    dearer = curve(stairs, lambda rows: 2e-6 * rows**2)
    trace = text(0.8, 0.7)
    each = found(trace, dearer, deepest=1 << 17)
    assert each.outcome.kind == "draft"
    assert each.above is not None
    assert each.above & (each.above - 1) == 0

    def pays(depth: int) -> bool:
        """By replaying every length there."""
        there = Trace(depth, trace.ids, trace.offers)
        plain = plain_s(there, dearer)
        return any(replay(there, FixedPolicy(Options(k)), dearer).seconds < plain for k in range(1, 17))

    assert pays(each.above // 4)
    assert not pays(each.above)
    assert found(trace, curve(stairs), deepest=1 << 17).above is None
    assert found(trace, dearer, deepest=each.above // 2).above is None


def outcome(kind: str, draft_len: int = 0, gain: float = 1.0) -> Outcome:
    return Outcome(kind, draft_len, gain, gain, gain, "")  # type: ignore[arg-type]


def workload(name: str, said: Outcome, above: int | None = None) -> Workload:
    return Workload(name, 200, 90, 40, 0.5, (), said, 1.0, 1.0, above)


def test_the_verdict_in_words() -> None:
    view = outlook(curve(stairs), 200)
    said = expectation(
        [
            workload("tools", outcome("draft", 2, 1.21)), workload("code", outcome("draft", 7, 1.62), 8192),
            workload("chat", outcome("do not speculate")), workload("summary", outcome("undecided")),
        ],
        view,
    )  # fmt: skip
    assert said == (
        "draft 7 on code, expect 1.6x (not above 8k tokens); draft 2 on tools, expect 1.2x; do not speculate on chat; "
        "undecided on summary"
    )
    assert expectation([], view) == "no text was long enough to say anything"
    assert (thousands(1000), thousands(1024), thousands(16384)) == ("1000", "1k", "16k")


def test_the_fastest_of_several() -> None:
    from plan_samples import plan

    slow = plan(curve=curve(lambda rows: 2 * stairs(rows)))
    quick = plan(curve=curve(stairs))
    unsure = plan(
        curve=curve(lambda rows: 0.9 * stairs(rows)), rows=plan().rows.__class__("near-tie", "near-tie", "", "")
    )
    rows = [compare.row("slow", slow), compare.row("quick", quick), compare.row("unsure", unsure)]
    assert [each.drafts for each in rows] == [True, True, False]
    assert rows[0].speeds[0].tokens_per_s == pytest.approx(1.6 / 0.040)
    assert rows[1].speeds[0] == compare.Speed("code", pytest.approx(1.6 / 0.020), 7)
    assert rows[2].speeds[0] == compare.Speed("code", pytest.approx(1 / 0.018), 0)
    rows.append(compare.missing("broken", "it failed"))
    (best,) = compare.fastest(rows)
    assert (best.name, best.draft_len) == ("quick", 7)
    assert best.lead == pytest.approx((1.6 / 0.020) / (1 / 0.018))
    assert compare.fastest([rows[0]])[0].lead is None
    assert compare.fastest([rows[3]]) == ()
