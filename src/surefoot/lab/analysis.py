"""What a run says, worked out from its record. Tables, reports and the command line read this and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from surefoot.lab.metrics import Acceptance, Phases
from surefoot.lab.records import Arm, Gate, Resumed, Workload
from surefoot.lab.stats import Interval

Word = Literal["faster", "slower", "no difference", "undecided", "none"]
"""What a row says of an arm. `none`: no speed-up may be printed, and `Row.why` says why."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Median, least and most of a count."""

    median: float
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Row:
    """One arm on one workload at one budget of output tokens: what a table prints. There is no row over workloads.

    pairs_used, pairs_left_out: with `prompts` different prompts among the used. same_ids of all_pairs: texts that were
    token for token those of drafts off, left-out pairs included. baseline_tps, arm_tps: tokens per second after the
    first token, median with interval over the used pairs. ratio: the arm by the baseline; None where `why` says why no
    speed-up is printed. text: the verdict in a sentence. drafts, phases: of the used pairs' texts of the arm; None
    where another engine wrote them.
    """

    workload: Workload
    budget: int
    arm: str
    kind: Literal["drafts", "off", "peer"]
    pairs_used: int
    pairs_left_out: int
    prompts: int
    same_ids: int
    all_pairs: int
    baseline_tps: Interval | None
    arm_tps: Interval | None
    ratio: Interval | None
    verdict: Word
    text: str
    why: str
    prompt_tokens: Spread
    output_tokens: Spread
    drafts: Acceptance | None
    phases: Phases | None
    baseline_phases: Phases | None

    @property
    def host_share(self) -> float | None:
        """The part of the arm's decode time outside the runtime's forwards."""
        return None if self.phases is None else self.phases.host


@dataclass(frozen=True, slots=True)
class PairPoint:
    """One pair as a figure draws it. reasons: why it was left out, in words; empty where it was used."""

    number: int
    workload: Workload
    budget: int
    arm: str
    prompt: str
    at_s: float
    off_tps: float
    on_tps: float
    ratio: float
    same_ids: bool
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about the run as a whole: `drift`, `contention`, `warm-up`, `throttle`, `stall`, `band`, `ids`."""

    name: str
    text: str
    pairs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Band:
    """The baseline tokens per second of a rested machine, for a prompt at a budget. source: how it was found."""

    prompt: str
    budget: int
    low: float
    high: float
    source: str


@dataclass(frozen=True, slots=True)
class Facts:
    """The run itself. complete: None where it neither came to its end nor ran out of time."""

    schema: int
    surefoot: str
    when: str
    command: Sequence[str]
    model: Mapping[str, Any]
    machine: Mapping[str, Any]
    sampling: Mapping[str, Any]
    seed: int
    budgets: Sequence[int]
    pairs_wanted: int
    workloads: Mapping[Workload, str]
    arms: Sequence[Arm]
    resumed: Sequence[Resumed]
    complete: Literal["complete", "time"] | None
    cut: bool


@dataclass(frozen=True, slots=True)
class Analysis:
    """All that follows from a record. rows: by workload, budget and arm, in the order of the run. excluded: the pairs
    that were left out. gates: the last outcome of each, by name."""

    facts: Facts
    gates: Mapping[str, Gate]
    rows: tuple[Row, ...]
    pairs: tuple[PairPoint, ...]
    bands: tuple[Band, ...]
    findings: tuple[Finding, ...]

    @property
    def excluded(self) -> tuple[PairPoint, ...]:
        return tuple(pair for pair in self.pairs if pair.reasons)
