"""Writes and replays the texts of a run that counts, and puts each on the disk before the next one begins."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest

from surefoot.core.errors import LawError, NotEligible
from surefoot.core.ports import Clock
from surefoot.core.types import Ids
from surefoot.engine.config import Config, Part
from surefoot.engine.generator import Model
from surefoot.lab import replay, sides
from surefoot.lab.accept.anchor import Unanchored
from surefoot.lab.arms import configured, plain
from surefoot.lab.plan import by_workload
from surefoot.lab.records import Arm, Counted, Counting, Mode, PromptUse, Record, Run, Step
from surefoot.lab.replay import Trace
from surefoot.lab.store import Loaded
from surefoot.lab.traces import NoScores

Key = tuple[Mode, str, str, float]
"""Which text of a run: its mode, arm, prompt and temperature."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A text that is still to be written or replayed. arm: None for plain decoding."""

    mode: Mode
    arm: Arm | None
    use: PromptUse
    temperature: float

    @property
    def key(self) -> Key:
        return self.mode, self.arm.label if self.arm else "", self.use.id, self.temperature


@dataclass(frozen=True, slots=True)
class Writers:
    """What texts are written with. prompts: ids by name. cancelled: whether texts are to end now. note: tells the user
    what a drafter has to say."""

    model: Model
    config: Config
    prompts: Mapping[str, Ids]
    clock: Clock
    cancelled: Callable[[], bool] = lambda: False
    note: Callable[[str], None] = lambda sentence: None


@dataclass(frozen=True, slots=True)
class World:
    """What a run uses of the world. append: puts a record on the disk. show: texts done, all of them, the next one.
    ended: raises when a text that was cut short is not to be kept."""

    append: Callable[[Record], None]
    show: Callable[[int, int, Planned], None]
    ended: Callable[[], None]


def plan(run: Run) -> tuple[Planned, ...]:
    """Every text of the run: each prompt at each temperature, plain first, then each arm in all modes.

    The first prompt of each workload comes before the second of any, so that a run that is cut short has all workloads.
    """
    counting = counting_of(run)
    found: list[Planned] = []
    for use in filter(None, chain.from_iterable(zip_longest(*by_workload(run.prompts).values()))):
        for temperature in counting.temperatures:
            found.append(Planned("plain", None, use, temperature))
            for arm in run.arms:
                found += [
                    Planned(mode, arm, use, temperature)
                    for mode in counting.modes
                    if mode != "plain" and not (mode == "oracle" and arm.label in counting.no_oracle)
                ]
    return tuple(found)


def counting_of(run: Run) -> Counting:
    """What the run counts. Raises: LawError for a run of pairs, which is an error of the caller."""
    if run.counting is None:
        raise LawError("this run measures pairs, and was asked what it counts")
    return run.counting


def execute(run: Run, writers: Writers, world: World, before: Loaded | None = None) -> None:
    """Nothing; every text that the record does not hold yet has been appended."""
    counted = {(each.mode, each.arm, each.prompt, each.temperature): each for each in before.counted} if before else {}
    everything = plan(run)
    for planned in everything:
        if planned.key in counted:
            continue
        world.show(len(counted), len(everything), planned)
        found = _count(planned, run, writers, counted)
        world.ended()
        world.append(found)
        counted[planned.key] = found


def at_temperature(config: Config, temperature: float) -> Config:
    """`config` at this temperature. Raises: ConfigError where its other options do not go with it."""
    return replace(config, sampling=replace(config.sampling, temperature=temperature))


def no_oracle(model: Model, config: Config, arms: Sequence[Arm]) -> dict[str, str]:
    """By the label of the arm, why its drafts cannot be replayed; an arm that can be is not there.

    Raises: NotEligible for an arm that drafts trees, whose positions no count of rounds tells.
    """
    found = {}
    for arm in arms:
        drafts = configured(arm, config, 1).drafts
        workshop = model.workshop(config)
        try:
            needs = workshop.drafter(drafts.name, drafts.options).needs
        finally:
            workshop.close()
        if needs.trees:
            raise NotEligible(
                f"{arm.label} drafts trees, whose tokens have no position to count by; leave branches out"
            )
        if not needs.history_only:
            found[arm.label] = "its drafts depend on how the rounds fell"
        elif needs.taps:
            found[arm.label] = "it reads hidden states of the model, which a replay does not have"
    return found


