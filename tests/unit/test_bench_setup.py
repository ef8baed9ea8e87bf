"""What comes before the first measurement: chosen draft lengths, and what makes two runs two different ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from timed_toy import ROW_S, VirtualClock, timed_model

from surefoot.core.errors import ConfigError, LawError
from surefoot.core.types import Ids, as_ids
from surefoot.engine.config import Config, load_config
from surefoot.lab import setup, tuning
from surefoot.lab.arms import parse
from surefoot.lab.records import SCHEMA, Arm, PromptUse, Run, Side
from surefoot.lab.setup import Writers

PROMPTS = {"x": as_ids([1, 2, 3] * 5), "y": as_ids([7, 8] * 6), "z": as_ids([20, 21, 22, 23] * 3)}
FIXED, PEER = (parse([text], Config())[0] for text in ("ngram/fixed", "peer"))


def speeds(table: dict[str, dict[int, float]], asked: list[tuple[str, int]]) -> Any:
    """A writer whose speed depends on the prompt and the draft length."""
    names = {ids.tobytes(): name for name, ids in PROMPTS.items()}

    def write(arm: Arm, ids: Ids, n_tokens: int) -> Side:
        length = {**arm.policy, **arm.peer}["draft_len"]
        asked.append((names[ids.tobytes()], length))
        return Side([1] * n_tokens, n_tokens, "length", 0.1, (n_tokens - 1) / table[names[ids.tobytes()]][length], None)

    return write


@pytest.mark.parametrize("arm", [FIXED, PEER], ids=["ours", "peer"])
def test_the_fastest_over_all_prompts_is_chosen_and_how_is_told(arm: Arm) -> None:
    """Length 2 wins by its sum, on one prompt that runs fast; length 5 by what the prompts have in common."""
    table = {"x": {2: 400.0, 5: 200.0, 7: 10.0}, "y": {2: 10.0, 5: 30.0, 7: 31.0}, "z": {2: 10.0, 5: 30.0, 7: 31.0}}
    asked: list[tuple[str, int]] = []
    chosen = tuning.choose(arm, speeds(table, asked), PROMPTS, (2, 5, 7), 40)
    assert {**chosen.policy, **chosen.peer}["draft_len"] == 5
    assert chosen.label.endswith("draft_len=5")
    assert chosen.chosen == (
        "draft_len 5: the fastest of 2, 5, 7 on 3 other prompts (x, y, z), 40 tokens each, in tok/s: "
        "2 34.2, 5 56.5, 7 21.3"
    )
    assert sorted(asked) == sorted((name, length) for name in PROMPTS for length in (2, 5, 7))
    assert [asked[3 * n] for n in range(3)] == [("x", 2), ("y", 5), ("z", 7)], "each prompt begins with another"


def test_equal_lengths_go_to_the_shortest_and_a_text_of_one_token_has_no_speed() -> None:
    table = {name: dict.fromkeys((2, 5), 30.0) for name in PROMPTS}
    assert tuning.choose(FIXED, speeds(table, []), PROMPTS, (5, 2), 40).policy["draft_len"] == 2

    def short(arm: Arm, ids: Ids, n_tokens: int) -> Side:
        alone = arm.policy["draft_len"] == 2
        return Side([1], 1, "stop", 0.1, 0.0, None) if alone else Side([1, 2], 2, "stop", 0.1, 0.1, None)

    assert tuning.choose(FIXED, short, PROMPTS, (2, 5), 40).policy["draft_len"] == 5


def test_nothing_is_chosen_from_nothing() -> None:
    with pytest.raises(LawError):
        tuning.choose(FIXED, speeds({}, []), {}, (2, 5), 40)


def test_what_the_toy_is_fastest_with_is_what_is_chosen() -> None:
    """On the staircase of the toy, against each length written apart."""
    clock = VirtualClock()
    writers = Writers(timed_model(clock), Config(), None, clock)
    chosen = tuning.choose(FIXED, writers.by, PROMPTS, (1, 3, 8), 60).policy["draft_len"]
    means = {
        length: np.mean([
            np.log(writers.by(replace(FIXED, policy={"name": "fixed", "draft_len": length}), ids, 60).tokens_per_second)
            for ids in PROMPTS.values()
        ])
        for length in (1, 3, 8)
    }  # fmt: skip
    assert chosen == max(means, key=lambda length: means[length])
    assert ROW_S[2] != ROW_S[4]


def run_of(**changes: Any) -> Run:
    run = Run(
        SCHEMA, "1.0", "2026-01-01T00:00:00Z", (), {"runtime": "toy", "settings": {"threads": "2"}, "identity": "abc"},
        {"cpu": "Z80", "fingerprint": "f1", "os": "CP/M", "packages": {"torch": "2.6"}}, {"temperature": 0.0}, 3,
        parse(["ngram"], Config()), [PromptUse("a", "chat", "own", 9, "hash of a")], {"chat": "w"}, (256, 512), 6,
    )  # fmt: skip
    return replace(run, **changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"surefoot": "1.1"}, ["Surefoot", "1.0", "1.1"]),
        ({"model": {**run_of().model, "identity": "xyz"}}, ["model's identity", "abc", "xyz"]),
        ({"model": {**run_of().model, "settings": {"threads": "4"}}}, ["model's setting threads", "2", "4"]),
        ({"model": {**run_of().model, "settings": {}}}, ["threads", "2", "not given"]),
        ({"machine": {**run_of().machine, "cpu": "6502"}}, ["machine's cpu", "Z80", "6502"]),
        ({"machine": {**run_of().machine, "fingerprint": "f2"}}, ["fingerprint"]),
        ({"machine": {**run_of().machine, "packages": {"torch": "2.7"}}}, ["package torch", "2.6", "2.7"]),
        ({"sampling": {"temperature": 0.5}}, ["temperature", "0.0", "0.5"]),
        ({"seed": 4}, ["seed", "3", "4"]),
        ({"prompts": [PromptUse("a", "chat", "own", 9, "another")]}, ["prompt a"]),
        ({"prompts": [PromptUse("b", "chat", "own", 9, "hash of a")]}, ["list of prompts", "[a]", "[b]"]),
        ({"arms": parse(["off"], Config())}, ["arms", "ngram/additive", "off"]),
        ({"budgets": (256,)}, ["budgets", "[256, 512]", "[256]"]),
        ({"pairs_wanted": 7}, ["pairs", "6", "7"]),
        ({"band": (26.0, 28.0)}, ["band", "not given", "26"]),
    ],
)
def test_a_run_that_is_another_one_is_told_by_what_differs(changes: dict[str, Any], words: list[str]) -> None:
    told = setup.difference(run_of(), run_of(**changes))
    assert told is not None
    for word in words:
        assert word in told, told
    assert "\n" not in told


@pytest.mark.parametrize(
    "changes", [{}, {"when": "2026-02-02T00:00:00Z"}, {"machine": {**run_of().machine, "os": "x"}}]
)
def test_what_may_differ(changes: dict[str, Any]) -> None:
    assert setup.difference(run_of(), run_of(**changes)) is None


def test_every_field_of_a_run_is_compared_or_known_to_change() -> None:
    """So that a field that is added later is not forgotten here."""
    from dataclasses import fields

    # The prompts hold what the workloads are made of, what is counted follows from the command, and the run goes on
    # under the plan that it began with.
    free = {"schema", "when", "command", "workloads", "plan", "counting"}
    compared = {
        "surefoot",
        "model",
        "machine",
        "sampling",
        "seed",
        "arms",
        "prompts",
        "budgets",
        "pairs_wanted",
        "band",
    }
    assert {field.name for field in fields(Run)} == free | compared


def test_what_cannot_be_measured_is_refused_before_anything_is() -> None:
    model = timed_model(VirtualClock(), max_length=20)
    fits = {"short": as_ids([1, 2, 3])}
    arms = parse(["ngram", "ngram/fixed", "off"], Config())
    setup.check(model, Config(), arms, fits)
    with pytest.raises(ConfigError, match=r"prompt long: .*30 tokens"):
        setup.check(model, Config(), arms, {**fits, "long": as_ids([1] * 30)})
    drawn = load_config(overrides={"temperature": 1.0})
    setup.check(model, drawn, arms, fits)
    with pytest.raises(ConfigError, match="ratio draws another text"):
        setup.check(model, replace(drawn, judge="ratio"), arms, fits)
    for config in (drawn, load_config(overrides={"stop": ["x"]}), load_config(overrides={"repetition_penalty": 1.2})):
        with pytest.raises(ConfigError, match=r"peer.*greedy"):
            setup.check(model, config, (*arms, PEER), fits)


def test_infinite_biases_and_sets_fit_into_a_record() -> None:
    from surefoot.lab.codec import encode

    config = load_config(overrides={"logit_bias": {5: float("-inf")}, "banned": [3, 1], "stop": ["x"]})
    sampling = setup.sampling_of(config)
    assert sampling["logit_bias"] == {"5": "-inf"}
    assert sampling["banned"] == [1, 3]
    encode(run_of(sampling=sampling))
