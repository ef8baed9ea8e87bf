"""The policy of most tokens per second: its floor, its lengths, what it learns, when it stops and starts again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from importlib.metadata import entry_points
from typing import Any

import numpy as np
import pytest
from cost_curves import SEED, curve
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.core.acceptance import Acceptance
from surefoot.core.cost import CostCurve, fit_curve, published
from surefoot.core.errors import ConfigError
from surefoot.core.payoff import FREE, DraftCost
from surefoot.core.types import EMPTY_DRAFT, Draft, Round, State, as_ids
from surefoot.core.watched import Watched, survivals
from surefoot.drafters.model.follower import UNSAID_COST
from surefoot.lab.replay import NOTHING, Offer, Trace, plain_s, replay
from surefoot.policies import goodput
from surefoot.policies.goodput.ledger import FLOOR, Ledger
from surefoot.policies.goodput.observed import DraftTime, Observed
from surefoot.policies.goodput.policy import GoodputPolicy, Options, unsaid_draft_ms
from surefoot.testing.conformance import check_policy

TIMED = Options(reproducible=False)
PLAN = Options()
SLOPE = curve("torch-bf16-smol135m-200")


def text(offers: Sequence[Offer], n_prompt: int = 100) -> Trace:
    """A text of as many tokens, each position with its offer."""
    n = len(offers) + 1
    kept = [replace(offer, right=min(offer.right, n - at)) for at, offer in enumerate(offers, 1)]
    return Trace(n_prompt, tuple(range(0, 2 * n, 2)), (NOTHING, *kept))


def right(length: int = 20, held: int = 20, match_len: int = 2) -> Offer:
    return Offer(length, held, match_len, "ngram")


def lengths(rounds: Sequence[Round]) -> list[int]:
    return [each.evaluated for each in rounds]


def proposal(n: int, tree: bool) -> Draft:
    """So many tokens: a chain, or two that begin after the root, a token of the one and then of the other."""
    if not tree or not n:
        return Draft(as_ids([7] * n), source="d") if n else EMPTY_DRAFT
    parents = as_ids([max(-1, at - 2) for at in range(n)])
    return Draft(as_ids([7 + at % 2 for at in range(n)]), parents=parents, source="t")


def along(branch: int | None, n: int) -> int:
    """How many of the first n tokens lie one behind the other; in a tree, in this branch."""
    return n if branch is None else (n + 1 - branch) // 2


class World:
    """Writes tokens on a virtual clock, against a drafter that may know what the policy will do. Holds a clock."""

    def __init__(self, policy: GoodputPolicy, truth: CostCurve, depth: int = 0, policy_s: float = 0.0) -> None:
        """policy_s: what the policy itself takes, in every round."""
        self.policy, self.truth, self.depth, self.emitted, self.policy_s = policy, truth, depth, 1, policy_s
        self.on_s = self.off_s = self.slowest_draft_s = 0.0
        self.rounds: list[Round] = []

    def round(
        self,
        offered: int,
        draft_s: float,
        accepts: Callable[[int], int],
        per_token: bool = False,
        tree: bool = False,
    ) -> None:
        """One round: `offered` tokens are proposed, and accepts(kept) of them hold. Of a tree of two branches, now of
        the one and then of the other."""
        state = State(1000, self.depth, self.emitted)
        budget = self.policy.budget(state)
        asked = budget > 0
        n = min(offered, budget)
        branch = len(self.rounds) % 2 if tree else None
        draft = proposal(n, tree)
        kept = self.policy.cut(draft) if asked else 0
        reach = along(branch, kept)
        held = min(accepts(kept), reach)
        # The first token that was cut may still turn out right; one that was scored and rejected may not.
        lured = reach < along(branch, n) and accepts(kept) > reach
        token = 7 + (branch or 0)
        ids = (*[token] * held, token if lured else 1)
        took_s = self.policy_s + draft_s * (n if per_token else asked)
        price = self.truth.price(kept + 1, self.depth)
        done = Round(
            ids,
            n,
            n - kept,
            held,
            self.depth,
            kept + 1,
            price.width,
            draft.source,
            0,
            took_s,
            price.seconds,
            host_s=self.truth.host_s,
        )
        self.policy.learn(done)
        self.rounds.append(done)
        self.on_s += took_s + price.seconds + self.truth.host_s
        self.off_s += sum(self.truth.round_s(1, self.depth + at) for at in range(len(ids)))
        self.slowest_draft_s = max(self.slowest_draft_s, took_s)
        self.depth += len(ids)
        self.emitted += len(ids)

    @property
    def worst_round_s(self) -> float:
        dearest = max(self.truth.round_s(rows, self.depth) for rows in range(1, self.truth.max_rows + 1))
        return dearest + self.slowest_draft_s

    def keeps_the_floor(self) -> bool:
        return self.on_s <= 1.01 * self.off_s + self.worst_round_s + 1e-9


costs = st.lists(st.floats(1.0, 6.0), min_size=2, max_size=9)
acts = st.lists(
    st.tuples(st.integers(0, 9), st.floats(0, 1), st.sampled_from(["right", "wrong", "trap", "some"])),
    min_size=1,
    max_size=40,
)


def accepting(act: str, offered: int) -> Callable[[int], int]:
    return {
        "right": lambda kept: offered,
        "wrong": lambda kept: 0,
        # Right whenever nobody scores it, wrong whenever somebody does.
        "trap": lambda kept: 0 if kept else offered,
        "some": lambda kept: kept // 2,
    }[act]


@given(
    costs,
    acts,
    st.integers(1, 12),
    st.floats(0, 0.3),
    st.floats(0, 1e-3),
    st.booleans(),
    st.floats(0, 2),
    st.booleans(),
)
@settings(max_examples=200)
def test_the_floor_holds_for_any_drafter(
    seconds: list[float],
    script: list[Any],
    repeats: int,
    host_s: float,
    slope: float,
    can_pad: bool,
    draft_s: float,
    tree: bool,
) -> None:
    """time_on <= 1.01 * time_off + one worst-case round, after every round, whatever the drafter does and takes."""
    deep = {rows: cost * (1 + slope * 100) for rows, cost in enumerate(seconds, 1)}
    points = [*published(dict(enumerate(seconds, 1)), 0), *published(deep, 100)]
    truth = fit_curve(points, host_s=host_s, can_pad=can_pad)
    world = World(GoodputPolicy(TIMED, truth), truth)
    for offered, share, act in script * repeats:
        world.round(offered, draft_s * share, accepting(act, offered), tree=tree)
        assert world.keeps_the_floor()


@given(costs, acts, st.integers(1, 12), st.floats(0, 0.5), st.booleans(), st.booleans())
@settings(max_examples=150)
def test_the_floor_holds_without_a_clock_where_the_plan_is_true(
    seconds: list[float], script: list[Any], repeats: int, token_s: float, can_pad: bool, tree: bool
) -> None:
    truth = fit_curve(published(dict(enumerate(seconds, 1)), 0), can_pad=can_pad)
    world = World(GoodputPolicy(Options(draft_ms=1e3 * token_s), truth), truth)
    for offered, _, act in script * repeats:
        world.round(offered, token_s, accepting(act, offered), per_token=True, tree=tree)
        assert world.keeps_the_floor()


@pytest.mark.parametrize("act", ["wrong", "trap", "some"])
@pytest.mark.parametrize("share", [0.1, 0.3, UNSAID_COST])
def test_the_floor_holds_without_a_clock_where_nobody_said_what_a_draft_model_takes(share: float, act: str) -> None:
    """It takes that share of a plain round for a token, and is believed to take half of one."""
    truth = curve(SEED)
    world = World(GoodputPolicy(Options(draft_ms=unsaid_draft_ms(UNSAID_COST, truth)), truth), truth)
    for _ in range(1500):
        world.round(16, share * truth.round_s(1, 0), accepting(act, 16), per_token=True)
        assert world.keeps_the_floor()
    assert any(each.drafted for each in world.rounds[750:]), "it goes on looking whether drafts hold by now"


def test_a_draft_model_that_is_believed_to_be_dear_is_used_where_it_is_right() -> None:
    seed = curve(SEED)
    world = World(GoodputPolicy(Options(draft_ms=unsaid_draft_ms(UNSAID_COST, seed)), seed), seed)
    for _ in range(300):
        world.round(16, 0.1 * seed.round_s(1, 0), accepting("right", 16), per_token=True)
    assert np.mean(lengths(world.rounds[50:])) > 1.5
    assert world.on_s < 0.75 * world.off_s


def test_a_draft_model_that_is_taken_to_be_free_breaks_the_floor() -> None:
    """That the property is not true of itself: it would be asked for the longest draft each round."""
    truth = curve(SEED)
    world = World(GoodputPolicy(PLAN, truth), truth)
    for _ in range(1500):
        world.round(16, 0.3 * truth.round_s(1, 0), accepting("wrong", 16), per_token=True)
    assert not world.keeps_the_floor()


@pytest.mark.parametrize("options", [PLAN, TIMED], ids=["reproducible", "timed"])
@pytest.mark.parametrize("name", [SEED, "torch-fp32-smol135m-200", "llama-Q8_0-smol-200", "mlx-fp32-smol-200"])
@pytest.mark.parametrize("act", ["wrong", "trap", "some"])
@pytest.mark.parametrize("tree", [False, True], ids=["chain", "tree"])
def test_the_floor_over_a_long_text_of_traps(options: Options, name: str, act: str, tree: bool) -> None:
    truth = curve(name, can_pad=True)
    world = World(GoodputPolicy(options, truth), truth)
    for _ in range(1500):
        world.round(16, 0.0, accepting(act, 16), tree=tree)
        assert world.keeps_the_floor()


def test_without_the_ledger_the_trap_breaks_the_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    """That the property is not true of itself: the expectation alone is fooled for ever."""
    monkeypatch.setattr(Ledger, "purse_s", lambda *_: 1e9)
    truth = curve("torch-fp32-smol135m-200")
    world = World(GoodputPolicy(TIMED, truth), truth)
    for _ in range(1500):
        world.round(16, 0.0, accepting("trap", 16))
    assert not world.keeps_the_floor()


@pytest.mark.parametrize("held", [0, 1, 2, 3, 5, 8, 20])
def test_on_a_staircase_it_settles_at_the_best_length(held: int) -> None:
    """Every draft holds for so many tokens and then breaks: what is best is known."""
    seed = curve(SEED, can_pad=True)
    trace = text([right(held=held)] * 3000)
    done = replay(trace, GoodputPolicy(PLAN, seed), seed)
    gains = {k: (min(held, k) + 1) / seed.bar(k + 1, 500) for k in range(16)}
    best = max(gains.values())
    assert plain_s(trace, seed) / done.seconds > 0.96 * best
    settled = lengths(done.rounds)[40:-10]
    often = max(set(settled), key=settled.count)
    assert gains[often] > 0.99 * best


def test_it_never_drafts_where_rows_cost_what_they_are() -> None:
    mlx = curve("mlx-fp32-smol-200")
    done = replay(text([right(held=0)] * 300), GoodputPolicy(PLAN, mlx), mlx)
    assert done.seconds == pytest.approx(plain_s(text([right(held=0)] * 300), mlx))


@pytest.mark.parametrize(("options", "cost"), [(PLAN, FREE), (TIMED, FREE), (TIMED, DraftCost(0.0, 0.004))])
def test_it_parks_and_starts_again_by_itself(options: Options, cost: DraftCost) -> None:
    """A drafter that is wrong for 300 tokens and then right: a gate that closes must be able to open."""
    turn = text([right(held=0)] * 300 + [right()] * 300)
    rounds = replay(turn, GoodputPolicy(options, SLOPE), SLOPE, cost).rounds
    parked = [each for each in rounds if 150 < each.depth - 99 < 300]
    assert parked
    assert sum(lengths(parked)) <= len(parked) // 20
    after = [each for each in rounds if each.depth - 99 >= 300]
    first = next(number for number, each in enumerate(after) if each.evaluated)
    assert sum(len(each.new_ids) for each in after[:first]) < 150
    assert np.mean(lengths(after[first:])) > 4


def test_a_free_drafter_is_probed_without_a_single_row() -> None:
    """What was cut is compared with the text, so parking costs nothing where drafts cost nothing."""
    hopeless = text([right(held=0)] * 2000)
    rounds = replay(hopeless, GoodputPolicy(PLAN, SLOPE), SLOPE).rounds
    assert sum(lengths(rounds[100:])) == 0
    assert all(each.drafted for each in rounds[100:-20])


@pytest.mark.parametrize("policy_share", [0.0, 0.004])
@pytest.mark.parametrize("act", ["wrong", "right"])
def test_on_the_clock_a_lookup_that_takes_a_little_each_time_is_asked_for_its_longest_draft(
    act: str, policy_share: float
) -> None:
    """It takes the same for one token as for sixteen, and what the policy takes itself is none of its time."""
    plain_s = SLOPE.round_s(1, 0)
    world = World(GoodputPolicy(TIMED, SLOPE), SLOPE, policy_s=policy_share * plain_s)
    for _ in range(400):
        world.round(16, 8e-3 * plain_s, accepting(act, 16))
    asked = [each.drafted for each in world.rounds[150:] if each.drafted]
    assert len(asked) > 200
    assert asked.count(16) > 0.95 * len(asked)


def test_a_draft_model_stays_dear_however_short_its_drafts() -> None:
    """Two tokens of it take less than a per cent of a round, and sixteen take more."""
    plain_s = SLOPE.round_s(1, 0)
    world = World(GoodputPolicy(TIMED, SLOPE), SLOPE)
    for _ in range(400):
        world.round(16, 4e-3 * plain_s, accepting("wrong", 16), per_token=True)
    assert max(each.drafted for each in world.rounds[150:]) <= 2


def test_the_time_of_a_draft_is_a_line_over_its_tokens() -> None:
    time = DraftTime()
    assert time.line() is None
    time.learn(True, 2, 4.0)
    assert time.line() == (0.0, 2.0)
    for _ in range(200):
        time.learn(False, 0, 1.0)  # what the policy takes in every round
        for tokens in (0, 1, 4, 16):
            time.learn(True, tokens, 1.0 + 3.0 + 0.5 * tokens)
    assert time.line() == pytest.approx((3.0, 0.5), rel=0.02)
    for _ in range(400):
        time.learn(True, 4, 1.0 + 8.0)
    assert time.line() == pytest.approx((0.0, 2.0), rel=0.02)


def test_probing_a_dear_drafter_is_bounded() -> None:
    """It may spend half a per cent of the plain time, one plain round at the start, and what a first look takes."""
    cost = DraftCost(0.005, 0.010)
    hopeless = text([right(held=0)] * 4000)
    done = replay(hopeless, GoodputPolicy(TIMED, SLOPE), SLOPE, cost)
    spent = sum(each.draft_s for each in done.rounds[200:])
    plain = SLOPE.round_s(1, 2000)
    assert 0 < spent <= 0.005 * plain_s(hopeless, SLOPE) + plain + cost.of(2)
    assert done.seconds <= 1.01 * plain_s(hopeless, SLOPE) + SLOPE.round_s(17, 2000) + cost.of(16)


def test_a_dear_drafter_that_is_right_is_still_used() -> None:
    done = replay(text([right()] * 1500), GoodputPolicy(TIMED, curve(SEED)), curve(SEED), DraftCost(0.0, 0.002))
    assert np.mean(lengths(done.rounds[20:-10])) > 4


def noisy(rounds_seed: int, options: Options) -> list[int]:
    """Lengths on one text, with seconds that differ from run to run."""
    rng = np.random.default_rng(rounds_seed)
    fixed = np.random.default_rng(5)
    offers = [Offer(16, int(fixed.choice([0, 0, 1, 4, 16])), int(fixed.integers(2, 5)), "ngram") for _ in range(400)]
    trace, policy = text(offers), GoodputPolicy(options, curve("torch-fp32-smol135m-200"))
    emitted, found = 1, []
    while emitted < len(trace.ids):
        state = State(min(trace.room(emitted), 31), 99 + emitted, emitted)
        budget = min(policy.budget(state), state.room)
        offer = trace.offers[emitted]
        n = min(offer.length, budget)
        held = min(n, offer.right)
        ids = [*trace.ids[emitted : emitted + held], *[1] * (n - held)]
        draft = Draft(as_ids(ids), source="ngram", match_len=offer.match_len) if n else EMPTY_DRAFT
        kept = policy.cut(draft) if budget else 0
        accepted = min(kept, offer.right)
        new_ids = trace.ids[emitted : emitted + accepted + 1]
        spent = rng.uniform(0.3, 3.0) * np.asarray([1e-5, 0.1, 1e-4, 1e-4])
        policy.learn(
            Round(
                new_ids, n, n - kept, accepted, state.depth, kept + 1, kept + 1, draft.source, offer.match_len, *spent
            )
        )
        found.append(kept)
        emitted += len(new_ids)
    return found


def test_reproducible_lengths_do_not_depend_on_any_second() -> None:
    assert noisy(1, PLAN) == noisy(2, PLAN)
    assert sum(noisy(1, PLAN)) > 0
    assert noisy(1, TIMED) != noisy(2, TIMED)  # the seconds do differ


def test_served_rounds_override_the_sweep() -> None:
    """The sweep says that rows are free; the machine charges for each."""
    swept = fit_curve(published(dict.fromkeys(range(1, 18), 0.04), 0))
    trace = text([right(held=1)] * 1500)
    believing = replay(trace, GoodputPolicy(PLAN, swept), SLOPE).rounds
    assert np.mean(lengths(believing[100:-20])) > 0.9
    looking = replay(trace, GoodputPolicy(TIMED, swept), SLOPE).rounds
    late = lengths(looking[300:-20])
    # 2 tokens for 1.4 plain rounds: one draft pays, and no more than one.
    assert set(late) <= {0, 1}
    assert np.mean(late) > 0.8


@pytest.mark.parametrize("options", [PLAN, TIMED], ids=["reproducible", "timed"])
@pytest.mark.parametrize("name", [SEED, "torch-fp32-smol135m-200"])
def test_it_keeps_the_contract_with_a_curve_too(options: Options, name: str) -> None:
    for seed in range(3):
        check_policy(lambda: GoodputPolicy(options, curve(name, can_pad=True)), seed=seed)


@pytest.mark.parametrize("slow", [0.5, 1.0, 2.0])
def test_a_sweep_of_another_day_is_brought_up_to_the_machine_of_today(slow: float) -> None:
    """All rows cost slow times what was swept: the lengths are those of the sweep, and the floor is kept in true
    seconds."""
    swept = curve("torch-fp32-smol135m-200")
    today = fit_curve(published({line.rows: slow * line.at(0) for line in swept.lines}, 0))
    world = World(GoodputPolicy(TIMED, swept), today)
    for _ in range(600):
        world.round(16, 0.0, accepting("trap", 16))
    assert world.keeps_the_floor()
    good = replay(text([right()] * 2000), GoodputPolicy(TIMED, swept), today)
    assert np.mean(lengths(good.rounds[20:-5])) > 12


def test_a_wrong_sweep_costs_a_round_or_two_more_than_the_floor_even_against_traps() -> None:
    """Each row count wrong by a tenth, the machine up to twice as fast or as slow as it was: at most 2.5 worst
    rounds."""
    rng = np.random.default_rng(0)
    for _ in range(60):
        seconds = np.sort(rng.uniform(1, 6, int(rng.integers(2, 10))))
        wrong = seconds * rng.choice([0.5, 0.7, 1.5, 2.0]) * np.exp(rng.normal(0, 0.1, len(seconds)))
        swept, truth = (
            fit_curve(published(dict(enumerate(each.tolist(), 1)), 0)) for each in (seconds, np.asarray(wrong))
        )
        world = World(GoodputPolicy(TIMED, swept), truth)
        for _ in range(200):
            world.round(8, 0.0, accepting("trap" if rng.random() < 0.9 else "right", 8))
            assert world.on_s <= 1.01 * world.off_s + 2.5 * world.worst_round_s


@pytest.mark.parametrize("options", [PLAN, TIMED], ids=["reproducible", "timed"])
def test_lengths_go_by_the_depth_of_the_context(options: Options) -> None:
    """Eight rows bring eight tokens: at the beginning for 1.2 plain rounds, at 1,000 tokens for nine."""
    steep = fit_curve([*published({1: 1.0, 8: 1.2}, 0), *published({1: 1.0, 8: 9.0}, 1000)])
    for depth, pays in ((0, True), (1000, False)):
        world = World(GoodputPolicy(options, steep), steep, depth=depth)
        for _ in range(20):
            world.round(7, 0.0, accepting("right", 7))
        assert (max(lengths(world.rounds)) > 0) == pays


STAIRS = fit_curve(published({1: 1.0, **dict.fromkeys((2, 3, 4), 4.5), **dict.fromkeys(range(5, 9), 4.6)}, 0))


def test_on_the_clock_rows_that_pay_are_found_behind_rows_that_do_not() -> None:
    """Two to four rows cost 4.5 plain rounds and lose even if all hold; eight cost little more and win."""
    world = World(GoodputPolicy(TIMED, STAIRS), STAIRS)
    for _ in range(300):
        world.round(7, 0.0, accepting("right", 7))
    assert world.on_s < 0.8 * world.off_s


@pytest.mark.parametrize("share", [0.005, 0.02, 0.05])
def test_a_lookup_whose_long_matches_hold_is_asked_although_most_are_short_and_do_not(share: float) -> None:
    """Asked at each token: most find a short match that does not hold, and each 15th a copy of ten tokens."""
    steps = fit_curve(published({rows: 1.0 + 0.1 * (rows - 1) for rows in range(1, 18)}, 0))
    trace = text([right(10, 10, 8) if at % 15 == 14 else right(10, 0, 2) for at in range(1500)])
    cost = DraftCost(fixed_s=share * steps.direct_s(1, 0))
    found = replay(trace, GoodputPolicy(TIMED, steps), steps, cost).rounds
    copies = [each for each in found if each.match_len == 8]
    assert len(copies) > 80
    assert np.mean(lengths(copies[-40:])) > 9


def test_a_lookup_that_never_finds_what_holds_is_asked_no_more_and_reopened_by_probes() -> None:
    flat = fit_curve(published({rows: 1.0 + 0.1 * (rows - 1) for rows in range(1, 18)}, 0))
    world = World(GoodputPolicy(TIMED, flat), flat)
    for _ in range(600):
        world.round(10, 0.05, accepting("wrong", 10))
    assert world.keeps_the_floor()
    assert sum(each.drafted > 0 for each in world.rounds[300:]) < 60
    before = len(world.rounds)
    for _ in range(600):
        world.round(10, 0.05, accepting("right", 10))
    assert np.mean(lengths(world.rounds[before + 300 :])) > 8


def test_on_the_clock_there_are_eight_rows_at_first_and_then_double_at_the_most() -> None:
    flat = fit_curve(published(dict.fromkeys(range(1, 18), 0.04), 0))
    rounds = replay(text([right()] * 300), GoodputPolicy(TIMED, flat), flat).rounds
    widest = 4
    for each in rounds:
        assert each.rows <= 2 * widest
        widest = max(widest, each.rows)
    assert widest == 17
    told = replay(text([right()] * 300), GoodputPolicy(PLAN, flat), flat).rounds
    assert max(lengths(told[:3])) == 16


def test_on_the_clock_a_surprise_is_heeded_at_once() -> None:
    """In mid-text, drafts still holding, four rows and more become ten times dearer."""
    seed = curve(SEED)
    dearer = {line.rows: line.at(848) * (10.0 if line.rows > 3 else 1.0) for line in seed.lines}
    world = World(GoodputPolicy(TIMED, seed), seed)
    for _ in range(200):
        world.round(16, 0.0, accepting("right", 16))
    assert np.mean(lengths(world.rounds[-20:])) > 6
    world.truth = fit_curve(published(dearer, 848))
    for _ in range(64):
        world.round(16, 0.0, accepting("right", 16))
    assert sum(each.rows > 3 for each in world.rounds[200:]) <= 10


@pytest.mark.parametrize("pace", [0.1, 0.7, 1.0, 4.0, 30.0])
def test_whatever_the_sweep_said_a_few_rounds_tell_the_true_cost(pace: float) -> None:
    observed = Observed(curve(SEED))
    found = curve(SEED)
    for number in range(12):
        due = pace * 0.0369
        seen = Round((1,), 0, 0, 0, 848, 1, 1, extend_s=due)
        found = observed.learn(seen, False, found.direct_s(1, 848)) or found
        assert observed.told == (number >= 5)
    assert found.direct_s(1, 848) == pytest.approx(pace * 0.0369, rel=0.01)


@pytest.mark.parametrize(("swept_s", "today_s"), [(0.0, 4.0), (4.0, 0.1)])
def test_the_host_cost_is_that_of_today_too(swept_s: float, today_s: float) -> None:
    """A second row costs 0.8, half of all drafts hold: with 4 s of host a round this pays, with next to nothing not."""
    costs = published({1: 1.0, 2: 1.8}, 0)
    swept, today = (fit_curve(costs, host_s=seconds) for seconds in (swept_s, today_s))

    def late(options: Options) -> float:
        rng = np.random.default_rng(0)
        world = World(GoodputPolicy(options, swept), today)
        for _ in range(600):
            world.round(1, 0.0, accepting(str(rng.choice(["right", "wrong"])), 1))
        return float(np.mean(lengths(world.rounds[300:])))

    pays = today_s > 1
    assert late(TIMED) > 0.8 if pays else late(TIMED) < 0.2
    assert late(PLAN) < 0.2 if pays else late(PLAN) > 0.8, "without a clock it believes the sweep"


def test_who_pauses_between_two_rounds_is_no_cost_of_drafts() -> None:
    seed = curve(SEED, host_s=0.0005)
    world, steady = (World(GoodputPolicy(TIMED, seed), seed) for _ in range(2))
    for number in range(400):
        steady.round(16, 0.0, accepting("right", 16))
        world.truth = replace(seed, host_s=30.0 if number % 40 == 39 else seed.host_s)
        world.round(16, 0.0, accepting("right", 16))
    assert lengths(world.rounds) == lengths(steady.rounds)


def test_single_late_rounds_call_for_no_correction() -> None:
    """Of a row count that is known; three in a row do, and so does one of a row count that is new."""
    observed, found = Observed(curve(SEED)), curve(SEED)

    def learn(rows: int, times: float) -> bool:
        expected_s = found.direct_s(rows, 848)
        seen = Round((1,), 0, 0, 0, 848, rows, rows, extend_s=times * expected_s)
        return observed.learn(seen, False, expected_s) is not None

    assert [learn(1, 1.0) for _ in range(43)].count(True) >= 2, "now and then anyway"
    assert [learn(1, times) for times in (9.0, 1.0, 9.0, 9.0, 1.0)] == [False] * 5
    assert [learn(1, 9.0) for _ in range(3)] == [False, False, True]
    assert learn(2, 9.0)


def test_single_stalls_do_not_make_the_past_forgotten() -> None:
    observed, found = Observed(curve(SEED)), curve(SEED)
    for number in range(60):
        due = 0.0369 * (20.0 if number % 7 == 5 else 1.0)
        seen = Round((1,), 0, 0, 0, 848, 1, 1, extend_s=due)
        found = observed.learn(seen, False, found.direct_s(1, 848)) or found
    assert found.direct_s(1, 848) == pytest.approx(0.0369)


def test_on_the_clock_a_round_is_left_plain_now_and_then() -> None:
    """Where drafts always hold nobody would see any more what plain decoding costs."""
    seed = curve(SEED)
    rounds = replay(text([right()] * 3000), GoodputPolicy(TIMED, seed), seed).rounds
    plain = [number for number, each in enumerate(rounds[:-5]) if not each.evaluated]
    assert len(plain) >= 5
    assert np.diff(plain).max() <= 65
    assert len(plain) < 0.05 * len(rounds)
    never = replay(text([right()] * 3000), GoodputPolicy(PLAN, seed), seed).rounds
    assert all(each.evaluated for each in never[1:-5])


@pytest.mark.parametrize("options", [PLAN, TIMED], ids=["reproducible", "timed"])
def test_without_a_curve_it_drafts_what_nearly_any_machine_pays_for(options: Options) -> None:
    truth = curve(SEED)
    good = replay(text([right()] * 300), GoodputPolicy(options, None), truth)
    assert good.seconds < plain_s(text([right()] * 300), truth) / 2
    poor = replay(text([right(held=0)] * 300), GoodputPolicy(options, None), SLOPE)
    assert poor.seconds <= 1.01 * plain_s(text([right(held=0)] * 300), SLOPE) + SLOPE.round_s(17, 400)


def test_without_a_curve_the_clock_tells_it_what_rows_cost() -> None:
    """Timed, it waits for six plain rounds, and then finds that here rows are free, which nobody had told it."""
    flat = fit_curve(published(dict.fromkeys(range(1, 18), 0.01), 0))
    policy = GoodputPolicy(TIMED, None)
    rounds = replay(text([right(held=1)] * 600), policy, flat).rounds
    assert lengths(rounds[:6]) == [0] * 6
    assert np.mean(lengths(rounds[100:-10])) > 0.9


def tree_lengths(tree: Draft, written: Sequence[Sequence[int]]) -> list[int]:
    """How much of the same tree is scored, round after round, whatever of it is then written."""
    policy, depth = GoodputPolicy(PLAN, curve(SEED)), 1
    kept = []
    for ids in written:
        policy.budget(State(16, depth, depth))
        kept.append(policy.cut(tree))
        scored = kept[-1]
        held = len(ids) - 1 if scored else 0
        policy.learn(Round(tuple(ids), len(tree), len(tree) - scored, held, depth, scored + 1, scored + 1, "tree"))
        depth += len(ids)
    return kept


def test_of_a_tree_only_what_pays_is_scored() -> None:
    tree = Draft(as_ids([3, 4, 5]), parents=as_ids([-1, -1, 0]), source="tree")
    assert tree_lengths(tree, [(9,)] * 60)[-1] == 0
    late = tree_lengths(tree, [*[(9,)] * 60, *[(3, 5, 8)] * 50])
    assert late[59] == 0
    assert late[-1] == 3, "it was watched, and found to hold by now"


def test_free_rows_of_a_plateau_are_filled_with_the_next_best_branches() -> None:
    """On the seeds' staircase three rows cost what one does, and four half as much again."""
    tree = Draft(as_ids([3, 4, 5, 6]), parents=as_ids([-1, -1, -1, -1]), source="tree")
    mostly_first = [(3, 8), (3, 8), (4, 8), (3, 8), (4, 8)] * 30
    assert set(tree_lengths(tree, mostly_first)[-20:]) == {2}, "the second branch is scored, the third costs a step"
    assert set(tree_lengths(tree, [(3, 8)] * 150)[-20:]) == {1}, "a branch that never holds is worth nothing"


