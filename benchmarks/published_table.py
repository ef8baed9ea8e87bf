"""Predicts the adaptive rows of a published table of speed-ups from its fixed rows, on a virtual clock; prints
Markdown.

    python benchmarks/published_table.py [--texts 60] [--tokens 256]

Nothing here is timed. studies/seed-table.md holds what it printed.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

from surefoot.core.cost import fit_curve, published
from surefoot.core.ports import Policy
from surefoot.lab.copying import fit_copying, speedup, write
from surefoot.lab.oracle import oracle
from surefoot.lab.replay import plain_s, replay
from surefoot.policies import additive, fixed
from surefoot.policies.goodput import GoodputPolicy
from surefoot.policies.goodput.policy import Options

DATA = Path(__file__).parent.parent / "tests" / "data" / "cost-curves.json"
CURVE = "m4max-30b-int4"
FIXED = (1, 2, 3, 4, 8)
PROMPT_TOKENS = 720  # the middle of the text is then at the 848 tokens of the sweep


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--texts", type=int, default=60)
    parser.add_argument("--tokens", type=int, default=256)
    args = parser.parse_args()
    data = json.loads(DATA.read_text(encoding="utf-8"))
    record = next(each for each in data["published"] if each["id"] == CURVE)
    depth = record["context"]
    curve = fit_curve(published({int(rows): ms / 1e3 for rows, ms in record["rows"].items()}, depth))
    table = data["speedups_by_config"]["rows"]
    policies: dict[str, Callable[[], Policy]] = {
        **{f"K={k}": lambda k=k: fixed.FixedPolicy(fixed.Options(k)) for k in range(1, 9)},  # type: ignore[misc]
        **{
            f"additive cap {cap}": lambda cap=cap: additive.AdditivePolicy(additive.Options(cap))  # type: ignore[misc]
            for cap in (5, 7, 8)
        },
        "goodput": lambda: GoodputPolicy(Options(), curve),
    }
    for workload in ("chat", "code", "tools"):
        given = {k: table[f"K={k}"][workload] for k in FIXED}
        process = fit_copying(given, curve, depth)
        print(f"\n## {workload}\n\n{process}\n")
        print("| policy | measured | endless text, exact | texts | residual | share of the oracle |")
        print("|---|---|---|---|---|---|")
        traces = [write(process, args.tokens, PROMPT_TOKENS, seed) for seed in range(args.texts)]
        plain = sum(plain_s(trace, curve) for trace in traces)
        best = sum(oracle(trace, curve).seconds for trace in traces)
        for name, make in policies.items():
            seconds = sum(replay(trace, make(), curve).seconds for trace in traces)
            found = table.get(name, {}).get(workload)
            exact = speedup(process, int(name[2:]), curve, depth) if name.startswith("K=") else None
            print(
                f"| {name} | {found or ''} | {f'{exact:.2f}' if exact else ''} | {plain / seconds:.2f} "
                f"| {f'{plain / seconds / found - 1:+.0%}' if found else ''} | {best / seconds:.0%} |"
            )
        print(f"| oracle | | | {plain / best:.2f} | | 100% |")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
