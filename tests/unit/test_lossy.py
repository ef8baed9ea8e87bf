"""A lossy judge: off unless it is asked for, called lossy by all who speak of it, and the end of every gate."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import lab_records as make
import pytest
from timed_toy import VirtualClock, timed_model

from surefoot.core.errors import ConfigError
from surefoot.core.judge import LOSSY, Tolerance
from surefoot.core.types import as_ids
from surefoot.engine.config import Config, Part, load_config
from surefoot.lab import differences, gates, setup
from surefoot.lab.analysis import Analysis, analyse
from surefoot.lab.records import Arm, Gate, Pair
from surefoot.lab.report import html, markdown, page, rows
from surefoot.lab.report.rows import NamedRun
from surefoot.lab.store import Loaded
from surefoot.lab.tune import check_lossless

SETTINGS = {"judge": "tolerant", "top_n": 3}
WHY = "the judge tolerant (top_n 3, margin 0) accepts drafts that plain decoding would not write"

# ---------------------------------------------------------------- how it is asked for


def test_it_is_off_by_default() -> None:
    assert Config().judge not in LOSSY
    assert Config().lossy == ""
    assert load_config(overrides={"judge": "ratio"}).lossy == ""


def test_it_is_asked_for_with_a_tolerance() -> None:
    assert load_config(overrides=SETTINGS).lossy == WHY
    found = load_config(overrides={"judge": "tolerant", "tolerance.margin": 1})
    assert (found.tolerance, found.lossy) == (Tolerance(1, 1.0), WHY.replace("top_n 3, margin 0", "top_n 1, margin 1"))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"judge": "tolerant"}, "lossy judge tolerant is asked for and nothing is tolerated"),
        ({**SETTINGS, "temperature": 0.5}, "lossy judge tolerant measures from the token that greedy"),
        ({"top_n": 3}, "tolerance.top_n is of the lossy judge tolerant, and the judge is match"),
        ({**SETTINGS, "top_n": 0}, "tolerance.top_n must be at least 1"),
        ({**SETTINGS, "top_n": 1.5}, "tolerance.top_n takes a whole number; got 1.5"),
        ({**SETTINGS, "margin": "wide"}, "tolerance.margin takes a number; got 'wide'"),
        ({**SETTINGS, "margin": -1}, "tolerance.margin must be a number of logits from 0 up"),
        ({**SETTINGS, "tolerance.topn": 3}, "no setting of tolerance called 'topn'; did you mean 'top_n'"),
        ({"judge": "tolerant", "tolerance": 3}, "tolerance takes a table; got 3"),
    ],
)
def test_bad_values_get_one_sentence(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said) as refusal:
        load_config(overrides=settings)
    assert str(refusal.value).count(". ") == 0


def test_a_file_may_keep_its_tolerance_while_another_judge_is_taken_for_once(tmp_path: Path) -> None:
    path = tmp_path / "surefoot.toml"
    path.write_text('judge = "tolerant"\n[tolerance]\ntop_n = 3\n')
    assert load_config(path).lossy == WHY
    assert load_config(path, {"judge": "match"}).lossy == ""


# ---------------------------------------------------------------- what it writes with


def lossy_model(**settings: Any) -> Any:
    model = timed_model(VirtualClock())
    return replace(model, config=load_config(overrides={**SETTINGS, **settings}))


def test_its_text_differs_from_the_models_own_and_the_tokens_are_counted() -> None:
    model = lossy_model(max_tokens=40, policy="fixed", draft_len=4)
    with model.generate(as_ids([1, 2, 3] * 5)) as generation:
        list(generation)
    with model.generate(as_ids([1, 2, 3] * 5), config=replace(model.config, drafts=Part("off"))) as plain:
        list(plain)
    assert generation.ids != plain.ids
    assert generation.stats().lossy_tokens == sum(round_.lossy for round_ in generation.rounds) > 0
    assert plain.stats().lossy_tokens == 0


def test_no_choice_hangs_on_the_clock() -> None:
    """Other drafts write another text here, so that two runs have to draft alike, on identical rows too."""
    model = lossy_model(policy="goodput")
    assert model.row_class == "identical"
    assert model.policy().options["reproducible"] is True
    assert model.policy(replace(model.config, judge="match")).options["reproducible"] is False
    assert model.workshop(model.config).row_class == "near-tie"


# ---------------------------------------------------------------- gates and plans


@pytest.mark.parametrize("drafts", ["ngram", "off"])
@pytest.mark.parametrize("name", gates.NAMES)
def test_no_gate_passes_and_each_says_why(name: str, drafts: str, tmp_path: Path) -> None:
    gate = gates.outcome(name, lossy_model(drafts=drafts), tmp_path, quick=True)
    assert isinstance(gate, Gate)
    assert (gate.name, gate.passed) == (name, False)
    assert gate.text.startswith(f"lossy: {WHY}, so no gate passes")
    assert gates.class_shown(gate, "identical") is None, "it says nothing of the rows"


def test_nothing_is_tuned_with_it() -> None:
    check_lossless(Config())
    with pytest.raises(ConfigError, match="nothing is tuned with a lossy judge: the judge tolerant"):
        check_lossless(load_config(overrides=SETTINGS))


# ---------------------------------------------------------------- the bench and its report


def texts(differ: int, arm: str = "ngram", n: int = 8) -> list[Pair]:
    """Pairs of which the first `differ` differ in their last token."""
    pairs = [make.pair(number, arm=arm) for number in range(n)]
    return [
        replace(pair, on=replace(pair.on, ids=(*pair.on.ids[:-1], 99))) if number < differ else pair
        for number, pair in enumerate(pairs)
    ]


def lossy_run() -> Any:
    """What the record of a bench says of its sampling, as setup writes it."""
    run = make.run(sampling=setup.sampling_of(load_config(overrides=SETTINGS)))
    assert (run.lossy, run.sampling["tolerance"]) == (WHY, {"top_n": 3, "margin": 0.0})
    return run


def analysed(differ: int) -> Analysis:
    run, pairs = lossy_run(), texts(differ)
    gate = differences.gate(run, pairs, ())
    return analyse(Loaded(run, (make.BASELINE, gate), (), tuple(pairs), (), None, False))


def test_a_record_without_a_lossy_judge_says_nothing_of_it() -> None:
    assert make.run(sampling=setup.sampling_of(Config())).lossy == ""
    assert "tolerance" not in setup.sampling_of(Config())


@pytest.mark.parametrize("differ", [0, 3])
def test_texts_are_told_for_what_they_are_and_nothing_is_claimed(differ: int) -> None:
    found = analysed(differ)
    gate = found.gates["lossless"]
    assert (gate.passed, gate.figure) == (False, differ)
    assert gate.text == f"lossy: {WHY}; {differ} of 8 texts with drafts differ from those without"
    (row,) = found.rows
    assert (row.lossy, row.ratio, row.verdict, row.same_ids) == (True, None, "none", 8 - differ)
    assert row.why == f"lossy: {WHY}; the text differs from that without drafts in {differ} of 8 pairs"


def test_another_engine_beside_it_is_not_called_lossy() -> None:
    run, pairs = lossy_run(), texts(2, "peer")
    (row,) = analyse(Loaded(run, (make.BASELINE,), (), tuple(pairs), (), None, False)).rows
    assert not row.lossy
    assert row.ratio is not None


def test_differences_by_design_are_not_looked_at_again() -> None:
    assert differences.may_differ(lossy_run()) == {"ngram", "peer"}
    assert differences.may_differ(replace(lossy_run(), arms=[Arm("off", "off")])) == frozenset()
    assert differences.may_differ(make.run()) == {"peer"}


@pytest.mark.parametrize("differ", [0, 3])
def test_every_form_of_the_report_calls_it_lossy(differ: int) -> None:
    run = NamedRun("one", analysed(differ))
    (check,) = [each for each in page.checks(run.analysis) if each.name == "lossy text"]
    assert check.good is None
    assert check.text == f"{8 - differ} of 8 pairs wrote the same tokens on both sides"
    assert "same text" not in [each.name for each in page.checks(run.analysis)]
    speed = rows.tables([run])[0].records()[0]
    assert (speed["lossy"], speed["verdict"]) == (True, "no figure (lossy)")
    assert json.loads(rows.as_json(rows.tables([run])))["tables"]["speed"][0]["lossy"] is True
    for text in (html.render([run]), markdown.render([run])):
        assert "no figure (lossy)" in text
        assert "accepts drafts that plain decoding would not write" in text
        assert "texts with drafts equal" not in text
