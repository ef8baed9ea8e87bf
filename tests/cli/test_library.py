"""`surefoot.load`: what the library refuses where an option would have no effect."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import surefoot
from surefoot import ConfigError, Model, NotEligible

USER = {"role": "user", "content": "one two"}
TOOL = {"type": "function", "function": {"name": "look", "parameters": {}}}
VOCABULARY = {"runtime.vocab_size": 258}


def toy(folder: Path, **settings: object) -> Model:
    """The toy with the folder's tokenizer."""
    return surefoot.load(str(folder), runtime="toy", **VOCABULARY, **settings)


@pytest.mark.parametrize(
    ("settings", "ask"),
    [
        ({"raw": True}, lambda model: model.generate([USER])),
        ({"raw": True}, lambda model: model.generate("one two", tools=[TOOL])),
        ({}, lambda model: model.generate([1, 2, 3], tools=[TOOL])),
    ],
    ids=["raw messages", "raw text with tools", "ids with tools"],
)
def test_what_would_bypass_the_template_is_refused(
    tiny: Path, settings: dict[str, object], ask: Callable[[Model], object]
) -> None:
    model = toy(tiny, **settings)
    with pytest.raises(ConfigError, match="chat template"):
        ask(model)


def test_a_policy_without_drafts_is_refused(tiny: Path) -> None:
    with pytest.raises(ConfigError, match=r"draft_len .* drafts are off"):
        toy(tiny, drafts="off", draft_len=4)


def test_a_file_may_keep_its_policy_while_drafts_are_off(tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "settings.toml").write_text("[policy]\nname = 'fixed'\ndraft_len = 4\n")
    assert toy(tiny, config=tmp_path / "settings.toml", drafts="off").config.drafts.name == "off"


def test_weights_that_the_runtime_does_not_convert_are_refused(tiny: Path) -> None:
    with pytest.raises(NotEligible, match="int8"):
        toy(tiny, weights="int8")


@pytest.mark.parametrize("token", [-1, 258])
def test_a_stop_id_outside_the_vocabulary_is_refused(tiny: Path, token: int) -> None:
    model = toy(tiny, stop_ids={token})
    with pytest.raises(ConfigError, match=f"stop_ids names token {token}"):
        model.generate("one two")


def test_a_prompt_without_a_token_is_refused(tiny: Path) -> None:
    with pytest.raises(ConfigError, match="empty"):
        toy(tiny).generate([])
