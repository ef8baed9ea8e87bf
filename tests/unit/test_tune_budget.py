"""How long tuning takes, on a virtual clock: on a model of 100 million parameters it ends when it says.

Only forwards take time there. Replaying texts takes none, so what is left below a limit is left for it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from cost_curves import at_two_depths
from tune_world import Machine, tuned

from surefoot.lab.measure import LEAST_TURNS, SPAN
from surefoot.lab.tune import FULL, QUICK, Size

WIDEST = 32


def smollm2(runtime: str, pace: float = 1.0, noise: float = 0.05) -> Machine:
    """SmolLM2-135M as it was measured on two cores, at two depths. Its rounds are too noisy for any interval to become
    narrow, so that it is the time that ends the sweep."""
    cost = at_two_depths(f"{runtime}-200", f"{runtime}-850")

    def forward_s(rows: int, depth: int) -> float:
        return cost.direct_s(min(rows, WIDEST), depth)

    # chosen: a prompt costs what its tokens do in blocks of the widest row count that was measured, at half its depth.
    return Machine(
        cost=forward_s, prefill_s=lambda tokens: forward_s(WIDEST, tokens // 2) * tokens / WIDEST, noise=noise,
        pace=lambda now: pace,
    )  # fmt: skip


def spent_s(machine: Machine, size: Size, folder: Path) -> float:
    """Seconds of its clock after loading, which is told apart."""
    began = machine.now
    found = tuned(machine, folder, size=size, despite_noise=True)
    assert found.path is not None
    assert [each.name for each in found.plan.workloads] == list(size.workloads)
    assert found.plan.sweep is not None
    assert found.plan.sweep.turns >= LEAST_TURNS
    told = sum(seconds for step, seconds in found.seconds.items() if step != "load")
    assert told == pytest.approx(machine.now - began)
    return told


@pytest.mark.parametrize(("size", "limit_s"), [(QUICK, 15.0), (FULL, 60.0)], ids=["quick", "full"])
@pytest.mark.parametrize("runtime", ["ov-stateful-fp32-smol", "llama-Q8_0-smol", "ort-fp32-smol"])
def test_it_ends_in_time(runtime: str, size: Size, limit_s: float, tmp_path: Path) -> None:
    assert spent_s(smollm2(runtime), size, tmp_path) <= limit_s


def test_the_slowest_runtime_takes_no_more_than_the_least_that_a_sweep_needs(tmp_path: Path) -> None:
    """Torch in fp32, 52 ms a row: every part takes its least, and the least is what medians cannot do without."""
    slow = smollm2("torch-fp32-smol135m")
    turn_s = sum(slow.cost(rows, 200 + SPAN) for rows in QUICK.rows)
    assert spent_s(slow, QUICK, tmp_path) <= 15.0 + LEAST_TURNS * turn_s


def test_a_machine_twice_as_slow_stops_at_the_same_time_and_not_after_the_same_work(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("fast", "slow")]
    for folder in folders:
        folder.mkdir()
    fast, slow = smollm2("ort-fp32-smol"), smollm2("ort-fp32-smol", pace=2.0)
    spent_s(fast, FULL, folders[0])
    assert spent_s(slow, FULL, folders[1]) <= 75.0
    assert slow.forwards < 0.8 * fast.forwards


def test_a_quiet_machine_is_done_sooner(tmp_path: Path) -> None:
    """Narrow intervals end the sweep, and not the clock."""
    folders = [tmp_path / name for name in ("quiet", "loud")]
    for folder in folders:
        folder.mkdir()
    quiet = spent_s(smollm2("ov-stateful-fp32-smol", noise=0.001), FULL, folders[0])
    assert quiet < 0.9 * spent_s(smollm2("ov-stateful-fp32-smol"), FULL, folders[1])
