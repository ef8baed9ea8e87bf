"""D5: a draft model of another vocabulary keeps the law of the text under both judges."""

from __future__ import annotations

import pytest
from draft_models import follow, with_q
from test_exact import PROMPT, VARIANTS, N, due, toy

from surefoot.core.noise import Sampler
from surefoot.core.types import Vocabulary
from surefoot.drafters.crossvocab.surface import SurfaceMap, surface_map
from surefoot.drafters.model.follower import Follower, Style
from surefoot.targets.toy import Options, ToyTarget
from surefoot.testing.laws import assert_same_law, walked_law

OURS = Vocabulary([b"a", b"b", b"ab"])
SECONDS: dict[str, Vocabulary] = {
    "same in another order": Vocabulary([b"b", b"ab", b"a"]),
    "a token is read in pieces": Vocabulary([b"b", b"a", b"x"]),
    "two tokens spell one": Vocabulary([b"a", b"a", b"ab", b"b"]),
    "a byte behind a letter": Vocabulary([b"a", b"a", b"b"], single=frozenset({0})),
    "a control token": Vocabulary([b"<s>", b"b", b"ab"], control=frozenset({0}), start=(0,)),
    "padding": Vocabulary([b"ab", b"a"]),
}


def reading(second: str) -> tuple[ToyTarget, SurfaceMap]:
    size = max(3, len(SECONDS[second]))
    model = ToyTarget(Options(vocab_size=size, order=1, strength=1.0, seed=5))
    return model, surface_map(OURS, 3, SECONDS[second], size)


def holds(second: str, variant: str, judge: str, style: Style, n_tokens: int = N) -> None:
    model, crossing = reading(second)

    def make(walker: Sampler) -> Follower:
        return follow(model, 3, sampling=VARIANTS[variant], sampler=walker, style=style, reading=crossing)

    found = walked_law(toy(), PROMPT, VARIANTS[variant], n_tokens, judge=judge, make_drafter=make)
    assert_same_law(found, due(variant, n_tokens))


@pytest.mark.parametrize("judge", ["match", "ratio"])
@pytest.mark.parametrize("variant", ["plain", "penalties", "forced", "greedy", "greedy_penalties"])
@pytest.mark.parametrize("second", SECONDS)
def test_the_likeliest_token_keeps_the_law(second: str, variant: str, judge: str) -> None:
    holds(second, variant, judge, Style("crossvocab", "greedy"))


@pytest.mark.parametrize("confidence", [0.0, 0.45])
@pytest.mark.parametrize("variant", ["plain", "top_k", "penalties", "banned", "forced", "min_tokens"])
@pytest.mark.parametrize("second", SECONDS)
def test_honest_draws_keep_the_law_of_the_ratio_judge(second: str, variant: str, confidence: float) -> None:
    """A draw that is a miss ends the draft; those that are not follow the law given that, which is their q."""
    holds(second, variant, "ratio", with_q(Style("crossvocab", "shared", confidence)), n_tokens=3)


@pytest.mark.parametrize("second", SECONDS)
def test_draws_keep_the_law_of_the_match_judge(second: str) -> None:
    holds(second, "plain", "match", Style("crossvocab"), n_tokens=3)


def test_planted_q_that_forgets_the_misses_is_caught() -> None:
    """Without the condition q sums to less than 1, and a turned-down draft is drawn anew from too much."""

    class Forgetful(Follower):
        def _q(self, law):  # type: ignore[no-untyped-def]
            full = law.dense(int(law.ids[-1]) + 1 if law.ids is not None else len(law.weights))
            return full[:3]

    model, crossing = reading("a token is read in pieces")

    def make(walker: Sampler) -> Follower:
        drafter = follow(
            model, 3, sampling=VARIANTS["plain"], sampler=walker, style=with_q(Style("crossvocab")), reading=crossing
        )
        drafter.__class__ = Forgetful
        return drafter

    found = walked_law(toy(), PROMPT, VARIANTS["plain"], 3, judge="ratio", make_drafter=make)
    with pytest.raises(AssertionError, match="was due"):
        assert_same_law(found, due("plain", 3))
