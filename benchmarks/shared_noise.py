"""How often drafts of a draft model stand as the temperature rises: shared noise, the likeliest token, and p/q.

    python benchmarks/shared_noise.py [--tokens N] [--each N] [--draft NAME]

SmolLM2 on OpenVINO in half precision, with its four-bit forms on two runtimes as draft models. Every draft has four
tokens. Three ways: the judge match with drafts drawn with the target's noise; match with the draft model's likeliest
tokens; the judge ratio with honest draws. What stood is counted live. Beside it stand the chances that the two laws
give, computed from both at each place of the text that match wrote: of shared noise exactly and by its bound
(1 - TV) / (1 + TV) (arXiv 2408.07978), of the likeliest token, and 1 - TV, which is what p/q reaches at a single
position (arXiv 2211.17192). Nothing is timed.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from common import RECORDS, write_record
from written import ratio

import surefoot
from surefoot.core.history import History
from surefoot.core.law import next_law
from surefoot.core.sampling import Sampling
from surefoot.core.types import Doubles, Floats, Ids, as_ids
from surefoot.engine.config import Part
from surefoot.lab import workloads
from surefoot.lab.workloads import Prompt

TEMPERATURES = (0.0, 0.3, 0.6, 1.0, 1.5)
LENGTH = 4
WORKLOADS = ("chat", "question", "translation")
WAYS = {"shared noise": ("match", "shared"), "likeliest token": ("match", "greedy"), "p/q": ("ratio", "shared")}
DRAFTS = {
    "int4 on OpenVINO": {"runtime": "openvino", "weights": "int4"},
    "Q4_1 on llama.cpp": {"runtime": "llamacpp"},
}


def write(model: surefoot.Model, prompt: Prompt, way: str, temperature: float, seed: int) -> surefoot.Generation:
    """One text with drafts of four tokens."""
    judge, draws = WAYS[way]
    drafts = replace(model.config.drafts, options={**model.config.drafts.options, "draws": draws, "confidence": 0.0})
    config = replace(
        model.config, judge=judge, drafts=drafts, policy=Part("fixed", {"draft_len": LENGTH}), seed=seed,
        sampling=Sampling(temperature=temperature),
    )  # fmt: skip
    with model.generate(prompt.content, config=config) as generation:
        list(generation)
    return generation


def rounds_of(generation: surefoot.Generation) -> list[list[int]]:
    """Of each round that drafted four tokens and went on: where its first draft stood, and how many of them held."""
    found, emitted = [], 0
    for round_ in generation.rounds:
        if round_.evaluated == LENGTH and round_.finish is None:
            found.append([emitted, round_.accepted])
        emitted += len(round_.new_ids)
    return found


def survival(accepted: Sequence[int]) -> list[float]:
    """By position, of the drafts of four tokens."""
    return [sum(each >= k for each in accepted) / max(1, len(accepted)) for k in range(1, LENGTH + 1)]


def rows_along(target: Any, prompt: Ids, ids: Sequence[int]) -> list[Floats]:
    """What a model says after the prompt and after each token of a text but the last."""
    session = target.open()
    try:
        rows = [session.prefill(prompt).logits(0).copy()]
        for token in ids[:-1]:
            rows.append(session.extend(as_ids([token])).logits(0).copy())
            session.commit(1)
    finally:
        session.close()
    return rows


def agreement(p: Doubles, q: Doubles) -> float:
    """The chance that two races with the same noise have the same winner.

    Both are won by i when every other wait is at least max(p_j / p_i, q_j / q_i) times its own, which has the chance
    1 / sum_j max(p_j / p_i, q_j / q_i). Source: R. Moulton and Y. Jiang, arXiv 1809.04052, theorem 1.
    """
    both = (p > 0) & (q > 0)
    order = np.argsort(np.divide(p, q, out=np.zeros_like(p), where=both)[both])
    mine, its = p[both][order], q[both][order]
    above = mine.sum() - np.cumsum(mine) + p[q == 0].sum()
    below = np.cumsum(its) + q[p == 0].sum()
    return float((1 / (above / mine + below / its)).sum())


def chances(model: surefoot.Model, second: Any, text: surefoot.Generation, temperature: float) -> list[list[float]]:
    """At each place of a text: the total variation of the two laws, and the chance of a draft of one token by shared
    noise and by the likeliest token."""
    sampling, nothing = Sampling(temperature=temperature), History(as_ids([0]))
    both = (rows_along(target, text.prompt_ids, text.ids) for target in (model.target, second))
    found = []
    for ours, its in zip(*both, strict=True):
        p, q = (next_law(row, sampling, nothing).dense(len(ours)) for row in (ours, its[: len(ours)]))
        found.append([float(np.abs(p - q).sum() / 2), agreement(p, q), float(p[q.argmax()])])
    return found


def means(found: Sequence[Sequence[float]]) -> dict[str, float]:
    """Of the chances at some places, each way's mean, and the mean of the bound."""
    distance, shared, likeliest = np.asarray(found).T
    bound = (1 - distance) / (1 + distance)
    return {
        "bound": float(bound.mean()),
        "shared noise": float(shared.mean()),
        "likeliest token": float(likeliest.mean()),
        "p/q": float((1 - distance).mean()),
    }


