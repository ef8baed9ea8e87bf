"""Small records for tests: a run of two arms on two prompts, and texts of a few rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from surefoot.lab.records import (
    SCHEMA,
    Arm,
    Conditions,
    End,
    Gate,
    Pair,
    PromptUse,
    Record,
    Reference,
    Resumed,
    Run,
    Side,
    Step,
)
from surefoot.lab.store import Store

QUIET = Conditions(others_cpu=0.01, steal_cpu=0.0, load_1min=1.0, frequency_mhz=2600.0, temperature_c=None)

BASELINE = Gate("baseline", True, 1.01, 0.97, "of the runtime's speed", "ours 71.3 tok/s, the runtime's own 70.6 tok/s")


def run(**changed: Any) -> Run:
    """A run of `ngram` and `peer` on chat and code, at 64 tokens."""
    fields: dict[str, Any] = {
        "schema": SCHEMA,
        "surefoot": "0.1.0",
        "when": "2026-03-05T09:10:00Z",
        "command": ("bench", "toy"),
        "model": {"model": "toy", "settings": {"threads": 1}, "identity": "00"},
        "machine": {"cpu": "virtual", "cores": 2},
        "sampling": {"temperature": 0.0},
        "seed": 1,
        "arms": (
            Arm("ngram", "drafts", {"name": "ngram", "max_n": 3}, {"name": "fixed", "draft_len": 3}),
            Arm("peer", "peer", peer={"draft_len": 4}, chosen="the best of 2 and 4 on 2 other prompts"),
        ),
        "prompts": (
            PromptUse("chat-1", "chat", "surefoot", 40, "a1"),
            PromptUse("code-1", "code", "surefoot", 90, "c1"),
        ),
        "workloads": {"chat": "aa", "code": "cc"},
        "budgets": (64,),
        "pairs_wanted": 6,
        "band": None,
    }
    return Run(**{**fields, **changed})


def step(drafted: int = 0, accepted: int = 0, emitted: int | None = None, **changed: Any) -> Step:
    """A round that scored `drafted` tokens in 20 ms."""
    fields: dict[str, Any] = {
        "drafted": drafted,
        "evaluated": drafted,
        "accepted": accepted,
        "emitted": accepted + 1 if emitted is None else emitted,
        "depth": 40,
        "rows": drafted + 1,
        "width": drafted + 1,
        "draft_s": 0.001,
        "extend_s": 0.016,
        "judge_s": 0.002,
        "commit_s": 0.0005,
        "source": "ngram" if drafted else "",
        "match_len": 2 if drafted else 0,
    }
    return Step(**{**fields, **changed})


def side(steps: Sequence[Step] | None = None, ids: Sequence[int] | None = None, **changed: Any) -> Side:
    """A text of these rounds; 20 plain ones where none are given."""
    steps = (step(),) * 20 if steps is None else tuple(steps)
    n = 1 + sum(each.emitted for each in steps)
    fields: dict[str, Any] = {
        "ids": tuple(range(n)) if ids is None else tuple(ids),
        "n_output": n,
        "finish": "length",
        "prefill_s": 0.05,
        "decode_s": 0.02 * len(steps),
        "steps": steps,
    }
    return Side(**{**fields, **changed})


def pair(number: int = 0, **changed: Any) -> Pair:
    """A pair of `ngram` on chat."""
    fields: dict[str, Any] = {
        "number": number,
        "arm": "ngram",
        "workload": "chat",
        "prompt": "chat-1",
        "budget": 64,
        "at_s": 10.0 * number,
        "first": "on" if number % 2 else "off",
        "off": side(),
        "on": side((step(3, 1),) * 10),
        "off_conditions": QUIET,
        "on_conditions": QUIET,
    }
    return Pair(**{**fields, **changed})


def reference(**changed: Any) -> Reference:
    """A reference of chat."""
    fields: dict[str, Any] = {"prompt": "chat-1", "budget": 64, "at_s": 0.0, "off": side(), "conditions": QUIET}
    return Reference(**{**fields, **changed})


RECORDS: tuple[Record, ...] = (
    Gate("rows", True, 0.0, -1.5, "rows", "no row differs", {"row_class": "identical", "deep": [1, None, {"a": 0.5}]}),
    reference(off=side((step(),) * 3)),
    pair(0, off=side((step(),) * 3), on=side((step(3, 1),) * 2)),
    Resumed("2026-03-05T10:00:00Z", {"cores": 2}),
    pair(3, arm="peer", off=side((step(),)), on=replace(side(ids=(1, 2, 3)), steps=None, n_output=3, finish=None)),
    pair(4, off=side((step(),)), on=side((step(),)), on_conditions=Conditions(temperature_c=-4.5), shared=True),
    End("2026-03-05T11:00:00Z", "complete"),
)
"""One of each kind, in an order in which a run may write them."""


def write(path: Path, records: Sequence[Record] = RECORDS) -> Path:
    """A record file of these records, after a run."""
    with Store.create(path, run(band=(26.0, 28.0))) as store:
        for record in records:
            store.append(record)
    return path
