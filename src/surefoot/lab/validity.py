"""Which pairs do not count, and why: a pure function of the record that never looks at what the arm gained.

A pair is judged by its baseline, by what the machine was doing, and by single rounds that stand far out from others of
their kind in the same text. Multiplying all times of all arms by anything leaves every judgement as it is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from surefoot.lab import stats
from surefoot.lab.pace import Course, Depth, Step, by_depth, course, fastest
from surefoot.lab.records import Conditions, Pair, Reference, Run, Side


@dataclass(frozen=True, slots=True)
class Limits:
    """Where doubt begins. Shares are of 1.

    others_cpu, steal_cpu. chosen: on two cores, a tenth of one; an idle system with its services takes a fifth of that.
    load_above: of the load average over the cores, where nothing else is told. chosen: one process more than cores.
    band: half of the validity band around what the pairs nearby lead to expect; four standard deviations where they
    scatter more, up to band_widest. Source: 26.0 to 28.0 tok/s around 27.0, a published band on a quiet machine, is
    3.7 %; chosen: 5 %; measured: texts seconds apart scatter by 10 % on a virtual machine whose neighbours are at work
    (benchmarks/records/bench_hf_fp32.jsonl); chosen: two of those.
    rested: how far below the rested machine a baseline may be whatever its neighbours are. chosen: a quarter; machines
    that others share were seen to drift by a fifth, and the published collapse was 42 %.
    step: a sudden change of the baseline that is no drift, in log seconds. chosen: twice the band.
    drift, drift_chance: the change over the run that is worth a word, and the chance of it without a drift. A change to
    and fro is worth one where it is as wide as the band.
    stall, stall_share: how many times longer than others of its kind a round must be, and what it must cost of the
    text. chosen: reported stalls were 8 to 20 times a round; a page fault or a timer is below 3 %.
    warm_up: how much slower the first pairs must be, beside four standard deviations.
    min_tokens: fewer than that are not timed. chosen: one round in 16 is 6 %, more than most effects.
    """

    others_cpu: float = 0.05
    steal_cpu: float = 0.05
    load_above: float = 1.0
    band: float = 0.05
    band_widest: float = 0.20
    rested: float = 0.25
    step: float = 0.10
    drift: float = 0.03
    drift_chance: float = 0.01
    stall: float = 5.0
    stall_share: float = 0.03
    warm_up: float = 0.03
    min_tokens: int = 16


LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Band:
    """The baseline tokens per second at which a pair counts. pair: its number. source: how the band was found."""

    pair: int
    prompt: str
    budget: int
    low: float
    high: float
    source: str


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about the run as a whole, and the pairs that show it. name: `contention`, `stall`, `warm-up`, `drift`,
    `step` (a sudden change), `throttled`, `too fast`, `no rest` (no references), `references`, `short`."""

    name: str
    text: str
    pairs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Validity:
    """reasons: why a pair is left out, by its number; those that count are not in it."""

    reasons: Mapping[int, tuple[str, ...]]
    bands: tuple[Band, ...]
    findings: tuple[Finding, ...]


def examine(run: Run, references: Sequence[Reference], pairs: Sequence[Pair], limits: Limits = LIMITS) -> Validity:
    """Which pairs do not count, the bands, and what the run as a whole shows."""
    reasons: defaultdict[int, list[str]] = defaultdict(list)
    marked: defaultdict[str, list[int]] = defaultdict(list)

    def mark(pair: Pair, name: str, text: str) -> None:
        reasons[pair.number].append(f"{name}: {text}")
        marked[name].append(pair.number)

    for pair in pairs:
        for name, text in _seen_in(pair, run, limits):
            mark(pair, name, text)
    steady = [pair for pair in pairs if pair.number not in reasons]
    timed = [pair for pair in pairs if pair.off.n_output >= limits.min_tokens]
    rested = _at_rest(run, references, limits)
    depth = by_depth(run, rested, timed)
    for pair, text in _warm_up(steady, depth, limits):
        mark(pair, "warm-up", text)
    steady = [pair for pair in steady if pair.number not in reasons]
    found = course(steady, depth, timed, limits.step)
    levels = [depth.excess(each.prompt, each.off) for each in rested]
    bands = _given(run.band, timed) if run.band else _bands(timed, depth, found, fastest(levels, found), limits)
    if run.band is None:
        for pair, text in _straddling(pairs, found.steps):
            mark(pair, "step", text)
    for pair in timed:
        band, speed = bands.get(pair.number), pair.off.tokens_per_second
        if band and pair.number not in reasons and not band.low <= speed <= band.high:
            name = "throttled" if speed < band.low else "too fast"
            mark(pair, name, f"baseline {speed:.2f} tok/s, band {band.low:.2f} to {band.high:.2f} ({band.source})")
    return Validity(
        reasons={number: tuple(each) for number, each in reasons.items()},
        bands=tuple(bands.values()),
        findings=(
            *_of_pairs(marked),
            *_of_the_machine(steady, depth, found, limits),
            *_of_references(run, pairs, references, levels, found, limits),
        ),
    )


