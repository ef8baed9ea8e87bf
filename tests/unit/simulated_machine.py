"""A machine that runs on a virtual clock: it writes texts as a bench has them written, and can be disturbed.

Nothing waits and nothing is measured: a text advances the clock by what its rounds take. What disturbs is a function of
the virtual time, so that it meets references, baselines and arms alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from surefoot.lab.plan import plan
from surefoot.lab.records import SCHEMA, Arm, Conditions, Gate, Pair, PromptUse, Reference, Run, Side, Step
from surefoot.lab.store import Loaded

BASELINE = Gate("baseline", True, 1.0, 0.97, "of the runtime's speed", "ours 27.0 tok/s, the runtime's own 27.1 tok/s")

ALONE = Conditions(others_cpu=0.004, steal_cpu=0.0, load_1min=1.0)


@dataclass
class Machine:
    """A processor at 27 tokens per second; holds the virtual time.

    slow: by what the time of a round is multiplied, at a time. stall: from when a round is late, once, and by how much.
    conditions: what else happens at a time. jitter: of a text; round_jitter: of a round, upwards only.
    """

    seed: int = 0
    slow: Callable[[float], float] = lambda now: 1.0
    stall: tuple[float, float] = (float("inf"), 0.0)
    conditions: Callable[[float], Conditions] = lambda now: ALONE
    jitter: float = 0.01
    round_jitter: float = 0.03
    now: float = 0.0
    rng: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)

    def write(self, n_prompt: int, budget: int, gain: float = 1.0) -> tuple[Side, Conditions]:
        """A text of `budget` tokens; with a gain, in rounds of three rows that accept so many that it is as fast."""
        began = self.now
        text = float(np.exp(self.jitter * self.rng.standard_normal()))
        steps = []
        for at in range(budget - 1):
            seconds = 0.037 * (1 + (n_prompt + at) / 20_000) * self.slow(self.now) * text / gain
            seconds *= float(np.exp(abs(self.round_jitter * self.rng.standard_normal())))
            lost = 0.0
            if self.now >= self.stall[0]:
                lost, self.stall = self.stall[1], (float("inf"), 0.0)
            steps.append(Step(0, 0, 0, 1, n_prompt + at, 1, 1, 0.0, seconds * 0.99 + lost, 1e-5, 1e-5))
            self.now += seconds + lost
        side = Side(tuple(range(budget)), budget, "length", 0.5, self.now - began, steps)
        self.now += 1.0
        return side, self.conditions((began + self.now) / 2)


def bench(
    machine: Machine,
    *,
    turns: int = 6,
    workloads: Sequence[str] = ("chat", "code"),
    budgets: Sequence[int] = (24, 32),
    prompts: int = 6,
    gain: float = 1.0,
    band: tuple[float, float] | None = None,
    repeats: int = 2,
    arms: int = 1,
) -> Loaded:
    """A whole run, A/A where nothing is gained: the references, then pairs in turns, each on the next prompt."""
    uses = [
        PromptUse(
            f"{workload}-{i}", workload, "surefoot", 40 + (0, 240, 120, 300, 60, 180)[i % 6] + 300 * w, f"{workload}{i}"
        )
        for w, workload in enumerate(workloads)
        for i in range(prompts)
    ]
    run = Run(
        SCHEMA, "0", "2026-03-05T09:10:00Z", ("bench",), {}, {"cores": 2}, {}, machine.seed,
        tuple(Arm(f"arm{n}", "drafts") for n in range(arms)), uses,
        dict.fromkeys(workloads, "00"), budgets, turns, band,
    )  # fmt: skip
    began = machine.now
    references, pairs = [], []
    for _ in range(repeats):
        for use in uses[::prompts]:
            for budget in budgets:
                at_s = machine.now - began
                side, conditions = machine.write(use.n_tokens, budget)
                references.append(Reference(use.id, budget, at_s, side, conditions))
    lengths = {use.id: use.n_tokens for use in uses}
    off_at, off = 0.0, (references[0].off, references[0].conditions)
    for planned in plan(run):
        n_prompt, shared = lengths[planned.prompt], planned.shared
        at_s = off_at if shared else machine.now - began
        if planned.first == "on":
            on = machine.write(n_prompt, planned.budget, gain)
        if not shared:
            off_at, off = machine.now - began, machine.write(n_prompt, planned.budget)
        if planned.first == "off":
            on = machine.write(n_prompt, planned.budget, gain)
        pair = Pair(
            planned.number, planned.arm, planned.workload, planned.prompt, planned.budget, at_s, planned.first,
            off[0], on[0], off[1], on[1], shared,
        )  # fmt: skip
        pairs.append(pair)
    return Loaded(run, (BASELINE,), tuple(references), tuple(pairs), (), None, False)
