"""The lossy judge on the command line: wherever it had a hand in, the word lossy stands."""

from __future__ import annotations

import json
from pathlib import Path

from cli_run import assert_refused, surefoot

from surefoot.lab import store

FAILED, USAGE = 1, 2
TOY = ("--runtime", "toy", "--set", "runtime.vocab_size=258", "--set", "runtime.order=1")
JUDGE = ("--set", "judge=tolerant", "--set", "tolerance.top_n=200")
WHY = "lossy: the judge tolerant (top_n 200, margin 0) accepts drafts that plain decoding would not write"
PROMPT = "one two three, one two three, one two"


def test_the_help_calls_it_lossy() -> None:
    told = " ".join(surefoot("generate", "--help").out.split())
    assert "tolerant, which is lossy" in told


def test_the_line_and_the_document_of_a_text_call_it_lossy(tiny: Path) -> None:
    options = (*TOY, "-p", PROMPT, "--max-tokens", 40, "--policy", "fixed", "--draft-len", 4)
    judge = ("--judge", "tolerant", "--set", "top_n=200")
    done = surefoot("generate", tiny, *options, *judge)
    found = json.loads(surefoot("generate", tiny, *options, *judge, "--json").out)
    plain = json.loads(surefoot("generate", tiny, *options, "--json").out)
    assert found["lossy"] is True
    assert found["ids"] != plain["ids"]
    n_lossy = found["stats"]["lossy_tokens"]
    assert n_lossy == sum(round_["lossy"] for round_ in found["rounds"]) > 0
    assert done.err.endswith(f"{WHY}, {n_lossy} of 40 tokens here.\n")
    assert (plain["lossy"], plain["stats"]["lossy_tokens"]) == (False, 0)


def test_without_drafts_nothing_is_lossy(tiny: Path) -> None:
    options = (*TOY, "-p", PROMPT, "--max-tokens", 12, "--drafts", "off", *JUDGE)
    done = surefoot("generate", tiny, *options)
    assert done.code == 0
    assert "lossy" not in done.err
    assert json.loads(surefoot("generate", tiny, *options, "--json").out)["lossy"] is False


def test_every_gate_fails_by_name(tiny: Path) -> None:
    done = surefoot("gate", tiny, *TOY, "--quick", *JUDGE)
    assert done.code == FAILED
    names = ["rows", "lossless", "baseline", "contamination"]
    assert [line.split()[:3] for line in done.out.splitlines()[1:]] == [[name, "FAILED", "lossy:"] for name in names]
    assert done.out.count(WHY) == len(names)
    found = json.loads(surefoot("gate", tiny, *TOY, "--quick", *JUDGE, "--json").out)
    assert found["passed"] is False
    assert [gate["passed"] for gate in found["gates"]] == [False] * len(names)


def test_nothing_is_tuned(tiny: Path) -> None:
    assert_refused(surefoot("tune", tiny, *TOY, "--quick", *JUDGE), USAGE, "lossy judge", "leave the judge out")


def test_the_bench_says_what_the_texts_are_and_prints_no_speed_up(tiny: Path, tmp_path: Path) -> None:
    record = tmp_path / "run.jsonl"
    done = surefoot(
        "bench", tiny, *TOY, "--raw", "--set", "runtime.max_length=4096", "--workloads", "chat", "--tokens", 16,
        "--pairs", 3, "--arm", "ngram:min_n=1/fixed:draft_len=4", "--out", record, *JUDGE,
    )  # fmt: skip
    assert done.code == FAILED, done
    pairs = store.load(record).pairs
    differ = sum(not pair.same_ids for pair in pairs)
    assert differ > 0
    (row,) = [line for line in done.out.splitlines() if line.startswith("chat ")]
    assert row.endswith("lossy, no speed-up")
    assert f"no speed-up printed: {WHY}; the text differs from that without drafts in {differ} of 3 pairs" in done.out
    assert f"FAILED: lossless: {WHY}; {differ} of 3 texts with drafts differ" in done.out
    assert f"FAILED: baseline: {WHY}" in done.out
    assert "passed:" not in done.out
    assert "written again" not in done.err, "differences by design are not looked at again"
