"""The sweep is unbiased on machines that are noisy, drift, stall, flip their mode or throttle; and says that they
did."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from surefoot.core.errors import ConfigError
from surefoot.core.plateaus import staircase
from surefoot.core.types import Ids, as_ids
from surefoot.lab import measure as module
from surefoot.lab.measure import LEAST_TURNS, MOST_TURNS, SPAN, WARM, Progress, Sweep, measure
from surefoot.lab.steadiness import OUTLIER, Sample, corrected, steadiness, turn_paces
from surefoot.targets.toy import Options, ToyTarget

ROWS = (*range(1, 11), 12, 16)
DEPTHS = (16, 64)
TEXT = as_ids(np.random.default_rng(0).integers(0, 24, 64 + SPAN + 17))
ROLLBACK_S = 0.002


def truth(rows: int, depth: int) -> float:
    """Seconds of a round on this machine: a staircase, dearer the deeper and the wider, and a rollback."""
    level = 0.020 if rows <= 3 else 0.029 if rows <= 8 else 0.046
    return level + 2e-5 * depth * (1 + rows / 8) + ROLLBACK_S


@dataclass
class Machine:
    """A clock that the rounds of its sessions move. pace(busy): how many times slower it is when it has done what takes
    so many seconds at its usual pace; noise: of each round."""

    pace: Callable[[float], float] = lambda busy: 1.0
    noise: float = 0.0
    stalls: float = 0.0
    reset_s: float = 100.0  # nobody may count this
    seed: int = 0
    now: float = 50.0
    busy: float = 0.0
    opened: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        self.target = ToyTarget(Options(vocab_size=24, max_length=4096, max_rows=32))

    def clock(self) -> float:
        return self.now

    def spend(self, seconds: float) -> None:
        slow = self.pace(self.busy) * float(np.exp(self.rng.normal(0, self.noise)))
        took = seconds * slow * (20.0 if self.rng.random() < self.stalls else 1.0)
        self.now += took
        self.busy += seconds

    def open(self) -> Any:
        self.opened.append(Timed(self))
        return self.opened[-1]


class Timed:
    """A toy session whose work takes time on its machine. The forward is done when the host reads it, not before."""

    def __init__(self, machine: Machine) -> None:
        self._inner, self._machine, self._due = machine.target.open(), machine, 0.0
        self.blocks: list[tuple[int, list[int]]] = []
        self.closed = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def prefill(self, ids: Ids) -> Any:
        self._machine.spend(0.001 * len(ids))
        return self._inner.prefill(ids)

    def extend(self, block: Ids) -> Any:
        self.blocks.append((self._inner.length, block.tolist()))
        self._due = truth(len(block), self._inner.length) - ROLLBACK_S
        return Late(self, self._inner.extend(block))

    def settle(self) -> None:
        self._machine.spend(self._due)
        self._due = 0.0

    def commit(self, keep: int) -> None:
        self._machine.spend(ROLLBACK_S)
        self._inner.commit(keep)

    def reset(self, keep: int = 0) -> None:
        self._machine.now += self._machine.reset_s
        self._inner.reset(keep)

    def close(self) -> None:
        self.closed = True


class Late:
    """Scores of a forward that runs when they are asked for."""

    def __init__(self, session: Timed, scores: Any) -> None:
        self._session, self._scores = session, scores

    def argmax(self) -> Any:
        self._session.settle()
        return self._scores.argmax()


def sweep(machine: Machine, **options: Any) -> Sweep:
    return measure(machine.open, TEXT, machine.clock, rows=ROWS, depths=DEPTHS, **{"limit_s": 1e9, **options})


def misses(found: Sweep) -> np.ndarray:
    """Relative error of c_v(S), by row count and depth."""
    curve = found.curve()
    return np.asarray(
        [
            curve.relative(rows, depth) / (truth(rows, depth + SPAN // 2) / truth(1, depth + SPAN // 2)) - 1
            for rows in ROWS[1:]
            for depth in DEPTHS
        ]
    )


def test_on_a_quiet_machine_it_is_exact_and_stops_at_once() -> None:
    machine = Machine()
    found = sweep(machine)
    assert found.stopped == "narrow"
    assert found.wide == ()
    assert max(sample.turn for sample in found.samples) == LEAST_TURNS - 1
    curve = found.curve(host_s=0.0005, can_pad=True)
    for rows in ROWS:
        for depth in DEPTHS:
            # The depth grows by a token a round, up to SPAN.
            assert truth(rows, depth) <= curve.direct_s(rows, depth) <= truth(rows, depth + SPAN + 1)
    assert (curve.host_s, curve.can_pad) == (0.0005, True)
    assert staircase(curve, 16).tops[:2] == (2, 7)
    assert found.steadiness().kind == "steady"
    assert all(session.closed for session in machine.opened)


def troubled(pace: Callable[[float], float], turns: int, stalls: float, seed: int) -> Machine:
    """A machine of this pace over a sweep of so many turns, 0 at its beginning and 1 at its end."""
    turn_s = sum(truth(rows, depth) for rows in ROWS for depth in DEPTHS)
    return Machine(lambda busy: pace((busy / turn_s - WARM) / turns), 0.03, stalls, seed)


@pytest.mark.parametrize("turns", [LEAST_TURNS, 20])
@pytest.mark.parametrize(
    ("pace", "stalls", "kind"),
    [
        pytest.param(lambda done: 1.0, 0.0, "steady", id="noise"),
        pytest.param(lambda done: 1.0, 0.02, "steady", id="stalls"),
        pytest.param(lambda done: 1 + max(0.0, done) / 3, 0.0, "drift", id="drift"),
        pytest.param(lambda done: 1.4 if done > 0.45 else 1.0, 0.0, "throttled", id="throttle"),
        pytest.param(lambda done: 2.0 if done > 0.45 else 1.0, 0.0, "shift", id="slower"),
        pytest.param(lambda done: 1.0 if done > 0.55 else 2.0, 0.0, "shift", id="quicker"),
        pytest.param(lambda done: 2.0 if 0.25 < done < 0.6 else 1.0, 0.0, "two modes", id="flip"),
    ],
)
def test_relative_costs_are_unbiased_and_the_machine_is_told(
    pace: Callable[[float], float], stalls: float, kind: str, turns: int
) -> None:
    """Over a sweep of seven turns, as most are, and over one that is long enough to see what the machine did."""
    errors, kinds = [], []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "LEAST_TURNS", turns)
        for seed in range(8):
            found = sweep(troubled(pace, turns, stalls, seed))
            errors.append(misses(found))
            kinds.append(found.steadiness().kind)
    # Of seven turns, the one within which the pace changes is a seventh.
    assert np.abs(np.mean(errors)) < (0.01 if turns > LEAST_TURNS else 0.015)
    assert np.quantile(np.abs(errors), 0.95) < 0.05
    assert kinds.count(kind) >= 6


def test_uncorrected_a_throttle_would_have_bent_the_curve() -> None:
    """What the correction is for: the same samples, each taken as it is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "LEAST_TURNS", 20)
        found = sweep(Machine(lambda busy: 1.6 if busy > 9 else 1.0, 0.03, seed=1))
        patch.setattr(module, "turn_paces", lambda samples: dict.fromkeys(range(MOST_TURNS), 1.0))
        raw = misses(found)
    assert np.abs(raw).max() > 2 * np.abs(misses(found)).max()


