"""D4: a draft model that is the target is always right, and its cache follows the text exactly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from draft_models import Counted, follow, survival
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.core.errors import LawError
from surefoot.core.noise import KeyedSampler
from surefoot.core.ports import Drafter, Session, Target
from surefoot.core.sampling import Sampling
from surefoot.core.types import Round, as_ids
from surefoot.drafters.model.follower import Follower, Style
from surefoot.engine.guarded import Guarded
from surefoot.targets.toy import DISCIPLINES, Options, ToyTarget
from surefoot.testing.conformance import check_drafter
from surefoot.testing.drafter_suite import run, written
from surefoot.testing.drafters import Drawing, Guesser, scripted
from surefoot.testing.faults import CommitsOneTooMany, TrimsWrong, WithSessions
from surefoot.testing.laws import FreshRows

PROMPT = as_ids([1, 2, 3, 1, 2])
V = 6
SHAPES: dict[str, Sampling] = {
    "greedy": Sampling(),
    "greedy with processors": Sampling(repetition_penalty=1.3, frequency_penalty=0.4, logit_bias={1: 0.5}),
    "cold": Sampling(temperature=0.3),
    "plain": Sampling(temperature=1.0),
    "hot": Sampling(temperature=2.5),
    "truncated": Sampling(temperature=1.0, top_k=4, top_p=0.9, min_p=0.02),
    "all": Sampling(
        temperature=0.8, top_p=0.95, repetition_penalty=1.2, presence_penalty=0.3, dry_multiplier=0.5, min_tokens=6,
        banned=frozenset({4}), forced={2: 5},
    ),
}  # fmt: skip


def toy(**changes: object) -> ToyTarget:
    base = Options(vocab_size=V, order=2, strength=1.0, seed=2, max_length=128)
    return ToyTarget(replace(base, **changes))  # type: ignore[arg-type]


def accepted_whole(rounds: list[Round]) -> bool:
    return all(round_.accepted == round_.evaluated for round_ in rounds)


# --- draft = target --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("discipline", DISCIPLINES)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_target_as_its_own_draft_model_is_accepted_whole(shape: str, discipline: str) -> None:
    for seed in range(4):
        sampling = replace(SHAPES[shape], seed=seed)
        target = toy(discipline=discipline)
        rounds = run(follow(target, V, sampling=sampling), target, PROMPT, 60, sampling=sampling)
        assert accepted_whole(rounds)
        assert sum(round_.evaluated for round_ in rounds) > 30


@settings(max_examples=150)
@given(
    st.sampled_from(DISCIPLINES),
    st.sampled_from(sorted(SHAPES)),
    st.lists(st.integers(0, 9), min_size=1, max_size=6).filter(any),
    st.integers(1, 12),
    st.integers(0, 3),
)
def test_any_mix_of_budgets_is_accepted_whole(
    discipline: str, shape: str, lengths: list[int], max_rows: int, seed: int
) -> None:
    sampling = replace(SHAPES[shape], seed=seed)
    second = toy(discipline=discipline, max_rows=max_rows)
    rounds = run(follow(second, V, sampling=sampling), toy(), PROMPT, 40, lengths=lengths, sampling=sampling)
    assert accepted_whole(rounds)


def test_a_long_stretch_without_drafts_is_caught_up_with() -> None:
    second = Counted(toy(max_rows=4))
    rounds = run(follow(second, V), toy(), PROMPT, 60, lengths=[0] * 20 + [3])
    assert accepted_whole(rounds)
    assert max(map(len, second.fed)) > 20


@pytest.mark.parametrize("extra", [1, 7])
def test_a_draft_model_with_padding_is_accepted_whole(extra: int) -> None:
    """The toy's logits do not depend on its size, so only the padding tells the two apart."""
    for shape in ("greedy", "plain", "truncated"):
        sampling = SHAPES[shape]
        rounds = run(follow(toy(vocab_size=V + extra), V, sampling=sampling), toy(), PROMPT, 60, sampling=sampling)
        assert accepted_whole(rounds)  # where its likeliest token is one of the padding, the draft ends
        assert sum(round_.evaluated for round_ in rounds) > 10


