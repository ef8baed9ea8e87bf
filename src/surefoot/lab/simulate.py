"""What other lengths, policies and machines would have given, on a virtual clock: speed-ups, and the share of the best.

Two kinds of traces: texts of a record, and texts of a process that was fitted to a published table of speed-ups. Of a
table only the rows of fixed draft lengths are fitted; the others are predicted, and what they miss by is told.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from surefoot.core.cost import CostCurve
from surefoot.core.errors import ConfigError
from surefoot.core.payoff import FREE, DraftCost
from surefoot.core.plateaus import highest_top
from surefoot.core.ports import Policy
from surefoot.engine import parts, plans
from surefoot.engine.config import Part
from surefoot.lab.analysis import analyse
from surefoot.lab.copying import NUMBERS, Copying, fit_copying, speedup, write
from surefoot.lab.oracle import oracle
from surefoot.lab.records import Run, Workload
from surefoot.lab.replay import Trace, plain_s, replay
from surefoot.lab.store import Loaded

LONGEST_FIXED = 8
"""chosen: the lengths of the published table, and no fixed length above that was ever the best here."""

DEFAULT_CAP = 7
"""Source: the default of the additive policy, for a curve without a plateau."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """A policy to try. label: as it is written, name:option=value. options: its own, without the name."""

    label: str
    name: str
    options: Mapping[str, Any]

    def made(self, curve: CostCurve) -> Policy:
        """A new one, told the curve."""
        plugin = parts.find("policy", self.name)
        # As with a plan of this curve, on rows that leave the clock out of it.
        used = plans.policy_in_use(Part(self.name, self.options), curve, "near-tie")
        policy: Policy = plugin.build(parts.make_options(plugin, used.options, "policy"), curve)
        return policy


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a policy gave on one workload.

    speedup: plain seconds by its seconds over all texts. share: of the speed of the best schedule with hindsight.
    draft_len: mean scored tokens of the rounds; rounds of no draft included. measured: the figure of the table or the
    record, and residual: simulated by measured, less one; None where there is none. exact: the speed-up over an endless
    text of the process.
    """

    policy: str
    speedup: float
    tokens_per_s: float
    share: float
    rounds: int
    draft_len: float
    accepted_per_round: float
    measured: float | None = None
    residual: float | None = None
    exact: float | None = None


@dataclass(frozen=True, slots=True)
class Simulated:
    """One workload on one curve. best_speedup: of the schedule with hindsight; process: where the texts are of one."""

    workload: Workload
    texts: int
    tokens: int
    plain_tokens_per_s: float
    best_speedup: float
    outcomes: tuple[Outcome, ...]
    process: Copying | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """A published table of speed-ups. rows: by label, then workload. tokens: of each text."""

    source: str
    tokens: int
    rows: Mapping[str, Mapping[str, float]]

    @property
    def workloads(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for row in self.rows.values() for name in row))


def usual(curve: CostCurve) -> tuple[Chosen, ...]:
    """The policies to try where none is named: the fixed lengths up to eight, additive up to the highest plateau top,
    goodput.
    """
    most = curve.max_rows - 1
    fixed = [fixed_at(length) for length in range(1, min(LONGEST_FIXED, most) + 1)]
    return (*fixed, additive_to(highest_top(curve) or min(DEFAULT_CAP, most)), Chosen("goodput", "goodput", {}))


def fixed_at(draft_len: int) -> Chosen:
    return Chosen(f"fixed:draft_len={draft_len}", "fixed", {"draft_len": draft_len})


def additive_to(cap: int) -> Chosen:
    return Chosen(f"additive:draft_len={cap}", "additive", {"draft_len": cap})