def row_of(
    model: surefoot.Model, second: Any, prompts: Sequence[Prompt], draft: str, temperature: float
) -> dict[str, Any]:
    """All that was counted of one draft model at one temperature."""
    row: dict[str, Any] = {"draft": draft, "temperature": temperature}
    ids = {}
    for way in WAYS if temperature else list(WAYS)[:1]:
        texts = [write(model, prompt, way, temperature, seed) for seed, prompt in enumerate(prompts)]
        ids[way] = [text.ids for text in texts]
        rounds = [rounds_of(text) for text in texts]
        row[way] = {"survival": survival([held for each in rounds for _, held in each]), "rounds": rounds}
        if way == "shared noise" and temperature:
            found = [chances(model, second, text, temperature) for text in texts]
            row["chances"] = [[[round(each, 5) for each in place] for place in text] for text in found]
            row["means"] = means([place for text in found for place in text])
            row["means where a draft began"] = means([found[n][at] for n, each in enumerate(rounds) for at, _ in each])
    if temperature:
        row["match wrote one text"] = ids["shared noise"] == ids["likeliest token"]
    return row


def shown(row: dict[str, Any]) -> str:
    """Of each way the survival by position and the tokens of a round; then the chances of one token, at every place of
    the text and where a draft began."""
    lines = [f"{row['draft']}, temperature {row['temperature']}"]
    for way in (way for way in WAYS if way in row):
        rounds = row[way]["rounds"]
        first = ratio([sum(held > 0 for _, held in text), len(text)] for text in rounds)
        tokens = ratio([sum(held + 1 for _, held in text), len(text)] for text in rounds)
        held = " ".join(f"{share:.2f}" for share in row[way]["survival"])
        lines.append(f"{way:16} {sum(map(len, rounds)):4} drafts  first held {first}  survival {held}  tokens {tokens}")
    means = [places for places in ("means", "means where a draft began") if places in row]
    lines += [
        f"{places}: " + "   ".join(f"{name} {mean:.3f}" for name, mean in row[places].items()) for places in means
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--each", type=int, default=2, help="prompts of each workload")
    parser.add_argument("--draft", choices=DRAFTS, action="append", help="one draft model (repeatable); else all")
    parser.add_argument("--out", type=Path, default=RECORDS / "shared_noise.json")
    options = parser.parse_args()
    prompts = workloads.select(workloads.own(), WORKLOADS, options.each)
    rows = []
    for draft in options.draft or DRAFTS:
        settings = DRAFTS[draft]
        model = surefoot.load(
            "smollm2-135m", runtime="openvino", weights="fp16", max_tokens=options.tokens, drafts="model",
            **{"drafts.model": "smollm2-135m", **{f"drafts.{key}": value for key, value in settings.items()}},
        )  # fmt: skip
        second = model.shelf.companion("smollm2-135m", settings).target
        for temperature in TEMPERATURES:
            rows.append(row_of(model, second, prompts, draft, temperature))
            print(shown(rows[-1]), flush=True)
            write_record(
                options.out, "acceptance of draft models by temperature", rows, ["openvino", "xllamacpp"],
                tokens=options.tokens, prompts=[prompt.id for prompt in prompts], draft_len=LENGTH,
            )  # fmt: skip


if __name__ == "__main__":
    main()
