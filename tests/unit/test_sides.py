"""A side of a pair: what the loop wrote, on a clock that only its forwards move."""

from __future__ import annotations

from dataclasses import replace

import pytest
from timed_toy import ROW_S, TOKEN_S, VirtualClock, timed_model

from surefoot.core.types import as_ids
from surefoot.engine.config import Config, Part, load_config
from surefoot.lab.sides import write

PROMPT = as_ids([1, 2, 3, 1, 2, 3, 1, 2])
OFF = Config(drafts=Part("off"), max_tokens=40)
ON = Config(policy=Part("fixed", {"draft_len": 3}), max_tokens=40)


@pytest.mark.parametrize("config", [OFF, ON, replace(ON, policy=Part("additive"))], ids=["off", "fixed", "additive"])
def test_times_are_those_of_the_forwards_without_the_first_token(config: Config) -> None:
    clock = VirtualClock()
    side = write(timed_model(clock), PROMPT, config, clock)
    assert side.steps is not None
    assert side.n_output == len(side.ids) == 40
    assert sum(step.emitted for step in side.steps) == 39
    assert side.prefill_s == pytest.approx(TOKEN_S * len(PROMPT))
    assert side.decode_s == pytest.approx(sum(ROW_S[step.rows] for step in side.steps))
    assert [step.extend_s for step in side.steps] == pytest.approx([ROW_S[step.rows] for step in side.steps])
    assert side.tokens_per_second == pytest.approx(39 / side.decode_s)
    assert side.finish == "length"


def test_steps_are_the_rounds() -> None:
    clock = VirtualClock()
    model = timed_model(clock)
    side = write(model, PROMPT, ON, clock)
    with model.generate(PROMPT, config=ON, clock=clock) as generation:
        for _ in generation:
            pass
    assert side.steps is not None
    assert list(side.ids) == generation.ids
    rounds = generation.rounds[1:]
    assert len(rounds) == len(side.steps)
    for step, round_ in zip(side.steps, rounds, strict=True):
        assert step.emitted == len(round_.new_ids)
        for name in ("drafted", "evaluated", "accepted", "depth", "rows", "width", "source", "match_len"):
            assert getattr(step, name) == getattr(round_, name), name
    assert any(step.accepted for step in side.steps), "the toy repeats itself"


def test_both_sides_write_one_text() -> None:
    clock = VirtualClock()
    model = timed_model(clock)
    assert write(model, PROMPT, ON, clock).ids == write(model, PROMPT, OFF, clock).ids
    drawn = load_config(overrides={"temperature": 0.8, "seed": 5, "max_tokens": 40})
    on, off = write(model, PROMPT, drawn, clock), write(model, PROMPT, replace(drawn, drafts=Part("off")), clock)
    assert on.ids == off.ids
    assert on.ids != write(model, PROMPT, replace(drawn, seed=6), clock).ids


def test_a_text_of_one_token() -> None:
    clock = VirtualClock()
    side = write(timed_model(clock), PROMPT, replace(OFF, max_tokens=1), clock)
    assert (side.n_output, side.steps, side.decode_s, side.tokens_per_second) == (1, (), 0.0, 0.0)
