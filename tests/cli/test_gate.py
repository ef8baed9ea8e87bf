"""`surefoot gate`: a line for each gate, one document with --json, and exit codes that say what was proved."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_run import assert_refused, start, surefoot, wait

FAILED, USAGE, NOT_ELIGIBLE = 1, 2, 3
TOY = ("--runtime", "toy", "--set", "runtime.vocab_size=258", "--set", "runtime.order=1")
OWN = ("--only", "rows", "--only", "lossless", "--only", "contamination")
"""The gates that need no engine of somebody else."""


def test_a_line_for_each_gate_with_its_figure_and_limit(tiny: Path) -> None:
    done = surefoot("gate", tiny, *TOY, "--quick", *OWN)
    assert (done.code, done.err) == (0, "")
    title, *lines = done.out.splitlines()
    assert title == f"{tiny} on toy, cpu"
    assert [line.split()[:2] for line in lines] == [
        ["rows", "passed"], ["lossless", "passed"], ["contamination", "passed"],
    ]  # fmt: skip
    assert "0 rows that differ (at most 0)" in lines[0]
    assert "drafts accepted and" in lines[1]
    assert "bit for bit" in lines[2]


def test_gates_run_in_their_order_whatever_the_order_of_the_words(tiny: Path) -> None:
    done = surefoot("gate", tiny, *TOY, "--quick", "--only", "contamination", "--only", "rows", "--only", "rows")
    assert [line.split()[0] for line in done.out.splitlines()[1:]] == ["rows", "contamination"]


def test_what_cannot_be_tried_is_said_and_counts_as_not_passed(tiny: Path) -> None:
    done = surefoot("gate", tiny, *TOY, "--quick", "--json")
    assert done.code == NOT_ELIGIBLE
    found = json.loads(done.out)
    assert not found["passed"]
    assert [gate["name"] for gate in found["gates"]] == ["rows", "lossless", "contamination"]
    assert found["not_run"] == [
        {"name": "baseline", "reason": "the runtime toy has no generate of its own to compare with."}
    ]


def test_one_document(tiny: Path) -> None:
    done = surefoot("gate", tiny, *TOY, "--quick", *OWN, "--json")
    assert (done.code, done.err) == (0, "")
    found = json.loads(done.out)
    assert found["schema"] == 1
    assert found["passed"]
    assert found["quick"]
    assert found["not_run"] == []
    assert found["model"]["runtime"] == "toy"
    assert found["machine"]["cores"] >= 1
    for gate in found["gates"]:
        assert set(gate) == {"name", "passed", "figure", "limit", "unit", "text", "details"}
        assert gate["figure"] <= gate["limit"]


@pytest.mark.parametrize("drafts", [("--drafts", "off"), ("--draft-len", "3"), ("--policy", "fixed")])
def test_drafts_of_any_kind_are_tried(tiny: Path, drafts: tuple[str, ...]) -> None:
    done = surefoot("gate", tiny, *TOY, "--quick", "--only", "lossless", *drafts, "--json")
    assert done.code == 0, done.err
    ways = json.loads(done.out)["gates"][0]["details"]["ways"]
    assert ("ngram/fixed" in ways) == ("--policy" in drafts)


def test_a_gate_that_fails_ends_with_1(tiny: Path) -> None:
    """With drafts that never hold, nothing is proved: a context this small leaves no room for any."""
    broken = "import sys; from surefoot.testing.faults.toy_cache import lost_early_rows; "
    broken += "from surefoot.app.cli.main import main\nwith lost_early_rows(): sys.exit(main(sys.argv[1:]))"
    options = map(str, ("gate", tiny, *TOY, "--quick", "--only", "contamination"))
    done = wait(start(["-c", broken, *options]))
    assert done.code == FAILED
    assert done.out.splitlines()[1].startswith("contamination  FAILED ")
    assert "differ from a fresh prefill" in done.out


def test_the_baseline_of_transformers_is_run(tiny: Path) -> None:
    """What its figure is depends on the machine: only the text and what is told of it are looked at."""
    done = surefoot("gate", tiny, "--runtime", "hf", "--threads", 1, "--quick", "--only", "baseline", "--json")
    assert done.code in (0, FAILED), done.err
    (gate,) = json.loads(done.out)["gates"]
    assert "same text" in gate["text"]
    assert gate["details"]["differences"] == {}
    assert gate["details"]["settings"]["dtype"] == "float32"
    assert gate["limit"] == 0.97
    assert len(gate["details"]["pairs"]) >= 6


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], USAGE, ["MODEL", "surefoot gate --help"]),
        (["{tiny}", "--only", "row"], USAGE, ["no gate called 'row'", "did you mean 'rows'"]),
        (["{tiny}", "--only"], USAGE, ["--only", "expected one argument"]),
        (["nowhere/at-all.gguf"], USAGE, ["nowhere/at-all.gguf"]),
        (["{tiny}", "--runtime", "abacus"], USAGE, ["abacus"]),
        (["{tiny}", "--temperature", "1"], USAGE, ["--temperature"]),
        (["{tiny}", "--drafts", "off", "--draft-len", "4"], USAGE, ["draft_len", "drafts are off"]),
        (["{tiny}", "--runtime", "toy"], NOT_ELIGIBLE, ["tokenizer", "258"]),
    ],
)
def test_bad_input_is_one_sentence(tiny: Path, arguments: list[str], code: int, words: list[str]) -> None:
    done = surefoot("gate", *[argument.replace("{tiny}", str(tiny)) for argument in arguments])
    assert_refused(done, code, *words)


def test_near_tie_settings_need_the_users_word(tiny: Path) -> None:
    bfloat16 = ("--runtime", "hf", "--threads", 1, "--set", "runtime.dtype=bfloat16", "--quick")
    done = surefoot("gate", tiny, *bfloat16)
    assert_refused(done, NOT_ELIGIBLE, "dtype bfloat16", "--only rows", "--allow-near-ties")
    done = surefoot("gate", tiny, *bfloat16, "--only", "rows", "--json")
    assert done.err == ""
    details = json.loads(done.out)["gates"][0]["details"]
    assert details["claimed"] == "near-tie"
    assert details["decided_by"]["dtype"] == "bfloat16"


def test_what_has_no_effect_is_told(tiny: Path) -> None:
    done = surefoot("gate", tiny, *TOY, "--quick", "--only", "rows", "--set", "max_tokens=9")
    assert done.code == 0
    assert done.err == "surefoot: gates write greedily, in lengths of their own; not used here: max_tokens.\n"
