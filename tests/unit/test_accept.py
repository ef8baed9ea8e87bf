"""Counted drafts: the oracle is brute force, and what the chain and the policy then do; predictions are replays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import lab_records as make
import numpy as np
import pytest
from cost_curves import SEED, curve
from timed_toy import VirtualClock, timed_model

from surefoot.core.errors import ConfigError, LawError, NotEligible
from surefoot.core.payoff import FREE, DraftCost
from surefoot.core.types import Ids, as_ids
from surefoot.drafters.ngram import NgramDrafter
from surefoot.drafters.ngram import Options as NgramOptions
from surefoot.engine.config import Config
from surefoot.engine.generator import Model
from surefoot.lab import simulate, traces
from surefoot.lab.accept import counts
from surefoot.lab.accept.predict import predict
from surefoot.lab.accept.run import World, Writers, at_temperature, execute, no_oracle, offered, plan
from surefoot.lab.arms import configured, parse
from surefoot.lab.records import Counted, Counting, Mode, PromptUse, Run, Step
from surefoot.lab.replay import NOTHING, Offer, Trace, plain_s
from surefoot.lab.setup import digest
from surefoot.lab.simulate import fixed_at, on_texts
from surefoot.lab.store import Loaded, Store, load
from surefoot.lab.traces import NoScores

DRAFT_LEN, TOKENS = 6, 120
MODES: tuple[Mode, ...] = ("plain", "oracle", "chain", "live", "unanchored")
PROMPTS: Mapping[str, Ids] = {"chat-1": as_ids([1, 2, 3, 1, 2, 3, 1, 2]), "code-1": as_ids([9, 4, 7, 7, 20])}
CONFIG = Config(seed=3)
ARMS = parse(["ngram:min_n=1", "suffix/fixed:draft_len=3", "ngram+suffix", "lookahead"], CONFIG)
REPLAYED = [arm.label for arm in ARMS[:2]]


def toy(**options: Any) -> Model:
    """A toy that soon repeats itself, and one that does not where `order` is 2."""
    return timed_model(VirtualClock(), **options)


def asked(model: Model, temperatures: tuple[float, ...] = (0.0, 0.9)) -> Run:
    uses = tuple(PromptUse(name, name[:4], "here", len(ids), digest(ids)) for name, ids in PROMPTS.items())
    counting = Counting(DRAFT_LEN, temperatures, MODES, no_oracle(model, CONFIG, ARMS))
    return make.run(arms=ARMS, prompts=uses, budgets=(TOKENS,), pairs_wanted=0, counting=counting)


def counted(model: Model, run: Run, before: Loaded | None = None, most: int | None = None) -> Loaded:
    """What a run leaves behind; cut short after `most` texts."""
    found: list[Counted] = list(before.counted) if before else []

    def append(record: object) -> None:
        assert isinstance(record, Counted)
        found.append(record)
        if most is not None and len(found) >= most:
            raise KeyboardInterrupt

    world = World(append, lambda done, total, planned: None, lambda: None)
    try:
        execute(run, Writers(model, CONFIG, PROMPTS, VirtualClock()), world, before)
    except KeyboardInterrupt:
        assert most is not None
    return Loaded(run, (), (), (), (), None, False, tuple(found))


@pytest.fixture(scope="module")
def model() -> Model:
    return toy()


@pytest.fixture(scope="module")
def whole(model: Model) -> Loaded:
    return counted(model, asked(model))


def text(loaded: Loaded, mode: Mode, arm: str, prompt: str, temperature: float) -> Counted:
    (found,) = [
        each for each in loaded.counted
        if (each.mode, each.arm, each.prompt, each.temperature) == (mode, arm, prompt, temperature)
    ]  # fmt: skip
    return found


CASES = [(prompt, temperature) for prompt in PROMPTS for temperature in (0.0, 0.9)]


@pytest.mark.parametrize(("prompt", "temperature"), CASES)
def test_the_oracle_is_what_counting_by_hand_gives(whole: Loaded, prompt: str, temperature: float) -> None:
    """A new drafter at every token, told everything before it, for every length."""
    ids = list(text(whole, "plain", "", prompt, temperature).ids)
    steps = text(whole, "oracle", ARMS[0].label, prompt, temperature).steps
    assert len(ids) == TOKENS
    assert len(steps) == TOKENS - 1
    by_length = np.zeros(DRAFT_LEN)
    for at in range(1, TOKENS):
        for length in range(1, DRAFT_LEN + 1):
            drafter = NgramDrafter(NgramOptions(min_n=1))
            drafter.begin(as_ids([*PROMPTS[prompt].tolist(), *ids[: at - 1]]), ids[at - 1], NoScores())
            room = TOKENS - at - 1
            draft = drafter.propose(min(length, room)).ids.tolist() if room else []
            right = 0
            while right < len(draft) and draft[right] == ids[at + right]:
                right += 1
            by_length[length - 1] += right
        step = steps[at - 1]
        assert (step.evaluated, step.accepted, step.emitted) == (len(draft), right, right + 1), at
        assert step.depth == len(PROMPTS[prompt]) + at - 1
    only = replace(whole, counted=tuple(each for each in whole.counted if each.prompt == prompt))
    (row,) = [
        row for row in counts.rows(only)
        if (row.arm, row.mode, row.temperature) == (ARMS[0].label, "oracle", temperature)
    ]  # fmt: skip
    assert row.by_draft_len == pytest.approx(by_length / (TOKENS - 1))
    assert row.accepted_per_round == pytest.approx(row.by_draft_len[-1])
    assert row.tokens_per_round == pytest.approx(row.by_draft_len[-1] + 1)


@pytest.mark.parametrize("arm", REPLAYED)
@pytest.mark.parametrize(("prompt", "temperature"), CASES)
def test_each_round_of_the_chain_is_what_the_oracle_said_there(
    whole: Loaded, arm: str, prompt: str, temperature: float
) -> None:
    """Greedy and drawn alike: the noise of a draw belongs to its position, whoever drafts."""
    said = text(whole, "oracle", arm, prompt, temperature).steps
    chain = text(whole, "chain", arm, prompt, temperature)
    assert chain.ids == text(whole, "plain", "", prompt, temperature).ids
    at = 1
    for step in chain.steps:
        assert step == said[at - 1], at
        at += step.emitted
    assert at == TOKENS
    assert 0 < sum(step.accepted for step in chain.steps) < sum(step.accepted for step in said)


@pytest.mark.parametrize(("prompt", "temperature"), CASES)
@pytest.mark.parametrize("number", range(len(ARMS)))
def test_live_is_the_sum_of_the_rounds_of_generate(
    model: Model, whole: Loaded, number: int, prompt: str, temperature: float
) -> None:
    arm = ARMS[number]
    config = configured(arm, at_temperature(CONFIG, temperature), TOKENS)
    with model.generate(PROMPTS[prompt], config=config, clock=VirtualClock()) as generation:
        list(generation.steps())
    only = replace(whole, counted=tuple(each for each in whole.counted if each.prompt == prompt))
    (row,) = [
        row for row in counts.rows(only) if (row.arm, row.mode, row.temperature) == (arm.label, "live", temperature)
    ]
    rounds = generation.rounds[1:]
    assert row.drafts.accepted == sum(round_.accepted for round_ in rounds)
    assert row.drafts.evaluated == sum(round_.evaluated for round_ in rounds)
    assert row.drafts.rounds == len(rounds)
    assert row.tokens_per_round == pytest.approx(1 + sum(round_.accepted for round_ in rounds) / len(rounds))


def test_without_the_anchor_next_to_nothing_is_accepted_and_the_text_is_the_same(whole: Loaded) -> None:
    """The toy repeats itself, never the same token twice: a draft one place too early is wrong but by accident."""
    for arm in ARMS[:2]:
        for prompt in PROMPTS:
            ids = text(whole, "plain", "", prompt, 0.0).ids
            assert all(one != next_ for one, next_ in pairwise(ids))
            chain = text(whole, "chain", arm.label, prompt, 0.0)
            late = text(whole, "unanchored", arm.label, prompt, 0.0)
            accepted = sum(step.accepted for step in chain.steps)
            assert accepted > TOKENS // 2
            assert sum(step.evaluated for step in late.steps) > TOKENS // 2, "drafts were made all the same"
            assert sum(step.accepted for step in late.steps) <= accepted // 10
            assert late.ids == ids


def test_every_text_with_drafts_is_the_plain_one_and_one_that_is_not_is_told(whole: Loaded) -> None:
    assert counts.different(whole) == 0
    chain = text(whole, "chain", ARMS[0].label, "chat-1", 0.9)
    other = replace(chain, ids=(*chain.ids[:-1], chain.ids[-1] + 1))
    doubted = replace(whole, counted=tuple(other if each is chain else each for each in whole.counted))
    assert counts.different(doubted) == 1
    assert [(row.arm, row.mode, row.temperature) for row in counts.rows(doubted) if row.differ] == [
        (ARMS[0].label, "chain", 0.9)
    ]


def test_a_row_for_each_workload_temperature_arm_and_mode_and_none_over_workloads(whole: Loaded) -> None:
    keys = [(row.workload, row.temperature, row.arm, row.mode) for row in counts.rows(whole)]
    labels = [arm.label for arm in ARMS]
    assert keys == [
        (workload, temperature, label, mode)
        for workload in ("chat", "code") for temperature in (0.0, 0.9) for label in labels
        for mode in MODES[1:] if mode != "oracle" or label in REPLAYED
    ]  # fmt: skip
    assert whole.run.counting is not None
    assert set(whole.run.counting.no_oracle) == set(labels) - set(REPLAYED)


def test_rounds_by_match_length_are_all_rounds_of_a_workload_that_drafted(whole: Loaded) -> None:
    rows = counts.rows(whole)
    matched = counts.by_match(whole)
    for row in rows:
        key = (row.workload, row.temperature, row.arm, row.mode)
        found = [each for each in matched if (each.workload, each.temperature, each.arm, each.mode) == key]
        assert sum(each.rounds for each in found) == row.drafts.drafting
        assert sum(each.accepted for each in found) == row.drafts.accepted
        steps = [
            step for each in whole.counted for step in each.steps
            if (each.workload, each.temperature, each.arm, each.mode) == key and step.evaluated
        ]  # fmt: skip
        for each in found:
            within = [step for step in steps if each.low <= step.match_len <= each.high]
            assert len(within) == each.rounds
            first = [step.accepted > 0 for step in within if step.emitted > step.accepted or step.accepted > 0]
            assert each.survival[0] == sum(first) / len(first)
    assert len({each.workload for each in matched}) == len(PROMPTS)
    assert any(each.low > 4 for each in counts.by_match(whole)), "a suffix finds long matches in a loop"


def test_an_end_of_text_that_was_drafted_ends_the_count() -> None:
    """The text ends at its third token by itself, two before its limit: nothing behind it was judged."""
    trace = Trace(5, (7, 8, 9), (NOTHING, Offer(4, 2, 1, "d"), Offer(1, 0, 1, "d")))
    assert offered(trace, 5) == (
        Step(3, 3, 2, 2, 5, 4, 4, 0, 0, 0, 0, "d", 1),
        Step(1, 1, 0, 1, 6, 2, 2, 0, 0, 0, 0, "d", 1),
    )
    assert [step.evaluated for step in offered(trace, 3)] == [1, 0]


# ---- predictions


def every(cost: DraftCost) -> dict[str, DraftCost]:
    """All arms at the same cost."""
    return {arm.label: cost for arm in ARMS}


def test_each_drafter_has_its_own_cost_and_one_of_which_nothing_is_known_is_left_out(whole: Loaded) -> None:
    on, dear = curve(SEED), DraftCost(token_s=2e-3)
    first, second, *_ = (arm.label for arm in ARMS)
    mixed = predict(whole, on, {first: FREE, second: dear})
    assert {each.arm for each in mixed} == {first, second}
    assert [each for each in mixed if each.arm == first] == [
        each for each in predict(whole, on, every(FREE)) if each.arm == first
    ]
    assert [each for each in mixed if each.arm == second] == [
        each for each in predict(whole, on, every(dear)) if each.arm == second
    ]


def test_a_prediction_is_the_replay_of_the_texts_with_each_length(whole: Loaded) -> None:
    on = curve(SEED)
    cost = DraftCost(token_s=2e-4)
    predicted = predict(whole, on, every(cost))
    assert [each.found for each in predicted[:4]] == ["oracle", "oracle", "chain", "chain"]
    for arm in ARMS[:2]:
        (found,) = [
            each for each in predicted if (each.workload, each.temperature, each.arm) == ("code", 0.9, arm.label)
        ]
        ids = text(whole, "plain", "", "code-1", 0.9).ids
        written = [traces.Text("code", "code-1", PROMPTS["code-1"], tuple(ids))]
        fixed = [fixed_at(length) for length in range(1, DRAFT_LEN + 1)]
        (simulated,) = on_texts(traces.traces(written, arm.drafts), fixed, on, cost)
        assert found.plain_tokens_per_s == pytest.approx(simulated.plain_tokens_per_s)
        assert found.tokens_per_s == pytest.approx([each.tokens_per_s for each in simulated.outcomes])
        speeds = [found.plain_tokens_per_s, *found.tokens_per_s]
        assert speeds[found.best] == max(speeds)


def test_a_drafter_that_cannot_be_replayed_is_priced_by_the_rounds_of_its_chain(whole: Loaded) -> None:
    on, label = curve(SEED), ARMS[2].label
    predicted = predict(whole, on, every(FREE))
    (found,) = [each for each in predicted if (each.workload, each.temperature, each.arm) == ("chat", 0.0, label)]
    chain = text(whole, "chain", label, "chat-1", 0.0)
    seconds = sum(on.round_s(step.rows, step.depth) for step in chain.steps)
    assert found.tokens_per_s[-1] == pytest.approx((TOKENS - 1) / seconds), "at its own length it is exact"
    ones = sum(on.round_s(min(step.rows, 2), step.depth) for step in chain.steps)
    assert found.tokens_per_s[0] == pytest.approx(sum(1 + min(step.accepted, 1) for step in chain.steps) / ones)
    ids = tuple(text(whole, "plain", "", "chat-1", 0.0).ids)
    plain = plain_s(Trace(len(PROMPTS["chat-1"]), ids, (NOTHING,) * TOKENS), on)
    assert found.plain_tokens_per_s == pytest.approx((TOKENS - 1) / plain)


def test_predictions_end_where_the_curve_does(whole: Loaded) -> None:
    assert {len(each.tokens_per_s) for each in predict(whole, curve(SEED), every(FREE))} == {DRAFT_LEN}
    narrow = curve("mlx-qwen3-4b")
    most = min(DRAFT_LEN, narrow.max_rows - 1)
    assert {len(each.tokens_per_s) for each in predict(whole, narrow, every(FREE))} == {most}


# ---- records


def test_a_run_that_was_cut_short_goes_on_with_no_text_lost_or_twice(model: Model, whole: Loaded) -> None:
    run = asked(model)
    some = counted(model, run, most=7)
    assert len(some.counted) == 7
    assert counted(model, run, some).counted == whole.counted
    assert [each.key for each in plan(run)] == [
        (each.mode, each.arm, each.prompt, each.temperature) for each in whole.counted
    ]


def test_a_run_that_is_cut_short_has_all_workloads(model: Model) -> None:
    uses = [PromptUse(name, name[:4], "here", 5, "00") for name in ("chat-1", "chat-2", "chat-3", "code-1", "code-2")]
    order = dict.fromkeys(planned.use.id for planned in plan(replace(asked(model), prompts=tuple(uses))))
    assert list(order) == ["chat-1", "code-1", "chat-2", "code-2", "chat-3"]


def test_the_record_is_read_again_as_it_was_written(whole: Loaded, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with Store.create(path, whole.run) as store:
        for each in whole.counted:
            store.append(each)
    assert load(path) == whole
    assert b'"draft_s":0.0' in path.read_bytes(), "nothing was timed"


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"mode": "chain", "arm": "peer"}, 'the arm "peer", which the run does not name'),
        ({"mode": "plain"}, "the arm .*, which the run does not name"),
        ({"temperature": 0.5}, "the temperature 0.5, which the run does not name"),
        ({"prompt": "chat-9"}, 'the prompt "chat-9", which the run does not name'),
        ({"workload": "code"}, 'counts the prompt "chat-1" to "code"'),
        ({}, "counts a text once more"),
    ],
)
def test_a_text_that_does_not_belong_to_the_run_is_refused(
    whole: Loaded, tmp_path: Path, changed: dict[str, Any], words: str
) -> None:
    path = tmp_path / "run.jsonl"
    chain = text(whole, "chain", ARMS[0].label, "chat-1", 0.9)
    with Store.create(path, whole.run) as store:
        store.append(chain)
        store.append(replace(chain, **changed))
    with pytest.raises(ConfigError, match=words) as caught:
        load(path)
    assert str(caught.value).startswith("line 3 of ")


def test_a_text_whose_rounds_are_not_its_tokens_is_not_written(whole: Loaded, tmp_path: Path) -> None:
    chain = text(whole, "chain", ARMS[0].label, "chat-1", 0.9)
    with Store.create(tmp_path / "run.jsonl", whole.run) as store, pytest.raises(LawError, match="its rounds"):
        store.append(replace(chain, ids=chain.ids[:-1]))


def test_a_text_in_a_run_of_pairs_is_refused(whole: Loaded, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with Store.create(path, make.run()) as store:
        store.append(text(whole, "chain", ARMS[0].label, "chat-1", 0.9))
    with pytest.raises(ConfigError, match='the mode "chain", which the run does not name'):
        load(path)


def test_its_plain_texts_are_what_simulate_writes_again(whole: Loaded) -> None:
    prompts = [traces.Prompt(name, name[:4], "here", "whatever") for name in PROMPTS]
    written = traces.texts(whole, prompts, lambda prompt: PROMPTS[prompt.id], traces.workloads(whole))
    assert [(each.workload, each.prompt) for each in written] == [
        ("chat@0", "chat-1"), ("chat@0.9", "chat-1"), ("code@0", "code-1"), ("code@0.9", "code-1"),
    ]  # fmt: skip
    for each in written:
        assert each.ids == text(whole, "plain", "", each.prompt, float(each.workload.partition("@")[2])).ids
    assert simulate.of_record(whole, {"name": "ngram", "min_n": 1}) == {}
    counting = replace(whole.run.counting, temperatures=(0.0,))  # type: ignore[type-var]
    cold = tuple(each for each in whole.counted if each.temperature == 0)
    one = replace(whole, run=replace(whole.run, counting=counting), counted=cold)
    found = traces.texts(one, prompts, lambda prompt: PROMPTS[prompt.id], traces.workloads(one))
    assert [each.workload for each in found] == ["chat", "code"]


def test_trees_have_no_positions(model: Model) -> None:
    with pytest.raises(NotEligible, match="suffix:branches=2/additive drafts trees"):
        no_oracle(model, CONFIG, parse(["suffix:branches=2"], CONFIG))