def test_watching_a_draft_that_was_cut() -> None:
    watched = Watched(Draft(as_ids([5, 6, 7]), source="a", match_len=2), 0)
    assert watched.follow([5]) == ([(1, True)], True)
    assert watched.follow([6]) == ([(2, True)], True)
    assert watched.follow([9, 7]) == ([(3, False)], False)
    whole = Watched(Draft(as_ids([5]), source="a"), 0)
    assert whole.follow([5, 6]) == ([(1, True)], False)
    tree = Draft(as_ids([1, 2, 3]), parents=as_ids([-1, -1, 1]))
    assert Watched(tree, 0).follow([2, 3, 4]) == ([(1, True), (2, True)], False)
    assert Watched(tree, 0).follow([4]) == ([(1, False)], False)


def test_the_second_choice_is_counted_apart_from_the_first() -> None:
    """Six in ten times the first, three in ten the second, in both the token after it."""
    acceptance, tree = Acceptance(), Draft(as_ids([1, 2, 3]), parents=as_ids([-1, -1, 1]), source="tree")
    assert survivals(acceptance, tree, 0) == [0.5, 0.25, 0.125]
    for ids in [(1,), (2, 3), (1,), (9,), (1,), (2, 3), (1,), (1,), (2, 3), (1,)] * 40:
        watched = Watched(tree, 0)
        watched.follow(ids)
        watched.teach(acceptance)
        acceptance.pass_by(1)
    first, second, after = survivals(acceptance, tree, 0)
    assert first == pytest.approx(0.6, abs=0.06)
    assert second == pytest.approx(0.3, abs=0.06)
    assert after == pytest.approx(second, rel=0.1)
    assert Watched(tree, 0).judged == []