def test_stalls_are_kept_and_named() -> None:
    found = sweep(Machine(stalls=0.03, seed=2))
    seen = found.steadiness()
    slow = [sample for sample in found.samples if sample.seconds > 0.2]
    assert slow
    assert set(slow) <= {each.sample for each in seen.outliers}
    times = [each.times for each in seen.outliers]
    assert times == sorted(times, reverse=True)
    assert times[-1] > OUTLIER
    assert seen.stalls >= len([sample for sample in slow if sample.seconds > 0.3])
    assert found.curve().direct_s(4, 16) == pytest.approx(truth(4, 24), rel=0.02)


def test_samples_that_fall_into_two_groups_are_no_basis() -> None:
    rng = np.random.default_rng(0)
    found = sweep(Machine(lambda busy: float(rng.choice([1.0, 2.0])), 0.01))
    assert found.steadiness().kind == "restless"
    assert not found.steadiness().steady
    assert found.stopped == "turns"
    assert found.wide


def test_a_machine_that_flips_from_round_to_round_is_restless() -> None:
    """Three rounds of ten take twice as long: the median of a turn does not show it."""
    rng = np.random.default_rng(0)
    found = sweep(Machine(lambda busy: float(rng.choice([1.0, 2.0], p=[0.7, 0.3])), 0.01))
    assert found.steadiness().kind == "restless"
    assert "two groups" in found.steadiness().text


