"""What each kind of OpenVINO cache costs: python benchmarks/openvino_caches.py MODEL [--threads 1 2] [--depths ...]

MODEL is a GGUF file or a folder of safetensors, exported here in both kinds. Rounds alternate between them in one
process: a block of S rows is scored and its first row kept, as where every draft is wrong. A cache inside the model
then carries S - 1 rows more each round; the last round comes before removing them would pay, except at 200 tokens.
"""

from __future__ import annotations

import argparse
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common import RECORDS, cell, interval, median, summary, timed, write_record

from surefoot.core.types import as_ids
from surefoot.targets.openvino import Options, build
from surefoot.targets.openvino.export import export

ROWS, KINDS = (1, 4, 8), ("state", "caller")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--depths", type=int, nargs="+", default=[200, 850, 4000])
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--weights", default="fp16")
    asked = parser.parse_args()
    rows: list[dict[str, Any]] = []
    settings: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as made:
        for kind in KINDS:
            export(asked.model, Path(made) / kind, asked.weights, cache=kind)
        for threads in asked.threads:
            options = Options(threads=threads, ctx_size=max(asked.depths) + 64 * asked.rounds)
            targets = [build(options, Path(made) / kind) for kind in KINDS]
            settings[str(threads)] = {k: dict(t.caps.settings) for k, t in zip(KINDS, targets, strict=True)}
            rows += measure(targets, sorted(asked.depths), asked.rounds, threads)
    more = {"model": asked.model.name, "weights": asked.weights, "settings": settings}
    write_record(RECORDS / "openvino_caches.json", "two kinds of cache", rows, ("openvino", "numpy"), **more)


def measure(targets: list[Any], depths: list[int], rounds: int, threads: int) -> list[dict[str, Any]]:
    """A row for each depth and number of rows."""
    rng = np.random.default_rng(0)
    draw = partial(rng.integers, 3, targets[0].caps.vocab_size)
    sessions, found = [target.open() for target in targets], []
    for depth in depths:
        prompt = as_ids(draw(depth - sessions[0].length))
        prefill = [timed(partial(session.prefill, prompt)) for session in sessions]
        delta = float(np.abs(prefill[0][1].logits(0) - prefill[1][1].logits(0)).max())
        for n in ROWS:
            for session in sessions:
                session.extend(as_ids(draw(n)))  # the first block of a width is prepared by the runtime
                session.commit(0)
            parts: list[list[tuple[float, float]]] = [[], []]
            for i in range(rounds):
                block = as_ids(draw(n))
                for side in (0, 1) if i % 2 == 0 else (1, 0):
                    extend_s, _ = timed(partial(sessions[side].extend, block))
                    commit_s, _ = timed(partial(sessions[side].commit, 1))
                    parts[side].append((extend_s, commit_s))
            found.append(compared(threads, depth, n, parts, [seconds for seconds, _ in prefill], delta))
            for session in sessions:
                session.reset(depth)
    return found


def compared(
    threads: int, depth: int, n: int, parts: list[list[tuple[float, float]]], prefill_s: list[float], delta: float
) -> dict[str, Any]:
    """The two kinds beside each other: a row of the record, also printed."""
    ratios = [two[0] / one[0] for one, two in zip(*parts, strict=True)]
    row: dict[str, Any] = {
        "threads": threads,
        "depth": depth,
        "rows": n,
        "prefill_s": dict(zip(KINDS, prefill_s, strict=True)),
    }
    for kind, samples in zip(KINDS, parts, strict=True):
        row[kind] = {"extend": summary([s[0] for s in samples]), "commit": summary([s[1] for s in samples])}
    row |= {"ratio": median(ratios), "ratio_interval": interval(ratios), "largest_delta_of_prefill": delta}
    low, high = row["ratio_interval"]
    print(
        f"{threads} threads, {depth:5} tokens, {n} rows: state {cell(row['state']['extend'], 1e-3)} ms,"
        f" caller {cell(row['caller']['extend'], 1e-3)} ms, caller/state {row['ratio']:.2f} [{low:.2f}, {high:.2f}];"
        f" commit {cell(row['state']['commit'], 1e-3)} and {cell(row['caller']['commit'], 1e-3)} ms;"
        f" prompt {prefill_s[0]:.1f} and {prefill_s[1]:.1f} s; delta {delta:.0e}",
        flush=True,
    )
    return row


if __name__ == "__main__":
    main()
