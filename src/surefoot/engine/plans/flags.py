"""The draft length of a plan, as other engines want to be told it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from surefoot.core.cost import CostCurve
from surefoot.core.errors import ConfigError
from surefoot.engine import parts
from surefoot.engine.plans.plan import Plan, Workload

MATCHES = (4, 2)
"""Source: the drafter ngram, by whose drafts the lengths were counted: its longest and its shortest match."""


def _vllm(draft_len: int, longest: int, shortest: int) -> str:
    """Source: docs.vllm.ai, features/speculative_decoding/n_gram; for `vllm serve`."""
    config = {
        "method": "ngram", "num_speculative_tokens": draft_len, "prompt_lookup_max": longest,
        "prompt_lookup_min": shortest,
    }  # fmt: skip
    return f"--speculative-config '{json.dumps(config)}'"


def _sglang(draft_len: int, longest: int, shortest: int) -> str:
    """Source: SGLang's documentation, speculative decoding; it counts verified tokens, the root included."""
    return (
        f"--speculative-algorithm NGRAM --speculative-num-draft-tokens {draft_len + 1} "
        f"--speculative-ngram-max-match-window-size {longest} --speculative-ngram-min-match-window-size {shortest}"
    )


def _llamacpp(draft_len: int, longest: int, shortest: int) -> str:
    """Source: llama.cpp, docs/speculative.md and common/arg.cpp; for `llama-server`. Its match has one length."""
    return (
        f"--spec-type ngram-simple --spec-ngram-simple-size-n {shortest} --spec-ngram-simple-size-m {draft_len} "
        f"--spec-draft-n-max {draft_len}"
    )


def _mlx(draft_len: int, longest: int, shortest: int) -> str:
    """Source: mlx-lm, generate.py and server.py: it drafts with a second model only, which is yours to name."""
    return f"--draft-model DRAFT_MODEL --num-draft-tokens {draft_len}"


def _openvino(draft_len: int, longest: int, shortest: int) -> str:
    """Source: OpenVINO GenAI, GenerationConfig; arguments of LLMPipeline and of its generate, in Python."""
    call = f"generate(..., num_assistant_tokens={draft_len}, max_ngram_size={longest})"
    return f"LLMPipeline(..., prompt_lookup=True).{call}"


ENGINES: Mapping[str, Callable[[int, int, int], str]] = {
    "vllm": _vllm,
    "sglang": _sglang,
    "llama.cpp": _llamacpp,
    "mlx-lm": _mlx,
    "openvino-genai": _openvino,
}
"""How each is told to draft. Their lengths are fixed: none of them stops where drafts lose."""


@dataclass(frozen=True, slots=True)
class Flags:
    """flags: what to give to the engine; "" where it should not speculate. workload: what the length is for.

    gain: what it is expected to bring there on the runtime that was measured; of several workloads the geometric mean.
    """

    engine: str
    workload: str
    draft_len: int
    gain: float
    flags: str


def flags(plan: Plan, engine: str, workload: str | None = None) -> Flags:
    """The best length that stays the same throughout: on one workload, or on all of them alike.

    Raises: ConfigError for an unknown engine or workload, and for a plan without verdicts.
    """
    if engine not in ENGINES:
        raise ConfigError(parts.unknown("engine", engine, ENGINES))
    if plan.curve is None or not plan.workloads:
        raise ConfigError("the plan has no verdict for any workload: make a new one with 'surefoot tune'")
    names = [each.name for each in plan.workloads]
    if workload is not None and workload not in names:
        raise ConfigError(parts.unknown("workload in the plan", workload, names))
    chosen = [each for each in plan.workloads if workload in (None, each.name)]
    lengths = sorted({0, *(each.outcome.draft_len for each in chosen)})
    gains = {k: _mean([gain(each, plan.curve, k) for each in chosen]) for k in lengths}
    best = max(lengths, key=lambda k: (gains[k], -k))
    text = ENGINES[engine](best, *MATCHES) if best else ""
    return Flags(engine, workload or "all", best, gains[best], text)


def gain(workload: Workload, curve: CostCurve, draft_len: int) -> float:
    """What this length is expected to bring on a workload, rounds without a draft included; 1 for none.

    What was counted of a workload reaches as far as its own best length: tokens behind it are taken for lost.
    """
    if not draft_len:
        return 1.0
    tokens = 1 + workload.offered * sum(workload.survival[:draft_len])
    bar = curve.bar(draft_len + 1, workload.depth)
    return tokens / (workload.offered * bar + 1 - workload.offered)


def _mean(gains: list[float]) -> float:
    """The geometric mean: no workload outweighs another."""
    return math.exp(sum(map(math.log, gains)) / len(gains))