def test_acceptance_is_calibrated() -> None:
    """Of the tokens it gives a chance of about x, a share of about x is accepted; by match length, streak and
    position."""
    rng = np.random.default_rng(0)
    model = Acceptance()
    told, found = [], []
    for step in range(4000):
        match_len, streak = int(rng.integers(1, 5)), int(rng.choice([0, 6]))
        truth = [min(0.95, 0.15 * match_len + 0.05 * streak + 0.08 * position) for position in range(1, 5)]
        chances = model.survival("d", match_len, streak, 4)
        alive = 1.0
        for position, chance in enumerate(truth, 1):
            accepted = bool(rng.random() < chance)
            if step > 500:
                told.append(chances[position - 1] / alive)
                found.append(accepted)
            model.learn("d", match_len, streak, position, accepted)
            model.pass_by(1)
            alive = chances[position - 1]
            if not accepted:
                break
    told_, found_ = np.asarray(told), np.asarray(found)
    for low in np.arange(0.2, 1.0, 0.1):
        inside = (told_ >= low) & (told_ < low + 0.1)
        if inside.sum() > 200:
            assert abs(told_[inside].mean() - found_[inside].mean()) < 0.05


def test_acceptance_begins_with_the_prior_and_keeps_drafters_apart() -> None:
    model = Acceptance()
    assert model.survival("a", 2, 0, 3) == [0.5, 0.25, 0.125]
    for _ in range(50):
        model.learn("a", 2, 0, 1, True)
        model.pass_by(1)
    assert model.survival("a", 2, 0, 1)[0] > 0.95
    assert model.survival("a", 9, 4, 1)[0] > 0.8  # the drafter as a whole has become trusted
    assert model.survival("b", 2, 0, 1) == [0.5]
    model.pass_by(2000)
    assert model.survival("a", 2, 0, 1) == pytest.approx([0.5])