def on_texts(
    traces: Mapping[Workload, Sequence[Trace]],
    policies: Sequence[Chosen],
    curve: CostCurve,
    draft: DraftCost = FREE,
    measured: Mapping[tuple[Workload, str], float] | None = None,
) -> tuple[Simulated, ...]:
    """What each policy gives on each workload where forwards cost what the curve says.

    The texts of a workload count by their length: seconds are added up before they are compared. measured: speed-ups by
    workload and policy, to stand beside the simulated ones. Raises: ConfigError for a draft longer than the curve.
    """
    _check_lengths(policies, curve)
    known = measured or {}
    found = []
    for workload, each in traces.items():
        one = _simulated(workload, each, policies, curve, draft)
        outcomes = tuple(_beside(outcome, known.get((workload, outcome.policy))) for outcome in one.outcomes)
        found.append(replace(one, outcomes=outcomes))
    return tuple(found)


def in_record(run: Run, drafts: Mapping[str, Any]) -> dict[str, Chosen]:
    """The policies that the record tried with these drafts, by the label of the arm."""
    found = {}
    for arm in run.arms:
        if arm.kind == "drafts" and dict(arm.drafts) == dict(drafts):
            options = {key: value for key, value in arm.policy.items() if key != "name"}
            found[arm.label] = Chosen(arm.label.partition("/")[2] or arm.label, str(arm.policy["name"]), options)
    return found


def of_record(loaded: Loaded, drafts: Mapping[str, Any]) -> dict[tuple[Workload, str], float]:
    """By workload and policy, the speed-ups that the record measured with these drafts at its longest texts, as far as
    they may be printed.
    """
    tried = in_record(loaded.run, drafts)
    rows = sorted(analyse(loaded).rows, key=lambda row: row.budget)
    return {
        (row.workload, tried[row.arm].label): row.ratio.estimate
        for row in rows
        if row.arm in tried and row.ratio is not None
    }


