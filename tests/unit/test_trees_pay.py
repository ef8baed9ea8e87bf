"""D8: on a staircase, free rows that are filled with the next-best branches gain more than they cost."""

from __future__ import annotations

import math
from typing import Any

import pytest
from cost_curves import SEED, curve
from timed_toy import VirtualClock, timed_model

from surefoot.core.judge import make_judge
from surefoot.core.limits import Limits
from surefoot.core.loop import generate
from surefoot.core.sampling import Sampling
from surefoot.core.types import Round, as_ids
from surefoot.drafters.suffix.drafter import SuffixDrafter
from surefoot.drafters.suffix.options import Options as SuffixOptions
from surefoot.engine.config import load_config
from surefoot.policies.goodput.policy import GoodputPolicy, Options
from surefoot.targets.toy import Options as ToyOptions
from surefoot.targets.toy import ToyTarget
from surefoot.testing.drafter_suite import written

STAIRCASE = curve(SEED)


def rounds_of(branches: int, strength: float, seed: int) -> list[Round]:
    """Drawn text in which the last token leaves the next one more or less open."""
    toy = ToyTarget(ToyOptions(order=1, vocab_size=12, strength=strength, max_length=500, max_rows=32, seed=seed))
    return list(
        generate(
            toy.open(), as_ids([1, 2, 3]), caps=toy.caps,
            drafter=SuffixDrafter(SuffixOptions(min_match=1, branches=branches)),
            policy=GoodputPolicy(Options(), STAIRCASE),
            judge=make_judge("match", Sampling(temperature=1.0, seed=seed)), limits=Limits(400), clock=lambda: 0.0,
        )
    )  # fmt: skip


def seconds(rounds: list[Round]) -> float:
    """By the curve."""
    return sum(STAIRCASE.round_s(round_.rows, round_.depth) for round_ in rounds[1:])


def test_branches_in_free_rows_pay_over_open_and_repeating_text() -> None:
    shares = []
    for strength in (2.0, 3.0, 4.0):
        for seed in (0, 1):
            chains, trees = rounds_of(1, strength, seed), rounds_of(3, strength, seed)
            assert written(chains) == written(trees)
            shares.append(seconds(trees) / seconds(chains))
    assert max(shares) < 1.02, shares
    assert math.prod(shares) < 0.98, shares


TREES = {"drafts": "suffix", "drafts.branches": 2}
IN_A_UNION = {"drafts": "union", "drafts.members": ["ngram", {"name": "suffix", "branches": 2}]}


@pytest.mark.parametrize(
    ("given", "counts_chains"),
    [
        (TREES, "additive"), ({**TREES, "policy": "additive"}, "additive"), ({**TREES, "policy": "fixed"}, "fixed"),
        (IN_A_UNION, "additive"), ({**TREES, "policy": "goodput"}, ""), ({"drafts": "suffix"}, ""),
    ],
    ids=["no plan", "additive", "fixed", "in a union", "goodput", "chains"],
)  # fmt: skip
def test_a_text_says_that_its_policy_does_not_weigh_branches(given: dict[str, Any], counts_chains: str) -> None:
    config = load_config(overrides={**given, "max_tokens": 12})
    with timed_model(VirtualClock()).generate([1, 2, 3, 1, 2], config=config) as generation:
        "".join(generation)
    told = [note for note in generation.notes if "drafts trees" in note]
    assert len(told) == bool(counts_chains)
    assert all(f"the policy {counts_chains} counts a branch" in note and "--policy goodput" in note for note in told)
