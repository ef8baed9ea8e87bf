"""`surefoot accept`: the tables, the record, and a run that goes on after kill -9, after Ctrl-C, and not elsewhere."""

from __future__ import annotations

import io
import itertools
import json
import shlex
import shutil
import signal
import subprocess
import time
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cli_run import Done, assert_refused, start, wait

from surefoot.app.cli.main import main
from surefoot.lab import store
from surefoot.lab.accept.run import plan

USAGE, NOT_ELIGIBLE = 2, 3
CURVES = Path(__file__).parents[1] / "data" / "cost-curves.json"
CURVE = f"{CURVES}:m4max-30b-int4"
RATIOS = f"{CURVES}:mlx-4bit-m3ultra"
TOY = ("--runtime", "toy", "--set", "runtime.vocab_size=258", "--set", "runtime.order=1",
       "--set", "runtime.max_length=4096", "--raw")  # fmt: skip
SMALL = (*TOY, "--workloads", "chat,code", "--tokens", "64", "--each", "1", "--draft-len", "4",
         "--drafts", "ngram:min_n=1", "--drafts", "ngram+suffix/fixed:draft_len=2", "--temperatures", "0,0.8",
         "--without-anchor")  # fmt: skip
ARMS = ("ngram:min_n=1/additive", "ngram+suffix/fixed:draft_len=2")
TEXTS = 2 * 2 * (1 + 4 + 3)
"""Prompts, temperatures; the plain text, and the modes of each arm: a union has no oracle."""


