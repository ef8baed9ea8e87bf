"""How long lookups take to propose and to observe, at 1,000, 10,000 and 100,000 tokens of context, and their memory.

Writes one JSON record with every sample, and prints a table. Nothing here passes or fails: that the work does not grow
with the context is held by tests that count it.
"""

from __future__ import annotations

import argparse
import tracemalloc
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common import RECORDS, cell, summary, timed, write_record

from surefoot.core.ports import Drafter
from surefoot.core.types import Ids
from surefoot.drafters.ngram import NgramDrafter
from surefoot.drafters.ngram import Options as NgramOptions
from surefoot.drafters.suffix.drafter import SuffixDrafter
from surefoot.drafters.suffix.options import Options as SuffixOptions
from surefoot.drafters.union.drafter import Union
from surefoot.drafters.union.member import Member
from surefoot.drafters.union.options import Seat

STREAMS = ("zipf", "distinct", "constant", "period-2")
BUDGET = 7  # chosen: the cap of the additive policy
OBSERVED = 4  # chosen: a good round, three accepted drafts and one token more
WARM_UP = 50


@dataclass(frozen=True, slots=True)
class Kind:
    """A drafter that is timed: how it is made, and its options for the record."""

    make: Callable[[], Drafter]
    options: Mapping[str, Any]


def both() -> Drafter:
    """The union of the two, by value: what choosing adds."""
    return Union(
        [
            Member(Seat("suffix", {}), SuffixDrafter(SuffixOptions())),
            Member(Seat("ngram", {}), NgramDrafter(NgramOptions())),
        ],
        "value",
        None,
    )


KINDS: dict[str, Kind] = {
    "ngram": Kind(lambda: NgramDrafter(NgramOptions()), asdict(NgramOptions())),
    "suffix": Kind(lambda: SuffixDrafter(SuffixOptions()), asdict(SuffixOptions())),
    "tree": Kind(lambda: SuffixDrafter(SuffixOptions(branches=3)), asdict(SuffixOptions(branches=3))),
    "union": Kind(both, {"members": ["suffix", "ngram"], "choice": "value"}),
}


class Chain:
    """Scores of a chain of which nothing is read but the number of its rows."""

    rows = width = BUDGET + 1


def stream(kind: str, length: int, rng: np.random.Generator) -> Ids:
    """Token ids (length,) int32.

    zipf: drawn by Zipf's law (exponent 1.1, 49,152 ids), and every second stretch of 8 to 64 tokens repeats some
    earlier one. distinct: no id twice, the largest index. constant and period-2: loops, every n-gram the same.
    """
    if kind == "distinct":
        return rng.permutation(length).astype(np.int32)
    if kind in ("constant", "period-2"):
        return (np.arange(length) % {"constant": 1, "period-2": 2}[kind]).astype(np.int32)
    weights = 1.0 / np.arange(1, 49_153) ** 1.1
    ids = rng.choice(len(weights), size=length, p=weights / weights.sum()).astype(np.int32)
    place = 64
    while place < length:
        size = min(int(rng.integers(8, 65)), length - place)
        start = int(rng.integers(0, place - size + 1))
        ids[place : place + size] = ids[start : start + size]
        place += size + int(rng.integers(8, 65))
    return ids


def memory_bytes(drafter: Drafter, ids: Ids, scores: Any) -> int:
    """What a drafter holds after it has begun on these ids. Source: tracemalloc, which counts Python's own blocks."""
    tracemalloc.start()
    try:
        drafter.begin(ids[:-1], int(ids[-1]), scores)
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def measure(name: str, kind: str, context: int, samples: int, seed: int) -> dict[str, Any]:
    """One row: the drafter starts with `context` tokens, then proposes and observes `samples` times.

    In the stream of tokens each draft is judged against what follows, so that a union learns as it does in a text.
    """
    rounds = samples + WARM_UP
    ids = stream(kind, context + OBSERVED * rounds, np.random.default_rng(seed))
    scores: Any = Chain()
    drafter = KINDS[name].make()
    begin_s, _ = timed(partial(drafter.begin, ids[: context - 1], int(ids[context - 1]), scores))
    propose_s, observe_s, drafted = [], [], []
    for number in range(rounds):
        new_ids = tuple(ids[context + OBSERVED * number :][:OBSERVED].tolist())
        took, draft = timed(partial(drafter.propose, BUDGET))
        propose_s.append(took)
        drafted.append(len(draft))
        observe_s.append(timed(partial(drafter.observe, new_ids, scores))[0])
    return {
        "drafter": name,
        "stream": kind,
        "context": context,
        "bytes_per_token": memory_bytes(KINDS[name].make(), ids[:context], scores) / context,
        "begin_s": begin_s,
        "drafted_mean": float(np.mean(drafted[WARM_UP:])),
        "propose": summary(propose_s[WARM_UP:]),
        "observe": summary(observe_s[WARM_UP:]),
    }


def table(rows: list[dict[str, Any]]) -> str:
    lines = [
        f"{'drafter':>8} {'stream':>9} {'context':>8} {'begin us/token':>14} {'bytes/token':>11} {'drafted':>8}   "
        f"{'propose us':<19} observe us"
    ]
    for row in rows:
        cells = [cell(part, 1e-6) for part in (row["propose"], row["observe"])]
        lines.append(
            f"{row['drafter']:>8} {row['stream']:>9} {row['context']:>8} "
            f"{1e6 * row['begin_s'] / row['context']:>14.2f} {row['bytes_per_token']:>11.0f} "
            f"{row['drafted_mean']:>8.2f}   {cells[0]:<19} {cells[1]}"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--contexts", type=int, nargs="+", default=[1_000, 10_000, 100_000], help="tokens of context")
    parser.add_argument("--drafters", nargs="+", default=list(KINDS), choices=list(KINDS), help="which of them")
    parser.add_argument("--samples", type=int, default=500, help="proposals per row")
    parser.add_argument("--seed", type=int, default=1, help="seed of the token streams")
    parser.add_argument(
        "--out",
        type=Path,
        default=RECORDS / "proposal_time.json",
        help="where the record goes",
    )
    arguments = parser.parse_args()
    rows = [
        measure(name, kind, context, arguments.samples, arguments.seed)
        for name in arguments.drafters
        for kind in STREAMS
        for context in arguments.contexts
    ]
    print(table(rows))
    print(f"\nbudget {BUDGET} tokens, {OBSERVED} observed at once; median [95 % interval] of {arguments.samples} calls")
    write_record(
        arguments.out,
        "seconds per call of drafters that look up, wall clock, and bytes that they hold",
        rows,
        options={name: KINDS[name].options for name in arguments.drafters},
        budget=BUDGET,
        observed_tokens=OBSERVED,
        seed=arguments.seed,
    )


if __name__ == "__main__":
    main()
