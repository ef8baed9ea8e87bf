"""A replay is what the loop would have done; the oracle is the best that could have been done."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from timed_toy import ROW_S, VirtualClock, timed_model

from surefoot.core.cost import CostCurve, fit_curve, published
from surefoot.core.errors import ConfigError
from surefoot.core.payoff import FREE, DraftCost
from surefoot.core.ports import Policy
from surefoot.core.types import Draft, Round, State, as_ids
from surefoot.drafters.lookahead import LookaheadDrafter
from surefoot.drafters.lookahead import Options as LookaheadOptions
from surefoot.drafters.ngram import NgramDrafter
from surefoot.drafters.ngram import Options as NgramOptions
from surefoot.engine import parts
from surefoot.engine.config import Config, Part
from surefoot.lab.oracle import oracle
from surefoot.lab.replay import NOTHING, Offer, Trace, plain_s, record, replay
from surefoot.lab.sides import write
from surefoot.policies.fixed import FixedPolicy
from surefoot.policies.fixed import Options as FixedOptions
from surefoot.targets.toy import Options as ToyOptions
from surefoot.targets.toy import ToyTarget

PROMPT = as_ids([1, 2, 3, 1, 2, 3, 1, 2])
TOY = fit_curve(published({rows: ROW_S[rows] for rows in range(1, 10)}, 0))
POLICIES = [
    Part("fixed", {"draft_len": 0}),
    Part("fixed", {"draft_len": 3}),
    Part("fixed", {"draft_len": 8}),
    Part("additive", {}),
    Part("goodput", {"reproducible": True}),
    Part("goodput", {"reproducible": False}),
]


def fresh(part: Part) -> Policy:
    plugin = parts.find("policy", part.name)
    policy: Policy = plugin.build(plugin.options(**part.options), None)
    return policy


@pytest.mark.parametrize("part", POLICIES, ids=lambda part: f"{part.name} {dict(part.options)}")
def test_a_replay_has_the_rounds_and_the_seconds_of_the_loop(part: Part) -> None:
    clock = VirtualClock()
    side = write(timed_model(clock, max_rows=9), PROMPT, Config(policy=part, max_tokens=200), clock)
    assert side.steps is not None
    # The n-gram drafter looks at no scores.
    trace = record(NgramDrafter(NgramOptions()), PROMPT, side.ids, None)  # type: ignore[arg-type]
    again = replay(trace, fresh(part), TOY)
    assert again.seconds == pytest.approx(side.decode_s)
    assert again.tokens == 199
    assert len(again.rounds) == len(side.steps)
    for round_, step in zip(again.rounds, side.steps, strict=True):
        assert len(round_.new_ids) == step.emitted
        for name in ("drafted", "evaluated", "accepted", "depth", "rows", "width", "source", "match_len"):
            assert getattr(round_, name) == getattr(step, name), name
    assert [token for round_ in again.rounds for token in round_.new_ids] == list(side.ids[1:])


def test_plain_decoding_is_the_replay_of_length_zero() -> None:
    trace = Trace(50, tuple(range(30)), (NOTHING,) * 30)
    sloped = fit_curve([*published({1: 1.0, 2: 1.1}, 0), *published({1: 2.0, 2: 2.1}, 100)], host_s=0.5)
    assert replay(trace, FixedPolicy(FixedOptions(0)), sloped).seconds == pytest.approx(plain_s(trace, sloped))
    assert plain_s(trace, sloped) == pytest.approx(29 * 1.5 + sum(range(50, 79)) / 100)


@st.composite
def traces(draw: st.DrawFn, longest: int = 7) -> Trace:
    n = draw(st.integers(1, longest))
    offers = [NOTHING]
    for at in range(1, n):
        length = draw(st.integers(0, 5))
        offers.append(Offer(length, draw(st.integers(0, min(length, n - at))), 0, "d"))
    return Trace(3, tuple(range(n)), tuple(offers))


curves = st.lists(st.floats(0.5, 5.0), min_size=1, max_size=6).map(
    lambda costs: fit_curve(published(dict(enumerate(costs, 1)), 0), can_pad=len(costs) % 2 == 0)
)


def least_s(trace: Trace, curve: CostCurve, draft: DraftCost) -> float:
    """Every schedule there is, written out."""

    def left(emitted: int) -> float:
        if emitted >= len(trace.ids):
            return 0.0
        offer = trace.offers[emitted]
        most = min(offer.length, len(trace.ids) - emitted - 1, curve.max_rows - 1)
        return min(
            curve.round_s(k + 1, trace.n_prompt + emitted - 1, draft.of(k)) + left(emitted + min(k, offer.right) + 1)
            for k in range(most + 1)
        )

    return left(1)


class Told:
    """A policy that was told every length. Holds changing state: how far it is."""

    def __init__(self, draft_lens: tuple[int, ...]) -> None:
        self._left = list(draft_lens)

    def budget(self, state: State) -> int:
        return self._left.pop(0)

    def cut(self, draft: Draft) -> int:
        return len(draft)

    def learn(self, round: Round) -> None:
        pass


@given(traces(), curves, st.sampled_from([FREE, DraftCost(0.1, 0.2)]))
@settings(max_examples=200)
def test_the_oracle_is_the_least_over_all_schedules_and_can_be_followed(
    trace: Trace, curve: CostCurve, draft: DraftCost
) -> None:
    found = oracle(trace, curve, draft)
    assert found.seconds == pytest.approx(least_s(trace, curve, draft))
    followed = replay(trace, Told(found.draft_lens), curve, draft)
    assert followed.seconds == pytest.approx(found.seconds)
    if found.tokens:
        assert found.share(followed) == pytest.approx(1.0)


@pytest.mark.parametrize("part", POLICIES, ids=lambda part: f"{part.name} {dict(part.options)}")
@given(trace=traces(60))
@settings(max_examples=30)
def test_no_policy_beats_the_oracle(part: Part, trace: Trace) -> None:
    if len(trace.ids) > 1:
        assert oracle(trace, TOY).share(replay(trace, fresh(part), TOY)) <= 1 + 1e-9


def test_a_trace_that_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigError, match="as many offers"):
        Trace(1, (1, 2, 3), (NOTHING,))
    with pytest.raises(ConfigError, match="2 of 1 tokens are right"):
        Trace(1, (1, 2, 3), (NOTHING, Offer(1, 2), NOTHING))
    with pytest.raises(ConfigError, match="3 of 5 tokens are right"):
        Trace(1, (1, 2, 3), (NOTHING, Offer(5, 3), NOTHING))


def test_a_drafter_that_goes_by_its_rounds_cannot_be_replayed() -> None:
    scores = ToyTarget(ToyOptions(order=1)).open().prefill(PROMPT)
    with pytest.raises(ConfigError, match="depends on how the rounds fell"):
        record(LookaheadDrafter(LookaheadOptions()), PROMPT, [1, 2, 3], scores)
