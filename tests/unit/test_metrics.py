"""What the drafts did: each number against its definition, worked out by hand or from a published record."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import lab_records as make
import numpy as np
import pytest

from surefoot.lab.metrics import Group, Position, acceptance, from_histogram, judged, phases
from surefoot.lab.records import Step

RECORD = Path(__file__).parents[1] / "data" / "coreml-llm" / "accept-rate-bench-v4-chain.json"


def test_each_number_by_hand() -> None:
    steps = [
        make.step(),  # nothing drafted
        make.step(2, 2, match_len=3),
        make.step(2, 1, match_len=1),
        make.step(4, 0, match_len=1),
        make.step(6, 3, match_len=3, evaluated=4, rows=5, width=5),  # two were cut before scoring
    ]
    found = acceptance(steps)
    assert (found.rounds, found.drafting, found.drafted, found.evaluated, found.accepted) == (5, 4, 14, 12, 6)
    assert (found.emitted, found.discarded) == (11, 6)
    assert found.accepted_per_round == 6 / 5
    assert found.tokens_per_round == 11 / 5
    assert found.rate == 6 / 12
    assert found.positions == (
        Position(1, offered=4, reached=4, accepted=3),
        Position(2, offered=4, reached=3, accepted=2),
        Position(3, offered=2, reached=1, accepted=1),
        Position(4, offered=2, reached=1, accepted=0),
    )
    assert [at.survival for at in found.positions] == [3 / 4, 2 / 4, 1 / 2, 0]
    assert [at.conditional for at in found.positions] == [3 / 4, 2 / 3, 1, 0]
    assert found.by_draft_len == (Group(2, 2, 4, 3), Group(4, 2, 8, 3))
    assert found.by_match_len == (Group(1, 2, 6, 1), Group(3, 2, 6, 5))
    assert [group.accepted_per_round for group in found.by_draft_len] == [1.5, 1.5]
    assert [(shape.rows, shape.rounds) for shape in found.shapes] == [(1, 1), (3, 2), (5, 2)]


def test_nothing_is_no_zero() -> None:
    found = acceptance([])
    assert (found.accepted_per_round, found.tokens_per_round, found.rate, found.positions) == (None, None, None, ())
    assert found.conditional_sum is None
    plain = acceptance([make.step()] * 3)
    assert (plain.accepted_per_round, plain.tokens_per_round, plain.rate) == (0, 1, None)


@pytest.mark.parametrize(("accepted", "emitted", "known"), [(0, 1, 5), (3, 4, 5), (3, 3, 3), (0, 0, 0), (5, 5, 5)])
def test_what_lies_behind_a_stop_was_neither_accepted_nor_rejected(accepted: int, emitted: int, known: int) -> None:
    step = make.step(5, accepted, emitted)
    assert judged(step) == known
    assert [at.offered for at in acceptance([step]).positions] == [1] * known


def test_survivals_add_up_to_the_accepted_tokens_whatever_the_rounds() -> None:
    """The identity that the conditional sum breaks: sum over positions of survival x offered is what was accepted."""
    rng = np.random.default_rng(3)
    for _ in range(200):
        steps = [make.step(int(k), int(rng.integers(0, k + 1))) for k in rng.integers(0, 8, rng.integers(1, 30))]
        found = acceptance(steps)
        assert sum((at.survival or 0) * at.offered for at in found.positions) == pytest.approx(found.accepted, abs=1e-9)
        product = 1.0
        if len({step.evaluated for step in steps if step.evaluated}) == 1:  # of one length, survival is their product
            for at in found.positions:
                product *= at.conditional or 0
                assert at.survival == pytest.approx(product)


def test_a_median_shape_is_a_time_that_was_measured() -> None:
    steps = [make.step(extend_s=seconds) for seconds in (0.03, 0.01, 0.02, 0.09)]
    assert acceptance(steps).shapes[0].median_s == 0.02


def test_phases_are_shares_of_the_whole_decode_time() -> None:
    step = make.step(draft_s=0.1, extend_s=0.6, judge_s=0.05, commit_s=0.05)
    found = phases([(1.0, [step]), (1.0, [step])])
    assert found is not None
    assert (found.draft, found.extend, found.judge, found.commit) == pytest.approx((0.1, 0.6, 0.05, 0.05))
    assert (found.other, found.host) == pytest.approx((0.2, 0.4))
    assert phases([]) is None


def histogram(mode: str, category: str, drafter: str) -> list[int]:
    """By accepted tokens, the rounds of all prompts of a category."""
    prompts = json.loads(RECORD.read_text(encoding="utf-8"))["prompts"]
    counts: Counter[int] = Counter()
    for prompt in prompts:
        if prompt["category"] == category:
            counts.update(dict(enumerate(prompt[mode][drafter]["histogram"])))
    return [counts[accepted] for accepted in range(4)]


def steps_of(counts: list[int]) -> list[Step]:
    longest = len(counts) - 1
    return [make.step(longest, accepted) for accepted, n in enumerate(counts) for _ in range(n)]


@pytest.mark.parametrize(
    ("mode", "category", "drafter", "reported", "true"),
    [
        ("draftersChain", "code", "prompt-lookup-n2", 2.01, 1.01),
        ("drafters", "code", "prompt-lookup-n3", 2.94, 1.53),
        ("drafters", "chat", "cross-vocab-qwen", 2.31, 1.61),
        ("drafters", "code", "cross-vocab-qwen", 2.63, 1.76),
        ("drafters", "summary", "prompt-lookup-n2", 3.26, 2.10),
        ("draftersChain", "chat", "prompt-lookup-n2", 1.48, 1.47),
        ("draftersChain", "qa", "prompt-lookup-n2", 1.00, 1.00),
    ],
)
def test_the_conditional_sum_is_no_number_of_tokens(
    mode: str, category: str, drafter: str, reported: float, true: float
) -> None:
    """A published bench gives 1 + the sum of the *conditional* chances as the tokens of a round ("E[tok/burst]").

    A token of position 2 is emitted only where that of position 1 was, so that the conditional chances must be
    multiplied before they are added: 1 + c1 + c1 c2 + c1 c2 c3, which is 1 + the sum of the survivals. Added as they
    are, one round of 140 that accepted two tokens (c1 = 1/140, c2 = 1) counts as a whole token in each of the 140.
    """
    counts = histogram(mode, category, drafter)
    positions = from_histogram(counts)
    wrong = 1 + sum(at.conditional or 0 for at in positions)
    assert wrong == pytest.approx(reported, abs=0.005)  # the published figure is this formula's
    right = 1 + sum(at.survival or 0 for at in positions)
    assert right == pytest.approx(true, abs=0.005)
    found = acceptance(steps_of(counts))
    assert found.tokens_per_round == pytest.approx(right, abs=1e-12)
    assert found.tokens_per_round == pytest.approx(
        found.emitted / found.rounds, abs=1e-12
    )  # and that is what was written
    assert found.positions == positions
    assert found.conditional_sum == pytest.approx(wrong)  # what stands beside the right figure, named as wrong


def test_the_case_of_140_rounds() -> None:
    counts = histogram("draftersChain", "code", "prompt-lookup-n2")
    assert counts == [139, 0, 1, 0]
    assert [at.conditional for at in from_histogram(counts)] == [1 / 140, 1, 0]
    assert [at.survival for at in from_histogram(counts)] == [1 / 140, 1 / 140, 0]
