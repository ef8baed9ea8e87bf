"""Whether what the model said behind the last accepted token is a draft worth its rows.

    python benchmarks/lookahead.py [--tokens N] [--each N]

SmolLM2 on OpenVINO in half precision writes after our prompts with the drafter `lookahead`, which has to be asked
live: its guesses come from rows behind rejected drafts. Guesses alone at two draft lengths, greedy and drawn; then
lookup and guesses under `goodput` on two curves, a staircase whose second and third row are free and that of
OpenVINO, beside lookup alone on the same texts. Seconds are those of the curves; nothing is timed.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common import RECORDS, write_record
from written import Text, curve, offers, ratio

import surefoot
from surefoot.core.cost import CostCurve
from surefoot.core.judge import make_judge
from surefoot.core.limits import Limits
from surefoot.core.loop import generate
from surefoot.core.plateaus import staircase
from surefoot.core.ports import Policy
from surefoot.core.sampling import Sampling
from surefoot.core.types import Ids, Round
from surefoot.drafters.lookahead import LookaheadDrafter, Options
from surefoot.drafters.ngram import NgramDrafter
from surefoot.drafters.ngram import Options as NgramOptions
from surefoot.lab import workloads
from surefoot.lab.replay import replay
from surefoot.policies.fixed import FixedPolicy
from surefoot.policies.fixed import Options as FixedOptions
from surefoot.policies.goodput.policy import GoodputPolicy
from surefoot.policies.goodput.policy import Options as GoodputOptions

STAIRCASE, OPENVINO = "m4max-30b-int4", "ov-stateful-fp32-smol-200"
FREE = ("chat", "question")
"""Workloads whose texts copy little from their prompts."""


@dataclass(frozen=True, slots=True)
class Arm:
    """What drafts, and how long. draft_len: always so many; else goodput on `curve`."""

    options: Options
    draft_len: int = 0
    curve: str = ""
    temperature: float = 0.0

    def policy(self) -> Policy:
        if self.draft_len:
            return FixedPolicy(FixedOptions(self.draft_len))
        return GoodputPolicy(GoodputOptions(), curve(self.curve))


ARMS: Mapping[str, Arm] = {
    "guesses, K=2": Arm(Options(window=2, max_n=0), draft_len=2),
    "guesses, K=7": Arm(Options(window=7, max_n=0), draft_len=7),
    "guesses, K=7, drawn": Arm(Options(window=7, max_n=0), draft_len=7, temperature=0.7),
    f"goodput on {STAIRCASE}": Arm(Options(), curve=STAIRCASE),
    f"goodput on {OPENVINO}": Arm(Options(), curve=OPENVINO),
}


def write(model: surefoot.Model, prompt: Ids, arm: Arm, tokens: int, seed: int) -> list[Round]:
    """The rounds of one text."""
    ends = model.tokenizer.eos_ids
    session = model.target.open()
    try:
        return list(
            generate(
                session,
                prompt,
                caps=model.target.caps,
                drafter=LookaheadDrafter(arm.options),
                policy=arm.policy(),
                judge=make_judge("match", Sampling(temperature=arm.temperature, seed=seed, end_ids=ends)),
                limits=Limits(tokens, ends),
                clock=lambda: 0.0,
            )
        )
    finally:
        session.close()


def ids_of(rounds: Sequence[Round]) -> tuple[int, ...]:
    return tuple(token for round_ in rounds for token in round_.new_ids)


def shape(rounds: Sequence[Round]) -> list[list[Any]]:
    """Of each round behind the prefill: source, tokens proposed, rows, rows computed, drafts that held, context."""
    return [[r.source, r.drafted, r.rows, r.width, r.accepted, r.depth] for r in rounds if r.source != "prefill"]


def lookup(text: Text, known: CostCurve, options: Options) -> list[Round]:
    """The same text by lookup alone under goodput."""
    drafter = NgramDrafter(NgramOptions(max_n=options.max_n, min_n=options.min_n))
    return list(replay(offers(drafter, text), GoodputPolicy(GoodputOptions(), known), known).rounds)


def seconds(rounds: Sequence[Sequence[Any]], known: CostCurve) -> float:
    """On the curve, at the context that it was measured at."""
    depth = known.points[0].depth
    return sum(known.price(rows, depth).seconds for _, _, rows, *_ in rounds)


def report(rows: Sequence[Mapping[str, Any]]) -> str:
    """By workload, on free text and on all, and by arm: tokens per round, first guesses that held, rounds by rows, and
    speed by plain on the curves."""
    lines = []
    names = tuple(dict.fromkeys(row["workload"] for row in rows))
    for title, wanted in {**{name: (name,) for name in names}, "free text": FREE, "all": names}.items():
        some = [row for row in rows if row["workload"] in wanted]
        for name in some[0]["rounds"]:
            every = [row["rounds"][name] for row in some]
            tokens = ratio([sum(each[4] + 1 for each in found), len(found)] for found in every)
            guessed = [[each for each in found if each[0] == "lookahead" and each[2] > 1] for found in every]
            held = ratio([sum(each[4] > 0 for each in found), len(found)] for found in guessed)
            cells = [f"{tokens} a round", f"guessed in {sum(map(len, guessed))}, first held {held}"]
            used = Counter(each[2] for found in every for each in found)
            cells.append("rows " + " ".join(f"{count}:{used[count]}" for count in sorted(used)))
            for each in (STAIRCASE, OPENVINO):
                if name.endswith(each):
                    known = curve(each)
                    plain = known.price(1, known.points[0].depth).seconds
                    speed = ratio([sum(e[4] + 1 for e in found) * plain, seconds(found, known)] for found in every)
                    lone = [row["rounds"][f"lookup alone, goodput on {each}"] for row in some]
                    pairs = zip(lone, every, strict=True)
                    more = ratio([seconds(alone, known), seconds(found, known)] for alone, found in pairs)
                    cells.append(f"speed {speed}, by lookup alone {more}")
            lines.append(f"{title:12}{name:50}{'   '.join(cells)}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--each", type=int, default=1, help="prompts of each workload")
    parser.add_argument("--out", type=Path, default=RECORDS / "lookahead.json")
    options = parser.parse_args()
    model = surefoot.load("smollm2-135m", runtime="openvino", weights="fp16", drafts="off")
    tops = {
        name: [plateau.last for plateau in staircase(curve(name), curve(name).points[0].depth).plateaus]
        for name in (STAIRCASE, OPENVINO)
    }
    rows: list[dict[str, Any]] = []
    for seed, prompt in enumerate(workloads.select(workloads.own(), each=options.each)):
        ids = model.encode(prompt.content, tools=prompt.tools)
        done = {name: write(model, ids, arm, options.tokens, seed) for name, arm in ARMS.items()}
        greedy = {ids_of(rounds) for name, rounds in done.items() if not ARMS[name].temperature}
        text = Text(prompt.workload, prompt.id, 0.0, ids, next(iter(greedy)))
        for name in (STAIRCASE, OPENVINO):
            done[f"lookup alone, goodput on {name}"] = lookup(text, curve(name), ARMS[f"goodput on {name}"].options)
        rows.append({
            "workload": prompt.workload, "id": prompt.id, "tokens": len(text.ids), "greedy_texts": len(greedy),
            "rounds": {name: shape(rounds) for name, rounds in done.items()},
        })  # fmt: skip
        print(prompt.id, flush=True)
        write_record(
            options.out, "rounds of lookahead: source, proposed, rows, width, held, context", rows, ["openvino"],
            tokens=options.tokens, tops=tops,
        )  # fmt: skip
    print(report(rows), tops)


if __name__ == "__main__":
    main()
