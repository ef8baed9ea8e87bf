"""Surefoot's drafts in other engines against those engines' own lookup, on SmolLM2, in alternating pairs.

    python benchmarks/adapters.py [--engine transformers|llama-cpp-python] [--workload chat|code|json] [--tokens N] ...

Each round writes a text three times, one after the other and in turning order: plain, with the engine's own lookup,
with our drafts. The length of the engine's lookup is chosen for each workload on a run that is not counted. Texts are
greedy and have to be the same. Ratios are of tokens per second of the whole call, the prompt included. An engine that
is not installed is passed over and named.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from common import RECORDS, interval, median, shipped_gguf, write_record

import surefoot
from surefoot.app.adapters.llama_cpp import DraftModel
from surefoot.app.adapters.transformers import drafting, handed_for
from surefoot.core.types import Round
from surefoot.engine.tokenizer import load_tokenizer

PROMPTS = Path(__file__).resolve().parent.parent / "tests" / "data" / "prompts.json"
CHOSEN = {"chat": 0, "code": 2, "json": 4}
LENGTHS = (2, 3, 5, 10)
WARM = 8
PACKAGES = ("transformers", "torch", "llama-cpp-python")

Text = tuple[list[int], float]
"""The ids, and the seconds of the call."""


class Transformers:
    """SmolLM2 on transformers in float32."""

    package = "transformers"

    def __init__(self, options: argparse.Namespace) -> None:
        self.model = surefoot.load("smollm2-135m", runtime="hf", drafts="off")
        self.module: Any = self.model.target.module  # type: ignore[attr-defined]
        self._options = options

    def encode(self, prompt: str) -> list[int]:
        return [int(token) for token in self.model.encode(prompt)]

    def plain(self, ids: list[int], n: int) -> Text:
        return self._write(ids, n)

    def lookup(self, ids: list[int], n: int, length: int) -> Text:
        return self._write(ids, n, prompt_lookup_num_tokens=length, max_matching_ngram_size=2)

    def ours(self) -> tuple[Callable[[list[int], int], Text], list[Round]]:
        """A writer that keeps what its policy learns, and the rounds of its last text."""
        handed = handed_for(self.module, self._options.drafts, policy=self._options.policy)
        rounds: list[Round] = []

        def write(ids: list[int], n: int) -> Text:
            with drafting(self.module, handed):
                text = self._write(ids, n)
            rounds[:] = handed.rounds
            return text

        return write, rounds

    def _write(self, ids: list[int], n: int, **settings: Any) -> Text:
        import torch

        tokens = torch.tensor([ids])
        start = time.perf_counter()
        with torch.inference_mode():
            text = self.module.generate(
                tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=n, do_sample=False, pad_token_id=0,
                **settings,
            )  # fmt: skip
        written = text[0, len(ids) :].tolist()
        return written, time.perf_counter() - start


class LlamaCppPython:
    """SmolLM2 in Q4_1 on llama-cpp-python."""

    package = "llama_cpp"

    def __init__(self, options: argparse.Namespace) -> None:
        import llama_cpp

        files = shipped_gguf()
        self._tokenizer = load_tokenizer(files)
        self._library: Any = llama_cpp
        self._llama: Any = llama_cpp.Llama(
            str(files.weights[0]), n_ctx=2048, n_threads=os.cpu_count(), logits_all=True, verbose=False
        )
        self._options = options

    def encode(self, prompt: str) -> list[int]:
        return [int(token) for token in self._tokenizer.render([{"role": "user", "content": prompt}], None)]

    def plain(self, ids: list[int], n: int) -> Text:
        return self._write(ids, n, None)

    def lookup(self, ids: list[int], n: int, length: int) -> Text:
        own = self._library.llama_speculative.LlamaPromptLookupDecoding(num_pred_tokens=length)
        return self._write(ids, n, own)

    def ours(self) -> tuple[Callable[[list[int], int], Text], list[Round]]:
        """As with transformers."""
        draft_model = DraftModel(self._options.drafts, policy=self._options.policy)
        rounds: list[Round] = []

        def write(ids: list[int], n: int) -> Text:
            text = self._write(ids, n, draft_model)
            rounds[:] = draft_model.handed.rounds
            return text

        return write, rounds

    def _write(self, ids: list[int], n: int, draft_model: Any) -> Text:
        self._llama.draft_model = draft_model
        self._llama.reset()
        text: list[int] = []
        start = time.perf_counter()
        for token in self._llama.generate(ids, temp=0.0, top_k=1):
            if int(token) == self._llama.token_eos():
                break
            text.append(int(token))
            if len(text) == n:
                break
        return text, time.perf_counter() - start


ENGINES: Mapping[str, type[Transformers] | type[LlamaCppPython]] = {
    "transformers": Transformers,
    "llama-cpp-python": LlamaCppPython,
}


def speed(text: Text) -> float:
    """Tokens per second."""
    return len(text[0]) / text[1]


def best_length(engine: Transformers | LlamaCppPython, ids: list[int], n: int) -> int:
    """The length of the engine's lookup that is quickest here."""
    found = {length: speed(engine.lookup(ids, n, length)) for length in LENGTHS}
    return max(found, key=lambda length: found[length])


