"""What drafts are worth on a workload: the best of all lengths by replay, its interval, and the depth where it ends."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from plan_samples import OUTCOME, WORKLOAD, plan

from surefoot.core.cost import NOISE, CostCurve, fit_curve, published
from surefoot.core.payoff import FREE, between, outlook
from surefoot.engine.plans import Outcome, Workload
from surefoot.lab.replay import NOTHING, Offer, Trace, plain_s, replay
from surefoot.lab.tune import compare
from surefoot.lab.tune.spread import LEAST_TEXTS
from surefoot.lab.tune.texts import shipped
from surefoot.lab.tune.worth import Counted, expectation, thousands, worth
from surefoot.lab.workloads import KINDS
from surefoot.policies.fixed import FixedPolicy, Options
from surefoot.policies.goodput.policy import GoodputPolicy
from surefoot.policies.goodput.policy import Options as Goodput

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
    each = worth([Counted("code", trace, FREE, True)], cost, deepest)
    assert each is not None
    return each


@pytest.mark.parametrize(("offered", "held"), [(0.9, 0.9), (0.5, 0.7), (0.3, 0.2), (1.0, 0.0)])
def test_the_gain_is_that_of_goodput_and_the_length_the_best_of_all(offered: float, held: float) -> None:
    trace, cost = text(offered, held), curve(stairs)
    each = found(trace, cost)
    plain = plain_s(trace, cost)
    gains = {k: plain / replay(trace, FixedPolicy(Options(k)), cost).seconds for k in range(1, 17)}
    assert each.fixed_gain == pytest.approx(max(gains.values()))
    assert each.outcome.gain == pytest.approx(plain / replay(trace, GoodputPolicy(Goodput(), cost), cost).seconds)
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
    assert copies.outcome.kind == "draft"
    assert copies.outcome.draft_len in (7, 16)
    assert copies.outcome.text == f"draft {copies.outcome.draft_len} ({copies.outcome.draft_len + 1} rows): expect " + (
        between(copies.outcome.low, copies.outcome.high)
    )
    # A policy that stops where drafts lose loses next to nothing, however bad they are.
    assert noise.outcome.kind in ("undecided", "do not speculate")
    assert noise.outcome.gain > 0.98
    assert noise.fixed_gain < 0.95


def test_where_rows_cost_what_they_are_nothing_is_ever_drafted() -> None:
    each = found(text(0.9, 0.95), curve(lambda rows: 0.02 * rows))
    assert each.outcome.kind == "never speculate"
    assert each.outcome.draft_len == 0
    sentence = expectation([each], outlook(curve(lambda rows: 0.02 * rows), 200))
    assert sentence.startswith("never speculate here")


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    """Of one text, whose stretches differ, and of five, which differ from each other."""
    cost = curve(stairs)
    alike, apart = (long_run(cost, ()), long_run(cost, range(150)))
    one = five = 0
    for seed in range(30):
        each = found(text(0.7, 0.8, n=200, seed=seed), cost).outcome
        one += math.log(each.low) - 0.02 <= alike <= math.log(each.high) + 0.02
        several = [Counted("code", one_of_many(5 * seed + at + 1000), FREE, at == 0) for at in range(5)]
        found_of_five = worth(several, cost, 8192)
        assert found_of_five is not None
        five += math.log(found_of_five.outcome.low) <= apart <= math.log(found_of_five.outcome.high)
    assert one >= 27  # of 30; one or two are expected to lie outside
    assert five >= 26


def one_of_many(seed: int) -> Trace:
    """A text of 60 to 240 tokens, in which copies are as long as texts of its kind happen to have them."""
    rng = np.random.default_rng(seed)
    return text(rng.uniform(0.5, 0.9), rng.uniform(0.6, 0.9), n=int(rng.integers(60, 240)), seed=seed)


def long_run(cost: CostCurve, seeds: Sequence[int]) -> float:
    """The logarithm of the gain over so many texts that it hardly changes; of one very long one for no seeds."""
    texts = [one_of_many(seed) for seed in seeds] or [text(0.7, 0.8, n=20_000, seed=999)]
    spent = sum(replay(each, GoodputPolicy(Goodput(), cost), cost).seconds for each in texts)
    return math.log(sum(plain_s(each, cost) for each in texts) / spent)


def test_texts_that_differ_are_compared_with_each_other() -> None:
    """Each of five texts is sure of itself, and they disagree: stretches of one would never show it."""
    cost, held = curve(stairs), (0.1, 0.95, 0.1, 0.95, 0.5)
    texts = [Counted("code", text(0.9, each, seed=at), FREE, at == 0) for at, each in enumerate(held)]
    together = worth(texts, cost, 8192)
    assert together is not None
    wide = together.outcome.high / together.outcome.low
    gains = []
    for each in texts:
        alone = worth([each], cost, 8192)
        assert alone is not None
        assert alone.outcome.high / alone.outcome.low < wide
        gains.append(alone.outcome.gain)
    assert together.outcome.reasons[:3] == (
        f"single texts differ, {between(min(gains), max(gains))}: texts of yours decide, "
        "'surefoot bench MODEL --prompts FILE'",
        f"1 text of this model: {gains[0]:.2f}x",
        f"4 texts that ship with Surefoot, of SmolLM2-135M: {between(min(gains[1:]), max(gains[1:]))}",
    )
    # The floor of goodput holds the lower end up: no text loses more than a hundredth and one round.
    assert 0.9 < together.outcome.low < 1


def test_what_is_undecided_says_what_would_decide_it() -> None:
    texts = [Counted("code", text(0.9, held, n=40), FREE, True) for held in (0.0, 0.9, 0.0)]
    each = worth(texts, curve(lambda rows: 0.02 + 0.006 * (rows - 1)), 8192)
    assert each is not None
    assert each.outcome.kind == "undecided"
    assert re.fullmatch(
        r"undecided: draft_len \d+ \(\d+ rows\), the best, gives 0\.\d+x to \d\.\d+x; single texts differ, \d\.\d+x to "
        r"\d\.\d+x: texts of yours decide, 'surefoot bench MODEL --prompts FILE'",
        each.outcome.text,
    )
    noisy = fit_curve([*published({1: 0.02}, 200), *published(dict.fromkeys(range(2, 9), 0.03), 200, error=0.6)])
    swept = worth([Counted("code", text(0.9, 0.5), FREE, True)], noisy, 8192)
    assert swept is not None
    assert swept.outcome.text.endswith("tune again without --quick, with other programs closed")


def test_texts_of_every_workload_ship() -> None:
    """As many as a spread between texts needs, and long enough to be counted."""
    every = shipped(KINDS)
    for name in KINDS:
        texts = [each for each in every if each.workload == name]
        assert len(texts) >= LEAST_TEXTS
        assert sum(len(each.ids) for each in texts) > 300
    assert {each.workload for each in shipped(("code",))} == {"code"}


def test_a_single_short_text_decides_little() -> None:
    long, short = found(text(0.9, 0.6, n=600), curve(stairs)), found(text(0.9, 0.6, n=20), curve(stairs))
    assert long.outcome.high / long.outcome.low < short.outcome.high / short.outcome.low
    assert worth([Counted("chat", Trace(9, (1, 2), (NOTHING, NOTHING)), FREE, True)], curve(stairs), 8192) is None


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


@pytest.mark.parametrize(("slope", "above"), [(1e-5, 850), (2e-5, 512)])
def test_drafting_may_end_inside_of_the_sweep(slope: float, above: int) -> None:
    """At a depth that was measured, or at a power of two before the next one that was."""
    each = found(text(0.9, 0.8, n_prompt=10), curve(stairs, lambda rows: slope * rows**2))
    assert each.depth < 256
    assert (each.outcome.kind, each.above) == ("draft", above)


def test_a_depth_ends_drafting_only_where_none_behind_it_begins_again() -> None:
    """Two rows grow dearer with the context than one, and eight never do: at 850 tokens neither pays."""
    costs = {200: {1: 1.0, 2: 1.2, 8: 12.0}, 850: {1: 1.65, 2: 3.8, 8: 12.0}}
    returning = fit_curve([each for depth, cost in costs.items() for each in published(cost, depth)])
    trace = text(1.0, 0.95, n_prompt=10, n=200)
    assert found(trace, returning, deepest=850).above == 850
    assert found(trace, returning, deepest=1 << 14).above is None


def outcome(kind: str, draft_len: int = 0, low: float = 0.9, high: float = 1.1) -> Outcome:
    return Outcome(kind, draft_len, (low * high) ** 0.5, low, high, "")  # type: ignore[arg-type]


def workload(name: str, said: Outcome, above: int | None = None) -> Workload:
    return Workload(name, 200, 90, 40, 0.5, (), said, 1.0, 1.0, above)


def test_the_verdict_in_words() -> None:
    view = outlook(curve(stairs), 200)
    said = expectation(
        [
            workload("tools", outcome("draft", 2, 1.11, 1.32)), workload("code", outcome("draft", 7, 1.3, 1.9), 8192),
            workload("chat", outcome("do not speculate")), workload("summary", outcome("undecided", 0, 0.94, 1.21)),
        ],
        view,
    )  # fmt: skip
    assert said == (
        "draft 7 on code, expect 1.3x to 1.9x (not above 8k tokens); draft 2 on tools, expect 1.11x to 1.32x; do not "
        "speculate on chat; undecided on summary (0.94x to 1.21x), where goodput stops drafting while it loses"
    )
    assert expectation([], view) == "no text was long enough to say anything"
    assert (thousands(1000), thousands(1024), thousands(16384)) == ("1000", "1k", "16k")


def test_the_fastest_of_several() -> None:
    slow = plan(curve=curve(lambda rows: 2 * stairs(rows)))
    quick = plan(curve=curve(stairs))
    unsure = plan(
        curve=curve(lambda rows: 0.9 * stairs(rows)), rows=plan().rows.__class__("near-tie", "near-tie", "", "")
    )
    rows = [compare.row("slow", slow), compare.row("quick", quick), compare.row("unsure", unsure)]
    assert [each.drafts for each in rows] == [True, True, False]
    assert rows[0].speeds[0].tokens_per_s == pytest.approx(1.6 / 0.040)
    fifty = [pytest.approx(gain / 0.020) for gain in (1.6, 1.4, 1.8)]
    assert rows[1].speeds[0] == compare.Speed("code", *fifty, 7)
    spread = math.exp(1.96 * NOISE)
    plain = [pytest.approx(by / 0.018) for by in (1, 1 / spread, spread)]
    assert rows[2].speeds[0] == compare.Speed("code", *plain, 0)
    rows.append(compare.missing("broken", "it failed"))
    (best,) = compare.fastest(rows)
    assert (best.name, best.draft_len, best.level, best.doubt) == ("quick", 7, (), "")
    assert best.lead == pytest.approx((1.6 / 0.020) / (1 / 0.018))
    assert compare.fastest([rows[0]])[0].lead is None
    assert compare.fastest([rows[3]]) == ()


def test_two_that_are_nearly_as_fast_are_level() -> None:
    rows = [compare.row(name, plan(curve=curve(lambda n, by=by: by * stairs(n)))) for name, by in PACES]  # type: ignore[misc]
    (best,) = compare.fastest(rows)
    assert (best.name, best.level, best.doubt) == ("fast", ("level",), "the intervals overlap")
    assert best.lead == pytest.approx(1.01)


PACES = (("level", 1.01), ("slow", 1.7), ("fast", 1.0))
"""The interval of OUTCOME reaches from 1.4 to 1.8, so that the slow one is sure to be slower at one time."""


def test_a_plan_of_another_time_is_no_measure_of_a_small_lead() -> None:
    def named(by: float, *, old: bool, best_old: bool = False) -> compare.Fastest:
        sure = replace(OUTCOME, low=1.59, high=1.61)
        plans = [plan(curve=curve(lambda n, k=k: k * stairs(n)), workloads=(replace(WORKLOAD, outcome=sure),))  # type: ignore[misc]
                 for k in (1.0, by)]  # fmt: skip
        rows = [compare.row("fast", plans[0], reused=best_old), compare.row("slow", plans[1], reused=old)]
        return compare.fastest(rows)[0]

    assert named(1.4, old=False).level == ()
    assert named(1.5, old=True).level == ()
    for found in (named(1.4, old=True), named(1.4, old=False, best_old=True)):
        assert (found.name, found.level) == ("fast", ("slow",))
        assert found.doubt == "from one time to another the pace of a machine alone makes up to 1.45 times"


def test_plain_decoding_of_rows_that_depend_on_each_other_counts() -> None:
    """Twice as fast plainly as the other with its drafts."""
    other = plan(curve=curve(stairs))
    alone = fit_curve([*published({1: 0.005}, 200), *published({1: 0.006}, 850)], host_s=0.001)
    rows = [compare.row("exact", other), compare.plain_row("bf16", alone, compare.depths_of([other]))]
    assert (rows[1].row_class, rows[1].drafts, rows[1].tops, rows[1].why) == ("row-dependent", False, (), "")
    assert rows[1].plain == pytest.approx(1 / 0.006)
    (best,) = compare.fastest(rows)
    assert (best.name, best.draft_len, best.tokens_per_s) == ("bf16", 0, pytest.approx(1 / 0.006))
