"""What it brings that a draft which reaches the end of the text goes on by repeating itself.

    python benchmarks/periodic_extension.py

The texts of `long_texts.py`, replayed with `ngram` and `suffix`, option `extend` on and off: tokens per round at fixed
draft lengths, rows for each token, and the time that `goodput` takes on a measured curve, on a virtual clock.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from common import RECORDS, write_record
from written import MAKERS, TEMPERATURES, Text, curve, given, loops, offers, ratio, rounds, texts

from surefoot.lab.replay import Trace, plain_s, replay
from surefoot.policies.goodput.policy import GoodputPolicy
from surefoot.policies.goodput.policy import Options as GoodputOptions

LENGTHS = (7, 15)
CURVES = ("ov-stateful-fp32-smol-200", "torch-fp32-smol135m-200", "llama-F16-smol-200")
LOOPS = 0.1
"""chosen: a text loops when a tenth of its tokens does."""


def counted(trace: Trace) -> dict[str, Any]:
    """Rounds, scored drafts and held drafts at each length, and seconds under goodput by curve."""
    found: dict[str, Any] = {}
    for length in LENGTHS:
        done = rounds(trace, length)
        found[f"fixed {length}"] = {
            "rounds": len(done),
            "drafted": sum(each.evaluated for each in done),
            "held": sum(each.accepted for each in done),
        }
    for name in CURVES:
        known = curve(name)
        done_s = replay(trace, GoodputPolicy(GoodputOptions(), known), known).seconds
        found[name] = {"goodput_s": done_s, "plain_s": plain_s(trace, known)}
    return found


def row_of(text: Text, drafter: str) -> dict[str, Any]:
    """A text with the option on and off."""
    periods = loops(text.ids)
    return {
        "workload": text.workload,
        "id": text.id,
        "temperature": text.temperature,
        "drafter": drafter,
        "tokens": len(text.ids),
        "in_loop": int((periods > 0).sum()),
        "periods": dict(Counter(periods[periods > 0].tolist())),
        "on": counted(offers(MAKERS[drafter](extend=True), text)),
        "off": counted(offers(MAKERS[drafter](extend=False), text)),
    }


def table(rows: Sequence[dict[str, Any]]) -> str:
    """By temperature, drafter and whether a text loops."""
    lines = []
    for temperature in TEMPERATURES:
        for drafter in MAKERS:
            for repeats in (True, False):
                some = [
                    row for row in rows
                    if row["temperature"] == temperature and row["drafter"] == drafter
                    and (row["in_loop"] > LOOPS * row["tokens"]) == repeats
                ]  # fmt: skip
                if some:
                    kind = "loop" if repeats else "others"
                    lines.append(f"T {temperature:<4}{drafter:7}{kind:7}{len(some):3} texts  {line(some)}")
    return "\n".join(lines)


def line(rows: Sequence[dict[str, Any]]) -> str:
    """Tokens per round off and on, drafts that failed for each token off and on, time on by off."""
    cells = []
    for length in LENGTHS:
        for side in ("off", "on"):
            counts = [row[side][f"fixed {length}"] for row in rows]
            tokens = ratio([row["tokens"] - 1, each["rounds"]] for row, each in zip(rows, counts, strict=True))
            wasted = sum(each["drafted"] - each["held"] for each in counts) / sum(row["tokens"] for row in rows)
            cells.append(f"K={length} {side} {tokens}, {wasted:.2f} failed a token")
    for name in CURVES:
        pairs = [[row["on"][name]["goodput_s"], row["off"][name]["goodput_s"]] for row in rows]
        cells.append(f"time on by off, {name}: {ratio(pairs)}")
    return "; ".join(cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RECORDS / "periodic_extension.json")
    out = parser.parse_args().out
    found = [text for temperature in TEMPERATURES for text in texts(temperature)]
    rows = [row_of(text, drafter) for text in found for drafter in MAKERS]
    print(table(rows))
    write_record(out, "drafts with and without periodic extension", rows, curves=CURVES, **given(found))


if __name__ == "__main__":
    main()