def test_the_ledger_allows_one_worst_round_and_a_per_cent() -> None:
    ledger = Ledger()
    assert ledger.purse_s(2.0) == 2.0
    ledger.enter_scored(round_s=3.0, swept_s=1.0, probe_s=0.0)
    assert ledger.purse_s(2.0) == pytest.approx(0.01)
    ledger.enter_plain(round_s=100.0, draft_s=0.0, probe_s=0.0)
    assert ledger.purse_s(2.0) == pytest.approx(FLOOR * 101.0)
    # Plain decoding turns out to be twice as fast as was swept: more was lost than was believed.
    assert (ledger.lost_s(), ledger.lost_s(0.5), ledger.off_s(0.5)) == (2.0, 2.5, 100.5)


def test_it_stays_inside_of_the_sweep_and_of_its_option() -> None:
    seed = curve(SEED)  # swept to 16 rows
    assert GoodputPolicy(PLAN, seed).budget(State(1000, 0, 1)) == 15
    assert GoodputPolicy(Options(draft_len=4), seed).budget(State(1000, 0, 1)) == 4
    assert GoodputPolicy(PLAN, seed).budget(State(3, 0, 1)) == 3
    assert GoodputPolicy(PLAN, fit_curve(published({1: 0.01}, 0))).budget(State(9, 0, 1)) == 0