def busy(conditions: Conditions, cores: int, limits: Limits = LIMITS) -> str | None:
    """How others load the machine, in words; None where they do not, or nothing is told."""
    told = []
    if conditions.others_cpu is not None and conditions.others_cpu > limits.others_cpu:
        told.append(f"other processes took {100 * conditions.others_cpu:.0f} % of all cores")
    if conditions.steal_cpu is not None and conditions.steal_cpu > limits.steal_cpu:
        told.append(f"the hypervisor took {100 * conditions.steal_cpu:.0f} % of all cores")
    if conditions.others_cpu is None and (conditions.load_1min or 0.0) > cores + limits.load_above:
        told.append(f"the load average was {conditions.load_1min:.1f} on {cores} cores")
    return " and ".join(told) or None


def stalled(side: Side, limits: Limits = LIMITS) -> str | None:
    """The longest stall of a text, in words; None where no round stands out."""
    if not side.steps:
        return None
    kinds: defaultdict[int, list[float]] = defaultdict(list)
    spent = [step.draft_s + step.extend_s + step.judge_s + step.commit_s for step in side.steps]
    for step, seconds in zip(side.steps, spent, strict=True):
        kinds[step.width].append(seconds)
    usual = {width: median(each) for width, each in kinds.items() if len(each) >= 5}
    dearest = max(usual.values(), default=median(spent))
    worst = 0.0, 0.0
    for step, seconds in zip(side.steps, spent, strict=True):
        kind = usual.get(step.width, dearest)
        if seconds > limits.stall * kind and seconds - kind > limits.stall_share * side.decode_s:
            worst = max(worst, (seconds, kind))
    return f"a round took {1e3 * worst[0]:.0f} ms where {1e3 * worst[1]:.0f} ms are usual" if worst[0] else None


def _cores(run: Run) -> int:
    """Of the machine; 1 where the record does not tell."""
    told = run.machine.get("cores")
    return told if isinstance(told, int) else 1


def _seen_in(pair: Pair, run: Run, limits: Limits) -> Iterable[tuple[str, str]]:
    """What the pair itself shows: the machine, single rounds, the length of the text."""
    cores = _cores(run)
    for name, side, conditions in (("off", pair.off, pair.off_conditions), ("on", pair.on, pair.on_conditions)):
        load = busy(conditions, cores, limits)
        if load:
            yield "contention", f"{load} during {name}"
        stall = stalled(side, limits)
        if stall:
            yield "stall", f"{stall} in {name}"
        if side.n_output < limits.min_tokens:
            yield "short", f"{name} wrote {side.n_output} tokens, and {limits.min_tokens} are the least that is timed"


def _at_rest(run: Run, references: Sequence[Reference], limits: Limits) -> list[Reference]:
    """The references to go by: long enough to time, and undisturbed where any is."""
    timed = [each for each in references if each.off.n_output >= limits.min_tokens]
    cores = _cores(run)
    alone = [each for each in timed if not busy(each.conditions, cores, limits) and not stalled(each.off, limits)]
    return alone or timed


def _warm_up(pairs: Sequence[Pair], depth: Depth, limits: Limits) -> list[tuple[Pair, str]]:
    """The first pairs, while their baseline is slower than that of all later ones can explain."""
    timed = [(pair, depth.excess(pair.prompt, pair.off)) for pair in pairs]
    found: list[tuple[Pair, str]] = []
    while len(timed) - len(found) > stats.MIN_VALUES and len(found) <= len(timed) // 4:
        pair, excess = timed[len(found)]
        rest = [value for _, value in timed[len(found) + 1 :]]
        late = excess - median(rest)
        if late <= max(limits.warm_up, 4 * stats.spread(rest)):
            break
        found.append((pair, f"baseline {100 * late:.0f} % slower per token than in the rest of the run"))
    return found


def _straddling(pairs: Sequence[Pair], steps: Sequence[Step]) -> Iterable[tuple[Pair, str]]:
    """The pairs whose drafts ran, or may have run, on the other side of a sudden change than their baseline."""
    for step in steps:
        text = f"the baseline changed by {100 * step.change:+.0f} % at once, and the sides may lie on both sides of it"
        for pair in pairs:
            between = step.before < pair.number < step.after
            late = pair.number == step.before and pair.first == "off"
            early = pair.number == step.after and pair.first == "on"
            if between or late or early:
                yield pair, text