def test_noisy_row_counts_get_more_samples_than_quiet_ones() -> None:
    class Picky(Machine):
        def spend(self, seconds: float) -> None:
            wide = seconds > 0.04
            self.now += seconds * float(np.exp(self.rng.normal(0, 0.15 if wide else 0.003)))

    found = sweep(Picky())
    counts = {rows: sum(sample.rows == rows for sample in found.samples) for rows in ROWS}
    assert counts[12] > 2 * counts[4]
    assert counts[1] == max(counts.values())  # the pace of every turn


def test_the_time_limit_is_kept_but_for_the_turns_that_medians_need() -> None:
    machine = Machine(noise=0.3)
    found = sweep(machine, limit_s=12.0)
    assert found.stopped == "time"
    assert found.wide
    turn_s = sum(truth(rows, depth) for rows in ROWS for depth in DEPTHS)
    short = sweep(Machine(noise=0.3), limit_s=0.0)
    assert max(sample.turn for sample in short.samples) == LEAST_TURNS - 1
    assert short.seconds < 100.0 * len(DEPTHS) * 10 + 20 * turn_s


def test_the_order_is_random_and_blocks_are_the_real_text() -> None:
    machine = Machine()
    found = sweep(machine, seed=3)
    first, second = ([(s.rows, s.depth) for s in found.samples if s.turn == turn] for turn in (0, 1))
    assert sorted(first) == sorted(second)
    assert first != second
    assert first != sorted(first)
    for session in machine.opened:
        for length, block in session.blocks:
            assert block == TEXT[length : length + len(block)].tolist()
    assert {len(block) for length, block in machine.opened[0].blocks} == set(ROWS)
    again = sweep(Machine(), seed=3)
    assert [(s.rows, s.depth) for s in again.samples] == [(s.rows, s.depth) for s in found.samples]


def test_the_first_rounds_of_a_shape_are_apart() -> None:
    class Compiling(Timed):
        def extend(self, block: Ids) -> Any:
            first = len(block) not in {len(each) for _, each in self.blocks}
            scores = super().extend(block)
            self._due += 5.0 * first
            return scores

    machine = Machine()
    found = measure(lambda: Compiling(machine), TEXT, machine.clock, rows=ROWS, depths=DEPTHS, limit_s=1e9)
    assert found.warm_s > 5.0 * len(ROWS) * len(DEPTHS)
    assert max(sample.seconds for sample in found.samples) < 1.0


def test_a_sweep_that_was_cut_short_goes_on_with_its_turns() -> None:
    whole = sweep(Machine(noise=0.02, seed=5))
    turns: list[Sequence[Sample]] = []

    def cut(samples: Sequence[Sample]) -> None:
        turns.append(samples)
        if len(turns) == 3:
            raise KeyboardInterrupt

    machine = Machine(noise=0.02, seed=5)
    with pytest.raises(KeyboardInterrupt):
        sweep(machine, keep=cut)
    assert all(session.closed for session in machine.opened)
    kept = [sample for turn in turns for sample in turn]
    assert kept == list(whole.samples[: len(kept)])
    fresh: list[Sample] = []
    again = sweep(Machine(noise=0.02, seed=6), before=kept, keep=fresh.extend)
    assert list(again.samples) == kept + fresh
    assert {sample.turn for sample in fresh} == set(range(3, max(sample.turn for sample in again.samples) + 1))
    assert max(sample.turn for sample in again.samples) >= LEAST_TURNS - 1
    assert np.abs(misses(again)).max() < 0.05


def test_shapes_that_were_used_before_need_less_warming_up() -> None:
    rounds = {used: [b for session in opened(used) for _, b in session.blocks] for used in (0, 4, 99)}
    assert len(rounds[0]) - len(rounds[99]) == len(ROWS) * len(DEPTHS)
    assert len(rounds[0]) - len(rounds[4]) == 4 * len(DEPTHS)
    assert sum(len(block) > 4 for block in rounds[4]) == sum(len(block) > 4 for block in rounds[0])


