"""A7: log-probabilities of emitted tokens are those of plain decoding, drafts on or off."""

from __future__ import annotations

import numpy as np
import pytest

from surefoot.core.judge import make_judge
from surefoot.core.limits import Limits
from surefoot.core.logprobs import token_logprob
from surefoot.core.loop import generate
from surefoot.core.sampling import Sampling
from surefoot.core.types import TokenLogprob, as_ids
from surefoot.targets.toy import DISCIPLINES, Options, ToyTarget
from surefoot.testing.drafter_suite import Budgets, written
from surefoot.testing.drafters import Guesser, adversary, branching_adversary, scripted
from surefoot.testing.references import fresh_logits

PROMPT = (1, 2, 3, 1, 2)


def write(
    target: ToyTarget, drafter: Guesser, sampling: Sampling, top: int | None
) -> tuple[list[int], list[TokenLogprob]]:
    rounds = list(
        generate(
            target.open(), as_ids(PROMPT), caps=target.caps, drafter=drafter, policy=Budgets([4, 2]),
            judge=make_judge("match", sampling), limits=Limits(20), clock=lambda: 0.0, top_logprobs=top,
        )
    )  # fmt: skip
    return written(rounds), [entry for round_ in rounds for entry in round_.logprobs or ()]


@pytest.mark.parametrize("discipline", DISCIPLINES)
@pytest.mark.parametrize("top", [0, 3, 100])
@pytest.mark.parametrize(
    "sampling", [Sampling(), Sampling(temperature=1.0, top_k=3, frequency_penalty=0.5)], ids=["greedy", "drawn"]
)
def test_logprobs_do_not_depend_on_drafts(sampling: Sampling, top: int, discipline: str) -> None:
    target = ToyTarget(Options(discipline=discipline, vocab_size=8, order=1))
    text, plain = write(target, Guesser(scripted([])), sampling, top)
    whole = [*PROMPT, *text]
    assert [entry.id for entry in plain] == text
    for drafter in (Guesser(adversary(whole, 8, 1)), Guesser(branching_adversary(whole, 8, 1), trees=True)):
        assert write(target, drafter, sampling, top) == (text, plain)


def test_logprobs_are_of_the_models_own_law() -> None:
    target = ToyTarget(Options(vocab_size=8, order=1))
    text, entries = write(target, Guesser(scripted([0, 1])), Sampling(temperature=0.5, banned=frozenset({0})), 8)
    for n, entry in enumerate(entries):
        logits = fresh_logits(target, [*PROMPT, *text[:n]]).astype(np.float64)
        due = logits - np.log(np.exp(logits).sum())
        assert entry.logprob == pytest.approx(due[entry.id], abs=1e-5)
        assert [token for token, _ in entry.top] == np.argsort(-due, kind="stable").tolist()
        assert [p for _, p in entry.top] == pytest.approx(np.sort(due)[::-1], abs=1e-5)


def test_without_asking_there_are_none() -> None:
    assert write(ToyTarget(Options(vocab_size=8)), Guesser(scripted([])), Sampling(), None)[1] == []


def test_equal_logits_rank_by_id() -> None:
    class Flat:
        rows = width = 1

        def logits(self, row: int) -> np.ndarray:
            return np.asarray([1, 3, 3, 0, 3], np.float32)

    assert [token for token, _ in token_logprob(Flat(), 0, 1, 2).top] == [1, 2]  # type: ignore[arg-type]
