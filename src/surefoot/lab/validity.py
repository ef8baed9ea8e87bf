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
from surefoot.lab.records import Conditions, Pair, Reference, Run, Side


@dataclass(frozen=True, slots=True)
class Limits:
    """Where doubt begins. Shares are of 1.

    others_cpu, steal_cpu. chosen: on two cores, a tenth of one; an idle system with its services takes a fifth of that.
    load_above: of the load average over the cores, where nothing else is told. chosen: one process more than cores.
    band: half of the validity band around the rested baseline; band_widest, where the references scatter more. Source:
    26.0 to 28.0 tok/s around 27.0, a published band on a quiet machine, is 3.7 %; chosen: 5 %, up to 10 %.
    drift, drift_chance: the change over the run that is worth a word, and the chance of it without a drift.
    stall, stall_share: how many times longer than others of its kind a round must be, and what it must cost of the
    text. chosen: reported stalls were 8 to 20 times a round; a page fault or a timer is below 3 %.
    warm_up: how much slower the first pairs must be, beside four standard deviations.
    min_tokens: fewer than that are not timed. chosen: one round in 16 is 6 %, more than most effects.
    """

    others_cpu: float = 0.05
    steal_cpu: float = 0.05
    load_above: float = 1.0
    band: float = 0.05
    band_widest: float = 0.10
    drift: float = 0.03
    drift_chance: float = 0.01
    stall: float = 5.0
    stall_share: float = 0.03
    warm_up: float = 0.03
    min_tokens: int = 16


LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Band:
    """The baseline tokens per second of a rested machine, for a prompt at a budget. source: how it was found."""

    prompt: str
    budget: int
    low: float
    high: float
    source: str


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about the run as a whole, and the pairs that show it. name: `contention`, `stall`, `warm-up`, `drift`,
    `band` (the baseline left it), `no band`, `short`."""

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
    model = _Rested(run, _at_rest(run, references, limits), timed)
    for pair, text in _warm_up(steady, model, limits):
        mark(pair, "warm-up", text)
    drift = _drift([pair for pair in steady if pair.number not in reasons], model, limits)
    bands = _bands(run, timed, model, limits)
    for pair in pairs:
        band = bands.get((pair.prompt, pair.budget))
        speed = pair.off.tokens_per_second
        if band and pair.number not in reasons and not band.low <= speed <= band.high:
            low = speed < band.low
            name = "drift" if drift and low == (drift < 0) else "throttled" if low else "too fast"
            mark(pair, name, f"baseline {speed:.2f} tok/s, band {band.low:.2f} to {band.high:.2f}")
    return Validity(
        reasons={number: tuple(each) for number, each in reasons.items()},
        bands=tuple(bands.values()),
        findings=tuple(_findings(run, pairs, references, bands, marked, drift, limits)),
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


class _Rested:
    """What plain decoding should take, from the depth of a text alone: log seconds per token, straight in depth.

    Holds the slope over all baselines, and the levels of the references. The slope says how attention grows with depth;
    it comes from all texts because the references are few. Source: Theil-Sen for the slope, the median for the level.
    """

    def __init__(self, run: Run, references: Sequence[Reference], pairs: Sequence[Pair]) -> None:
        self.lengths = {use.id: use.n_tokens for use in run.prompts}
        texts = [(each.at_s, each.prompt, each.off) for each in references]
        texts += [(each.at_s, each.prompt, each.off) for each in pairs]
        self.slope = _slope([(at_s, self._depth(prompt, side), _pace(side)) for at_s, prompt, side in texts])
        self.levels = [self.excess(each.prompt, each.off) for each in references]
        self.level = median(self.levels) if self.levels else None

    def excess(self, prompt: str, side: Side) -> float:
        """Log seconds per token of this text, less what its depth explains."""
        return _pace(side) - self.slope * self._depth(prompt, side)

    def speed(self, prompt: str, n_output: float) -> float:
        """Tokens per second of a rested machine."""
        assert self.level is not None
        return float(np.exp(-self.level - self.slope * (self.lengths[prompt] + n_output / 2)))

    def _depth(self, prompt: str, side: Side) -> float:
        return self.lengths[prompt] + side.n_output / 2


def _pace(side: Side) -> float:
    return float(np.log(side.decode_s / (side.n_output - 1)))


def _slope(points: Sequence[tuple[float, float, float]]) -> float:
    """Of the pace over the depth, from (time, depth, pace), by Theil and Sen; 0 where too few points can tell.

    Only points at least 64 tokens and at most a quarter of the run apart are compared. chosen: closer depths tell
    noise, and distant times a drift of the machine. Never below 0: no cache gets faster as it fills.
    """
    if len(points) > _SLOPE_POINTS:
        points = points[:: -(-len(points) // _SLOPE_POINTS)]
    if not points:
        return 0.0
    when, depth, pace = np.asarray(points, dtype=np.float64).T
    first, second = np.triu_indices(len(depth), 1)
    spans = depth[second] - depth[first]
    near = np.abs(when[second] - when[first]) <= np.ptp(when) / 4
    telling = near & (np.abs(spans) >= 64)
    if telling.sum() < stats.MIN_VALUES:
        return 0.0
    return max(float(np.median((pace[second] - pace[first])[telling] / spans[telling])), 0.0)


_SLOPE_POINTS = 400
"""chosen: 80,000 pairs of points, a few milliseconds."""


def _warm_up(pairs: Sequence[Pair], model: _Rested, limits: Limits) -> list[tuple[Pair, str]]:
    """The first pairs, while their baseline is slower than that of all later ones can explain."""
    timed = [(pair, model.excess(pair.prompt, pair.off)) for pair in pairs]
    found: list[tuple[Pair, str]] = []
    while len(timed) - len(found) > stats.MIN_VALUES and len(found) <= len(timed) // 4:
        pair, excess = timed[len(found)]
        rest = [value for _, value in timed[len(found) + 1 :]]
        late = excess - median(rest)
        if late <= max(limits.warm_up, 4 * stats.spread(rest)):
            break
        found.append((pair, f"baseline {100 * late:.0f} % slower per token than in the rest of the run"))
    return found


def _drift(pairs: Sequence[Pair], model: _Rested, limits: Limits) -> float:
    """The change of the baseline's speed over the run, as a share; 0 where there is no drift."""
    speeds = [-model.excess(pair.prompt, pair.off) for pair in pairs]
    chance, change = stats.trend([pair.at_s for pair in pairs], speeds)
    return change if chance < limits.drift_chance and abs(change) > limits.drift else 0.0


