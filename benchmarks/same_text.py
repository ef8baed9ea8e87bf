"""Whether one text comes out with drafts, without them, and by the runtime's own greedy decoding: every text recorded.

    python benchmarks/same_text.py --runtime llamacpp --model FILE.gguf --out RECORD
    python benchmarks/same_text.py --runtime openvino --weights int8 --out RECORD

Twenty-four prompts, 256 tokens each. Where a text parts from the one without drafts, the record says at which token,
and how many logits the two likeliest tokens are apart there. Nothing is timed, so that the machine may do other things.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from common import RECORDS, write_record

import surefoot
from surefoot.core.types import as_ids
from surefoot.engine.config import load_config
from surefoot.lab.vendor import open_vendor

PROMPTS = Path(__file__).resolve().parent.parent / "tests" / "data" / "prompts.json"
WAYS: dict[str, dict[str, Any]] = {
    "off": {"drafts": "off"},
    "ngram, additive": {"drafts": "ngram", "policy": "additive"},
    "ngram of one token, fixed 10": {"drafts": {"name": "ngram", "min_n": 1}, "policy": "fixed", "draft_len": 10},
    "suffix, goodput": {"drafts": "suffix", "policy": "goodput"},
}


def written(model: surefoot.Model, prompt: Sequence[int], way: str, tokens: int) -> tuple[list[int], dict[str, int]]:
    """The ids, and how many drafts were accepted and turned down."""
    wanted = {**WAYS[way], "max_tokens": tokens, "runtime": model.target.caps.backend, "plan": "off"}
    if draft_len := wanted.pop("draft_len", None):
        wanted["policy"] = {"name": wanted["policy"], "draft_len": draft_len}
    config = load_config(overrides={**wanted, "allow_near_ties": True})
    with model.generate(prompt, config=config) as generation:
        for _ in generation:
            pass
        rounds = generation.rounds
        accepted = sum(round_.accepted for round_ in rounds)
        turned_down = sum(round_.evaluated for round_ in rounds) - accepted
        return list(generation.ids), {"accepted": accepted, "turned_down": turned_down}


def parting(model: surefoot.Model, prompt: Sequence[int], ids: Sequence[int], other: Sequence[int]) -> Any:
    """None for equal texts; else the token at which they part, and the gap of the two likeliest there, in logits."""
    if list(ids) == list(other):
        return None
    pairs = enumerate(zip(ids, other, strict=False))
    place = next((i for i, (one, two) in pairs if one != two), min(len(ids), len(other)))
    session = model.target.open()
    logits = np.sort(session.prefill(as_ids([*prompt, *ids[:place]])).logits(0))
    session.close()
    return {"token": place, "gap": float(logits[-1] - logits[-2])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--runtime", default="openvino", choices=("hf", "llamacpp", "openvino"))
    parser.add_argument("--weights", default="auto", help="what openvino converts the model to: fp16, int8 or int4")
    parser.add_argument("--binding", default="auto", help="of llama.cpp")
    parser.add_argument("--threads", type=int, default=0, help="threads of the runtime; else its own choice")
    parser.add_argument("--tokens", type=int, default=256, help="output tokens per text")
    parser.add_argument("--prompts", type=int, default=24, help="how many of the prompts")
    parser.add_argument("--out", type=Path, default=RECORDS / "same_text.json", help="where the record goes")
    given = parser.parse_args()
    options: dict[str, Any] = {"binding": given.binding} if given.runtime == "llamacpp" else {}
    if given.threads:
        options["threads"] = given.threads
    model = surefoot.load(given.model, runtime={"name": given.runtime, **options}, weights=given.weights)
    vendor = open_vendor(model)
    rows, partings = [], 0
    for entry in json.loads(PROMPTS.read_text(encoding="utf-8"))[: given.prompts]:
        prompt = [int(token) for token in model.encode(entry["prompt"])]
        texts: dict[str, Any] = {}
        off: list[int] = []
        for way in [*WAYS, "vendor"]:
            drafts: dict[str, int] = {}
            if way == "vendor":
                ids = list(vendor.plain(as_ids(prompt), given.tokens).ids)
            else:
                ids, drafts = written(model, prompt, way, given.tokens)
            off = ids if way == "off" else off
            texts[way] = {"ids": ids, **drafts, "parts": parting(model, prompt, off, ids)}
            if texts[way]["parts"]:
                partings += 1
                print(f"{entry['workload']}, {way}: {texts[way]['parts']}")
        rows.append({"prompt": entry["prompt"], "workload": entry["workload"], "texts": texts})
    drafted = [text for row in rows for text in row["texts"].values()]
    print(
        f"{len(rows)} prompts, {len(WAYS)} ways and {vendor.name}: {partings} texts part; "
        f"{sum(text.get('accepted', 0) for text in drafted)} drafts accepted, "
        f"{sum(text.get('turned_down', 0) for text in drafted)} turned down"
    )
    write_record(
        given.out, f"texts of {given.tokens} tokens, {given.model} on {given.runtime}", rows,
        ("openvino", "openvino-genai", "xllamacpp", "llama-cpp-python", "torch", "transformers"),
        settings=model.describe(), vendor={"name": vendor.name, "settings": dict(vendor.settings)},
    )  # fmt: skip


if __name__ == "__main__":
    main()
