"""How often drafts of a draft model stand as the temperature rises: shared noise, the likeliest token, and p/q.

    python benchmarks/shared_noise.py [--tokens N] [--prompts N] [--weights int4]

SmolLM2 on OpenVINO in half precision, with itself in four bits as the draft model. Every draft has four tokens. Three
ways: the judge match with drafts drawn with the target's noise; match with the draft model's likeliest tokens; the
judge ratio with honest draws. The acceptance of the first position of a draft is set beside two bounds of the two laws
at the same places, computed along the text of the first way: (1 - TV) / (1 + TV), which shared noise never falls below
(arXiv 2408.07978), and 1 - TV, which is what p/q reaches at a single position (arXiv 2211.17192). Nothing is timed.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from common import RECORDS, write_record

import surefoot
from surefoot.core.history import History
from surefoot.core.law import next_law
from surefoot.core.sampling import Sampling
from surefoot.core.types import Floats, Ids, Round, as_ids
from surefoot.engine.config import Part

PROMPTS = Path(__file__).resolve().parent.parent / "tests" / "data" / "prompts.json"
TEMPERATURES = (0.0, 0.3, 0.6, 1.0, 1.5)
LENGTH = 4
WAYS = {"shared noise": ("match", "shared"), "likeliest token": ("match", "greedy"), "p/q": ("ratio", "shared")}


def write(model: surefoot.Model, prompt: str, way: str, temperature: float, seed: int) -> surefoot.Generation:
    """One text with drafts of four tokens."""
    judge, draws = WAYS[way]
    drafts = replace(model.config.drafts, options={**model.config.drafts.options, "draws": draws, "confidence": 0.0})
    config = replace(
        model.config, judge=judge, drafts=drafts, policy=Part("fixed", {"draft_len": LENGTH}), seed=seed,
        sampling=Sampling(temperature=temperature),
    )  # fmt: skip
    with model.generate(prompt, config=config) as generation:
        list(generation)
    return generation


def survival(rounds: Sequence[Round]) -> list[float]:
    """By position, of the rounds that drafted four tokens and went on."""
    whole = [round_ for round_ in rounds if round_.evaluated == LENGTH and round_.finish is None]
    return [sum(round_.accepted >= k for round_ in whole) / max(1, len(whole)) for k in range(1, LENGTH + 1)]


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


def distances(model: surefoot.Model, second: Any, generation: surefoot.Generation, temperature: float) -> list[float]:
    """The total variation of the two laws at each place of a text."""
    sampling, nothing = Sampling(temperature=temperature), History(as_ids([0]))
    both = (rows_along(target, generation.prompt_ids, generation.ids) for target in (model.target, second))
    found = []
    for ours, its in zip(*both, strict=True):
        p, q = (next_law(row, sampling, nothing).dense(len(row)) for row in (ours, its[: len(ours)]))
        found.append(float(np.abs(p - q).sum() / 2))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--prompts", type=int, default=4)
    parser.add_argument("--weights", default="int4", help="of the draft model")
    parser.add_argument("--out", type=Path, default=RECORDS / "shared_noise.json")
    options = parser.parse_args()
    model = surefoot.load(
        "smollm2-135m", runtime="openvino", weights="fp16", max_tokens=options.tokens, drafts="model",
        **{"drafts.model": "smollm2-135m", "drafts.runtime": "openvino", "drafts.weights": options.weights},
    )  # fmt: skip
    settings = {"runtime": "openvino", "weights": options.weights}
    second = model.shelf.companion("smollm2-135m", settings).target
    prompts = [item["prompt"] for item in json.loads(PROMPTS.read_text(encoding="utf-8"))][: options.prompts]
    rows = []
    for temperature in TEMPERATURES:
        row: dict[str, Any] = {"temperature": temperature}
        for way in WAYS if temperature else list(WAYS)[:1]:
            texts = [write(model, prompt, way, temperature, seed) for seed, prompt in enumerate(prompts)]
            rounds = [round_ for text in texts for round_ in text.rounds]
            row[way] = {"survival": survival(rounds), "accepted": [round_.accepted for round_ in rounds]}
            if way == "shared noise" and temperature:
                found = [d for text in texts for d in distances(model, second, text, temperature)]
                row["total_variation"] = found
                row["bounds"] = [
                    float(np.mean([(1 - d) / (1 + d) for d in found])),
                    float(np.mean([1 - d for d in found])),
                ]
        rows.append(row)
        shown = "   ".join(f"{way} " + " ".join(f"{s:.2f}" for s in row[way]["survival"]) for way in WAYS if way in row)
        bounds = "   bounds {:.2f} and {:.2f}".format(*row["bounds"]) if "bounds" in row else ""
        print(f"T {temperature:<4} {shown}{bounds}", flush=True)
    given = {"tokens": options.tokens, "prompts": options.prompts, "draft_weights": options.weights}
    write_record(options.out, "acceptance of draft models by temperature", rows, ["openvino"], **given)


if __name__ == "__main__":
    main()