def on_table(
    table: Table, policies: Sequence[Chosen], curve: CostCurve, depth: int, n_texts: int
) -> tuple[Simulated, ...]:
    """What the curve makes of a published table: fitted to its rows of fixed lengths, which predict the others.

    The middle of each text lies at `depth`. Raises: ConfigError for a table of fewer fixed lengths than the process has
    numbers, or a length that the curve ends before; NotEligible where scipy is not installed.
    """
    known = {chosen.label: label for label in table.rows if (chosen := _of_label(label)) is not None}
    todo = {chosen.label: chosen for chosen in (*_in_table(table), *policies)}
    _check_lengths(todo.values(), curve)
    n_prompt = max(1, depth - table.tokens // 2)
    found = []
    for workload in table.workloads:
        given = {k: row[workload] for k, row in _fixed_rows(table).items() if workload in row}
        if len(given) < NUMBERS:
            raise ConfigError(
                f"the table gives {len(given)} fixed draft lengths for {workload}, and the process that explains them "
                f"has {NUMBERS} numbers: nothing could be predicted from it"
            )
        process = fit_copying(given, curve, depth)
        traces = [write(process, table.tokens, n_prompt, seed) for seed in range(n_texts)]
        one = _simulated(workload, traces, sorted(todo.values(), key=_order), curve, FREE)
        outcomes = tuple(_compared(each, table, known, workload, process, curve, depth) for each in one.outcomes)
        found.append(
            Simulated(workload, one.texts, one.tokens, one.plain_tokens_per_s, one.best_speedup, outcomes, process)
        )
    return tuple(found)


def table_of(document: Mapping[str, Any]) -> Table | None:
    """The table in a JSON document; None where it holds none. Raises: ConfigError for one that cannot be read."""
    part = document.get("speedups_by_config", document)
    rows = part.get("rows") if isinstance(part, Mapping) else None
    if not isinstance(rows, Mapping) or not all(isinstance(row, Mapping) for row in rows.values()) or not rows:
        return None
    tokens = part.get("tokens")
    if type(tokens) is not int or not 2 <= tokens <= 1_000_000:
        raise ConfigError(f"a table of speed-ups says how many tokens its texts have; got {str(tokens)[:20]!r}")
    for label, row in rows.items():
        for workload, ratio in row.items():
            if type(ratio) not in (int, float) or not 0 < ratio < 1e6:
                raise ConfigError(
                    f"the table says {str(ratio)[:20]!r} for {label[:40]} on {workload[:40]}: no speed-up"
                )
    return Table(str(part.get("source", "")), tokens, rows)


def _check_lengths(policies: Iterable[Chosen], curve: CostCurve) -> None:
    """Raises: ConfigError for a policy that would run shorter than it is called; goodput ends where the curve does."""
    most = curve.max_rows - 1
    for chosen in policies:
        if chosen.name != "goodput" and chosen.options.get("draft_len", 0) > most:
            raise ConfigError(
                f"the policy {chosen.label} drafts more than the {most} tokens that the curve has costs for "
                f"({curve.max_rows} rows): try shorter ones, or measure wider"
            )


def _simulated(
    workload: Workload, traces: Sequence[Trace], policies: Sequence[Chosen], curve: CostCurve, draft: DraftCost
) -> Simulated:
    plain = sum(plain_s(trace, curve) for trace in traces)
    best = sum(oracle(trace, curve, draft).seconds for trace in traces)
    tokens = sum(len(trace.ids) - 1 for trace in traces)
    outcomes = []
    for chosen in policies:
        replayed = [replay(trace, chosen.made(curve), curve, draft) for trace in traces]
        seconds = sum(each.seconds for each in replayed)
        rounds = [round_ for each in replayed for round_ in each.rounds]
        outcomes.append(
            Outcome(
                policy=chosen.label,
                speedup=plain / seconds,
                tokens_per_s=tokens / seconds,
                share=best / seconds,
                rounds=len(rounds),
                draft_len=sum(round_.evaluated for round_ in rounds) / len(rounds),
                accepted_per_round=sum(round_.accepted for round_ in rounds) / len(rounds),
            )
        )
    return Simulated(workload, len(traces), tokens, tokens / plain, plain / best, tuple(outcomes))


def _compared(
    outcome: Outcome,
    table: Table,
    known: Mapping[str, str],
    workload: str,
    process: Copying,
    curve: CostCurve,
    depth: int,
) -> Outcome:
    """With what the table says of the same policy, and the exact speed-up of a fixed length."""
    measured = table.rows.get(known.get(outcome.policy, ""), {}).get(workload)
    length = re.fullmatch(r"fixed:draft_len=(\d+)", outcome.policy)
    exact = None if length is None else speedup(process, int(length[1]), curve, depth)
    return replace(_beside(outcome, measured), exact=exact)


def _beside(outcome: Outcome, measured: float | None) -> Outcome:
    """With the measured figure of the same policy, where there is one."""
    residual = None if measured is None else outcome.speedup / measured - 1
    return replace(outcome, measured=measured, residual=residual)


def _order(chosen: Chosen) -> tuple[int, int]:
    """Fixed lengths, then additive ones, each from short to long, then the others."""
    kinds = ("fixed", "additive")
    place = kinds.index(chosen.name) if chosen.name in kinds else len(kinds)
    return place, int(chosen.options.get("draft_len", 0))


def _in_table(table: Table) -> tuple[Chosen, ...]:
    return tuple(chosen for label in table.rows if (chosen := _of_label(label)) is not None)


def _fixed_rows(table: Table) -> dict[int, Mapping[str, float]]:
    """By draft length, the rows of fixed ones: all that may be fitted."""
    found = {}
    for label, row in table.rows.items():
        chosen = _of_label(label)
        if chosen is not None and chosen.name == "fixed":
            found[int(chosen.options["draft_len"])] = row
    return found


def _of_label(label: str) -> Chosen | None:
    """The policy that a row of a table is of: "K=2", "additive cap 7", "goodput"; None for another one."""
    fixed, additive = re.fullmatch(r"K=(\d{1,3})", label), re.fullmatch(r"additive cap (\d{1,3})", label)
    if fixed:
        return fixed_at(int(fixed[1]))
    if additive:
        return additive_to(int(additive[1]))
    return Chosen("goodput", "goodput", {}) if label == "goodput" else None
