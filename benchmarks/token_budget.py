"""How acceptance depends on the token budget: the same texts cut at 256, 512 and 1,024 tokens.

    python benchmarks/token_budget.py

The texts of `long_texts.py`, replayed with `ngram` and `suffix` at a fixed draft length. Beside the budgets stand the
stretches of a text, and how much of each is a loop. Nothing is timed.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from common import RECORDS, write_record
from written import MAKERS, TEMPERATURES, WORKLOADS, Text, given, head, loops, offers, ratio, rounds, texts

from surefoot.lab.replay import Trace

BUDGETS = (256, 512, 1024)
STRETCHES = ((0, 256), (256, 512), (512, 1024))
DRAFT_LEN = 7


def counted(trace: Trace) -> list[list[int]]:
    """Of each round: where it began, drafts that were scored, drafts that held."""
    found, emitted = [], 1
    for round_ in rounds(trace, DRAFT_LEN):
        found.append([emitted, round_.evaluated, round_.accepted])
        emitted += len(round_.new_ids)
    return found


def row_of(text: Text, drafter: str) -> dict[str, Any]:
    """The rounds of a text at each budget. The last round of a budget may be shorter than it would have been."""
    trace = offers(MAKERS[drafter](), text)
    return {
        "workload": text.workload,
        "id": text.id,
        "temperature": text.temperature,
        "drafter": drafter,
        "tokens": len(text.ids),
        "in_loop": [int((loops(text.ids)[first:last] > 0).sum()) for first, last in STRETCHES],
        "rounds": {str(budget): counted(head(trace, budget)) for budget in BUDGETS},
    }


def per_round(rows: Sequence[dict[str, Any]], budget: int) -> list[list[int]]:
    """By text, tokens after the first and rounds."""
    return [[min(row["tokens"], budget) - 1, len(row["rounds"][str(budget)])] for row in rows]


def in_stretch(rows: Sequence[dict[str, Any]], first: int, last: int) -> list[list[int]]:
    """By text, tokens and rounds of those that began between the two."""
    within = [[each for each in row["rounds"]["1024"] if first <= each[0] < last] for row in rows]
    return [[sum(held + 1 for _, _, held in each), len(each)] for each in within]


def table(rows: Sequence[dict[str, Any]], least: int) -> str:
    """Tokens per round by temperature, drafter and workload, of the texts that have at least so many tokens."""
    lines = [f"texts of {least} tokens and more: tokens per round by budget; by stretch; share of loops by stretch"]
    for temperature in TEMPERATURES:
        for drafter in MAKERS:
            for workload in (*WORKLOADS, "all"):
                some = [
                    row for row in rows
                    if row["temperature"] == temperature and row["drafter"] == drafter and row["tokens"] >= least
                    and workload in (row["workload"], "all")
                ]  # fmt: skip
                if not some:
                    continue
                budgets = [str(ratio(per_round(some, budget))) for budget in BUDGETS]
                stretches = [f"{ratio(in_stretch(some, *each)).value:.2f}" for each in STRETCHES]
                loops = [
                    sum(row["in_loop"][n] for row in some)
                    / max(1, sum(max(0, min(row["tokens"], last) - first) for row in some))
                    for n, (first, last) in enumerate(STRETCHES)
                ]
                shares = " ".join(f"{100 * share:3.0f} %" for share in loops)
                lines.append(
                    f"T {temperature:<4}{drafter:7}{workload:12}{len(some):3}  {'  '.join(budgets)}   "
                    f"{' '.join(stretches)}   {shares}"
                )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RECORDS / "token_budget.json")
    out = parser.parse_args().out
    found = [text for temperature in TEMPERATURES for text in texts(temperature)]
    rows = [row_of(text, drafter) for text in found for drafter in MAKERS]
    print(table(rows, 2))
    print(table(rows, BUDGETS[-1]))
    write_record(out, "drafts that held by token budget", rows, draft_len=DRAFT_LEN, **given(found))


if __name__ == "__main__":
    main()
