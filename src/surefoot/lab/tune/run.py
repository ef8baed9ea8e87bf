"""The steps of tuning, in their order, and what comes of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median

from surefoot.core.binding import Binding, what_binds
from surefoot.core.cost import CostCurve
from surefoot.core.errors import ConfigError, NotEligible
from surefoot.core.payoff import Outlook, outlook
from surefoot.core.plateaus import Staircase, staircase
from surefoot.core.ports import Clock
from surefoot.core.types import Ids
from surefoot.engine import plans
from surefoot.engine.config import Config, Part
from surefoot.engine.generator import Model
from surefoot.engine.plans import Plan, RowFinding, SweepFacts, Workload
from surefoot.lab import validity
from surefoot.lab.agreement import compare
from surefoot.lab.gates import rows as row_gate
from surefoot.lab.gates.writing import drafter as make_drafter
from surefoot.lab.machine import Watch
from surefoot.lab.measure import DEPTHS, ROWS, SPAN, Progress, Sweep, curve_of, measure
from surefoot.lab.steadiness import OUTLIER, STALL, Steadiness
from surefoot.lab.tune import texts as plain_texts
from surefoot.lab.tune import worth as worths
from surefoot.lab.tune.kept import Kept, KeptText
from surefoot.lab.tune.texts import Written
from surefoot.lab.workloads import KINDS

HISTORY_ONLY = ("ngram", "suffix")
"""Drafters that go by the text alone, so that what they would have offered anywhere in it can be counted afterwards."""

TOO_NOISY = 0.08
"""chosen: one standard deviation of the middle point; a step that decides costs 20 % and more, drafts bring 10 %."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured. sweep_s, texts_s: seconds that may be spent, but for what is needed at the least.

    tokens: of each text, at the most. gate_inputs, gate_rows: texts of the gate, and rows of its widest block.
    """

    rows: tuple[int, ...]
    depths: tuple[int, ...]
    sweep_s: float
    texts_s: float
    tokens: int
    workloads: tuple[str, ...]
    gate_inputs: int
    gate_rows: int
    quick: bool = False


FULL = Size(ROWS, DEPTHS, 28.0, 14.0, 128, KINDS, 2, 17)
"""chosen: under 60 s for a model of 100 million parameters on two cores, on every runtime measured there."""
QUICK = Size((*range(1, 9), 12), DEPTHS[:1], 5.0, 3.5, 48, ("chat", "code", "tools"), 1, 8, quick=True)
"""chosen: under 15 s for the same; the row counts reach past the second plateau of most machines."""


@dataclass(frozen=True, slots=True)
class Step:
    """How far it is. left_s: seconds until everything is measured, at the most, if the machine keeps its pace; None
    where nobody knows, and afterwards."""

    what: str
    left_s: float | None


@dataclass(frozen=True, slots=True)
class World:
    """What tuning uses of the world. now: the time of day, UTC, ISO 8601. check: raises when the user wants to stop."""

    clock: Clock
    now: Callable[[], str]
    show: Callable[[Step], None]
    check: Callable[[], None] = lambda: None
    watch: Callable[[], Watch] = Watch


@dataclass(frozen=True, slots=True)
class Tuned:
    """What tuning found. plan: written to `path`, unless `noise` says why nothing can be decided on this machine now.

    seconds: by step. verdict: one sentence over all workloads. doubts: what does not forbid a plan and should be known.
    agreement: how the curve compares with that of the plan that was there before, if one was.
    """

    plan: Plan
    path: Path | None
    staircases: Sequence[Staircase]
    outlook: Outlook
    binding: Binding
    verdict: str
    noise: str | None
    doubts: Sequence[str]
    agreement: str
    seconds: Mapping[str, float]
    resumed: bool


class RowDependentError(NotEligible):
    """Drafts would change the text with these settings, so that nothing can be tuned; plain decoding is as it is."""


def check_lossless(config: Config) -> None:
    """Raises: ConfigError for a lossy judge: a plan is about drafts that change no token, and never chooses one."""
    if config.lossy:
        raise ConfigError(
            f"nothing is tuned with a lossy judge: {config.lossy}, and a plan is about drafts that change no token; "
            "leave the judge out, which is match."
        )


def tune(
    model: Model,
    size: Size,
    world: World,
    kept: Kept,
    cache_dir: Path,
    *,
    load_s: float,
    command: Sequence[str],
    despite_noise: bool = False,
    samples_to: Path | None = None,
) -> Tuned:
    """The plan of this model, measured now, and written where every other command finds it.

    samples_to: where everything that was measured goes, sample by sample; None keeps nothing but the plan.
    Raises: RowDependentError where drafts would change the text, which the plan then says; NotEligible where nothing
    can be measured; ConfigError for a lossy judge.
    """
    check_lossless(model.config)
    owner = plans.owner_of(model.files, model.target.caps, model.config)
    before = plans.find(owner, "auto", cache_dir).plan
    resumed, began = kept.resumed, world.clock()
    used_rows = 0 if kept.rows else size.gate_rows  # nothing was tried in this process where it was known already
    rows = _rows(model, size, world, kept, before)
    tried = world.clock()
    if rows.row_class == "row-dependent":
        kept.drop()
        _refuse_rows(model, rows, world, cache_dir)
    watch = world.watch()
    watch.start()
    prompts = plain_texts.prompts(model, size.workloads)
    until = world.clock() + size.sweep_s + size.texts_s
    sweep = _sweep(model, size, world, kept, used_rows, prompts, until)
    load = validity.busy(watch.stop(), owner.cores)
    swept = world.clock()
    written = _texts(model, size, world, kept, sweep, prompts, until)
    done = world.clock()
    curve = sweep.curve(host_s=plain_texts.host_s(written), can_pad=model.target.caps.can_pad)
    part = _drafter(model)
    found = _workloads(model, part, written, curve, world) if part else ()
    ended = world.clock()
    noise = _noise(sweep, curve, load)
    seen = sweep.steadiness()
    facts = SweepFacts(
        size.quick, max(s.turn for s in sweep.samples) + 1, len(sweep.samples), load_s, sweep.warm_s, ended - began,
        seen.steady and noise is None, seen.text, sweep.wide,
    )  # fmt: skip
    allowed = model.config.allow_near_ties or (before is not None and before.allow_near_ties)
    plan = Plan(
        plans.SCHEMA, version("surefoot"), world.now(), tuple(command), owner, rows, allowed,
        part.name if part else "", curve, facts, found,
    )  # fmt: skip
    path = None
    if noise is None or despite_noise:
        path = plans.path_of(owner, cache_dir)
        plans.save(plan, path)
    seconds = {
        "load": load_s,
        "rows": tried - began,
        "sweep": swept - tried,
        "texts": done - swept,
        "replay": ended - done,
    }
    kept.finish(samples_to, {**seconds, "resumed": resumed})
    depth = curve.depths[0]
    view = outlook(curve, depth)
    return Tuned(
        plan=plan,
        path=path,
        staircases=tuple(staircase(curve, each) for each in curve.depths),
        outlook=view,
        binding=what_binds(curve, depth),
        verdict=worths.expectation(found, view) if found else view.text,
        noise=noise,
        doubts=tuple(_doubts(model, plan, size.depths, sweep, load, part)),
        agreement=_agreement(before, curve),
        seconds=seconds,
        resumed=resumed,
    )


def _agreement(before: Plan | None, curve: CostCurve) -> str:
    """Whether two sweeps of the same say the same; "" where there is nothing to compare with."""
    if before is None or before.curve is None:
        return ""
    try:
        return f"against the plan of {before.when}: {compare(before.curve, curve).text}"
    except ConfigError:
        return ""  # no row count at the same depth


def _rows(model: Model, size: Size, world: World, kept: Kept, before: Plan | None) -> RowFinding:
    """What is known of rows: the weakest of what the target claims, what is seen now, and what was found before."""
    caps = model.target.caps
    if caps.max_rows < 2:
        raise NotEligible(f"{caps.backend} computes one row at a time here, so that drafts cannot be checked at all.")
    finding = kept.rows
    if finding is None:

        def show(done: int, total: int) -> None:
            world.check()
            world.show(Step(f"rows of a block against single rows, step {done} of {total}", None))

        show(0, size.gate_inputs)
        most = min(size.gate_rows, caps.max_rows)
        gate = row_gate.judge(row_gate.gather(model, True, show, n_inputs=size.gate_inputs, most=most), caps)
        row_class = plans.weaker(gate.details["row_class"], caps.row_class)
        finding = RowFinding(row_class, caps.row_class, gate.text, "tune")
        kept.keep_rows(finding)
    if before is not None and plans.weaker(before.rows.row_class, finding.row_class) != finding.row_class:
        return before.rows
    return finding


def _refuse_rows(model: Model, rows: RowFinding, world: World, cache_dir: Path) -> None:
    caps = model.target.caps
    owner = plans.owner_of(model.files, caps, model.config)
    plans.demote(owner, caps, rows.row_class, rows.text, rows.found_by, world.now(), cache_dir)
    raise RowDependentError(f"drafts would change the text here, so there is nothing to tune: {rows.text}")


def _sweep(
    model: Model, size: Size, world: World, kept: Kept, used_rows: int, prompts: Mapping[str, Ids], until: float
) -> Sweep:
    """The sweep. until: when the texts after `prompts`, which come next, should have been written."""
    widest = max(kept_rows(model, size))
    depths = plain_texts.fitting_depths(model, size.depths, widest)
    lengths = [len(prompt) for name, prompt in prompts.items() if not kept.has_text(name, len(prompt))]

    def show(progress: Progress) -> None:
        world.check()
        if progress.left_s is None:
            world.show(Step("sweep, warming up", None))
            return
        now = world.clock()
        swept = now + progress.left_s
        texts_until = min(until, swept + size.texts_s)
        left = plain_texts.ends_at(curve_of(kept.samples), lengths, size.tokens, swept, texts_until) - now
        world.show(Step(f"sweep, turn {progress.turn}, {progress.wide} points still wide", left))

    return measure(
        model.target.open,
        plain_texts.sweep_text(model, max(depths) + SPAN + widest + 1),
        world.clock,
        rows=kept_rows(model, size),
        depths=depths,
        limit_s=size.sweep_s,
        used_rows=used_rows,
        before=kept.samples,
        keep=kept.keep_turn,
        show=show,
    )


def kept_rows(model: Model, size: Size) -> tuple[int, ...]:
    """The row counts of `size` that this target can score."""
    return tuple(rows for rows in size.rows if rows <= model.target.caps.max_rows)


def kept_depths(model: Model, size: Size) -> tuple[int, ...]:
    """The depths of `size`, or those that fit into this context."""
    return plain_texts.fitting_depths(model, size.depths, max(kept_rows(model, size)))


def _texts(
    model: Model, size: Size, world: World, kept: Kept, sweep: Sweep, prompts: Mapping[str, Ids], until: float
) -> dict[str, Written]:
    """A text of each workload; those that were written before an interruption are taken as they are.

    until: when they should have been written, whenever the sweep has ended.
    """
    until = min(until, world.clock() + size.texts_s)
    todo = [name for name, prompt in prompts.items() if not kept.has_text(name, len(prompt))]
    curve = sweep.curve()
    for number, name in enumerate(todo):
        prompt, now = prompts[name], world.clock()
        lengths = [len(prompts[each]) for each in todo[number:]]
        left = plain_texts.ends_at(curve, lengths, size.tokens, now, until) - now
        world.show(Step(f"text {number + 1} of {len(todo)} ({name})", left))
        share = (until - now) / len(lengths)
        text = plain_texts.write(model, name, prompt, size.tokens, share, world.clock, world.check)
        kept.keep_text(KeptText(name, len(prompt), text.ids, text.host_s))
    return {
        name: Written(name, prompt, kept.texts[name].ids, kept.texts[name].host_s) for name, prompt in prompts.items()
    }


def _drafter(model: Model) -> Part | None:
    """The drafter that workloads are counted with; None where the one in use cannot be counted afterwards."""
    part = Part("ngram") if model.config.drafts.name == "off" else model.config.drafts
    return part if part.name in HISTORY_ONLY else None


def _workloads(
    model: Model, part: Part, written: Mapping[str, Written], curve: CostCurve, world: World
) -> tuple[Workload, ...]:
    texts = [(text.workload, text.prompt, text.ids, True) for text in written.values()]
    texts += [(text.workload, text.prompt_ids, text.ids, False) for text in plain_texts.shipped(tuple(written))]
    found = []
    for name in written:
        world.check()
        world.show(Step(f"what drafts are worth on {name}", None))
        counted = [
            worths.count(workload, prompt, ids, make_drafter(model, part), curve.max_rows - 1, world.clock, own=own)
            for workload, prompt, ids, own in texts
            if workload == name
        ]
        worth = worths.worth(counted, curve, model.target.caps.max_length)
        if worth is not None:
            found.append(worth)
    return tuple(found)


def _noise(sweep: Sweep, curve: CostCurve, load: str | None) -> str | None:
    """Why nothing can be decided, with the evidence and what to do; None where it can."""
    seen = sweep.steadiness()
    middle = median(point.error for point in curve.points)
    evidence = []
    if seen.kind == "restless":
        evidence.append(
            f"{len(seen.outliers)} of {len(sweep.samples)} rounds took half as much again as their own kind"
        )
    if middle > TOO_NOISY:
        evidence.append(f"half of the {len(curve.points)} points are known to {1.96 * middle:.0%} only")
    if not evidence:
        return None
    if load is not None:
        evidence.append(f"meanwhile {load}")
    return (
        f"this machine is too noisy to decide: {'; '.join(evidence)}. Close other programs, let it cool down, give it "
        "power, and run it again; --despite-noise keeps what was measured"
    )


def _doubts(
    model: Model, plan: Plan, asked: Sequence[int], sweep: Sweep, load: str | None, part: Part | None
) -> list[str]:
    """What does not forbid a plan and should be known. asked: the depths that were wanted."""
    said = []
    seen = sweep.steadiness()
    if not seen.steady and seen.kind != "restless":
        said.append(f"{seen.kind}: {seen.text}")
    if seen.outliers:
        said.append(_outliers(seen, len(sweep.samples)))
    if load is not None:
        said.append(f"while costs were measured, {load}")
    missing = [str(depth) for depth in asked if depth not in sweep.depths]
    if missing:
        said.append(
            f"a depth of {' and '.join(missing)}, with a block of {max(sweep.rows)} rows behind it, does not fit into "
            f"the context of {model.target.caps.max_length} tokens: costs were measured at "
            f"{' and '.join(map(str, sweep.depths))}"
        )
    if sweep.wide:
        n_points = len(sweep.rows) * len(sweep.depths)
        said.append(f"{len(sweep.wide)} of {n_points} points kept a wide interval; their samples are in it")
    if plan.rows.row_class == "near-tie" and not plan.allow_near_ties:
        said.append(
            f"rows are near-tie ({plan.rows.text}): say once that this may be with 'surefoot tune {model.files.name} "
            "--allow-near-ties', or drafts are refused"
        )
    if part is None:
        said.append(
            f"what {model.config.drafts.name} brings cannot be counted along a text (that works with "
            f"{' and '.join(HISTORY_ONLY)}), so there is a curve and no verdict for each workload"
        )
    return said


def _outliers(seen: Steadiness, n_rounds: int) -> str:
    """How many rounds took far longer than their kind, and which were the worst."""
    worst = [
        f"{each.sample.rows} row{'s' if each.sample.rows > 1 else ''} at {each.sample.depth} tokens {each.times:.1f} "
        f"times (turn {each.sample.turn + 1})"
        for each in seen.outliers[:3]
    ]
    stalls = f", {seen.stalls} of them {STALL:.0f} times and more" if seen.stalls else ""
    return (
        f"{len(seen.outliers)} of {n_rounds} rounds took {OUTLIER} times the usual of their kind and more{stalls}; "
        f"the worst: {', '.join(worst)}; they are in the samples, and medians pass over them"
    )