def test_a_draft_model_of_fewer_rows_leaves_out_what_it_cannot_read() -> None:
    target = toy(vocab_size=V + 3)
    sampling = Sampling(temperature=2.0, seed=1)
    prompt = as_ids([1, V + 2, 2, V])
    plain = run(Guesser(scripted([])), target, prompt, 40, lengths=[0], sampling=sampling)
    second = Counted(toy())
    rounds = run(follow(second, V + 3, sampling=sampling), target, prompt, 40, sampling=sampling)
    assert written(rounds) == written(plain)
    assert max(written(plain)) >= V, "the text has to hold ids that the draft model lacks"
    assert all(token < V for block in second.fed for token in block)
    assert sum(round_.accepted for round_ in rounds) > 0


# --- the cache of the draft model ------------------------------------------------------------------------------------


def of_another_model(make_session: Callable[[Session], Session] | None = None, seed: int = 0) -> list[Round]:
    """Rounds with a draft model that is often right and often wrong."""
    sampling = Sampling(temperature=1.0, seed=seed)
    second: Target = toy(seed=2, strength=1.4)
    if make_session is not None:
        second = WithSessions(second, make_session)
    drafter = follow(second, V, sampling=sampling)
    return run(drafter, toy(), PROMPT, 110, lengths=[5], sampling=sampling)


def recomputed(seed: int = 0) -> list[Round]:
    """The same draft model, everything computed anew for every token."""
    sampling = Sampling(temperature=1.0, seed=seed)
    second = toy(seed=2, strength=1.4)
    drafter = Drawing(second, sampling, KeyedSampler(seed), FreshRows(second))
    return run(drafter, toy(), PROMPT, 110, lengths=[5], sampling=sampling)


SEEDS = range(6)


def test_acceptance_by_position_is_that_of_a_model_without_a_cache() -> None:
    followed = [round_ for seed in SEEDS for round_ in of_another_model(seed=seed)]
    assert survival(followed) == survival([round_ for seed in SEEDS for round_ in recomputed(seed)])
    assert 0.2 < survival(followed)[0] < 0.98, "the draft model has to be wrong now and then"


@pytest.mark.parametrize("off", [1, -1])
def test_planted_trim_wrong_by_one_shows_in_acceptance_by_position(off: int) -> None:
    def broken(inner: Session) -> Session:
        return TrimsWrong(inner, off)

    good = survival([round_ for seed in SEEDS for round_ in of_another_model(seed=seed)])
    bad = survival([round_ for seed in SEEDS for round_ in of_another_model(broken, seed)])
    assert bad[0] < good[0]
    assert sum(bad) < 0.9 * sum(good)


def test_planted_count_wrong_by_one_is_an_error() -> None:
    with pytest.raises(LawError, match="second model's cache"):
        of_another_model(CommitsOneTooMany)


def test_a_count_wrong_by_one_costs_drafts_and_not_the_text() -> None:
    notes: list[str] = []
    broken = follow(WithSessions(toy(strength=1.4), CommitsOneTooMany), V)
    rounds = run(Guarded(broken, "model", toy(), notes.append), toy(), PROMPT, 110, lengths=[5])
    assert written(rounds) == written(run(follow(toy(), V), toy(), PROMPT, 110, lengths=[0]))
    assert "second model's cache" in notes[0]


def test_what_is_read_again_and_what_is_not() -> None:
    """Each forward reads what is new: the root, the last draft too where all were accepted, each guess but the last."""
    second = Counted(toy())
    rounds = run(follow(second, V), toy(), PROMPT, 30, lengths=[3])
    text = [*PROMPT.tolist(), *written(rounds)]
    first, *others = second.fed
    assert first == text[: len(PROMPT) + 1]
    assert [len(block) for block in others if len(block) > 1] == [2] * (
        sum(round_.drafted > 0 for round_ in rounds) - 1
    )
    assert sum(map(len, second.fed)) <= len(text)


def test_nothing_is_computed_where_nothing_is_drafted() -> None:
    second = Counted(toy())
    run(follow(second, V), toy(), PROMPT, 30, lengths=[0])
    assert second.fed == []


