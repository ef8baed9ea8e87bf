"""A3: with the match judge the same seed writes the same text, drafts on or off, at any temperature."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from law_cases import CHAINS, Case, make_drafter, run

from surefoot.core.noise import KeyedSampler
from surefoot.core.sampling import Sampling
from surefoot.targets.toy import DISCIPLINES, Options, ToyTarget
from surefoot.testing.drafter_suite import written
from surefoot.testing.drafters import Drawing, Guesser, scripted
from surefoot.testing.laws import FreshRows

TEMPERATURES = (0.3, 0.8, 1.3)
SHAPES: dict[str, dict[str, float]] = {
    "full": {},
    "top_k": {"top_k": 3},
    "top_p": {"top_p": 0.8},
    "all": {"top_k": 5, "top_p": 0.95, "min_p": 0.02, "repetition_penalty": 1.2, "frequency_penalty": 0.3},
}


def case_of(discipline: str, sampling: Sampling, **changes: object) -> Case:
    toy = Options(discipline=discipline, vocab_size=6, seed=2, order=1, strength=1.0, max_length=96)
    return replace(Case(toy, (1, 2, 3, 1, 2, 3), "ngram", 1, (4, 1, 7), 40, sampling=sampling), **changes)  # type: ignore[arg-type]


def text_of(case: Case, plain: list[int] | None = None) -> list[int]:
    drafter = Guesser(scripted([])) if plain is None else make_drafter(case, plain)
    return written(run(case, drafter, ToyTarget(case.toy).open()))


@pytest.mark.parametrize("discipline", DISCIPLINES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_drafts_do_not_change_the_text_of_a_seed(temperature: float, shape: str, discipline: str) -> None:
    texts = set()
    for seed in range(3):
        sampling = Sampling(temperature=temperature, seed=seed, **SHAPES[shape])  # type: ignore[arg-type]
        plain = text_of(case_of(discipline, sampling))
        for drafter in (*CHAINS, "branches"):
            assert text_of(case_of(discipline, sampling, drafter=drafter), plain) == plain
        texts.add(tuple(plain))
    assert len(texts) > 1, "the seed has no effect"


def test_every_discipline_writes_the_text_of_a_seed() -> None:
    sampling = Sampling(temperature=0.8, seed=5)
    assert len({tuple(text_of(case_of(discipline, sampling))) for discipline in DISCIPLINES}) == 1


@pytest.mark.parametrize("source_seed", [2, 9])
def test_a_drafter_that_shares_the_noise_changes_nothing_and_agrees_often(source_seed: int) -> None:
    """The draft of the same model is accepted whole; that of another one at least as often as (1 - TV) / (1 + TV)."""
    accepted = evaluated = 0
    bounds = []
    source = ToyTarget(Options(vocab_size=6, seed=source_seed, order=1, strength=1.0, max_length=96))
    rows, own_rows = FreshRows(source), None
    for seed in range(40):
        sampling = Sampling(temperature=1.0, seed=seed)
        case = case_of("truncate", sampling, lengths=(1,))
        own_rows = own_rows or FreshRows(ToyTarget(case.toy))
        plain = text_of(case)
        drafter = Drawing(source, sampling, KeyedSampler(seed), rows)
        rounds = run(case, drafter, ToyTarget(case.toy).open())
        assert written(rounds) == plain
        known = list(case.prompt)
        for round_ in rounds:
            if round_.drafted and round_.finish is None:
                evaluated += 1
                accepted += round_.accepted
                bounds.append(bound(own_rows, rows, known))
            known += round_.new_ids
    if source_seed == 2:
        assert accepted == evaluated
    else:
        # Three standard deviations below the mean of the bounds, seeds being fixed.
        assert accepted / evaluated > np.mean(bounds) - 3 * np.sqrt(0.25 / evaluated)


def bound(p_rows: FreshRows, q_rows: FreshRows, known: list[int]) -> float:
    p, q = (np.exp(rows(known) - rows(known).max()) for rows in (p_rows, q_rows))
    variation = float(np.abs(p / p.sum() - q / q.sum()).sum() / 2)
    return (1 - variation) / (1 + variation)
