"""The runtime's own engine writes on the same weights, and its sides say what a record needs."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from gate_models import CONTEXT, Letters, hf_model, toy_model

from surefoot.core.errors import NotEligible, TargetError
from surefoot.core.types import as_ids
from surefoot.engine.generator import Model
from surefoot.lab.gates.writing import plain
from surefoot.lab.vendor import open_vendor
from surefoot.lab.vendor.openvino import _value, open_openvino

PROMPT = as_ids([ord(letter) % 96 for letter in "one two three, one two three, one two"])


def ticking() -> Iterator[float]:
    return map(float, itertools.count())


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return hf_model(tmp_path_factory.mktemp("llama"))


def ending(model: Model, *ends: int) -> Model:
    """The same, its texts ended by these ids."""
    return replace(model, tokenizer=Letters(eos_ids=frozenset(ends)))  # type: ignore[arg-type]


def test_transformers_writes_what_plain_decoding_writes(model: Model) -> None:
    vendor = open_vendor(model)
    assert vendor.name.startswith("transformers ")
    assert vendor.settings == model.target.caps.settings
    due = plain(model, PROMPT, 40)
    for side in (vendor.plain(PROMPT, 40), vendor.lookup(PROMPT, 40, 5)):
        assert tuple(side.ids) == due
        assert side.n_output == 40
        assert side.finish == "length"
        assert side.steps is None


def test_seconds_are_those_of_the_clock_and_the_first_token_is_not_among_them(model: Model) -> None:
    side = open_vendor(model, ticking().__next__).plain(PROMPT, 9)
    assert (side.prefill_s, side.decode_s, side.n_first) == (1.0, 1.0, 1)
    assert side.tokens_per_second == 8.0


def test_tokens_that_lookup_gets_with_the_prompt_are_not_counted_as_decoded(model: Model) -> None:
    """transformers drafts before its first forward, so that a prompt that repeats itself gives several at once."""
    script = plain(model, PROMPT, 12)
    repeated = as_ids([*PROMPT.tolist(), *script, *PROMPT.tolist()])
    side = open_vendor(model, ticking().__next__).lookup(repeated, 12, 4)
    assert side.n_first >= 1
    assert side.tokens_per_second == side.n_output - side.n_first


def test_a_text_ends_on_our_stop_ids_and_holds_the_last_one(model: Model) -> None:
    text = plain(model, PROMPT, 40)
    place = next(at for at, token in enumerate(text) if at > 3 and token not in text[:at])
    for side in (
        open_vendor(ending(model, text[place])).plain(PROMPT, 40),
        open_vendor(ending(model, text[place])).lookup(PROMPT, 40, 4),
    ):
        assert tuple(side.ids) == text[: place + 1]
        assert side.finish == "stop"


def test_the_context_ends_a_text_as_it_does_ours(model: Model) -> None:
    prompt = as_ids((PROMPT.tolist() * 40)[: CONTEXT - 5])
    side = open_vendor(model).plain(prompt, 40)
    assert side.n_output == 6
    assert side.finish == "context"
    assert tuple(side.ids) == plain(model, prompt, 6)


def test_what_the_checkpoint_says_of_generation_does_not_get_in(model: Model) -> None:
    module: Any = model.target.module  # type: ignore[attr-defined]
    before = module.generation_config
    wild = type(before)(do_sample=True, temperature=5.0, repetition_penalty=9.0, max_length=3)
    module.generation_config = wild
    try:
        assert tuple(open_vendor(model).plain(PROMPT, 20).ids) == plain(model, PROMPT, 20)
        assert module.generation_config is wild
    finally:
        module.generation_config = before


def test_a_failure_of_the_engine_is_a_target_error(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    def generate(*given: Any, **named: Any) -> None:
        raise RuntimeError("out of order")

    monkeypatch.setattr(type(model.target.module), "generate", generate)  # type: ignore[attr-defined]
    with pytest.raises(TargetError, match="generate failed: RuntimeError: out of order"):
        open_vendor(model).plain(PROMPT, 4)


def test_lookup_of_nothing_is_refused(model: Model) -> None:
    with pytest.raises(NotEligible, match="at least 1 token"):
        open_vendor(model).lookup(PROMPT, 8, 0)


def test_the_toy_has_no_engine_of_its_own() -> None:
    with pytest.raises(NotEligible, match="toy has no generate"):
        open_vendor(toy_model())


def test_a_missing_package_is_named_with_what_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "openvino_genai" else found(name))
    with pytest.raises(NotEligible, match="pip install openvino-genai"):
        open_openvino(toy_model(), lambda: 0.0)


@pytest.mark.parametrize(
    ("text", "value"), [("f32", "f32"), ("0", 0), ("12", 12), ("True", True), ("False", False), ("-1", "-1")]
)
def test_properties_go_back_as_they_were(text: str, value: object) -> None:
    assert _value(text) == value
    assert type(_value(text)) is type(value)
