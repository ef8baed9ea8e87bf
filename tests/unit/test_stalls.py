"""Forwards that took far longer than others are counted, and a pause before drafts is kept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from timed_toy import ROW_S, VirtualClock, timed_model

from surefoot.app.cli.generate import summary
from surefoot.core.errors import ConfigError
from surefoot.core.types import Draft, Round, as_ids
from surefoot.engine.config import Config, Part, load_config
from surefoot.engine.generator import Generation
from surefoot.engine.pauses import Paused
from surefoot.engine.stats import ENOUGH, STALL, stalls, summarise


def round_of(extend_s: float, width: int = 1) -> Round:
    return Round((1,), 0, 0, 0, 10, width, width, extend_s=extend_s)


def test_a_forward_that_waits_is_a_stall_and_what_it_lost_is_told() -> None:
    rounds = [round_of(0.01) for _ in range(20)]
    rounds[7] = round_of(0.25)
    assert stalls(rounds) == [pytest.approx(0.24)]
    stats = summarise(5, [round_of(9.0), *rounds], [9.0, *(r.extend_s for r in rounds)], "length")
    assert (stats.stalls, stats.stalled_s) == (1, pytest.approx(0.24))


def test_wider_blocks_are_compared_with_their_like() -> None:
    assert stalls([*(round_of(0.01) for _ in range(20)), *(round_of(0.09, 8) for _ in range(9))]) == []
    assert len(stalls([*(round_of(0.01, 8) for _ in range(20)), round_of(0.09, 8)])) == 1


def test_a_growing_cache_and_a_few_forwards_are_no_stall() -> None:
    assert stalls([round_of(0.01 + at * 0.0001) for at in range(200)]) == []
    assert stalls([round_of(0.01)] * (ENOUGH - 2) + [round_of(1.0)]) == []
    assert len(stalls([round_of(0.01)] * (ENOUGH - 1) + [round_of(0.01 * STALL)])) == 1
    assert stalls([round_of(0.0)] * 20) == []


class Guess:
    needs = None

    def begin(self, prompt: object, root: int, scores: object) -> None:
        self.prompt = prompt

    def propose(self, budget: int) -> Draft:
        return Draft(as_ids(range(budget)))

    def observe(self, new_ids: object, scores: object) -> None:
        self.seen = new_ids


def test_a_pause_comes_before_each_draft_and_changes_nothing_else() -> None:
    slept: list[float] = []
    guess = Guess()
    paused = Paused(guess, 0.003, slept.append)  # type: ignore[arg-type]
    paused.begin(as_ids([1]), 2, None)  # type: ignore[arg-type]
    assert slept == []
    assert np.array_equal(paused.propose(3).ids, [0, 1, 2])
    paused.observe((5,), None)  # type: ignore[arg-type]
    assert (slept, guess.seen, len(guess.prompt)) == ([0.003], (5,), 1)  # type: ignore[arg-type]


def test_a_pause_is_a_part_of_a_second() -> None:
    assert load_config(overrides={"draft_gap_s": 0.003}).draft_gap_s == 0.003
    with pytest.raises(ConfigError, match="draft_gap_s must be between 0 and 1 second"):
        load_config(overrides={"draft_gap_s": 2.0})


def written(clock: VirtualClock, config: Config) -> Generation:
    generation = timed_model(clock).generate([1, 2, 3], config=config, clock=clock)
    assert list(generation)
    return generation


def test_the_line_of_statistics_tells_of_a_stall_and_of_none() -> None:
    forwards = iter(range(1000))
    config = Config(drafts=Part("off"), max_tokens=40)
    stalled = written(VirtualClock(slow=lambda now: 30.0 if next(forwards) == 20 else 1.0), config)
    assert (stalled.stats().stalls, stalled.stats().stalled_s) == (1, pytest.approx(29 * ROW_S[1]))
    assert "; 1 stalled forwards, 0.29 s lost; " in summary(stalled, config, "identical")
    assert "stalled" not in summary(written(VirtualClock(), config), config, "identical")


def test_the_pause_is_kept_before_every_draft_of_a_text(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, config = VirtualClock(), Config(max_tokens=40)
    monkeypatch.setattr("time.sleep", clock.sleep)
    paused = written(clock, replace(config, draft_gap_s=0.003))
    asked = [round_ for round_ in paused.rounds[1:] if round_.draft_s]
    assert clock.slept == [0.003] * len(asked)
    assert len(asked) > 2
    assert all(round_.draft_s == pytest.approx(0.003) for round_ in asked)
    assert paused.ids == written(VirtualClock(), config).ids
