"""Records of runs that never happened, for tests of what reads records: every text simulated round by round.

Nothing here is measured. The costs and chances are those of a small model on two cores, so that what is worked out from
them looks as a real run does: code gains, chat does not, the baseline collapses once and another process comes by.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.lab import codec
from surefoot.lab.records import SCHEMA, Arm, Conditions, End, Gate, Pair, PromptUse, Reference, Run, Side, Step

CHANCES: Mapping[str, tuple[float, float, float]] = {
    "chat": (0.40, 0.12, 0.20),
    "code": (0.92, 0.90, 0.93),
    "summary": (0.62, 0.60, 0.66),
    "question": (0.45, 0.45, 0.55),
    "translation": (0.28, 0.24, 0.30),
}
"""By workload: the chance that there is a draft, that its first token holds, and that each later one does."""

ROW_MS = (0.0, 13.7, 15.9, 16.8, 17.5, 19.0, 20.6, 23.8, 24.9, 28.3, 29.9)
"""Milliseconds of a forward by its rows."""

ARMS = (
    Arm("ngram/additive", "drafts", {"name": "ngram", "max_n": 3}, {"name": "additive", "cap": 7}),
    Arm("ngram/fixed:draft_len=4", "drafts", {"name": "ngram", "max_n": 3}, {"name": "fixed", "draft_len": 4}),
    Arm(
        "peer:draft_len=5", "peer", peer={"draft_len": 5},
        chosen="the best of 2, 3, 5, 8 on 4 other prompts",
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """What is varied between tests. `excluded` plants pairs that ran while the machine was disturbed."""

    seed: int = 1
    workloads: Sequence[str] = tuple(CHANCES)
    budgets: Sequence[int] = (256, 512)
    arms: Sequence[Arm] = ARMS
    prompts: int = 3
    repeats: int = 3
    runtime: str = "openvino"
    baseline: float = 1.02
    excluded: bool = True
    sensors: bool = False
    ended: bool = True
    band: tuple[float, float] | None = None
    noise: float = 0.012
    model: Mapping[str, Any] = field(default_factory=dict)


def records(plan: Plan | None = None) -> list[Any]:
    """A whole run, the `Run` first."""
    return list(_records(plan or Plan()))


def write(path: Path, plan: Plan | None = None) -> Path:
    """The run as a record file."""
    path.write_bytes(b"".join(codec.encode(record) for record in records(plan)))
    return path


def _records(plan: Plan) -> Iterator[Any]:
    run = _run(plan)
    yield run
    yield from _gates(plan)
    writer = _Writer(plan)
    at_s = 30.0
    for use in run.prompts:
        for budget in plan.budgets:
            off = writer.plain(use, budget, 1.0)
            yield Reference(use.id, budget, at_s, off, writer.conditions())
            at_s += off.prefill_s + off.decode_s
    number = 0
    for _ in range(plan.repeats):
        for use in run.prompts:
            for budget in plan.budgets:
                for arm in plan.arms:
                    pair = writer.pair(number, arm, use, budget, at_s)
                    yield pair
                    at_s += sum(side.prefill_s + side.decode_s for side in (pair.off, pair.on))
                    number += 1
    if plan.ended:
        yield End("2026-03-05T11:02:44Z", "complete")


def _run(plan: Plan) -> Run:
    prompts = [
        PromptUse(
            f"{workload}-{number}", workload, "surefoot" if number % 2 else "spec-bench",
            160 + 90 * number, _hash(f"{workload}{number}"),
        )
        for workload in plan.workloads
        for number in range(1, plan.prompts + 1)
    ]  # fmt: skip
    packages = {"torch": None, "transformers": "5.24.0", "openvino": "2026.1.0", "openvino-genai": "2026.1.0"}
    model = {
        "model": "smollm2-135m",
        "path": "/models/smollm2-135m",
        "format": "openvino",
        "runtime": plan.runtime,
        "device": "CPU",
        "discipline": "stale",
        "row_class": "identical",
        "context": 8192,
        "vocabulary": 49152,
        "settings": {"weights": "fp16", "threads": "2", "kv_cache_precision": "f16"},
        "identity": _hash("weights"),
    }
    return Run(
        schema=SCHEMA,
        surefoot="0.1.0",
        when="2026-03-05T09:10:00Z",
        command=("bench", "smollm2-135m", "--runtime", plan.runtime, "--peer", "--budgets", "256,512"),
        model={**model, **plan.model},
        machine={
            "cpu": "Intel(R) Xeon(R) Processor @ 2.60GHz",
            "cores": 2,
            "os": "Linux-6.8.0-x86_64-with-glibc2.36",
            "python": "3.11.9",
            "numpy": "2.2.1",
            "packages": packages,
            "memory_bytes": 8_321_499_136,
            "virtual": True,
            "governor": None,
            "absent": ["governor"] if plan.sensors else ["frequency_mhz", "governor", "temperature_c"],
            "fingerprint": _hash("machine")[:16],
        },
        sampling={"temperature": 0.0, "top_k": 0, "top_p": 1.0},
        seed=plan.seed,
        arms=plan.arms,
        prompts=prompts,
        workloads={workload: _hash(workload) for workload in plan.workloads},
        budgets=plan.budgets,
        pairs_wanted=plan.prompts * plan.repeats,
        band=plan.band,
    )


def _gates(plan: Plan) -> Iterator[Gate]:
    yield Gate(
        "rows", True, 0.0, 0.0, "rows that differ", "0 of 408 rows differ from single rows; the rows are identical",
        {"row_class": "identical", "rows": 408},
    )  # fmt: skip
    yield Gate("lossless", True, 0, 0, "texts that differ", "12 texts with drafts equal 12 without, token for token")
    ours = f"{71.3 * plan.baseline:.1f}"
    yield Gate(
        "baseline", plan.baseline >= 0.97, plan.baseline, 0.97, "of the runtime's speed",
        f"our plain decoding {ours} tok/s, the runtime's own generate 71.3 tok/s",
        {"ours_tok_s": 71.3 * plan.baseline, "vendor_tok_s": 71.3},
    )  # fmt: skip
    yield Gate("contamination", True, 0.0, 0.0, "largest score difference", "36 rejected drafts left no trace")


class _Writer:
    """Texts that are simulated with one stream of random numbers. Holds where in that stream it is."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.rng = np.random.default_rng(plan.seed)

    def conditions(self, others: float = 0.01) -> Conditions:
        heat = {"frequency_mhz": 2600.0, "temperature_c": 61.0 + self.rng.normal()} if self.plan.sensors else {}
        return Conditions(others_cpu=others + 0.004 * self.rng.random(), steal_cpu=0.002, load_1min=1.1, **heat)

    def pair(self, number: int, arm: Arm, use: PromptUse, budget: int, at_s: float) -> Pair:
        throttled = self.plan.excluded and number % 41 == 17
        contended = self.plan.excluded and number % 67 == 29
        slow_off = 1.8 if throttled else 1.0
        slow_on = 1.5 if contended else 1.0
        off = self.plain(use, budget, slow_off)
        if arm.kind == "off":
            on = self.plain(use, budget, slow_on)
        elif arm.kind == "peer":
            on = replace(self.drafted(arm, use, budget, slow_on * 1.12, off.ids), steps=None)
        else:
            on = self.drafted(arm, use, budget, slow_on, off.ids)
        return Pair(
            number, arm.label, use.workload, use.id, budget, round(at_s, 3), "on" if number % 2 else "off", off, on,
            self.conditions(), self.conditions(0.46 if contended else 0.01),
        )  # fmt: skip

    def plain(self, use: PromptUse, budget: int, slow: float) -> Side:
        slow *= self.wobble()
        steps = [self.step(0, 0, use.n_tokens + at, slow) for at in range(budget - 1)]
        return self.side(use, budget, steps, self.ids(use, budget))

    def drafted(self, arm: Arm, use: PromptUse, budget: int, slow: float, ids: Sequence[int]) -> Side:
        there, first, later = CHANCES.get(use.workload, CHANCES["question"])
        steps: list[Step] = []
        slow *= self.wobble()
        emitted, length = 1, int(arm.policy.get("draft_len", arm.peer.get("draft_len", 1)))
        while emitted < budget:
            room = budget - emitted - 1
            drafted = min(length, room, 9) if self.rng.random() < there else 0
            accepted = 0
            while accepted < drafted and self.rng.random() < (first if accepted == 0 else later):
                accepted += 1
            steps.append(self.step(drafted, accepted, use.n_tokens + emitted, slow))
            emitted += accepted + 1
            if arm.policy.get("name") == "additive" and drafted:
                length = min(length + 2, int(arm.policy["cap"])) if accepted == drafted else max(length - 1, 1)
        return self.side(use, budget, steps, ids)

    def wobble(self) -> float:
        return float(1 + self.plan.noise * self.rng.normal())

    def step(self, drafted: int, accepted: int, depth: int, slow: float) -> Step:
        rows = drafted + 1
        return Step(
            drafted, drafted, accepted, accepted + 1, depth, rows, rows,
            draft_s=9e-6 if drafted else 2e-6,
            extend_s=ROW_MS[rows] * 1e-3 * slow * self.wobble() * (1 + depth / 9000),
            judge_s=28e-6 + 4e-6 * rows, commit_s=15e-6,
            source="ngram" if drafted else "", match_len=2 if drafted else 0,
        )  # fmt: skip

    def side(self, use: PromptUse, budget: int, steps: Sequence[Step], ids: Sequence[int]) -> Side:
        spent = sum(step.draft_s + step.extend_s + step.judge_s + step.commit_s + 20e-6 for step in steps)
        return Side(ids, budget, "length", 0.0016 * use.n_tokens, spent, steps)

    def ids(self, use: PromptUse, budget: int) -> list[int]:
        """The same for the same prompt, whoever writes."""
        own = np.random.default_rng(int(use.identity[:8], 16))
        return [int(token) for token in own.integers(0, 49152, budget)]


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
