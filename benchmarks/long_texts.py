"""The texts that studies of drafters replay: what SmolLM2 writes after each of our prompts.

    python benchmarks/long_texts.py [--temperature T] [--tokens N]

OpenVINO, weights in half precision; token ids of prompts and texts, greedy or drawn with the number of the prompt as
seed. Drafts by suffix lookup save time and change nothing: the rows of a block equal single rows there. A text that the
record holds already is not written again, so an interrupted run goes on. Nothing is timed.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from common import write_record
from written import record_of

import surefoot
from surefoot.core.sampling import Sampling
from surefoot.lab import workloads
from surefoot.lab.workloads import Prompt

TOKENS = 1024


def write(model: surefoot.Model, prompt: Prompt, temperature: float, seed: int) -> dict[str, Any]:
    """One text."""
    config = replace(model.config, sampling=Sampling(temperature=temperature), seed=seed)
    with model.generate(prompt.content, tools=prompt.tools, config=config) as generation:
        list(generation)
    return {
        "workload": prompt.workload,
        "id": prompt.id,
        "seed": seed,
        "finish": generation.finish,
        "prompt": generation.prompt_ids.tolist(),
        "ids": list(generation.ids),
    }


def in_turn(prompts: Sequence[Prompt], each: int | None) -> list[tuple[int, Prompt]]:
    """The prompts with their seeds: the first of each workload, then the second of each, and so on."""
    seen: Counter[str] = Counter()
    turns = []
    for seed, prompt in enumerate(prompts):
        turns.append((seen[prompt.workload], seed, prompt))
        seen[prompt.workload] += 1
    chosen = [turn for turn in turns if each is None or turn[0] < each]
    return [(seed, prompt) for _, seed, prompt in sorted(chosen, key=lambda turn: turn[:2])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--temperature", type=float, default=0.0, help="0 is greedy")
    parser.add_argument("--tokens", type=int, default=TOKENS, help="longest text")
    parser.add_argument("--each", type=int, default=None, help="prompts of each workload; all unless given")
    parser.add_argument("--threads", type=int, default=0, help="of the runtime; 0 leaves it the choice")
    given = parser.parse_args()
    threads = {"threads": given.threads} if given.threads else {}
    model = surefoot.load(
        "smollm2-135m", runtime="openvino", weights="fp16", drafts="suffix", draft_len=7, max_tokens=given.tokens,
        **threads,
    )  # fmt: skip
    out = record_of(given.temperature)
    written = json.loads(out.read_text(encoding="utf-8"))["rows"] if out.exists() else []
    known = {text["id"] for text in written}
    for seed, prompt in in_turn(workloads.select(workloads.own()), given.each):
        if prompt.id in known:
            continue
        written.append(write(model, prompt, given.temperature, seed))
        write_record(
            out, "texts that plain decoding writes: token ids", written, ["openvino"],
            model="smollm2-135m", runtime="openvino", weights="fp16", temperature=given.temperature,
            tokens=given.tokens,
        )  # fmt: skip


if __name__ == "__main__":
    main()