def _bands(run: Run, pairs: Sequence[Pair], model: _Rested, limits: Limits) -> dict[tuple[str, int], Band]:
    """By prompt and budget; none where the user gave none and nothing was measured at rest."""
    used = dict.fromkeys((pair.prompt, pair.budget) for pair in pairs)
    if run.band is not None:
        return {(prompt, budget): Band(prompt, budget, *run.band, "given") for prompt, budget in used}
    if model.level is None:
        return {}
    half = limits.band_widest
    if len(model.levels) >= stats.MIN_VALUES:
        half = min(max(limits.band, 4 * stats.spread(model.levels)), limits.band_widest)
    outputs: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    for each in pairs:
        outputs[each.prompt, each.budget].append(each.off.n_output)
    source = f"{len(model.levels)} texts at rest, {100 * half:.0f} % up and down"
    bands = {}
    for prompt, budget in used:
        speed = model.speed(prompt, median(outputs[prompt, budget]))
        bands[prompt, budget] = Band(prompt, budget, speed * (1 - half), speed * (1 + half), source)
    return bands


def _findings(
    run: Run,
    pairs: Sequence[Pair],
    references: Sequence[Reference],
    bands: Mapping[tuple[str, int], Band],
    marked: Mapping[str, Sequence[int]],
    drift: float,
    limits: Limits,
) -> Iterable[Finding]:
    texts = {
        "contention": "others used the machine during {n} pairs",
        "stall": "a single round stood still in {n} pairs",
        "warm-up": "the first {n} pairs ran before the machine was warm",
        "throttled": "the baseline of {n} pairs was below that of the rested machine",
        "too fast": "the baseline of {n} pairs was above that of the rested machine: the references were disturbed",
        "short": "a text of {n} pairs was too short to time",
    }
    for name, text in texts.items():
        numbers = tuple(dict.fromkeys(marked.get(name, ())))
        if numbers:
            yield Finding(name, text.format(n=len(numbers)).replace(" 1 pairs", " 1 pair"), numbers)
    if drift:
        numbers = tuple(dict.fromkeys(marked.get("drift", ())))
        way = "slower" if drift < 0 else "faster"
        out = f"; {len(numbers)} pairs left the band" if numbers else "; every pair stayed in the band"
        yield Finding("drift", f"the baseline became {100 * abs(drift):.0f} % {way} over the run{out}", numbers)
    if pairs and not bands:
        yield Finding("no band", "nothing was measured at rest, so that a throttled run would not be seen", ())
    cores = _cores(run)
    loaded = [each.prompt for each in references if busy(each.conditions, cores, limits)]
    if loaded:
        yield Finding("references", f"others used the machine during {len(loaded)} of {len(references)} references", ())
