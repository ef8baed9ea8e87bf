"""`surefoot inspect` and `surefoot simulate` as commands: what goes where, exit codes, the documents."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_run import assert_refused, surefoot

ROOT = Path(__file__).parent.parent.parent
DATA = ROOT / "tests" / "data"


def test_a_model_that_works_is_told_with_its_evidence(tiny: Path) -> None:
    done = surefoot("inspect", tiny)
    assert (done.code, done.err) == (0, "")
    assert "can verify     yes" in done.out
    assert "config.json: vocab_size = 258" in done.out


def test_the_document(tiny: Path) -> None:
    done = surefoot("inspect", tiny, "--draft", tiny, "--json")
    document = json.loads(done.out)
    assert (done.code, document["schema"], document["works"]) == (0, 1, True)
    assert document["facts"]["vocabulary"]["value"] == 258
    assert document["facts"]["vocabulary"]["evidence"] == [{"file": "config.json", "key": "vocab_size", "value": "258"}]
    assert document["draft"]["answer"] == "yes"
    assert "settings" not in document["facts"]


def test_a_model_that_does_not_work_ends_with_3_and_its_reason() -> None:
    done = surefoot("inspect", DATA / "inspect" / "single.onnx")
    assert (done.code, done.err) == (3, "")
    assert "a single row a forward" in done.out


def test_a_damaged_file_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"\xff" * 40)
    assert_refused(surefoot("inspect", tmp_path / "m.onnx"), 3, "damaged")


def test_a_format_that_is_not_there(tiny: Path) -> None:
    assert_refused(surefoot("inspect", tiny, "--format", "onnx"), 2, "safetensors")


CURVE = f"{DATA / 'cost-curves.json'}:m4max-30b-int4"
RECORD = ROOT / "benchmarks" / "records" / "bench_hf_fp32.jsonl"


def test_a_published_table_is_predicted_and_compared() -> None:
    done = surefoot(
        "simulate", "--curve", CURVE, "--trace", DATA / "cost-curves.json", "--workloads", "chat", "--texts", "2",
        "--policy", "goodput", "--json",
    )  # fmt: skip
    document = json.loads(done.out)
    assert done.code == 0
    (workload,) = document["curves"][0]["workloads"]
    told = {each["policy"]: each for each in workload["outcomes"]}
    assert told["fixed:draft_len=2"]["measured"] == 1.34
    assert told["additive:draft_len=7"]["residual"] is not None
    assert told["goodput"]["measured"] is None
    assert workload["process"]["length"] == 18


@pytest.mark.model
def test_a_record_is_written_again() -> None:
    done = surefoot(
        "simulate", "--curve", CURVE, "--trace", RECORD, "--workloads", "code", "--policy", "fixed:draft_len=2"
    )
    assert (done.code, done.err) == (0, "")
    assert "fixed:draft_len=2" in done.out
    assert "best with hindsight" in done.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--curve", "nowhere.json", "--trace", DATA / "cost-curves.json"), "there is no file"),
        (("--curve", CURVE, "--trace", DATA / "cost-curves.json", "--policy", "fixed"), "which draft length"),
        (("--curve", CURVE, "--trace", DATA / "cost-curves.json", "--workloads", "poems"), "the table has chat"),
        (("--curve", CURVE, "--trace", DATA / "cost-curves.json", "--texts", "0"), "--texts takes 1"),
        (("--curve", CURVE, "--trace", DATA / "cost-curves.json", "--draft-ms", "2"), "--draft-ms 2: a table"),
        (("--curve", CURVE, "--trace", DATA / "cost-curves.json", "--policy", "fixed:draft_len=20"), "than the 15"),
        pytest.param(
            ("--curve", CURVE, "--trace", RECORD, "--workloads", "code,poems"), "--workloads poems: the record has",
            marks=pytest.mark.model,
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_simulated_is_one_sentence(arguments: tuple[str, ...], words: str) -> None:
    assert_refused(surefoot("simulate", *arguments), 2, words)