def test_a_curve_that_is_0_at_the_start_of_the_context_divides_nothing() -> None:
    steep = fit_curve([*published({1: 0.001, 2: 0.001}, 200), *published({1: 0.010, 2: 0.010}, 400)])
    assert steep.direct_s(1, 0) == 0.0
    check_policy(lambda: GoodputPolicy(PLAN, steep))


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"draft_len": 0}, "goodput draft_len must be from 1"),
        ({"draft_len": 257}, "got 257"),
        ({"draft_ms": -1.0}, "goodput draft_ms must be milliseconds"),
        ({"draft_ms": float("nan")}, "got nan"),
    ],
)
def test_bad_options_are_refused_in_a_sentence(values: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Options(**values)


def test_the_entry_point_builds_it() -> None:
    [entry] = entry_points(group="surefoot.policies", name="goodput")
    plugin = entry.load()
    assert plugin is goodput.PLUGIN
    assert [option.name for option in fields(plugin.options)] == ["draft_len", "reproducible", "draft_ms"]
    assert all(option.metadata["help"] for option in fields(plugin.options))
    assert isinstance(plugin.build(plugin.options(), curve(SEED)), GoodputPolicy)


def test_rows_that_cost_nothing_more_are_scored_along() -> None:
    """A program of fixed width computes eight rows whatever is asked: a draft worth scoring gets all of them."""
    eight = fit_curve(published({1: 0.030, 8: 0.031, 9: 0.060}, 0), can_pad=True)
    policy = GoodputPolicy(PLAN, eight)
    draft = Draft(as_ids(range(12)), source="guesses")
    kept = []
    for depth in range(1, 120):
        policy.budget(State(16, depth, depth))
        kept.append(policy.cut(draft))
        held = depth % 5 == 0  # a fifth of the first tokens hold, and none after them
        ids = (0, 99) if held else (99,)
        policy.learn(Round(ids, 12, 12 - kept[-1], int(held and kept[-1] > 0), depth, kept[-1] + 1, 8, "guesses"))
    assert set(kept[-40:]) == {7}
