"""What part of decoding is spent outside the runtime's forward.

    python benchmarks/host_share.py [--runtime hf] [--tokens N] [--prompts N] [--model MODEL]
    python benchmarks/host_share.py --runtime llamacpp --model FILE.gguf --out RECORD
    python benchmarks/host_share.py --runtime openvino [--weights fp16] --out RECORD

The forward is timed where the runtime begins, by hooks on the module (hf), around llama_decode (llamacpp) or from
start_async to the end of wait (openvino), so that all the rest counts as host: drafting, the arrays around the call,
the argmax, judging, rollback, removing stale rows, decoding to text. Drafts off and on take turns on every prompt.

The timers themselves run outside the forward and cold, so each prompt is also written without drafts under two layers
of them: what the second layer adds to a round is what the first does, and is taken off.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from common import RECORDS, interval, median, write_record

import surefoot
from surefoot.engine.config import load_config

PROMPTS = Path(__file__).resolve().parent.parent / "tests" / "data" / "prompts.json"
CONFIGS = {
    "off": {"drafts": "off"},
    "ngram": {"drafts": "ngram", "policy": "additive"},
}


def forwards(model: surefoot.Model) -> Any:
    """Seconds of every forward of the runtime, as they come: a context manager."""
    backend = model.target.caps.backend
    if backend == "openvino":
        return inferences()
    if backend == "llamacpp":
        return decodes(model.target.weights.api.fn)  # type: ignore[attr-defined]
    return hooked(model.target._runner.model)  # type: ignore[attr-defined]


@contextmanager
def inferences() -> Iterator[list[float]]:
    """Seconds of every inference of OpenVINO, from its start to the end of the wait for it."""
    from openvino import InferRequest

    seconds: list[float] = []
    start, wait = InferRequest.start_async, InferRequest.wait
    own_wait = vars(InferRequest).get("wait")  # by itself it is inherited
    begun = 0.0

    def timed_start(request: Any) -> None:
        nonlocal begun
        begun = time.perf_counter()
        start(request)

    def timed_wait(request: Any) -> None:
        wait(request)
        seconds.append(time.perf_counter() - begun)

    InferRequest.start_async, InferRequest.wait = timed_start, timed_wait
    try:
        yield seconds
    finally:
        InferRequest.start_async = start
        if own_wait is None:
            del InferRequest.wait
        else:
            InferRequest.wait = own_wait


@contextmanager
def decodes(library: Any) -> Iterator[list[float]]:
    """Seconds of every llama_decode with the reading of its logits, which waits for the result on a device."""
    seconds: list[float] = []
    decode, read = library.llama_decode, library.llama_get_logits

    def timed_decode(*given: Any) -> int:
        start = time.perf_counter()
        code: int = decode(*given)
        seconds.append(time.perf_counter() - start)
        return code

    def timed_read(*given: Any) -> Any:
        start = time.perf_counter()
        address = read(*given)
        seconds[-1] += time.perf_counter() - start
        return address

    library.llama_decode, library.llama_get_logits = timed_decode, timed_read
    try:
        yield seconds
    finally:
        library.llama_decode, library.llama_get_logits = decode, read


@contextmanager
def hooked(module: Any) -> Iterator[list[float]]:
    """Seconds of every forward of a torch module, as they come."""
    seconds: list[float] = []
    before = module.register_forward_pre_hook(lambda *_: seconds.append(time.perf_counter()))

    def ended(*_: Any) -> None:
        seconds[-1] = time.perf_counter() - seconds[-1]

    after = module.register_forward_hook(ended)
    try:
        yield seconds
    finally:
        before.remove()
        after.remove()


def one_generation(model: surefoot.Model, prompt: str, name: str, tokens: int, layers: int = 1) -> dict[str, Any]:
    """The rounds of one text with the forward and the wall clock of each, under so many layers of timers; the prefill
    is left out."""
    wanted = {**CONFIGS[name], "max_tokens": tokens, "runtime": model.target.caps.backend, "plan": "off"}
    config = load_config(overrides={**wanted, "allow_near_ties": True})
    walls: list[float] = []
    with ExitStack() as timers, model.generate(prompt, config=config) as generation:
        seconds = timers.enter_context(forwards(model))  # the innermost layer
        for _ in range(1, layers):
            timers.enter_context(forwards(model))
        start = time.perf_counter()
        for round_, _ in generation.steps():
            now = time.perf_counter()
            if round_ is not None:
                walls.append(now - start)
            start = now
    wall_s = walls[1:]
    forward_s = seconds[len(seconds) - len(wall_s) :]  # a long prompt takes several
    return {
        "drafts": name,
        "layers": layers,
        "tokens": len(generation.ids),
        "rounds": len(wall_s),
        "rows": generation.stats().rows,
        "host_s": (sum(wall_s) - sum(forward_s)) / len(wall_s),
        "forward_median_s": median(forward_s),
        "forward_s": [round(s, 6) for s in forward_s],
        "wall_s": [round(s, 6) for s in wall_s],
        "stats": asdict(generation.stats()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--runtime", default="hf", choices=("hf", "llamacpp", "openvino"))
    parser.add_argument("--weights", default="auto", help="what openvino converts the model to: fp16, int8 or int4")
    parser.add_argument("--tokens", type=int, default=128, help="output tokens per text")
    parser.add_argument("--prompts", type=int, default=12, help="how many of the twelve prompts")
    parser.add_argument("--out", type=Path, default=RECORDS / "host_share.json", help="where the record goes")
    arguments = parser.parse_args()
    model = surefoot.load(arguments.model, runtime=arguments.runtime, weights=arguments.weights)
    prompts = json.loads(PROMPTS.read_text(encoding="utf-8"))[: arguments.prompts]
    rows = []
    for number, entry in enumerate(prompts):
        order = list(CONFIGS) if number % 2 == 0 else list(CONFIGS)[::-1]
        for name in order:
            row = one_generation(model, entry["prompt"], name, arguments.tokens)
            rows.append({"prompt": number, "workload": entry["workload"], **row})
        row = one_generation(model, entry["prompt"], "off", arguments.tokens, layers=2)
        rows.append({"prompt": number, "workload": entry["workload"], **row})
    once, twice = ([row["host_s"] for row in rows if (row["drafts"], row["layers"]) == ("off", n)] for n in (1, 2))
    timer_s = max(0.0, median([two - one for one, two in zip(once, twice, strict=True)]))
    for name in CONFIGS:
        texts = [row for row in rows if row["drafts"] == name and row["layers"] == 1]
        shares = [(row["host_s"] - timer_s) / (sum(row["wall_s"]) / row["rounds"] - timer_s) for row in texts]
        low, high = interval(shares)
        print(
            f"{name:<6} host share {100 * median(shares):.2f} % [{100 * low:.2f}, {100 * high:.2f}], median of "
            f"{len(shares)} texts of {arguments.tokens} tokens; forward "
            f"{1e3 * median([row['forward_median_s'] for row in texts]):.1f} ms, host "
            f"{1e6 * median([row['host_s'] for row in texts]):.0f} us a round with {1e6 * timer_s:.0f} of the timers"
        )
    write_record(
        arguments.out, f"seconds of forwards and of rounds, {arguments.model} on {arguments.runtime}", rows,
        ("torch", "transformers", "tokenizers", "openvino", "xllamacpp", "llama-cpp-python"), settings=model.describe(),
    )  # fmt: skip


if __name__ == "__main__":
    main()