def surefoot(*arguments: object) -> Done:
    """The command in this process: nothing here depends on how a process ends, and starting one takes seconds."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(list(map(str, arguments)))
    return Done(code, out.getvalue(), err.getvalue())


def accept(*arguments: object) -> Done:
    return surefoot("accept", *arguments)


@pytest.fixture(scope="module")
def whole(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Done, Path]:
    """A run that came to its end."""
    record = tmp_path_factory.mktemp("accept") / "run.jsonl"
    done = accept(tiny, *SMALL, "--curve", CURVE, "--out", record)
    assert done.code == 0, done
    return done, record


def printed(record: Path, *arguments: object) -> dict[str, Any]:
    done = accept("--print", record, "--json", *arguments)
    assert (done.code, done.err) == (0, "")
    found: dict[str, Any] = json.loads(done.out)
    return found


def test_the_tables_say_what_held_and_what_the_wrong_sum_would_say(whole: tuple[Done, Path]) -> None:
    done, record = whole
    lines = done.out.splitlines()
    for arm in ARMS:
        for temperature in ("0 (greedy)", "0.8"):
            assert f"{arm}, temperature {temperature}" in lines
    heads = [" ".join(line.split()) for line in lines if line.startswith("workload ")]
    wanted = "workload mode texts rounds drafted in accepted/round tokens/round conditional sum 1 2 3 4"
    assert [head[: len(wanted)] for head in heads] == [wanted] * 4
    modes = [line.split()[:2] for line in lines if line.startswith(("chat ", "code "))]
    oracle, others = ["oracle"], ["chain", "live", "unanchored"]
    assert modes == [
        [workload, mode]
        for modes in (oracle + others, others, oracle + others, others)
        for workload in ("chat", "code")
        for mode in modes
    ]
    for text in (
        "nothing was timed",
        "which a published bench gives as tokens per round: WRONG",
        "unanchored: the chain again, its drafter not told the last token",
        "no oracle: its drafts depend on how the rounds fell",
        "accepted/round if no draft were longer (oracle)",
        "accepted/round (rounds) by match length, over all workloads",
        "predicted tokens per second by draft length, * the best",
        f"{2 * 2 * 6} texts with drafts equal the plain ones, token for token",
        f"predicted with {CURVE}: ",
        f"record: {record}",
        f"surefoot simulate --curve FILE --trace {record}",
    ):
        assert text in done.out, text


def test_the_document_holds_the_rows_and_adds_up(whole: tuple[Done, Path]) -> None:
    found = printed(whole[1], "--curve", CURVE)
    assert (found["schema"], found["draft_len"], found["tokens"], found["different"]) == (1, 4, 64, 0)
    assert list(found["no_oracle"]) == [ARMS[1]]
    assert len(found["rows"]) == 2 * 2 * 7
    for row in found["rows"]:
        drafts = row["drafts"]
        assert row["accepted_per_round"] == pytest.approx(drafts["accepted"] / drafts["rounds"])
        assert row["tokens_per_round"] == pytest.approx(row["accepted_per_round"] + 1)
        lived = sum((s or 0) * at["offered"] for s, at in zip(row["survival"], drafts["positions"], strict=True))
        assert lived == pytest.approx(drafts["accepted"])
        if drafts["positions"]:
            assert row["conditional_sum"] == pytest.approx(1 + sum(chance or 0 for chance in row["conditional"]))
        assert (row["by_draft_len"] is None) == (row["mode"] != "oracle")
    assert [len(each["tokens_per_s"]) for each in found["predicted"]] == [4] * 8
    assert (found["draft_ms"], found["no_prediction"]) == (dict.fromkeys(ARMS, 0), {})
    assert {each["workload"] for each in found["by_match"]} == {"chat", "code"}
    assert all(each["survival"] for each in found["by_match"])
    assert {each["found"] for each in found["predicted"]} == {"oracle", "chain"}


def test_what_was_printed_at_the_end_can_be_printed_again_and_on_another_curve(whole: tuple[Done, Path]) -> None:
    done, record = whole
    again = accept("--print", record, "--curve", CURVE)
    assert (again.code, again.out) == (0, done.out)
    bare = accept("--print", record)
    assert bare.code == 0
    assert "no speed is predicted: give what forwards cost with --curve" in bare.out
    ratios = accept("--print", record, "--curve", RATIOS)
    assert "predicted speed-up by draft length" in ratios.out


def test_drafts_of_a_second_model_have_no_prediction_until_their_cost_is_stated(tiny: Path, tmp_path: Path) -> None:
    record = tmp_path / "run.jsonl"
    second = f"model:model={tiny},runtime=toy,runtime_options={{vocab_size=258,order=1,max_length=4096}}"
    done = accept(tiny, *TOY, "--workloads", "chat", "--tokens", "24", "--each", "1", "--drafts", second,
                  "--drafts", "ngram:min_n=1", "--curve", CURVE, "--out", record)  # fmt: skip
    assert done.code == 0, done
    assert done.out.count("predicted tokens per second") == 1
    (told,) = [line for line in done.out.splitlines() if "no speed is predicted" in line]
    assert "a forward of a second model" in told
    option, label = shlex.split(told.partition("it takes with ")[2])
    assert option == "--draft-ms"
    assert label.endswith("=X")

    assert list(printed(record, "--curve", CURVE)["no_prediction"]) == [label.removesuffix("=X") + "/additive"]
    assert printed(record)["no_prediction"] == {}
    stated = accept("--print", record, "--curve", CURVE, option, label.replace("=X", "=8"), option, "ngram:min_n=1=0.5")
    assert stated.out.count("predicted tokens per second") == 2
    assert "no speed is predicted" not in stated.out
    assert "  a drafted token costs 8 ms with model:" in stated.out
    assert "  a drafted token costs 0.5 ms with ngram:min_n=1/additive" in stated.out
    as_typed = accept("--print", record, "--curve", CURVE, option, f"{second}=8", option, "0.5")
    assert as_typed.out == stated.out
    ratios = accept("--print", record, "--curve", RATIOS)
    assert "with a curve in milliseconds" in ratios.out


UNIONS = [
    '{name="ngram", min_n=1}, {name="union", members=["suffix"]}',
    '"suffix+ngram", "lookahead"',
    '"suffix", "ngram"',
]
STATED = [
    '{name="ngram", min_n=1}, {name="union", members=["suffix"], reproducible=true}',
    '{name="union", members=["suffix", "ngram"], reproducible=true}, "lookahead"',
    '"suffix", "ngram"',
]


@pytest.mark.parametrize(("members", "stated"), [*zip(UNIONS, STATED, strict=True)], ids=["nested", "plus", "flat"])
def test_the_clock_decides_no_count(
    members: str, stated: str, tmp_path: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where proposals take long, a union by the clock asks nobody; what it offers is no matter of the machine."""
    plain = ("--set", "drafts.name=union", "--set", f"drafts.members=[{members}]")
    told = ("--set", "drafts.name=union", "--set", f"drafts.members=[{stated}]", "--set", "drafts.reproducible=true")
    counts = []
    for number, given in enumerate((plain, told)):
        clock = SimpleNamespace(perf_counter=partial(next, itertools.count()))  # a proposal is a tenth of a round
        monkeypatch.setattr("surefoot.app.cli.accept_prepare.time", clock)
        record = tmp_path / f"{number}.jsonl"
        done = accept(tiny, *TOY, *given, "--workloads", "code", "--tokens", "64", "--each", "1", "--out", record)
        assert done.code == 0, done
        counts.append([(each.mode, each.steps) for each in store.load(record).counted if each.mode != "live"])
    assert counts[0] == counts[1]
    assert any(step.drafted for _, steps in counts[0] for step in steps)


