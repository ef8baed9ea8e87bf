"""Whether a model writes one text whatever is drafted: what the tests of every runtime share."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.core.judge import make_judge
from surefoot.core.limits import Limits
from surefoot.core.loop import generate
from surefoot.core.ports import Drafter, Needs, Scores
from surefoot.core.sampling import Sampling
from surefoot.core.types import Draft, Ids, as_ids
from surefoot.drafters.ngram import PLUGIN as NGRAM
from surefoot.drafters.off import PLUGIN as OFF
from surefoot.engine.generator import Model
from surefoot.policies.additive import PLUGIN as ADDITIVE
from surefoot.policies.fixed import PLUGIN as FIXED

PROMPTS: list[dict[str, str]] = json.loads(
    (Path(__file__).parent.parent / "data" / "prompts.json").read_text(encoding="utf-8")
)


class Adversary:
    """Drafts a mixture of right and wrong tokens: the plain text with every third token replaced. Holds the text."""

    needs = Needs()

    def __init__(self, plain: Sequence[int], vocab_size: int) -> None:
        self._plain, self._vocab_size, self._written = list(plain), vocab_size, 0

    def begin(self, prompt: Ids, root: int, scores: Scores) -> None:
        self._written = 1

    def propose(self, budget: int) -> Draft:
        ids = as_ids(self._plain[self._written : self._written + budget])
        wrong = (np.arange(len(ids)) + self._written) % 3 == 2
        ids[wrong] = (ids[wrong] + 1) % self._vocab_size
        return Draft(ids, source="adversary")

    def observe(self, new_ids: Sequence[int], scores: Scores) -> None:
        self._written += len(new_ids)


@dataclass(frozen=True)
class Written:
    ids: tuple[int, ...]
    accepted: int
    rejected: int


def write(model: Model, prompt: Ids, sampling: Sampling, drafter: Drafter, policy: Any, n_tokens: int) -> Written:
    session = model.target.open()
    rounds = list(
        generate(
            session,
            prompt,
            caps=model.target.caps,
            drafter=drafter,
            policy=policy,
            judge=make_judge("match", sampling),
            limits=Limits(n_tokens, model.tokenizer.eos_ids),
            clock=itertools.count().__next__,
        )
    )
    session.close()
    accepted = sum(r.accepted for r in rounds)
    ids = tuple(token for r in rounds for token in r.new_ids)
    return Written(ids, accepted, sum(r.evaluated for r in rounds) - accepted)


def ways(model: Model, plain: Sequence[int], sampling: Sampling) -> Iterator[tuple[str, Drafter, Any]]:
    """What drafts and how long: lookup as it comes, an adversary, and for greedy text the longest and least likely."""
    target, vocab_size = model.target, model.target.caps.vocab_size
    yield "ngram additive", NGRAM.build(NGRAM.options(), target), ADDITIVE.build(ADDITIVE.options(), None)
    yield "adversary fixed 6", Adversary(plain, vocab_size), FIXED.build(FIXED.options(draft_len=6), None)
    if sampling.greedy:
        long = FIXED.build(FIXED.options(draft_len=10), None)
        yield "ngram n=1 fixed 10", NGRAM.build(NGRAM.options(min_n=1), target), long


def plainly(model: Model, prompt: Ids, sampling: Sampling, n_tokens: int) -> tuple[int, ...]:
    return write(
        model,
        prompt,
        sampling,
        OFF.build(OFF.options(), model.target),
        FIXED.build(FIXED.options(draft_len=0), None),
        n_tokens,
    ).ids


def gap_at(model: Model, prompt: Ids, ids: Sequence[int], other: Sequence[int]) -> tuple[float, str]:
    """How far the two likeliest tokens are apart where two texts part, in logits, and the same in words."""
    place = next((i for i, (a, b) in enumerate(zip(ids, other, strict=False)) if a != b), min(len(ids), len(other)))
    session = model.target.open()
    logits = np.sort(session.prefill(np.concatenate([prompt, as_ids(ids[:place])])).logits(0))
    session.close()
    gap = float(logits[-1] - logits[-2])
    return gap, f"texts of {len(ids)} and {len(other)} tokens part at {place}; top-two gap {gap:.2e}"


def check_equal(
    model: Model, prompt: Ids, ids: Sequence[int], other: Sequence[int], what: str, near_tie: float = 0.0
) -> None:
    """Fails unless the texts are one, or part where the two likeliest tokens are less than `near_tie` logits apart."""
    if tuple(ids) != tuple(other):
        gap, words = gap_at(model, prompt, ids, other)
        assert gap < near_tie, f"{what}: {words}"


def check_same_text(
    model: Model, prompt: Ids, sampling: Sampling, n_tokens: int, near_tie: float = 0.0
) -> tuple[int, ...]:
    """The text without drafts, after every way of drafting has written the same (or parted at a near tie)."""
    off = plainly(model, prompt, sampling, n_tokens)
    for name, drafter, policy in ways(model, off, sampling):
        on = write(model, prompt, sampling, drafter, policy, n_tokens)
        check_equal(model, prompt, off, on.ids, name, near_tie)
        if name.startswith("adversary"):
            assert on.accepted > 0
            assert on.rejected > 0
    return off
