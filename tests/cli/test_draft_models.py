"""D4 and D5 end to end: a draft model by name, on its own runtime, from the command line and the library."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cli_run import assert_refused, surefoot
from cli_tiny import write_tokenizer

import surefoot as library
from surefoot import ConfigError, Model, NotEligible
from surefoot.app.cli.probe import write_tiny_llama
from surefoot.core.sampling import Sampling
from surefoot.engine.generator import Generation

PROMPT = "one two three, one two three, one two"
TOY = {"runtime": "toy", "runtime.vocab_size": 258, "runtime.order": 1}


def words(settings: Mapping[str, Any]) -> list[str]:
    """The settings as the command line takes them."""
    return [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]


def second(drafter: str, model: Path, **options: Any) -> dict[str, Any]:
    """The settings of a toy draft model with the tokenizer of that folder."""
    options = {"vocab_size": 258, "order": 1, **options}
    named = {"drafts": drafter, "drafts.model": str(model), "drafts.runtime": "toy"}
    return named | {f"drafts.runtime_options.{key}": value for key, value in options.items()}


def write(model: Path, **settings: Any) -> Generation:
    loaded = library.load(str(model), max_tokens=40, **{**TOY, **settings})
    with loaded.generate(PROMPT) as generation:
        list(generation)
    return generation


def accepted(generation: Generation) -> int:
    return sum(round_.accepted for round_ in generation.rounds)


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose tokenizer numbers its 256 letters the other way round."""
    folder = tmp_path_factory.mktemp("other")
    write_tokenizer(folder, None)
    write_tiny_llama(folder, vocabulary=258)
    file = folder / "tokenizer.json"
    tokenizer = json.loads(file.read_text())
    turned = {token: 255 - number if number < 256 else number for token, number in tokenizer["model"]["vocab"].items()}
    tokenizer["model"]["vocab"] = turned
    file.write_text(json.dumps(tokenizer))
    return folder


def test_the_model_as_its_own_draft_model_is_accepted_whole(tiny: Path) -> None:
    plain = write(tiny, drafts="off", temperature=0.9, seed=4)
    found = write(tiny, **second("model", tiny), temperature=0.9, seed=4)
    assert found.ids == plain.ids
    assert accepted(found) == sum(round_.evaluated for round_ in found.rounds) > 10


def test_a_draft_model_of_other_words_says_how_many_it_shares(tiny: Path, other: Path) -> None:
    settings = {**TOY, **second("crossvocab", other), "max_tokens": 40}
    done = surefoot("generate", tiny, "-p", PROMPT, *words(settings))
    assert done.code == 0, done.err
    assert done.out == write(tiny, drafts="off").text
    assert "256 of its 256 tokens (100%) are also tokens of the target" in done.err
    assert "crossvocab/" in done.err


def test_a_draft_model_of_other_words_is_refused_where_they_have_to_be_the_same(tiny: Path, other: Path) -> None:
    done = surefoot("generate", tiny, "-p", PROMPT, *words({**TOY, **second("model", other)}))
    assert_refused(done, 3, "another vocabulary", "crossvocab")


def test_a_draft_model_that_is_not_there_is_refused_when_the_target_is_loaded(tiny: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="none"):
        library.load(str(tiny), **TOY, **second("model", tmp_path / "none"))
    with pytest.raises(ConfigError, match=r"drafts\.model"):
        library.load(str(tiny), **TOY, drafts="model")
    with pytest.raises(ConfigError, match="ordr"):
        library.load(str(tiny), **TOY, **second("model", tiny, ordr=2))


def test_a_draft_model_of_a_shorter_context_is_refused_unless_drafts_may_stop(tiny: Path) -> None:
    short = second("model", tiny, max_length=60)
    with pytest.raises(NotEligible, match=r"holds 60 tokens .*short_context"):
        library.load(str(tiny), **TOY, **short)
    found = write(tiny, **short, **{"drafts.short_context": "stop"})
    assert found.ids == write(tiny, drafts="off").ids


# --- real runtimes ---------------------------------------------------------------------------------------------------


def written(model: Model, **changes: Any) -> tuple[list[int], int, int]:
    """The ids, and how many drafts were accepted of those that were scored."""
    config = replace(model.config, seed=changes.pop("seed", None), sampling=Sampling(**changes), max_tokens=48)
    with model.generate(PROMPT, config=config) as generation:
        list(generation)
    rounds = generation.rounds
    return generation.ids, sum(r.accepted for r in rounds), sum(r.evaluated for r in rounds)


def test_a_draft_model_that_is_the_target_takes_its_weights(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the same runtime with the same options, however its folder is written; else it is loaded for itself."""
    pytest.importorskip("torch", reason="the target runs on transformers")
    from surefoot.targets import hf

    builds, plugin = list[Any](), hf.PLUGIN

    def build(options: Any, path: Any) -> Any:
        builds.append(options)
        return plugin.build(options, path)

    monkeypatch.setattr(hf, "PLUGIN", replace(plugin, build=build))

    def loaded(**drafts: Any) -> Model:
        builds.clear()
        named = {"model": f"{tiny}/../{tiny.name}", "runtime": "hf", "threads": 1, "confidence": 0.0, **drafts}
        return library.load(
            str(tiny), runtime="hf", threads=1, raw=True, drafts="model", policy="fixed", draft_len=5,
            **{f"drafts.{key}": value for key, value in named.items()},
        )  # fmt: skip

    shared = loaded()
    assert len(builds) == 1
    ids, n_accepted, n_evaluated = written(shared)
    assert len(builds) == 1
    assert n_accepted == n_evaluated > 20
    apart = loaded(runtime_options={"dtype": "float32"})
    assert [options.dtype for options in builds] == ["auto", "float32"]
    assert written(apart)[0] == ids


@pytest.mark.parametrize("runtime", ["hf", "openvino"])
def test_any_runtime_drafts_for_transformers(tiny: Path, runtime: str) -> None:
    """A random model's likeliest tokens lie far apart, so two runtimes with the same weights write the same."""
    pytest.importorskip("torch", reason="the target runs on transformers")
    pytest.importorskip("openvino", reason="the draft model runs on OpenVINO") if runtime == "openvino" else None
    settings: dict[str, Any] = {"runtime": "hf", "threads": 1, "raw": True}
    plain = library.load(str(tiny), drafts="off", **settings)
    weights = {"drafts.weights": "fp16"} if runtime == "openvino" else {}
    drafting = library.load(
        str(tiny), drafts="model", policy="fixed", draft_len=5, allow_near_ties=True, **settings, **weights,
        **{"drafts.model": str(tiny), "drafts.runtime": runtime, "drafts.threads": 1, "drafts.confidence": 0.0},
    )  # fmt: skip
    for law in ({}, {"temperature": 0.8, "seed": 3}, {"temperature": 1.5, "top_p": 0.9, "seed": 5}):
        ids, n_accepted, n_evaluated = written(drafting, **law)
        assert ids == written(plain, **law)[0]
        if runtime == "hf":
            assert n_accepted == n_evaluated > 20
        else:  # the weights are rounded to half precision
            assert n_accepted > 0.5 * n_evaluated > 10