def test_without_the_anchor_drafts_collapse(whole: tuple[Done, Path]) -> None:
    """This text of the toy becomes a loop of different tokens, which the chain follows."""
    rows = [row for row in printed(whole[1])["rows"] if (row["workload"], row["temperature"]) == ("code", 0)]
    for arm in ARMS:
        by_mode = {row["mode"]: row["drafts"]["accepted"] for row in rows if row["arm"] == arm}
        assert by_mode["chain"] > 10
        assert by_mode["unanchored"] <= by_mode["chain"] // 10


def test_the_record_can_be_simulated_and_makes_no_report(whole: tuple[Done, Path], tiny: Path) -> None:
    record = whole[1]
    done = surefoot("simulate", "--curve", CURVE, "--trace", record, "--drafts", "suffix", "--json")
    assert done.code == 0, done
    (curve,) = json.loads(done.out)["curves"]
    assert [each["workload"] for each in curve["workloads"]] == ["chat@0", "chat@0.8", "code@0", "code@0.8"]
    assert all(each["tokens"] == 63 for each in curve["workloads"])
    in_ms = surefoot("simulate", "--curve", RATIOS, "--trace", record, "--draft-ms", "1")
    assert_refused(in_ms, USAGE, "--draft-ms", "only ratios")
    assert_refused(surefoot("report", record), USAGE, f"surefoot accept --print {record}")
    assert_refused(surefoot("bench", "--resume", record), USAGE, "came to its end")


def started(record: Path, *arguments: object) -> subprocess.Popen[bytes]:
    return start(["-m", "surefoot", "accept", *map(str, arguments), "--out", str(record)])


def wait_for_texts(record: Path, count: int) -> None:
    """Until so many texts are on the disk; the limit only ends a hang."""
    for _ in range(3000):
        if record.exists() and record.read_bytes().count(b'"kind":"counted"') >= count:
            return
        time.sleep(0.1)
    raise AssertionError("no text came")


LONG = (*SMALL, "--tokens", "400")
"""So that the run does not end before it is cut short."""


def test_after_kill_9_the_run_goes_on_with_no_text_lost_or_twice(
    whole: tuple[Done, Path], tiny: Path, tmp_path: Path
) -> None:
    record = tmp_path / "run.jsonl"
    process = started(record, tiny, *LONG)
    wait_for_texts(record, 5)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    before = store.load(record)
    assert 5 <= len(before.counted) < TEXTS
    with record.open("ab") as file:  # as if it had been hit in the middle of a line
        file.write(record.read_bytes().splitlines(keepends=True)[-1][:77])

    assert_refused(surefoot("bench", "--resume", record), USAGE, "was not made by 'surefoot bench'")
    assert_refused(accept("--resume", record, "--draft-ms", "lookahead=1"), USAGE, "given for lookahead,")
    done = accept("--resume", record)
    assert done.code == 0, done
    after = store.load(record)
    assert after.counted[: len(before.counted)] == before.counted
    assert [(each.mode, each.arm, each.prompt, each.temperature) for each in after.counted] == [
        each.key for each in plan(after.run)
    ]
    assert len(after.resumed) == 1
    assert after.end is not None
    assert_refused(accept("--resume", record), USAGE, "came to its end", f"surefoot accept --print {record}")


