"""Options of the law are refused with a sentence, or taken as they are."""

from __future__ import annotations

import math
from typing import Any

import pytest

from surefoot.core.errors import ConfigError
from surefoot.core.sampling import COLDEST, Sampling


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"temperature": -0.1}, "temperature"),
        ({"temperature": 101.0}, "temperature"),
        ({"temperature": math.nan}, "temperature"),
        ({"temperature": COLDEST / 2}, "temperature"),
        ({"temperature": 1.0, "top_k": -1}, "top_k"),
        ({"temperature": 1.0, "top_p": 0.0}, "top_p"),
        ({"temperature": 1.0, "top_p": 1.1}, "top_p"),
        ({"temperature": 1.0, "top_p": math.nan}, "top_p"),
        ({"temperature": 1.0, "min_p": 1.1}, "min_p"),
        ({"top_k": 5}, "top_k shape a random draw, but temperature is 0"),
        ({"top_p": 0.5, "min_p": 0.1}, "top_p and min_p"),
        ({"repetition_penalty": 0.0}, "repetition_penalty"),
        ({"repetition_penalty": math.inf}, "repetition_penalty"),
        ({"presence_penalty": math.nan}, "presence_penalty"),
        ({"frequency_penalty": math.inf}, "frequency_penalty"),
        ({"dry_multiplier": -1.0}, "dry_multiplier"),
        ({"dry_base": 0.9}, "dry_base"),
        ({"dry_allowed_length": 0}, "dry_allowed_length"),
        ({"dry_range": -1}, "dry_range"),
        ({"logit_bias": {3: math.inf}}, "logit_bias of token 3"),
        ({"logit_bias": {3: math.nan}}, "logit_bias of token 3"),
        ({"logit_bias": {3: 1e39}}, "logit_bias of token 3"),
        ({"presence_penalty": -1e39}, "presence_penalty"),
        ({"repetition_penalty": 1e-39}, "repetition_penalty"),
        ({"min_tokens": -1}, "min_tokens"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**64}, "seed"),
        ({"banned": frozenset({3}), "forced": {0: 3}}, "token 3 is both banned and forced"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        Sampling(**options)


@pytest.mark.parametrize("option", ["logit_bias", "banned", "forced", "dry_breakers"])
@pytest.mark.parametrize("token", [-1, 8])
def test_ids_outside_the_vocabulary_are_refused(option: str, token: int) -> None:
    value: Any = {"logit_bias": {token: 1.0}, "forced": {0: token}}.get(option, frozenset({token}))
    with pytest.raises(ConfigError, match=f"{option} names token {token}"):
        Sampling(**{option: value}).check_vocabulary(8)
    Sampling(logit_bias={7: -math.inf}).check_vocabulary(8)


def test_greedy_without_processors_edits_nothing() -> None:
    assert Sampling().greedy
    assert not Sampling().edits_logits
    assert not Sampling(min_tokens=3).edits_logits
    for options in ({"banned": frozenset({1})}, {"min_tokens": 1, "end_ids": frozenset({0})}, {"forced": {5: 1}}):
        assert Sampling(**options).edits_logits  # type: ignore[arg-type]
