"""How long a judge takes per row at a vocabulary of 152,000 tokens.

    python benchmarks/judge_time.py [--rounds N]

Each round judges one block of eight rows under every setting, the order shuffled. The draft of `match` stands whole,
so that every row is judged; that of `ratio` holds the likeliest tokens and falls where chance has it. The logits are
random with the shape of a language model's: `peaked` has a few likely tokens, `flat` many thousands.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from common import RECORDS, cell, summary, write_record

from surefoot.core.history import History
from surefoot.core.judge import make_judge
from surefoot.core.sampling import Sampling
from surefoot.core.types import Draft, Floats, Ids

V, ROWS = 152_000, 8

LAWS = {
    "greedy": Sampling(),
    "greedy, penalties": Sampling(repetition_penalty=1.1, presence_penalty=0.2, frequency_penalty=0.1),
    "full law": Sampling(temperature=0.8),
    "full law, penalties": Sampling(temperature=0.8, repetition_penalty=1.1, presence_penalty=0.2),
    "top-k 50": Sampling(temperature=0.8, top_k=50),
    "top-p 0.95": Sampling(temperature=0.8, top_p=0.95),
    "top-k 50, top-p 0.95, min-p 0.05": Sampling(temperature=0.8, top_k=50, top_p=0.95, min_p=0.05),
}


class Rows:
    """Scores that lie on the host already, their argmax taken on the device as a runtime does. Holds no state."""

    def __init__(self, matrix: Floats) -> None:
        self.matrix = matrix
        self.rows = self.width = len(matrix)
        self._argmax: Ids = matrix.argmax(axis=1).astype(np.int32)

    def argmax(self) -> Ids:
        return self._argmax

    def logits(self, row: int) -> Floats:
        return np.asarray(self.matrix[row])

    def tap(self, name: str) -> Any:
        raise KeyError(name)


def logits(shape: str, rng: np.random.Generator) -> Floats:
    """(ROWS, V) float32."""
    matrix = rng.normal(scale=2.0 if shape == "peaked" else 1.0, size=(ROWS, V))
    if shape == "peaked":
        likely = rng.integers(0, V, size=(ROWS, 50))
        np.put_along_axis(matrix, likely, 8 + 3 * rng.gumbel(size=likely.shape), axis=1)
    return matrix.astype(np.float32)


def one_block(judge: str, sampling: Sampling, scores: Rows, prompt: Ids) -> float:
    """Seconds per row judged. The draft is what the match judge writes, so that all of its rows are judged."""
    history = History(prompt)
    draft = Draft(np.zeros(0, np.int32))
    if judge == "match":
        first = make_judge("match", sampling)
        ids = [first.pick(scores, row, history) for row in range(ROWS - 1)]
        draft = Draft(np.asarray(ids, np.int32))
    else:
        draft = Draft(scores.argmax()[: ROWS - 1])
    history = History(prompt)
    if sampling.edits_logits:
        history.context.add(0)  # the tallies are built once per generation, not once per round
        history.output.add(0)
    chosen = make_judge(judge, sampling)
    chosen.pick(scores, 0, History(prompt))  # the cache of hashed ids is filled once per generation
    start = time.perf_counter()
    verdict = chosen.judge(draft, scores, history)
    return (time.perf_counter() - start) / len(verdict.new_ids)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=60, help="blocks per setting")
    parser.add_argument("--out", type=Path, default=RECORDS / "judge_time.json", help="where the record goes")
    arguments = parser.parse_args()
    rng = np.random.default_rng(5)
    prompt = rng.integers(0, V, 2000).astype(np.int32)
    settings = [
        (shape, name, judge)
        for shape in ("peaked", "flat")
        for name, sampling in LAWS.items()
        for judge in (("match",) if sampling.greedy else ("match", "ratio"))
    ]
    scores = {shape: Rows(logits(shape, rng)) for shape in ("peaked", "flat")}
    samples: dict[tuple[str, str, str], list[float]] = {setting: [] for setting in settings}
    for number in range(arguments.rounds + 1):
        for place in rng.permutation(len(settings)):
            shape, name, judge = setting = settings[place]
            took = one_block(judge, LAWS[name], scores[shape], prompt)
            if number:
                samples[setting].append(took)
    rows = [
        {"logits": shape, "law": name, "judge": judge, **summary(samples[shape, name, judge])}
        for shape, name, judge in settings
    ]
    print(f"{'logits':<7} {'law':<33} {'judge':<6} ms a row, median [95 % interval]")
    for row in rows:
        print(f"{row['logits']:<7} {row['law']:<33} {row['judge']:<6} {cell(row, 1e-3)}")
    write_record(arguments.out, "seconds per judged row, V = 152,000", rows, vocabulary=V, block_rows=ROWS)


if __name__ == "__main__":
    main()
