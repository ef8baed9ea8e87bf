"""How often a draft holds by the length of its match, and whether what is learned while writing says so.

    python benchmarks/match_length.py

The texts of `long_texts.py`; at every place the draft that `ngram` and `suffix` offer, from a single matching token on.
What the union learns of a drafter (`core/acceptance.py`) is asked for the chance of each draft before it is judged.
Nothing is timed.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from common import RECORDS, write_record
from written import MAKERS, TEMPERATURES, WORKLOADS, Text, given, ratio, texts

from surefoot.drafters.union.member import Member
from surefoot.drafters.union.options import Seat

LONGEST = 16
MATCHES = (1, 2, 3, 4, 5, 7, 9, 13, 17, 33)
"""First length of each group."""

CHANCES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.01)
SHORTEST = {"ngram": {"min_n": 1, "max_n": 32}, "suffix": {"min_match": 1}}
Row = dict[str, Any]


def offered(text: Text, drafter: str) -> list[list[float]]:
    """Of each draft: length of the match, tokens, tokens that held, chance given to the first one, tokens expected."""
    member = Member(Seat(drafter, {}), MAKERS[drafter](**SHORTEST[drafter]))
    nothing: Any = None  # lookups look at no scores
    member.drafter.begin(text.prompt, text.ids[0], nothing)
    found = []
    for at in range(1, len(text.ids)):
        draft = member.ask(LONGEST)
        if len(draft):
            rest = np.asarray(text.ids[at : at + len(draft)])
            wrong = np.flatnonzero(draft.ids[: len(rest)] != rest)
            held = int(wrong[0]) if len(wrong) else len(rest)
            chance, tokens = member.value(draft.head(1)), member.value(draft)
            found.append([draft.match_len, len(draft), held, round(chance, 4), round(tokens, 3)])
        member.learn((text.ids[at],))
        member.drafter.observe((text.ids[at],), nothing)
    return found


def group(match_len: float) -> str:
    """The name of the group that a match belongs to."""
    first = max(each for each in MATCHES if each <= match_len)
    after = next((each for each in MATCHES if each > first), None)
    if after is None:
        return f"{first} and more"
    return str(first) if after == first + 1 else f"{first} to {after - 1}"


GROUPS = tuple(dict.fromkeys(group(first) for first in MATCHES))


def by_text(rows: Sequence[Row], wanted: Callable[[Sequence[float]], bool]) -> list[list[Sequence[float]]]:
    """The drafts of each text that are wanted."""
    return [[each for each in row["drafts"] if wanted(each)] for row in rows]


def of_match(rows: Sequence[Row], name: str) -> str:
    """Share of drafts whose first token held, what was expected, tokens that held and were expected."""
    drafts = by_text(rows, lambda each: group(each[0]) == name)
    count = sum(map(len, drafts))
    if not count:
        return ""
    share = ratio([sum(each[2] >= 1 for each in text), len(text)] for text in drafts)
    every = [each for text in drafts for each in text]
    chance, held, tokens = (float(np.mean([each[n] for each in every])) for n in (3, 2, 4))
    return f"{count:6} drafts  {share}  expected {chance:.2f}  tokens {held:5.2f}  expected {tokens:5.2f}"


def tables(rows: Sequence[Row]) -> Iterable[str]:
    """By drafter and match; by drafter, workload and match; by the chance that was given."""
    for drafter in MAKERS:
        mine = [row for row in rows if row["drafter"] == drafter]
        for temperature in TEMPERATURES:
            some = [row for row in mine if row["temperature"] == temperature]
            for name in GROUPS:
                yield f"T {temperature:<4}{drafter:7} match {name:12} {of_match(some, name)}"
        for workload in WORKLOADS:
            some = [row for row in mine if row["workload"] == workload]
            shares = []
            for name in GROUPS:
                drafts = by_text(some, lambda each, name=name: group(each[0]) == name)  # type: ignore[misc]
                shares.append(ratio([sum(each[2] >= 1 for each in text), len(text)] for text in drafts).value)
            yield f"{drafter:7}{workload:12} " + " ".join(f"{share:5.2f}" for share in shares)
        for low, high in pairwise(CHANCES):
            drafts = by_text(mine, lambda each, low=low, high=high: low <= each[3] < high)  # type: ignore[misc]
            share = ratio([sum(each[2] >= 1 for each in text), len(text)] for text in drafts)
            count = sum(map(len, drafts))
            yield f"{drafter:7} chance {low:.1f} to {min(high, 1.0):.1f}: {count:6} drafts, held {share}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RECORDS / "match_length.json")
    out = parser.parse_args().out
    found = [text for temperature in TEMPERATURES for text in texts(temperature)]
    rows = [
        {
            "workload": text.workload,
            "id": text.id,
            "temperature": text.temperature,
            "drafter": drafter,
            "drafts": offered(text, drafter),
        }
        for text in found
        for drafter in MAKERS
    ]
    for line in tables(rows):
        print(line)
    write_record(
        out, "drafts by match: match_len, tokens, tokens held, chance given to the first, tokens expected", rows,
        options=SHORTEST, longest=LONGEST, **given(found),
    )  # fmt: skip


if __name__ == "__main__":
    main()