def opened(used_rows: int) -> list[Timed]:
    machine = Machine()
    sweep(machine, used_rows=used_rows)
    return machine.opened


def test_progress_is_shown() -> None:
    shown: list[Progress] = []
    found = sweep(Machine(), show=shown.append, limit_s=1000.0)
    assert [each.turn for each in shown] == [0] * WARM * len(DEPTHS) + list(range(1, LEAST_TURNS + 1))
    assert shown[-1].wide == 0
    assert [each.left_s for each in shown[: WARM * len(DEPTHS)]] == [None] * WARM * len(DEPTHS)
    assert shown[-1].left_s == 0.0
    assert found.seconds > 0


@pytest.mark.parametrize("limit_s", [0.0, 5.0, 12.0])
def test_a_sweep_ends_when_it_says_or_sooner(limit_s: float) -> None:
    """Seven turns take 6 s here, whatever the time."""
    machine, told = Machine(noise=0.1, reset_s=0.0), []
    sweep(machine, show=lambda each: told.append((machine.now, each.left_s)), limit_s=limit_s)
    left = [(at, left_s) for at, left_s in told if left_s is not None]
    assert len(left) >= LEAST_TURNS
    assert all(at + left_s >= machine.now for at, left_s in left)


@pytest.mark.parametrize(
    ("rows", "depths", "says"),
    [
        ((2, 3), (16,), "row count 1"),
        ((), (16,), "row count 1"),
        ((1, 2), (0,), "depths of at least 1"),
        ((1, 2), (500,), "text of 535"),
    ],
)
def test_sweeps_that_cannot_be_are_refused(rows: Sequence[int], depths: Sequence[int], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        measure(Machine().open, TEXT, lambda: 0.0, rows=rows, depths=depths)


def test_sessions_are_closed_when_a_runtime_fails() -> None:
    machine = Machine()

    def broken() -> Any:
        session = machine.open()
        if len(machine.opened) == 2:
            session.prefill = None
        return session

    with pytest.raises(TypeError):
        measure(broken, TEXT, machine.clock, rows=ROWS, depths=DEPTHS)
    assert machine.opened[0].closed


def test_paces_and_costs_are_told_apart() -> None:
    """By hand: turns 3, 4 and 5 were twice as slow as the others."""
    costs = {1: 1.0, 2: 3.0, 4: 5.0}
    paces = {turn: 2.0 if 3 <= turn <= 5 else 1.0 for turn in range(9)}
    samples = [Sample(turn, rows, 8, 0.0, cost * pace) for turn, pace in paces.items() for rows, cost in costs.items()]
    assert turn_paces(samples) == pytest.approx(paces)
    for (rows, _), seconds in corrected(samples, turn_paces(samples)).items():
        assert seconds == pytest.approx([costs[rows]] * 9)
    assert steadiness(samples).slowest == pytest.approx(2.0)
    assert steadiness(samples).kind == "two modes"


@pytest.mark.parametrize("n_turns", [LEAST_TURNS, 12])
@pytest.mark.parametrize(
    ("before", "after", "kind", "says"),
    [
        (1.0, 2.0, "shift", "became 2.0 times slower at once: a mode of the process, or heat"),
        (2.0, 1.0, "shift", "became 2.0 times quicker at once: a mode of the process, or heat"),
        (1.0, 1.4, "throttled", "became 1.4 times slower and stayed so: let it cool down"),
        (1.4, 1.0, "drift", "changed by 40%"),
    ],
)
def test_a_change_that_comes_once_is_told_by_its_size(
    before: float, after: float, kind: str, says: str, n_turns: int
) -> None:
    paces = [before if turn < n_turns // 2 else after for turn in range(n_turns)]
    samples = [Sample(turn, rows, 8, 0.0, rows * pace) for turn, pace in enumerate(paces) for rows in (1, 2, 4)]
    found = steadiness(samples)
    assert found.kind == kind
    assert says in found.text
    assert ("new process" in found.text) == (kind == "shift")


def test_a_noisy_machine_is_not_called_a_changing_one() -> None:
    kinds = [sweep(Machine(noise=0.15, stalls=0.02, seed=seed)).steadiness().kind for seed in range(4)]
    assert kinds.count("steady") >= 2
    assert set(kinds) <= {"steady", "drift"}
