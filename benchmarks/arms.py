"""What the arms of recorded benches are to each other: the policy by the best length, the union by its best member.

    python benchmarks/arms.py [RECORD ...] [--out FILE]

`surefoot bench` holds each arm against plain decoding. This holds them against each other, prompt by prompt, from the
same pairs. The best fixed length of a workload is picked from these very pairs, so that chance is in its favour. Rows
whose texts differ are left out. What stands against the runtime's own decoding is said first, since a ratio of two arms
of ours does not hang on it. Nothing is timed.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from common import RECORDS, write_record

from surefoot.lab import stats
from surefoot.lab.analysis import Analysis, analyse
from surefoot.lab.store import load

ARMS = "arms_*.jsonl"
Logs = Mapping[str, float]
"""By prompt: the log of an arm's tokens per second by those of plain decoding."""


def logs_of(analysis: Analysis) -> dict[tuple[str, int], dict[str, Logs]]:
    """By workload, budget and arm, the pairs that count."""
    sound = {
        (row.workload, row.budget, row.arm) for row in analysis.rows if row.kind == "peer" or "differs" not in row.why
    }
    found: defaultdict[tuple[str, int, str, str], list[float]] = defaultdict(list)
    for pair in analysis.pairs:
        if not pair.reasons and (pair.workload, pair.budget, pair.arm) in sound:
            found[pair.workload, pair.budget, pair.arm, pair.prompt].append(math.log(pair.ratio))
    rows: dict[tuple[str, int], dict[str, dict[str, float]]] = {}
    for (workload, budget, arm, prompt), values in found.items():
        rows.setdefault((workload, budget), {}).setdefault(arm, {})[prompt] = sum(values) / len(values)
    return rows  # type: ignore[return-value]


def by(arm: Logs, other: Logs) -> dict[str, Any] | None:
    """An arm by another one, over the prompts of both; without an interval where they are too few for one."""
    both = [math.exp(arm[prompt] - other[prompt]) for prompt in arm if prompt in other]
    if not both:
        return None
    found = stats.ratio_interval(both)
    ends = {} if found is None else {"low": found.low, "high": found.high}
    return {"ratio": math.exp(sum(map(math.log, both)) / len(both)), **ends, "prompts": len(both)}


def best(arms: Mapping[str, Logs], names: Iterable[str]) -> str | None:
    """The arm of the largest mean; None where there is none."""
    means = {name: sum(arms[name].values()) / len(arms[name]) for name in names if arms.get(name)}
    return max(means, key=means.__getitem__, default=None)


def row(workload: str, budget: int, arms: Mapping[str, Logs]) -> dict[str, Any]:
    """All comparisons of a workload at a budget of output tokens."""
    plain = dict.fromkeys((prompt for each in arms.values() for prompt in each), 0.0)
    single = [f"{name}/goodput" for name in ("ngram", "suffix", "lookahead")]
    fixed = best(arms, [name for name in arms if name.startswith("ngram/fixed")])
    peer = best(arms, [name for name in arms if name.startswith("peer")])
    member = best(arms, single) if "union/goodput" in arms else None
    policy = arms.get("ngram/goodput", {})
    union = arms.get("union/goodput", {})
    return {
        "workload": workload,
        "budget": budget,
        "by_plain": {name: by(each, plain) for name, each in arms.items()},
        "best_fixed": fixed,
        "goodput_by_best_fixed": by(policy, arms[fixed]) if fixed else None,
        "goodput_by_peer": by(policy, arms[peer]) if peer else None,
        "best_member": member,
        "union_by_best_member": by(union, arms[member]) if member else None,
        "union_by_peer": by(union, arms[peer]) if peer and union else None,
    }


def shown(found: Mapping[str, Any] | None) -> str:
    """`1.23 [1.10, 1.40]`, or `1.23 (5)` of five prompts, which have no interval."""
    if found is None:
        return "-"
    ends = f"[{found['low']:.2f}, {found['high']:.2f}]" if "low" in found else f"({found['prompts']})"
    return f"{found['ratio']:.2f} {ends}"


def mean(rows: Sequence[Mapping[str, Any]], key: str) -> float | None:
    """The geometric mean of a comparison over the workloads; None where one of them has none."""
    ratios = [each[key]["ratio"] if each[key] else None for each in rows]
    return None if None in ratios or not ratios else math.exp(sum(map(math.log, ratios)) / len(ratios))  # type: ignore[arg-type]


def compared(path: Path) -> dict[str, Any]:
    """A record, told and printed."""
    analysis = analyse(load(path))
    rows = [row(workload, budget, arms) for (workload, budget), arms in logs_of(analysis).items()]
    baseline = analysis.gates.get("baseline")
    run = analysis.run
    where = f"{run.model['model']} on {run.model['runtime']}, {run.machine['cpu']}, {run.machine['cores']} cores"
    print(f"\n{path.name}: {where}")
    print(f"plain decoding: {'no baseline gate' if baseline is None else baseline.text}")
    print(f"{len(analysis.pairs) - len(analysis.excluded)} pairs, {len(analysis.excluded)} left out")
    head = (
        "workload",
        "goodput by plain",
        "best fixed",
        "goodput by it",
        "by the peer",
        "union by best member",
        "by the peer",
    )
    lines = [
        (
            f"{each['workload']} {each['budget']}", shown(each["by_plain"].get("ngram/goodput")),
            f"{(each['best_fixed'] or '-').rpartition('=')[2]}: {shown(each['by_plain'].get(each['best_fixed']))}",
            shown(each["goodput_by_best_fixed"]), shown(each["goodput_by_peer"]),
            shown(each["union_by_best_member"]), shown(each["union_by_peer"]),
        )
        for each in rows
    ]  # fmt: skip
    widths = [max(len(line[place]) for line in (head, *lines)) for place in range(len(head))]
    for line in (head, *lines):
        print("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())
    means = {
        key: mean(rows, key)
        for key in ("goodput_by_best_fixed", "goodput_by_peer", "union_by_best_member", "union_by_peer")
    }
    print("geometric means: " + ", ".join(f"{key} {value:.3f}" for key, value in means.items() if value))
    return {"record": path.name, "workloads": rows, "means": means}


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "records", nargs="*", type=Path, metavar="RECORD", help="of `surefoot bench`; else the kept ones"
    )
    parser.add_argument("--out", type=Path, help="where the record of this goes")
    args = parser.parse_args()
    paths = args.records or sorted(RECORDS.glob(ARMS))
    if not paths:
        parser.error(f"there is no {ARMS} in {RECORDS}: name a record of surefoot bench")
    found = [compared(path) for path in paths]
    if args.out:
        write_record(args.out, "arms of benches held against each other", found)


if __name__ == "__main__":
    main()
