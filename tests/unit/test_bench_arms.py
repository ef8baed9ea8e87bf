"""Arms as they are written: what each means, how it is shown, and one sentence for each that cannot be."""

from __future__ import annotations

from dataclasses import replace

import pytest

from surefoot.core.errors import ConfigError
from surefoot.engine.config import Config, Part, load_config
from surefoot.lab.arms import configured, is_free, parse, plain, settled, with_policy
from surefoot.lab.records import Arm

BASE = Config()


def one(text: str, config: Config = BASE) -> Arm:
    (arm,) = parse([text], config)
    return arm


def test_without_any_the_configuration_is_the_arm() -> None:
    assert parse([], BASE) == (Arm("ngram/additive", "drafts", {"name": "ngram"}, {"name": "additive"}),)
    given = load_config(overrides={"drafts.max_n": 3, "policy": "fixed", "draft_len": 4})
    (arm,) = parse([], given)
    assert arm.label == "ngram:max_n=3/fixed:draft_len=4"
    assert parse([], load_config(overrides={"drafts": "off"})) == (Arm("off", "off"),)


def test_an_arm_names_a_drafter_and_a_policy_with_options() -> None:
    arm = one("ngram:max_n=3,overlap=false,extend=false/additive:draft_len=5")
    assert arm.drafts == {"name": "ngram", "max_n": 3, "overlap": False, "extend": False}
    assert arm.policy == {"name": "additive", "draft_len": 5}
    assert arm.label == "ngram:max_n=3,overlap=false,extend=false/additive:draft_len=5"
    assert one(arm.label) == arm, "a label can be given as an arm again"


@pytest.mark.parametrize(
    ("text", "path", "policy"),
    [
        ("model:model=/data/x.gguf", "/data/x.gguf", "additive"),
        ("model:model=models/x.gguf/fixed:draft_len=4", "models/x.gguf", "fixed"),
        ("model:threads=2,model=some/checkpoint/additive", "some/checkpoint", "additive"),
        ('model:model="/data/fixed"', "/data/fixed", "additive"),
        ('model:model="/data/fixed"/goodput', "/data/fixed", "goodput"),
        ('model:model="a, b/[c"/additive', "a, b/[c", "additive"),
        ("model:model='/data/additive',draws=greedy/fixed", "/data/additive", "fixed"),
        ("model:model=/home/o'brien/x.gguf/fixed", "/home/o'brien/x.gguf", "fixed"),
    ],
)
def test_a_path_among_the_options_of_a_drafter_is_not_cut(text: str, path: str, policy: str) -> None:
    arm = one(text)
    assert (arm.drafts["model"], arm.policy["name"]) == (path, policy)
    assert one(arm.label) == arm, "a label can be given as an arm again"


@pytest.mark.parametrize(
    "options",
    [
        {"drafts": "union", "drafts.members": ["ngram", {"name": "model", "model": "a/b", "threads": 2}]},
        {"drafts": "model", "drafts.model": "/data/x.gguf", "drafts.runtime_options": {"ctx_size": 512}},
        {"drafts": "model", "drafts.model": "true"},
        {"drafts": "model", "drafts.model": 'a "b" \\ c,d=e'},
    ],
    ids=["list", "table", "like a switch", "marks"],
)
def test_what_the_configuration_says_can_be_given_as_an_arm(options: dict[str, object]) -> None:
    (arm,) = parse([], load_config(overrides=options))
    assert one(arm.label) == arm


def test_the_drafts_of_an_arm_with_another_policy() -> None:
    arm = one("model:model=/data/x.gguf/goodput")
    assert one(with_policy(arm, "fixed")) == one("model:model=/data/x.gguf/fixed")


def test_a_drafter_alone_takes_the_policy_of_the_configuration() -> None:
    given = load_config(overrides={"policy": "additive", "draft_len": 3})
    assert one("ngram", given).label == "ngram/additive:draft_len=3"


def test_which_draft_lengths_are_free() -> None:
    assert is_free(one("ngram/fixed"))
    assert is_free(one("ngram/additive:draft_len=choose"))
    assert is_free(one("peer"))
    for given in ("ngram/fixed:draft_len=4", "ngram/additive", "peer:draft_len=5", "off"):
        assert not is_free(one(given)), given