def test_ctrl_c_keeps_what_is_there_and_says_how_to_go_on(tiny: Path, tmp_path: Path) -> None:
    record = tmp_path / "run.jsonl"
    process = started(record, tiny, *LONG)
    wait_for_texts(record, 2)
    process.send_signal(signal.SIGINT)
    done = wait(process)
    assert done.code == 130, done
    there = store.load(record)
    assert 2 <= len(there.counted) < TEXTS
    assert not there.cut
    *_, last = done.err.splitlines()
    assert last == (
        f"surefoot: interrupted after {len(there.counted)} of {TEXTS} texts; to go on: "
        f"'surefoot accept --resume {record}'."
    )
    assert "temperature 0 (greedy)" in done.out, "what was counted so far"


def test_a_run_does_not_go_on_with_another_model(whole: tuple[Done, Path], tiny: Path, tmp_path: Path) -> None:
    """The same folder, its weights written anew."""
    model, record = tmp_path / "model", tmp_path / "run.jsonl"
    shutil.copytree(tiny, model)
    lines = whole[1].read_bytes().splitlines(keepends=True)
    record.write_bytes(b"".join(lines[:6]).replace(str(tiny).encode(), str(model).encode()))
    assert_refused(accept("--resume", record), USAGE, "cannot go on", "identity", "begin a new one")
    assert store.load(record).resumed == ()