def offered(trace: Trace, budget: int) -> tuple[Step, ...]:
    """What a round would have been at each token of the text, but the last, with drafts as long as they were offered.

    budget: output tokens that the text was allowed; drafts end before it, as those of the loop do.
    """
    n, steps = len(trace.ids), []
    for at in range(1, n):
        offer = trace.offers[at]
        length = max(0, min(offer.length, budget - at - 1))
        right = min(offer.right, length)
        source, match_len = (offer.source, offer.match_len) if length else ("", 0)
        # After an end of text that was drafted nothing follows, so that nothing behind it was judged.
        emitted, depth = min(right + 1, n - at), trace.n_prompt + at - 1
        steps.append(Step(length, length, right, emitted, depth, length + 1, length + 1, 0, 0, 0, 0, source, match_len))
    return tuple(steps)


def _count(planned: Planned, run: Run, writers: Writers, counted: Mapping[Key, Counted]) -> Counted:
    """The text of this mode, written or replayed."""
    use, arm, draft_len = planned.use, planned.arm, counting_of(run).draft_len
    (budget,) = run.budgets
    config = at_temperature(writers.config, planned.temperature)
    if arm is None:
        return _written(planned, writers, plain(config, budget))
    drafting = configured(arm, config, budget)
    if planned.mode == "oracle":
        ids = counted["plain", "", use.id, planned.temperature].ids
        steps = _replayed(planned, writers, drafting, ids, draft_len) if len(ids) > 1 else ()
        return _counted(planned, (), None, steps)
    if planned.mode != "live":
        by_count = Part("fixed", {"draft_len": draft_len})
        drafting = replace(drafting, policy=by_count, drafts=_by_stated_costs(drafting.drafts))
    return _written(planned, writers, drafting)


def _by_stated_costs(drafts: Part) -> Part:
    """The drafter; unions in it go without a clock unless told otherwise: whom they ask would hang on the machine."""
    named = [each.strip() for each in drafts.name.split("+")]
    if drafts.name != "union" and len(named) == 1:
        return drafts
    members = []
    for member in drafts.options.get("members", ()) if drafts.name == "union" else named:
        given = {"name": member} if isinstance(member, str) else dict(member)
        inner = _by_stated_costs(Part(given.pop("name", ""), given))
        members.append({"name": inner.name, **inner.options})
    return Part("union", {"reproducible": True, **drafts.options, "members": tuple(members)})


def _written(planned: Planned, writers: Writers, config: Config) -> Counted:
    """The text that the model writes."""
    around = Unanchored if planned.mode == "unanchored" else None
    ids = writers.prompts[planned.use.id]
    generation = sides.written(writers.model, ids, config, writers.clock, writers.cancelled, around)
    for note in generation.notes:
        writers.note(note)
    steps = [sides.step(round_) for round_ in generation.rounds[1:]]
    return _counted(planned, generation.ids, generation.finish, steps)


def _replayed(
    planned: Planned, writers: Writers, config: Config, ids: Sequence[int], draft_len: int
) -> tuple[Step, ...]:
    """What the drafter offers at each token of the text that plain decoding wrote, with the noise of its seed."""
    prompt, caps = writers.prompts[planned.use.id], writers.model.target.caps
    workshop = writers.model.workshop(config, config.seed, writers.clock)
    try:
        drafter = workshop.drafter(config.drafts.name, config.drafts.options)
        trace = replay.record(drafter, prompt, ids, NoScores(), draft_len)
    finally:
        workshop.close()
    for note in workshop.notes:
        writers.note(note)
    return offered(trace, min(config.max_tokens, caps.max_length - len(prompt) + 1))


def _counted(planned: Planned, ids: Sequence[int], finish: str | None, steps: Sequence[Step]) -> Counted:
    label, use = planned.arm.label if planned.arm else "", planned.use
    untimed = tuple(replace(step, draft_s=0.0, extend_s=0.0, judge_s=0.0, commit_s=0.0) for step in steps)
    return Counted(planned.mode, label, use.workload, use.id, planned.temperature, tuple(ids), finish, untimed)