def test_a_chosen_length_is_in_the_label_and_how_is_kept() -> None:
    for text, label in (
        ("ngram/fixed", "ngram/fixed:draft_len=3"),
        ("ngram:max_n=3/additive:draft_len=choose", "ngram:max_n=3/additive:draft_len=3"),
        ("peer", "peer:draft_len=3"),
    ):
        arm = settled(one(text), 3, "how")
        assert (arm.label, arm.chosen, is_free(arm)) == (label, "how", False)
        assert one(label) == settled(one(text), 3)


def test_what_an_arm_runs() -> None:
    base = load_config(overrides={"threads": 1, "temperature": 0.5})
    config = configured(one("ngram:max_n=3/fixed:draft_len=4"), base, 33)
    assert (config.drafts, config.policy) == (Part("ngram", {"max_n": 3}), Part("fixed", {"draft_len": 4}))
    assert (config.max_tokens, config.sampling, config.runtime) == (33, base.sampling, base.runtime)
    assert configured(one("off"), base, 33) == plain(base, 33)
    assert plain(base, 33).drafts == Part("off")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["cannot be read", "ngram"]),
        ("/fixed", ["cannot be read"]),
        ("ngram:", ["cannot be read"]),
        ("ngram/", ["cannot be read"]),
        ("ngram/fixed:", ["cannot be read"]),
        ("ngrm", ["ngrm", "ngram"]),
        ("ngram/fixd", ["fixd", "fixed"]),
        ("ngram/fixed/additive", ["fixed/additive"]),
        ("ngram:max_n=3/fixd", ["max_n", "3/fixd"]),
        ("ngram:max_m=3", ["max_m", "max_n"]),
        ("ngram:max_n", ["max_n", "KEY=VALUE"]),
        ("ngram:max_n=3,", ["KEY=VALUE"]),
        ("ngram:max_n=3,max_n=4", ["max_n", "twice"]),
        ("ngram:max_n=three", ["max_n", "three"]),
        ("ngram:max_n=1", ["max_n", "min_n"]),
        ("ngram/fixed:draft_len=-1", ["draft_len", "-1"]),
        ("ngram/fixed:draft_len=few", ["draft_len", "few"]),
        ("ngram/additive:cap=7", ["cap", "draft_len"]),
        ("ngram/additive:draft_len=0", ["draft_len", "0"]),
        ("off:x=1", ["off", "no options"]),
        ("off/fixed", ["off", "no policy"]),
        ("peer/fixed", ["peer", "no policy"]),
        ("peer:k=4", ["peer", "k", "draft_len"]),
        ("peer:draft_len=0", ["peer", "draft_len", "1"]),
        ("peer:draft_len=4.5", ["peer", "draft_len"]),
        ("peer:draft_len=true", ["peer", "draft_len"]),
        ("peer:draft_len=many", ["peer", "draft_len"]),
    ],
)
def test_an_arm_that_cannot_be(text: str, words: list[str]) -> None:
    with pytest.raises(ConfigError) as refused:
        one(text)
    for word in words:
        assert word in str(refused.value)


@pytest.mark.parametrize("texts", [("ngram", "ngram"), ("ngram", "ngram/additive"), ("peer", "peer:draft_len=choose")])
def test_an_arm_given_twice(texts: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match="twice"):
        parse(texts, BASE)


@pytest.mark.parametrize(
    "drafts",
    [
        Part("suffix", {"corpus": "somewhere"}),
        Part("union", {"members": ["ngram", {"name": "suffix", "corpus": "somewhere"}]}),
        Part("union", {"members": [{"name": "union", "members": [{"name": "suffix", "corpus": "somewhere"}]}]}),
    ],
    ids=["alone", "member", "nested"],
)
def test_a_drafter_that_remembers_the_pair_before_is_refused(drafts: Part) -> None:
    with pytest.raises(ConfigError, match="remembers what it wrote for the same prompt"):
        parse([], replace(BASE, drafts=drafts))
    assert parse([], replace(BASE, drafts=Part("union", {"members": ["suffix", "ngram"]})))


def test_several_drafters_with_a_plus_are_one_arm() -> None:
    arm = one("suffix+ngram:choice=longest/fixed:draft_len=4")
    assert arm.label == "suffix+ngram:choice=longest/fixed:draft_len=4"
    assert configured(arm, BASE, 8).drafts == Part("suffix+ngram", {"choice": "longest"})