def compare(engine: Transformers | LlamaCppPython, workload: str, prompt: str, options: argparse.Namespace) -> Any:
    """One row of the record: every sample, the ratios, and whether the texts were the same."""
    ids, n = engine.encode(prompt), options.tokens
    ours, rounds = engine.ours()
    engine.plain(ids, WARM)
    ours(ids, n)
    length = best_length(engine, ids, n)
    sides: list[tuple[str, Callable[[], Text]]] = [
        ("plain", lambda: engine.plain(ids, n)),
        ("lookup", lambda: engine.lookup(ids, n, length)),
        ("ours", lambda: ours(ids, n)),
    ]
    samples: dict[str, list[float]] = {name: [] for name, _ in sides}
    texts: dict[str, list[int]] = {}
    for number in range(options.pairs):
        turned = sides[number % 3 :] + sides[: number % 3]
        for name, write in turned if number % 2 == 0 else turned[::-1]:
            text = write()
            samples[name].append(speed(text))
            texts[name] = text[0]
    row: dict[str, Any] = {"workload": workload, "tokens": n, "lookup_draft_len": length, "tokens_per_second": samples}
    for name, other in (("ours", "lookup"), ("ours", "plain"), ("lookup", "plain")):
        ratios = [one / two for one, two in zip(samples[name], samples[other], strict=True)]
        low, high = interval(ratios)
        row[f"{name} / {other}"] = {"median": median(ratios), "low": low, "high": high, "samples": ratios}
    row["same_text"] = {name: texts[name] == texts["plain"] for name in ("lookup", "ours")}
    row["accepted_per_round"] = sum(r.accepted for r in rounds) / max(1, len(rounds))
    print(
        f"{workload:<6} plain {median(samples['plain']):6.1f} tok/s   lookup K={length} "
        f"{row['lookup / plain']['median']:.2f}x   ours {row['ours / plain']['median']:.2f}x   ours / lookup "
        f"{row['ours / lookup']['median']:.2f} [{row['ours / lookup']['low']:.2f}, {row['ours / lookup']['high']:.2f}]"
        f"   same text {row['same_text']}"
    )
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=[*ENGINES], action="append", help="repeatable; all that are installed")
    parser.add_argument("--workload", choices=[*CHOSEN], action="append", help="repeatable; all of them")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--drafts", default="ngram")
    parser.add_argument("--policy", default="goodput")
    parser.add_argument("--out", type=Path, default=RECORDS / "adapters.json")
    options = parser.parse_args()
    prompts = [item["prompt"] for item in json.loads(PROMPTS.read_text(encoding="utf-8"))]
    rows = []
    for name in options.engine or ENGINES:
        if find_spec(ENGINES[name].package) is None:
            print(f"{name} is not installed: passed over")
            continue
        engine = ENGINES[name](options)
        print(f"{name}, {options.drafts}/{options.policy}, {options.tokens} tokens, {options.pairs} rounds")
        rows += [
            {"engine": name, **compare(engine, workload, prompts[CHOSEN[workload]], options)}
            for workload in options.workload or CHOSEN
        ]
    given = {"drafts": options.drafts, "policy": options.policy, "pairs": options.pairs}
    write_record(options.out, "adapters against the library's own lookup", rows, PACKAGES, **given)


if __name__ == "__main__":
    main()
