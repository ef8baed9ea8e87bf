"""A published table of speed-ups: its fixed rows explain its adaptive ones, and what the policies must do on its
staircase.

The survival of each workload is fitted to the fixed draft lengths of the table only. Everything is on a virtual clock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import pytest
from cost_curves import SEED, context, curve, data

from surefoot.core.errors import ConfigError
from surefoot.core.ports import Policy
from surefoot.core.types import Round
from surefoot.lab.copying import Copying, fit_copying, speedup, write
from surefoot.lab.oracle import oracle
from surefoot.lab.replay import Trace, plain_s, replay
from surefoot.policies import additive, fixed
from surefoot.policies.goodput import GoodputPolicy
from surefoot.policies.goodput.policy import Options

WORKLOADS = ("chat", "code", "tools")
FIXED = (1, 2, 3, 4, 8)
N_TEXTS, N_TOKENS, N_PROMPT = 40, 256, 720


def measured(row: str, workload: str) -> float:
    return float(data()["speedups_by_config"]["rows"][row][workload])


@dataclass(frozen=True)
class Fitted:
    """A workload as the fixed rows tell it, and texts of it."""

    process: Copying
    traces: tuple[Trace, ...]

    def speed(self, make: Callable[[], Policy]) -> float:
        """Plain seconds by the seconds of a policy, over all texts."""
        seconds = sum(replay(trace, make(), curve(SEED)).seconds for trace in self.traces)
        return sum(plain_s(trace, curve(SEED)) for trace in self.traces) / seconds

    def fixed(self, draft_len: int) -> float:
        return self.speed(lambda: fixed.FixedPolicy(fixed.Options(draft_len)))

    def additive(self, cap: int) -> float:
        return self.speed(lambda: additive.AdditivePolicy(additive.Options(cap)))


@cache
def fitted(workload: str) -> Fitted:
    process = fit_copying({k: measured(f"K={k}", workload) for k in FIXED}, curve(SEED), context(SEED))
    return Fitted(process, tuple(write(process, N_TOKENS, N_PROMPT, seed) for seed in range(N_TEXTS)))


@pytest.mark.parametrize("workload", WORKLOADS)
def test_four_numbers_explain_the_fixed_rows(workload: str) -> None:
    for k in FIXED:
        predicted = speedup(fitted(workload).process, k, curve(SEED), context(SEED))
        assert predicted == pytest.approx(measured(f"K={k}", workload), rel=0.015)


@pytest.mark.parametrize("workload", WORKLOADS)
def test_the_adaptive_rows_are_predicted_within_an_eighth(workload: str) -> None:
    """No fixed row says how long copies last, so this is what can be had; studies/seed-table.md has the residuals."""
    for cap in (5, 7, 8):
        assert fitted(workload).additive(cap) == pytest.approx(measured(f"additive cap {cap}", workload), rel=0.125)


@pytest.mark.parametrize("workload", WORKLOADS)
def test_the_top_of_a_plateau_beats_its_bottom(workload: str) -> None:
    texts = fitted(workload)
    assert texts.fixed(2) > texts.fixed(1)
    assert texts.fixed(3) < texts.fixed(4)


@pytest.mark.parametrize("workload", ["code", "tools"])
def test_a_cap_over_the_step_costs(workload: str) -> None:
    assert fitted(workload).additive(7) > fitted(workload).additive(8)


def test_eight_drafts_lose_on_chat() -> None:
    assert fitted("chat").fixed(8) < 1


@pytest.mark.parametrize("workload", WORKLOADS)
def test_goodput_is_at_least_the_best_fixed_length(workload: str) -> None:
    """Which it is not told, in texts of 256 tokens in which it has to learn everything."""
    texts = fitted(workload)
    best = max(texts.fixed(k) for k in range(1, 9))
    assert texts.speed(lambda: GoodputPolicy(Options(), curve(SEED))) >= best


def test_a_token_is_worth_what_it_lately_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where drafts make the text fast, a doubtful draft must not be paid for at the price of plain decoding."""
    texts, seed = fitted("tools"), curve(SEED)
    book = GoodputPolicy._book

    def plain_price(self: GoodputPolicy, round: Round) -> None:
        book(self, round)
        self._paid = self._got

    found = texts.speed(lambda: GoodputPolicy(Options(), seed))
    monkeypatch.setattr(GoodputPolicy, "_book", plain_price)
    assert found > 1.03 * texts.speed(lambda: GoodputPolicy(Options(), seed))


@pytest.mark.parametrize(
    "process", [Copying(0.02, 18, 0.4, 0.25), Copying(0.3, 3, 1.0, 0.0), Copying(0.05, 30, 0.3, 0.6)], ids=repr
)
def test_the_exact_speed_is_that_of_a_long_text(process: Copying) -> None:
    trace = write(process, 12_000, N_PROMPT, 1)
    for k in (1, 2, 5, 8):
        seconds = replay(trace, fixed.FixedPolicy(fixed.Options(k)), curve(SEED)).seconds
        exact = speedup(process, k, curve(SEED), context(SEED))
        assert plain_s(trace, curve(SEED)) / seconds == pytest.approx(exact, rel=0.03)


def test_the_oracle_is_above_all_of_it() -> None:
    texts = fitted("code")
    plain = sum(plain_s(trace, curve(SEED)) for trace in texts.traces)
    best = plain / sum(oracle(trace, curve(SEED)).seconds for trace in texts.traces)
    assert best > 1.1 * texts.speed(lambda: GoodputPolicy(Options(), curve(SEED)))


def test_too_few_lengths_are_no_table() -> None:
    with pytest.raises(ConfigError, match="4 numbers"):
        fit_copying({1: 1.2, 2: 1.3, 4: 1.1}, curve(SEED), context(SEED))
    with pytest.raises(ConfigError, match="above 0"):
        fit_copying({1: 1.2, 2: 1.3, 4: 1.1, 8: 0.0}, curve(SEED), context(SEED))
