"""SmolLM2 on OpenVINO: plain against OpenVINO GenAI, and drafts on against off, in alternating pairs.

    python benchmarks/openvino_pairs.py [--weights fp16] [--tokens N] [--pairs N]

Every pair runs both sides one after the other, the order turned from pair to pair. Ratios are of tokens per second
after the prompt was read. GenAI gets the same cache precision, activation quantisation and threads, which are printed.
Needs openvino-genai.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from common import RECORDS, interval, median, write_record

import surefoot
from surefoot.engine.config import Config, load_config
from surefoot.lab.vendor import open_vendor

PROMPTS = Path(__file__).resolve().parent.parent / "tests" / "data" / "prompts.json"
CHOSEN = {"chat": 0, "code": 2, "json": 4}
LENGTHS = range(1, 11)


@dataclass(frozen=True)
class Run:
    """One text: its ids, tokens per second after the prompt, and what the rounds did (None for the vendor)."""

    ids: tuple[int, ...]
    tokens_per_second: float
    stats: dict[str, Any] | None = None


def ours(model: surefoot.Model, prompt: str, config: Config) -> Run:
    with model.generate(prompt, config=config) as generation:
        for _ in generation:
            pass
        stats = generation.stats()
        return Run(tuple(generation.ids), stats.tokens_per_second, asdict(stats))


def vendor(model: surefoot.Model, tokens: int) -> Callable[[str], Run]:
    """The vendor's pipeline on the same folder with the same settings."""
    theirs = open_vendor(model)
    print(f"vendor settings: {dict(theirs.settings)}")

    def write(prompt: str) -> Run:
        side = theirs.plain(model.encode(prompt), tokens)
        return Run(tuple(side.ids), side.tokens_per_second)

    return write


def alternate(first: Callable[[], Run], second: Callable[[], Run], count: int) -> list[tuple[Run, Run]]:
    """`count` pairs of runs, the order turned from pair to pair."""
    pairs = []
    for number in range(count):
        runs = [side() for side in ((first, second) if number % 2 == 0 else (second, first))]
        pairs.append((runs[0], runs[1]) if number % 2 == 0 else (runs[1], runs[0]))
    return pairs


def compare(name: str, workload: str, pairs: list[tuple[Run, Run]]) -> dict[str, Any]:
    """One row of the record: the ratio of the second side to the first, pair by pair."""
    ratios = [second.tokens_per_second / first.tokens_per_second for first, second in pairs]
    low, high = interval(ratios)
    base, other = (median([pair[side].tokens_per_second for pair in pairs]) for side in (0, 1))
    same = all(first.ids == second.ids for first, second in pairs)
    stats = pairs[0][1].stats or {}
    print(
        f"{workload:<5} {name:<14} {base:7.1f} {other:7.1f}   {median(ratios):5.2f} [{low:.2f}, {high:.2f}]   "
        f"{stats.get('accepted_per_round', 0):5.2f}   {100 * stats.get('host_share', 0):5.2f}   "
        f"{len(pairs[0][0].ids):4}   {'same ids' if same else 'OTHER IDS'}"
    )
    return {
        "workload": workload, "what": name, "ratio_median": median(ratios), "ratio_low": low, "ratio_high": high,
        "same_ids": same, "pairs": [[asdict(first), asdict(second)] for first, second in pairs],
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", default="fp16", choices=("fp16", "int8", "int4"))
    parser.add_argument("--tokens", type=int, default=128, help="output tokens per text")
    parser.add_argument("--pairs", type=int, default=6, help="pairs per row")
    parser.add_argument("--out", type=Path, help="where the record goes")
    arguments = parser.parse_args()
    common = {"runtime": "openvino", "weights": arguments.weights, "max_tokens": arguments.tokens, "plan": "off"}
    model = surefoot.load("smollm2-135m", **common)
    off = load_config(overrides={**common, "drafts": "off"})
    ways = {f"fixed {k}": {"policy": "fixed", "draft_len": k} for k in LENGTHS} | {"additive": {"policy": "additive"}}
    peer = vendor(model, arguments.tokens)
    prompts = json.loads(PROMPTS.read_text(encoding="utf-8"))
    rows = []
    print("work  against plain    plain   other   ratio, median [95 %]  acc/round  host %  tokens")
    for workload, place in CHOSEN.items():
        prompt = prompts[place]["prompt"]
        plain = partial(ours, model, prompt, off)
        plain()  # warm
        peer(prompt)
        rows.append(compare("GenAI", workload, alternate(plain, partial(peer, prompt), arguments.pairs)))
        for name, way in ways.items():
            drafted = partial(ours, model, prompt, load_config(overrides={**common, **way}))
            rows.append(compare(name, workload, alternate(plain, drafted, arguments.pairs)))
    write_record(
        arguments.out or RECORDS / f"openvino_pairs_{arguments.weights}.json",
        "tokens per second after the prompt, in alternating pairs", rows, ("openvino", "openvino-genai"),
        settings=model.describe(), tokens=arguments.tokens,
    )  # fmt: skip


if __name__ == "__main__":
    main()