@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_the_contract_holds_on_every_cache(discipline: str) -> None:
    second = toy(discipline=discipline, seed=4)
    style = Style("model", "greedy", 0.5) if discipline == "mask" else Style("model")
    sampling = Sampling(temperature=1.0, seed=3)

    def make(target: Target) -> Drafter:
        return follow(second, V, sampling=sampling, style=style)

    check_drafter(make, toy(), prompts=[[1, 2, 3, 1, 2, 3, 1], [5]])


# --- where it stops --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("room", range(8))
def test_it_stops_where_its_context_ends(room: int) -> None:
    second = toy(max_length=len(PROMPT) + room)
    rounds = run(follow(second, V), toy(), PROMPT, 40, lengths=[4, 2])
    assert written(rounds) == written(run(follow(toy(), V), toy(), PROMPT, 40, lengths=[0]))
    assert accepted_whole(rounds)
    drafted = [round_.depth + 1 for round_ in rounds if round_.drafted]
    assert all(depth <= second.caps.max_length for depth in drafted)
    assert bool(drafted) == (room >= 1)


def test_it_stops_where_it_is_not_sure() -> None:
    lengths: dict[float, int] = {}
    for confidence in (0.0, 0.5, 0.9):
        for draws in ("greedy", "shared"):
            sampling = Sampling(temperature=1.0, seed=1)
            drafter = follow(toy(seed=4), V, sampling=sampling, style=Style("model", draws, confidence))
            rounds = run(drafter, toy(), PROMPT, 80, lengths=[6], sampling=sampling)
            lengths[confidence] = lengths.get(confidence, 0) + sum(round_.drafted for round_ in rounds)
    assert lengths[0.0] > lengths[0.5] > lengths[0.9]


def test_it_stops_after_an_end_of_text() -> None:
    target = toy()
    plain = written(run(follow(target, V), target, PROMPT, 40, lengths=[0]))
    end = plain[5]
    drafter = follow(target, V, sampling=Sampling(end_ids=frozenset({end})))
    drafter.begin(PROMPT, plain[0], target.open().prefill(PROMPT))
    place = plain.index(end, 1)
    assert drafter.propose(20).ids.tolist() == plain[1 : place + 1]


def test_it_waits_before_a_draft_when_asked() -> None:
    waits: list[float] = []
    drafter = follow(toy(), V, style=Style("model", gap_s=0.003), pause=waits.append)
    rounds = run(drafter, toy(), PROMPT, 30, lengths=[3, 0])
    assert waits == [0.003] * sum(round_.drafted > 0 for round_ in rounds)


def test_a_proposal_that_no_round_came_of_leaves_nothing() -> None:
    target = toy()
    drafter: Follower = follow(target, V)
    drafter.begin(PROMPT, 3, target.open().prefill(PROMPT))
    first = drafter.propose(6).ids.tolist()
    assert drafter.propose(2).ids.tolist() == first[:2]
    assert drafter.propose(6).ids.tolist() == first


class Ticking:
    """A clock by which the nth forward that reads the root takes `slow[n]` seconds, any other one 10 ms."""

    def __init__(self, slow: dict[int, float]) -> None:
        self._slow = slow
        self._now = 0.0
        self._asked = 0

    def __call__(self) -> float:
        self._asked += 1
        if self._asked % 2 == 0:  # asked before and after each of them
            self._now += self._slow.get(self._asked // 2, 0.01)
        return self._now


@pytest.mark.parametrize(
    ("slow", "count"),
    [({9: 0.4}, 1), ({9: 0.4, 12: 0.5}, 1), ({}, 0), ({9: 0.09}, 0), ({2: 0.4}, 0)],
    ids=["one stall", "told once", "none", "slow, no stall", "too early to tell"],
)
def test_a_stall_is_told(slow: dict[int, float], count: int) -> None:
    notes: list[str] = []
    drafter = follow(toy(), V, clock=Ticking(slow), note=notes.append)
    run(drafter, toy(), PROMPT, 60, lengths=[2])
    assert len(notes) == count
    assert all("took 400 ms, and 10 ms are usual" in note and "gap_ms" in note for note in notes)
