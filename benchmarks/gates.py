"""Gates that stay closed against gates that open again, on texts whose nature changes on the way.

    python benchmarks/gates.py

Texts are made of two of `long_texts.py`: one that nobody can look up (chat and questions, drawn), and one that copies
(code, tools and retrieval, greedy). Both prompts come first, then both texts; the second text comes once the first has
ended. A union of one member writes them again under the match judge, with each gate. Costs are those of measured
curves, on a virtual clock.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from common import RECORDS, write_record
from written import Text, curve, given, ratio, texts

from surefoot.core.cost import CostCurve
from surefoot.core.ports import Policy
from surefoot.core.types import Round, State
from surefoot.drafters.ngram import NgramDrafter
from surefoot.drafters.ngram import Options as NgramOptions
from surefoot.drafters.union.drafter import Union
from surefoot.drafters.union.gate import Rule
from surefoot.drafters.union.member import Member
from surefoot.drafters.union.options import Seat
from surefoot.policies.fixed import FixedPolicy
from surefoot.policies.fixed import Options as FixedOptions
from surefoot.policies.goodput.policy import GoodputPolicy
from surefoot.policies.goodput.policy import Options as GoodputOptions

CURVES = ("ov-stateful-fp32-smol-200", "torch-fp32-smol135m-200")
DRAFT_LEN = 7
HALF = 256
"""Tokens of each part."""

DEAR = 0.15
"""Of a plain round for each drafted token: what a draft model costs here (drafters/union/options.py)."""

ALWAYS, DEFAULT, STAYS = Rule(close_below=0.0), Rule(), Rule(open_above=1.0, probe_every=0)


@dataclass(frozen=True, slots=True)
class Arm:
    """A gate and what a drafted token costs. min_n: the shortest match that the drafter takes."""

    rule: Rule
    cost: float = 0.0
    min_n: int = 2


ARMS: Mapping[str, Arm] = {
    "free, no gate": Arm(ALWAYS),
    "free, opens again": Arm(DEFAULT),
    "free, stays closed": Arm(STAYS),
    "free, one token matches, no gate": Arm(ALWAYS, min_n=1),
    "free, one token matches, opens again": Arm(DEFAULT, min_n=1),
    "free, one token matches, stays closed": Arm(STAYS, min_n=1),
    "dear, no gate": Arm(Rule(close_below=0.0), DEAR, 1),
    "dear, probes every 8 rounds": Arm(Rule(probe_every=8), DEAR, 1),
    "dear, probes every 32 rounds": Arm(DEFAULT, DEAR, 1),
    "dear, probes every 128 rounds": Arm(Rule(probe_every=128), DEAR, 1),
    "dear, stays closed": Arm(STAYS, DEAR, 1),
}


class Chain:
    """Scores of a chain of which nothing is read but the number of its rows."""

    def __init__(self, rows: int) -> None:
        self.rows = self.width = rows


def spliced(first: Text, second: Text) -> Text:
    """Both prompts, then the beginnings of both texts."""
    return Text(
        f"{first.workload}, then {second.workload}",
        f"{first.id}, then {second.id}",
        second.temperature,
        np.concatenate([first.prompt, second.prompt]),
        first.ids[:HALF] + second.ids[:HALF],
    )


def written_again(text: Text, arm: Arm, policy: Policy) -> list[list[int]]:
    """Of each round: where it began, drafts proposed, scored and held."""
    drafter = NgramDrafter(NgramOptions(min_n=arm.min_n))
    union = Union([Member(Seat("ngram", {}, cost=arm.cost, rule=arm.rule), drafter)], "value", None)
    nothing: Any = Chain(1)
    union.begin(text.prompt, text.ids[0], nothing)
    found, emitted = [], 1
    while emitted < len(text.ids):
        depth, room = len(text.prompt) + emitted - 1, len(text.ids) - emitted - 1
        budget = min(policy.budget(State(room, depth, emitted)), room)
        draft = union.propose(budget)
        kept = policy.cut(draft) if budget else 0
        rest = np.asarray(text.ids[emitted : emitted + kept])
        wrong = np.flatnonzero(draft.ids[:kept] != rest)
        held = int(wrong[0]) if len(wrong) else kept
        new_ids = text.ids[emitted : emitted + held + 1]
        shown: Any = Chain(kept + 1)
        union.observe(new_ids, shown)
        policy.learn(
            Round(
                new_ids, len(draft), len(draft) - kept, held, depth, kept + 1, kept + 1, draft.source, draft.match_len
            )
        )
        found.append([emitted, len(draft), kept, held])
        emitted += len(new_ids)
    return found


def by_gate(text: Text) -> dict[str, list[list[int]]]:
    """The rounds of a text with each gate, and under goodput without one."""
    found = {name: written_again(text, arm, FixedPolicy(FixedOptions(DRAFT_LEN))) for name, arm in ARMS.items()}
    for name in CURVES:
        policy = GoodputPolicy(GoodputOptions(), curve(name))
        found[f"goodput on {name}"] = written_again(text, Arm(ALWAYS), policy)
    return found


def seconds(rounds: Sequence[Sequence[int]], known: CostCurve, cost: float) -> float:
    """Of these rounds where forwards cost what the curve says, and a drafted token `cost` plain rounds."""
    plain_s = known.price(1, 200).seconds
    return sum(known.price(kept + 1, 200).seconds + cost * plain_s * drafted for _, drafted, kept, _ in rounds)


def halves(row: Mapping[str, Any], arm: str) -> list[list[list[int]]]:
    """The rounds that began in each part."""
    rounds = row["rounds"][arm]
    return [[each for each in rounds if (each[0] >= row["change"]) == second] for second in (False, True)]


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """By order of the parts and arm: tokens per round and proposed drafts a token in each part; speed by plain."""
    lines = []
    for order in dict.fromkeys(row["order"] for row in rows):
        some = [row for row in rows if row["order"] == order]
        for arm in some[0]["rounds"]:
            cells = []
            for part in (0, 1):
                done = [halves(row, arm)[part] for row in some]
                tokens = ratio([sum(each[3] + 1 for each in found), len(found)] for found in done)
                proposed = sum(each[1] for found in done for each in found)
                total = sum(each[3] + 1 for found in done for each in found)
                cells.append(f"{tokens} with {proposed / total:.2f} proposed a token")
            for name in CURVES:
                known, cost = curve(name), ARMS[arm].cost if arm in ARMS else 0.0
                pairs = [
                    [(row["tokens"] - 1) * known.price(1, 200).seconds, seconds(row["rounds"][arm], known, cost)]
                    for row in some
                ]
                cells.append(f"{name} {ratio(pairs)}")
            lines.append(f"{order:18}{arm:38}" + "   ".join(cells))
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RECORDS / "gates.json")
    out = parser.parse_args().out
    free = [text for text in texts(0.7) if text.workload in ("chat", "question")]
    copies = [text for text in texts(0.0) if text.workload in ("code", "tools", "retrieval")]
    rows = []
    for number, copy in enumerate(copies):
        other = free[number % len(free)]
        for order, first, second in (("free, then copy", other, copy), ("copy, then free", copy, other)):
            text, change = spliced(first, second), min(HALF, len(first.ids))
            rows.append(
                {"order": order, "id": text.id, "tokens": len(text.ids), "change": change, "rounds": by_gate(text)}
            )
    print(table(rows))
    write_record(
        out, "rounds by gate: where, proposed, scored, held", rows, draft_len=DRAFT_LEN, **given(free + copies)
    )


if __name__ == "__main__":
    main()