def _given(band: tuple[float, float], pairs: Sequence[Pair]) -> dict[int, Band]:
    return {pair.number: Band(pair.number, pair.prompt, pair.budget, *band, "given") for pair in pairs}


def _bands(pairs: Sequence[Pair], depth: Depth, found: Course, rested: float | None, limits: Limits) -> dict[int, Band]:
    """By the number of the pair; none for a pair of which neither its neighbours nor a rested machine tell anything."""
    half = limits.band_widest if found.noise is None else min(max(limits.band, 4 * found.noise), limits.band_widest)
    bands = {}
    for pair in pairs:
        width, around, expected = half, "the pairs nearby", found.expected.get(pair.number)
        if expected is None:
            width, around, expected = limits.band_widest, "the rested machine, since few pairs are near", rested
        if expected is None:
            continue
        near = depth.speed(pair.prompt, pair.off, expected)
        low, high, source = near * (1 - width), near * (1 + width), f"{100 * width:.0f} % around {around}"
        least, most = (0.0, 0.0) if rested is None else _bound(depth.speed(pair.prompt, pair.off, rested), limits)
        if least > low:
            low, high, source = least, max(high, most), f"from {100 * limits.rested:.0f} % below the rested machine"
        bands[pair.number] = Band(pair.number, pair.prompt, pair.budget, low, high, source)
    return bands


def _bound(rested: float, limits: Limits) -> tuple[float, float]:
    """Tokens per second between which a machine counts as the rested one, whatever the pairs nearby are."""
    return (1 - limits.rested) * rested, rested


def _of_pairs(marked: Mapping[str, Sequence[int]]) -> Iterable[Finding]:
    """What pairs were left out for."""
    texts = {
        "contention": "others used the machine during {n} pairs",
        "stall": "a single round stood still in {n} pairs",
        "warm-up": "the first {n} pairs ran before the machine was warm",
        "throttled": "the baseline of {n} pairs was below that of the pairs nearby, or of the rested machine",
        "too fast": "the baseline of {n} pairs was above that of the pairs nearby",
        "short": "a text of {n} pairs was too short to time",
    }
    for name, text in texts.items():
        numbers = tuple(dict.fromkeys(marked.get(name, ())))
        if numbers:
            yield Finding(name, text.format(n=len(numbers)).replace(" 1 pairs", " 1 pair"), numbers)


def _of_the_machine(pairs: Sequence[Pair], depth: Depth, found: Course, limits: Limits) -> Iterable[Finding]:
    """How its speed moved over the run: at once, or slowly."""
    for step in found.steps:
        what = "was throttled" if step.change < 0 else "got faster"
        by = f"{100 * step.change:+.0f} %"
        text = f"the machine {what} at once: plain decoding changed by {by} after pair {step.before}"
        yield Finding("step", text, (step.before, step.after))
    text = _slowly(pairs, depth, found, limits)
    if text:
        yield Finding("drift", f"plain decoding {text}; each pair is held against the pairs nearby", ())


def _slowly(pairs: Sequence[Pair], depth: Depth, found: Course, limits: Limits) -> str:
    """How plain decoding drifted, in words; empty where it did not, or at once only."""
    once = list({pair.measured: pair for pair in pairs}.values())
    speeds = [-depth.excess(pair.prompt, pair.off) for pair in once]
    chance, change = stats.trend([pair.at_s for pair in once], speeds)
    if chance < limits.drift_chance and abs(change) > limits.drift:
        return f"became {100 * abs(np.expm1(change)):.0f} % {'slower' if change < 0 else 'faster'} over the run"
    moved = np.ptp(list(found.expected.values())) if found.expected and not found.steps else 0.0
    if moved > max(limits.band, 4 * (found.noise or 0.0)):
        return f"moved by {100 * np.expm1(moved):.0f} % to and fro over the run"
    return ""


def _of_references(
    run: Run,
    pairs: Sequence[Pair],
    references: Sequence[Reference],
    levels: Sequence[float],
    found: Course,
    limits: Limits,
) -> Iterable[Finding]:
    """What is wrong with the texts at rest."""
    if pairs and not levels:
        yield Finding(
            "no rest", "nothing was measured at rest, so that a run throttled from its start would not be seen", ()
        )
    cores = _cores(run)
    loaded = [each.prompt for each in references if busy(each.conditions, cores, limits)]
    if loaded:
        yield Finding("references", f"others used the machine during {len(loaded)} of {len(references)} references", ())
    gain = np.expm1(median(levels) - median(found.expected.values())) if levels and found.expected else 0.0
    if gain > limits.band_widest:
        yield Finding("references", f"the machine was {100 * gain:.0f} % faster in the run than before it, at rest", ())