def test_a_text_that_differs_ends_with_a_failure(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fault is planted in the judge, which lets the first draft through unseen."""
    from surefoot.core.judge import MatchJudge
    from surefoot.core.types import Verdict

    judge = MatchJudge.judge

    def credulous(self: MatchJudge, draft: Any, scores: Any, history: Any) -> Verdict:
        verdict = judge(self, draft, scores, history)
        return Verdict((*draft.ids.tolist()[:1], *verdict.new_ids[1:]), verdict.path) if len(draft) else verdict

    monkeypatch.setattr(MatchJudge, "judge", credulous)
    done = accept(tiny, *TOY, "--workloads", "chat", "--tokens", "64", "--each", "1", "--drafts", "ngram:min_n=1",
                  "--temperature", "0.8", "--out", tmp_path / "run.jsonl")  # fmt: skip
    assert done.code == 1, done
    assert "2 of 2 texts with drafts differ from the plain one (1 of chat, ngram:min_n=1/additive, chain" in done.out


def test_a_prompt_file_and_the_drafts_of_the_configuration(tiny: Path, tmp_path: Path) -> None:
    prompts, record = tmp_path / "mine.jsonl", tmp_path / "run.jsonl"
    rows = [{"question_id": n, "category": "poem", "turns": [f"Write poem number {n}."]} for n in (1, 2)]
    prompts.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = accept(tiny, *TOY, "--prompts", prompts, "--tokens", "8", "--set", "drafts.max_n=2", "--json",
                  "--temperature", "0.5", "--seed", "5", "--out", record, "--quiet")  # fmt: skip
    assert (done.code, done.err) == (0, "")
    found = json.loads(done.out)
    assert [(row["workload"], row["temperature"], row["arm"], row["mode"], row["texts"]) for row in found["rows"]] == [
        ("poem", 0.5, "ngram:max_n=2/additive", mode, 2) for mode in ("oracle", "chain", "live")
    ]
    assert store.load(record).run.seed == 5
    assert "temperature" not in store.load(record).run.sampling


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), ["MODEL"]),
        (("m", "--resume", "x.jsonl"), ["--resume", "'m'"]),
        (("--resume", "none.jsonl"), ["none.jsonl"]),
        (("--print", "none.jsonl"), ["none.jsonl"]),
        (("--print", "none.jsonl", "--tokens", "5"), ["--print", "'--tokens'"]),
        (("--print", "none.jsonl", "--out", "x.jsonl"), ["--print", "'--out'"]),
        (("m", "--drafts", "ngrm"), ["ngrm", "ngram"]),
        (("m", "--drafts", "ngram", "--set", "drafts.max_n=3"), ["--drafts", "drafts.max_n=3"]),
        (("m", "--drafts", "ngram", "--drafts", "ngram"), ["ngram/additive", "twice"]),
        (("m", "--drafts", "peer"), ["peer", "surefoot bench"]),
        (("m", "--drafts", "off"), ["off", "ngram"]),
        (("m", "--drafts", "ngram/fixed"), ["ngram/fixed:draft_len=4", "nothing is timed"]),
        (("m", "--drafts", "suffix:corpus=x"), ["corpus", "say nothing"]),
        (("m", "--draft-len", "0"), ["--draft-len", "0"]),
        (("m", "--tokens", "1"), ["--tokens", "1"]),
        (("m", "--each", "0"), ["--each", "0"]),
        (("m", "--temperatures", "0;1"), ["--temperatures", "0;1"]),
        (("m", "--temperatures", "0,0"), ["--temperatures", "twice"]),
        (("m", "--temperatures", "-1"), ["--temperatures", "-1"]),
        (("m", "--temperatures", "0,1", "--temperature", "1"), ["--temperature and --temperatures"]),
        (("m", "--temperatures", "0,1", "--top-p", "0.9"), ["top_p", "temperature is 0"]),
        (("m", "--draft-ms", "-1"), ["--draft-ms", "-1"]),
        (("m", "--draft-ms", "fast"), ["--draft-ms", "'fast'"]),
        (("m", "--draft-ms", "ngram=1,5"), ["--draft-ms", "'ngram=1,5'"]),
        (("m", "--draft-ms", "ngrm=1"), ["ngrm", "ngram"]),
        (("m", "--draft-ms", "1", "--draft-ms", "2"), ["--draft-ms 2", "leave one out"]),
        (("m", "--drafts", "ngram:max_n=3", "--draft-ms", "ngram=1"), ["given for ngram,", "name ngram:max_n=3"]),
        (("m", "--draft-ms", "1", "--curve", RATIOS), ["--draft-ms", "only ratios"]),
        (("m", "--set", "judge=ratio"), ["ratio", "match"]),
        (("m", "--prompts", "none.jsonl"), ["none.jsonl"]),
        (("m", "--workloads", "chat,poem"), ["poem", "chat"]),
        (("m", "--curve", "none.json"), ["none.json", "surefoot tune"]),
        (("m",), ["no file or folder m"]),
    ],
)
def test_what_cannot_be_asked_for(options: tuple[str, ...], words: list[str]) -> None:
    assert_refused(accept(*options), USAGE, *words)


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--draft-len", "32"), USAGE, ["--draft-len 32", "at most 31"]),
        (("--drafts", "suffix:branches=2"), NOT_ELIGIBLE, ["suffix:branches=2", "trees"]),
        (("--drafts", "model"), USAGE, ["model", "drafts.model"]),
    ],
)
def test_what_this_model_cannot_do(
    tiny: Path, tmp_path: Path, options: tuple[str, ...], code: int, words: list[str]
) -> None:
    record = tmp_path / "run.jsonl"
    assert_refused(accept(tiny, *TOY, *options, "--out", record), code, *words)
    assert not record.exists()


def test_where_the_record_goes_is_looked_at_before_the_model(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("keep")
    assert_refused(accept(tmp_path / "no-model", "--out", tmp_path / "mine"), USAGE, "is there already")
    assert (tmp_path / "mine").read_text() == "keep"


def test_a_record_of_a_bench_is_no_record_of_this_command(tiny: Path, tmp_path: Path) -> None:
    record = tmp_path / "bench.jsonl"
    options = (*TOY, "--workloads", "chat", "--tokens", "8", "--arm", "off", "--pairs", "1", "--out", record)
    assert surefoot("bench", tiny, *options).code == 0
    assert_refused(accept("--print", record), USAGE, "a record of a bench", f"surefoot report {record}")
