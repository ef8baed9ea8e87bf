"""The texts that ship with Surefoot: what SmolLM2-135M writes greedily after the prompts that the bench measures.

    python benchmarks/shipped_texts.py [--out FILE]

Drafts are off, weights in fp16, the cache in f32. Nothing is timed. `surefoot tune` replays drafts along them, and so
does goodput_shares.py; with other ones the figures of both change.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import surefoot
from surefoot.lab import workloads

TEXTS = Path(__file__).resolve().parent.parent / "src" / "surefoot" / "lab" / "data" / "texts.json"
EACH, TOKENS = 4, 256
WHAT = (
    "what SmolLM2-135M-Instruct (OpenVINO, fp16 weights, f32 cache) writes greedily after "
    f"{EACH} of our prompts of each workload, {TOKENS} tokens at most: token ids of prompt and text"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=TEXTS)
    out = parser.parse_args().out
    model = surefoot.load("smollm2-135m", runtime="openvino", weights="fp16", drafts="off", max_tokens=TOKENS)
    texts = []
    for prompt in workloads.select(workloads.own(), each=EACH):
        ids = model.encode(prompt.content, tools=prompt.tools)
        with model.generate(ids) as generation:
            for _ in generation:
                pass
        print(f"{prompt.id}: {len(generation.ids)} tokens", flush=True)
        texts.append(
            {"workload": prompt.workload, "id": prompt.id, "prompt": ids.tolist(), "ids": list(generation.ids)}
        )
    out.write_text(json.dumps({"what": WHAT, "texts": texts}, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
