"""D4 and A3: a draft model keeps the law of the text under both judges, however it guesses."""

from __future__ import annotations

import pytest
from draft_models import follow, with_q
from test_exact import PROMPT, VARIANTS, N, due, toy

from surefoot.core.noise import Sampler
from surefoot.core.sampling import Sampling
from surefoot.drafters.model.follower import Follower, Style
from surefoot.targets.toy import DISCIPLINES, Options, ToyTarget
from surefoot.testing.laws import assert_same_law, walked_law

JUDGES = ("match", "ratio")
DRAWN = [name for name, sampling in VARIANTS.items() if not sampling.greedy]


def second(vocab_size: int = 3, seed: int = 5, **options: int) -> ToyTarget:
    return ToyTarget(Options(vocab_size=vocab_size, order=1, strength=1.0, seed=seed, **options))


def holds(
    variant: str,
    judge: str,
    style: Style,
    draft_model: ToyTarget | None = None,
    *,
    n_tokens: int = N,
    drafted: Sampling | None = None,
    discipline: str = "truncate",
    lengths: tuple[int, ...] = (2,),
) -> None:
    """The law is kept; `drafted` is what the draft model thinks is asked."""
    model, sampling = draft_model or second(), VARIANTS[variant]

    def make(walker: Sampler) -> Follower:
        return follow(model, 3, sampling=drafted or sampling, sampler=walker, style=style)

    found = walked_law(
        toy(discipline), PROMPT, sampling, n_tokens, judge=judge, make_drafter=make, lengths=lengths
    )  # fmt: skip
    assert_same_law(found, due(variant, n_tokens))


@pytest.mark.parametrize("judge", JUDGES)
@pytest.mark.parametrize("confidence", [0.0, 0.6])
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_likeliest_token_keeps_the_law(variant: str, confidence: float, judge: str) -> None:
    holds(variant, judge, Style("model", "greedy", confidence))


@pytest.mark.parametrize("confidence", [0.0, 0.45])
@pytest.mark.parametrize("variant", DRAWN)
def test_honest_draws_keep_the_law_of_the_ratio_judge(variant: str, confidence: float) -> None:
    holds(variant, "ratio", with_q(Style("model", "shared", confidence)))


@pytest.mark.parametrize("confidence", [0.0, 0.45])
@pytest.mark.parametrize("variant", ["plain", "top_p", "penalties", "min_tokens"])
def test_draws_keep_the_law_of_the_match_judge(variant: str, confidence: float) -> None:
    holds(variant, "match", Style("model", "shared", confidence), n_tokens=3)


@pytest.mark.parametrize("vocab_size", [2, 5])
@pytest.mark.parametrize("variant", ["plain", "top_k", "banned", "forced", "bias"])
def test_padded_vocabularies_keep_the_law(variant: str, vocab_size: int) -> None:
    holds(variant, "ratio", with_q(), second(vocab_size))
    holds(variant, "match", Style("model", "greedy"), second(vocab_size))


@pytest.mark.parametrize("max_length", [5, 6, 7, 8])
def test_a_shorter_context_keeps_the_law(max_length: int) -> None:
    holds("plain", "ratio", with_q(), second(max_length=max_length), lengths=(3, 1))


@pytest.mark.parametrize("lengths", [(1,), (3,), (3, 0, 1)], ids=str)
def test_every_budget_keeps_the_law(lengths: tuple[int, ...]) -> None:
    holds("plain", "ratio", with_q(), lengths=lengths)


@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_every_cache_of_the_draft_model_keeps_the_law(discipline: str) -> None:
    model = ToyTarget(Options(discipline=discipline, vocab_size=3, order=1, strength=1.0, seed=5))
    holds("penalties", "ratio", with_q(), model, discipline=discipline)


def test_planted_q_of_another_temperature_is_caught() -> None:
    """q must be the law of the draw: here tokens are drawn hot, and a draft model that reports a colder q is caught."""

    class Flattering(Follower):
        def _q(self, law):  # type: ignore[no-untyped-def]
            q = super()._q(law) ** 3
            return q / q.sum()

    sampling = VARIANTS["plain"]
    model = second()

    def make(walker: Sampler) -> Follower:
        good = follow(model, 3, sampling=sampling, sampler=walker, style=with_q())
        good.__class__ = Flattering
        return good

    found = walked_law(toy(), PROMPT, sampling, 3, judge="ratio", make_drafter=make)
    with pytest.raises(AssertionError, match="was due"):
        assert_same_law(found, due("plain", 3))
