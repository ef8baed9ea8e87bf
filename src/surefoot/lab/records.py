"""What a run leaves behind: facts as they were measured or counted. What follows from them is worked out elsewhere.

A record file is JSON Lines: first a `Run`, then any number of `Gate`, `Reference`, `Pair` and `Resumed` of a bench, or
of `Counted` and `Resumed` of `surefoot accept`; last an `End` where the run came to its end. Each line is an object
with a `kind`, the name of its class in lower case, then the fields; the steps of a text are an object of columns
(lab/codec.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

SCHEMA = 1
"""Raised whenever the meaning of a field changes. A reader refuses what it does not know."""

Workload = str
"""chat, code, tools, summary, question, translation, retrieval; or what a prompt file calls its own."""


@dataclass(frozen=True, slots=True)
class Arm:
    """A way to decode that is compared with drafts off.

    label: unique in the run, as tables print it ("ngram/additive"). kind: `drafts` is our loop with these parts, `off`
    our loop without drafts (an A/A run), `peer` the runtime's own speculative feature. options: of drafter and policy,
    or of the peer. chosen: how a free option was set, and on which prompts; empty where the user gave it.
    """

    label: str
    kind: Literal["drafts", "off", "peer"]
    drafts: Mapping[str, Any] = field(default_factory=dict)
    policy: Mapping[str, Any] = field(default_factory=dict)
    peer: Mapping[str, Any] = field(default_factory=dict)
    chosen: str = ""


@dataclass(frozen=True, slots=True)
class PromptUse:
    """One prompt of the run. identity: the SHA-256 of its token ids, so that runs can be compared."""

    id: str
    workload: Workload
    source: str
    n_tokens: int
    identity: str


Mode = Literal["plain", "oracle", "chain", "live", "unanchored"]
"""Whose rounds were counted. `plain`: of decoding without drafts. `oracle`: what drafts of each length would have given
at every token of that text. `chain`: drafts of one length, scored by the model. `live`: lengths by the policy, as
`surefoot generate` has them. `unanchored`: the chain, its drafter not told the last token."""


@dataclass(frozen=True, slots=True)
class Counting:
    """What a run of `surefoot accept` counts. draft_len: of the chain, and the longest of the oracle. temperatures: at
    which each text is written. no_oracle: the arms that cannot be replayed, and why."""

    draft_len: int
    temperatures: Sequence[float]
    modes: Sequence[Mode]
    no_oracle: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Run:
    """What was run, on what, with what: everything that decides the numbers.

    when: UTC, ISO 8601. command: the arguments of the command line that repeats it. model: `Model.describe()`, with
    `identity`, the hash of the weights. plan: the one that decided, as its file has it, so that the run can go on under
    it after another has taken its place; None where there was none. machine: `lab.machine.describe()`. sampling: as in
    the configuration. budgets: output tokens per text. band: baseline tokens per second, lowest and highest, that the
    user gave; None where it is found from the references. workloads: the identity hash of each. counting: None where
    pairs are measured.
    """

    schema: int
    surefoot: str
    when: str
    command: Sequence[str]
    model: Mapping[str, Any]
    machine: Mapping[str, Any]
    sampling: Mapping[str, Any]
    seed: int
    arms: Sequence[Arm]
    prompts: Sequence[PromptUse]
    workloads: Mapping[Workload, str]
    budgets: Sequence[int]
    pairs_wanted: int
    band: tuple[float, float] | None = None
    plan: Mapping[str, Any] | None = None
    counting: Counting | None = None

    @property
    def lossy(self) -> str:
        """Why texts with drafts may differ from those without, which a lossy judge leaves in `sampling`; "" where they
        must not."""
        return str(self.sampling.get("lossy") or "")


@dataclass(frozen=True, slots=True)
class Gate:
    """The outcome of a gate. figure and limit in `unit`; text: one line for people. details: raw facts."""

    name: Literal["rows", "lossless", "baseline", "contamination"]
    passed: bool
    figure: float
    limit: float
    unit: str
    text: str
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Step:
    """A decode round without its ids. Times in seconds; the prefill is not a step."""

    drafted: int
    evaluated: int
    accepted: int
    emitted: int
    depth: int
    rows: int
    width: int
    draft_s: float
    extend_s: float
    judge_s: float
    commit_s: float
    source: str = ""
    match_len: int = 0


@dataclass(frozen=True, slots=True)
class Side:
    """One text. decode_s: wall clock from the first token on, host work included, the first token's time excluded.

    n_output counts the first token. steps: None where another engine wrote the text and its rounds are not known.
    n_first: tokens that the first forward gave; more than one where an engine drafts on the prompt already.
    """

    ids: Sequence[int]
    n_output: int
    finish: str | None
    prefill_s: float
    decode_s: float
    steps: Sequence[Step] | None
    n_first: int = 1

    @property
    def tokens_per_second(self) -> float:
        """Of the tokens after the first forward."""
        return (self.n_output - self.n_first) / self.decode_s if self.decode_s > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Conditions:
    """The machine while something ran. None where the system does not tell.

    others_cpu: processor time used by other processes, steal_cpu: taken by the hypervisor, each as a share of all
    cores' time (0 to 1). load_1min: the system's own average. frequency_mhz and temperature_c: the highest seen.
    """

    others_cpu: float | None = None
    steal_cpu: float | None = None
    load_1min: float | None = None
    frequency_mhz: float | None = None
    temperature_c: float | None = None


@dataclass(frozen=True, slots=True)
class Reference:
    """Plain decoding of one prompt before any pair, the machine rested: what the validity band is found from."""

    prompt: str
    budget: int
    at_s: float
    off: Side
    conditions: Conditions


@dataclass(frozen=True, slots=True)
class Pair:
    """Plain decoding and one arm on the same prompt, seconds apart.

    number: counts all pairs of the run, in the order in which they ran. at_s: seconds since the run began, at the first
    side (of working time: the gap before a resumption is not in it). first: which side ran first. shared: `off` and its
    conditions are those of the pair before, which ended with it.
    """

    number: int
    arm: str
    workload: Workload
    prompt: str
    budget: int
    at_s: float
    first: Literal["off", "on"]
    off: Side
    on: Side
    off_conditions: Conditions
    on_conditions: Conditions
    shared: bool = False

    @property
    def measured(self) -> int:
        """The number of the pair that `off` was written in."""
        return self.number - self.shared

    @property
    def same_ids(self) -> bool:
        return list(self.off.ids) == list(self.on.ids)

    @property
    def ratio(self) -> float:
        """Tokens per second, on by off. 0 where a side wrote one token only."""
        base = self.off.tokens_per_second
        return self.on.tokens_per_second / base if base > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Counted:
    """What became of the drafts of one text. Nothing was timed: the seconds of the steps are 0.

    arm: "" for plain decoding. ids: of the text, its root first. steps: its rounds after the prefill; of an oracle,
    which writes nothing and has no ids, what a round at each token of the plain text would have been, so that they
    overlap.
    """

    mode: Mode
    arm: str
    workload: Workload
    prompt: str
    temperature: float
    ids: Sequence[int]
    finish: str | None
    steps: Sequence[Step]


@dataclass(frozen=True, slots=True)
class Resumed:
    """The run went on after a break. when: UTC, ISO 8601."""

    when: str
    machine: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class End:
    """The last line of a run that came to its end."""

    when: str
    why: Literal["complete", "time"]


Record = Run | Gate | Reference | Pair | Counted | Resumed | End
"""What a line of a record file may be."""
