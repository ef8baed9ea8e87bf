"""What a run says, worked out from its record. Tables, reports and the command line read this and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from surefoot.lab import metrics, stats, validity
from surefoot.lab.metrics import Acceptance, Phases
from surefoot.lab.records import Arm, Gate, Pair, Resumed, Run, Side, Workload
from surefoot.lab.stats import Interval
from surefoot.lab.store import Loaded
from surefoot.lab.validity import LIMITS, Band, Finding, Limits

__all__ = [
    "Analysis", "Band", "Finding", "Gate", "Interval", "PairPoint", "Row", "Spread", "Word", "analyse",
]  # fmt: skip

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
    token for token those of drafts off, left-out pairs included. lossy: drafts with a judge that accepts what plain
    decoding would not write; no ratio is printed then. baseline_tps, arm_tps: tokens per second after the
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
    lossy: bool
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
    """One pair as a figure draws it. reasons: why it was left out, in words; empty where it was used. shared: its plain
    text is that of the pair before."""

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
    shared: bool


@dataclass(frozen=True, slots=True)
class Analysis:
    """All that follows from a record. complete: why the run ended; None where it neither came to its end nor ran out
    of time. cut: the record ends in the middle of a line. rows: by workload, budget and arm, in the order of the run.
    excluded: the pairs that were left out. gates: the last outcome of each, by name."""

    run: Run
    resumed: tuple[Resumed, ...]
    complete: Literal["complete", "time"] | None
    cut: bool
    gates: Mapping[str, Gate]
    rows: tuple[Row, ...]
    pairs: tuple[PairPoint, ...]
    bands: tuple[Band, ...]
    findings: tuple[Finding, ...]

    @property
    def excluded(self) -> tuple[PairPoint, ...]:
        return tuple(pair for pair in self.pairs if pair.reasons)


def analyse(loaded: Loaded, limits: Limits = LIMITS) -> Analysis:
    """What the record says. The same record gives the same answer, on any machine and at any time."""
    run = loaded.run
    gates: dict[str, Gate] = {gate.name: gate for gate in loaded.gates}
    found = validity.examine(run, loaded.references, loaded.pairs, limits)
    groups: dict[tuple[Workload, int, str], list[Pair]] = {}
    for pair in loaded.pairs:
        groups.setdefault((pair.workload, pair.budget, pair.arm), []).append(pair)
    workloads = dict.fromkeys(use.workload for use in run.prompts)
    return Analysis(
        run=run,
        resumed=loaded.resumed,
        complete=loaded.end.why if loaded.end else None,
        cut=loaded.cut,
        gates=gates,
        rows=tuple(
            _row(groups[key], arm, run, gates, found.reasons)
            for workload in workloads
            for budget in run.budgets
            for arm in run.arms
            if (key := (workload, budget, arm.label)) in groups
        ),
        pairs=tuple(_point(pair, found.reasons.get(pair.number, ())) for pair in loaded.pairs),
        bands=found.bands,
        findings=found.findings,
    )


def _row(
    pairs: Sequence[Pair], arm: Arm, run: Run, gates: Mapping[str, Gate], reasons: Mapping[int, tuple[str, ...]]
) -> Row:
    used = [pair for pair in pairs if pair.number not in reasons]
    of = used or pairs
    lengths = {use.id: use.n_tokens for use in run.prompts}
    ratio = stats.grouped_interval([pair.ratio for pair in used], [pair.prompt for pair in used])
    lossy = run.lossy if arm.kind == "drafts" else ""
    why = _why_lossy(lossy, pairs) if lossy else _why_not(pairs, used, arm, gates)
    n_prompts = len({pair.prompt for pair in used})
    same_ids = sum(pair.same_ids for pair in pairs)
    on = [pair.on for pair in used]
    return Row(
        workload=pairs[0].workload,
        budget=pairs[0].budget,
        arm=arm.label,
        kind=arm.kind,
        pairs_used=len(used),
        pairs_left_out=len(pairs) - len(used),
        prompts=n_prompts,
        same_ids=same_ids,
        all_pairs=len(pairs),
        lossy=bool(lossy),
        baseline_tps=stats.median_interval([pair.off.tokens_per_second for pair in used]),
        arm_tps=stats.median_interval([side.tokens_per_second for side in on]),
        ratio=None if why else ratio,
        verdict="none" if why or ratio is None else stats.verdict(ratio),
        text=why if why or ratio is None else _text(ratio, n_prompts, len(pairs) - same_ids),
        why=why,
        prompt_tokens=_spread([lengths[pair.prompt] for pair in of]),
        output_tokens=_spread([pair.on.n_output for pair in of]),
        drafts=None if any(side.steps is None for side in on) else _drafts(on),
        phases=_phases(on),
        baseline_phases=_phases([pair.off for pair in used]),
    )


def _why_not(pairs: Sequence[Pair], used: Sequence[Pair], arm: Arm, gates: Mapping[str, Gate]) -> str:
    """Why no speed-up is printed; empty where one may be.

    Another engine's text may differ, since it promises nothing to ours: the row says in how many pairs it did.
    """
    why = []
    baseline = gates.get("baseline")
    if baseline is None:
        why.append("our plain decoding was not compared with the runtime's own (the baseline gate)")
    elif not baseline.passed:
        why.append(f"the baseline gate failed: {baseline.text}")
    vanished = _vanished(gates.get("lossless"))
    differ = [pair.number for pair in pairs if not pair.same_ids and pair.number not in vanished]
    if differ and arm.kind != "peer":
        why.append(f"the text differs from that without drafts in {len(differ)} of {len(pairs)} pairs")
    if len(used) < stats.MIN_VALUES:
        why.append(f"{len(used)} of {len(pairs)} pairs are left, and {stats.MIN_VALUES} are the least")
    return "; ".join(why)


def _why_lossy(lossy: str, pairs: Sequence[Pair]) -> str:
    """Why no speed-up is printed with a lossy judge: it would be that of another text."""
    differ = sum(not pair.same_ids for pair in pairs)
    return f"lossy: {lossy}; the text differs from that without drafts in {differ} of {len(pairs)} pairs"


def _vanished(lossless: Gate | None) -> frozenset[int]:
    """The pairs whose texts differed once and not when written again alone, or in a near tie that the user allowed."""
    listed = lossless.details.get("differences") if lossless else None
    told = [each for each in listed if isinstance(each, Mapping)] if isinstance(listed, list | tuple) else []
    harmless = [each for each in told if each.get("again") == "none" or each.get("near_tie") is True]
    return frozenset(each["pair"] for each in harmless if isinstance(each.get("pair"), int))


def _text(ratio: Interval, n_prompts: int, differ: int) -> str:
    """The verdict in a sentence, with what it does not cover."""
    text = stats.sentence(ratio)
    if n_prompts < stats.MIN_VALUES:
        text += f", on {'this prompt' if n_prompts == 1 else f'these {n_prompts} prompts'} only"
    if differ:
        text += f"; its text differs from ours in {differ} pair{'s' if differ > 1 else ''}"
    return text


def _drafts(sides: Sequence[Side]) -> Acceptance:
    return metrics.acceptance(step for side in sides for step in side.steps or ())


def _phases(sides: Sequence[Side]) -> Phases | None:
    if any(side.steps is None for side in sides):
        return None
    return metrics.phases([(side.decode_s, side.steps or ()) for side in sides])


def _spread(values: Sequence[int]) -> Spread:
    return Spread(median(values), min(values), max(values))


def _point(pair: Pair, reasons: tuple[str, ...]) -> PairPoint:
    return PairPoint(
        number=pair.number,
        workload=pair.workload,
        budget=pair.budget,
        arm=pair.arm,
        prompt=pair.prompt,
        at_s=pair.at_s,
        off_tps=pair.off.tokens_per_second,
        on_tps=pair.on.tokens_per_second,
        ratio=pair.ratio,
        same_ids=pair.same_ids,
        reasons=reasons,
        shared=pair.shared,
    )
