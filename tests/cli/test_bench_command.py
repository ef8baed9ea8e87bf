"""`surefoot bench`: the table, the record, and a run that goes on after kill -9, after Ctrl-C, and not elsewhere."""

from __future__ import annotations

import io
import json
import shutil
import signal
import subprocess
import time
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cli_run import Done, assert_refused, start, wait

from surefoot.app.cli.main import main
from surefoot.engine import plans
from surefoot.lab import store
from surefoot.lab.plan import plan
from surefoot.lab.records import Pair, Reference

USAGE, NOT_ELIGIBLE = 2, 3
TOY = ("--runtime", "toy", "--set", "runtime.vocab_size=258", "--set", "runtime.order=1",
       "--set", "runtime.max_length=4096", "--raw")  # fmt: skip
SMALL = (*TOY, "--workloads", "chat,question", "--tokens", "64", "--arm", "ngram", "--arm", "off", "--pairs", "3")
PAIRS = 2 * 1 * 2 * 3


def bench(*arguments: object) -> Done:
    """The command in this process: nothing here depends on how a process ends, and starting one takes seconds."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(["bench", *map(str, arguments)])
    return Done(code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def whole(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Done, Path]:
    """A run that came to its end."""
    record = tmp_path_factory.mktemp("bench") / "run.jsonl"
    done = bench(tiny, *SMALL, "--out", record)
    assert done.code == 0, done
    return done, record


def test_the_table_says_what_was_measured_and_what_is_doubtful(whole: tuple[Done, Path], tiny: Path) -> None:
    done, record = whole
    lines = done.out.splitlines()
    head = next(line for line in lines if line.startswith("workload"))
    for word in ("tokens", "plain tok/s", "arm tok/s", "ratio [95 %]", "accepted/round", "tokens/round",
                 "prompt tokens", "pairs", "left out", "verdict"):  # fmt: skip
        assert word in head
    rows = [line.split() for line in lines if line.startswith(("chat ", "question "))]
    assert [row[:3] for row in rows] == [
        ["chat", "64", "ngram/additive"], ["chat", "64", "off"],
        ["question", "64", "ngram/additive"], ["question", "64", "off"],
    ]  # fmt: skip
    assert not [x for x in lines if ("average" in x and "load average" not in x) or x.startswith("all ")]
    assert all(line.endswith("no speed-up") for line in lines if line.startswith(("chat ", "question ")))
    for text in (
        "the runtime toy has no generate of its own",
        f"passed: lossless: {PAIRS} texts with drafts equal those without",
        f"record: {record}",
        f"surefoot report {record}",
        f"surefoot bench {tiny} --runtime toy",
    ):
        assert text in done.out, text
    assert "--out" not in done.out.rpartition("to repeat it:")[2]


def test_the_record_holds_the_run(whole: tuple[Done, Path], tiny: Path) -> None:
    loaded = store.load(whole[1])
    assert loaded.end is not None
    assert loaded.end.why == "complete"
    assert loaded.run.command[:2] == ("bench", str(tiny))
    assert [pair.number for pair in loaded.pairs] == list(range(PAIRS))
    assert len(loaded.references) == 6
    assert {gate.name: gate.passed for gate in loaded.gates} == {"baseline": False, "lossless": True}
    assert all(pair.same_ids and pair.off.n_output == 64 and pair.off.steps for pair in loaded.pairs)
    assert {use.workload for use in loaded.run.prompts} == {"chat", "question"}
    assert len(loaded.run.prompts) == 6


def started(record: Path, *arguments: object) -> subprocess.Popen[bytes]:
    return start(["-m", "surefoot", "bench", *map(str, arguments), "--out", str(record)])


def wait_for_pairs(record: Path, count: int) -> None:
    """Until so many pairs are on the disk; the limit only ends a hang."""
    for _ in range(3000):
        if record.exists() and record.read_bytes().count(b'"kind":"pair"') >= count:
            return
        time.sleep(0.1)
    raise AssertionError("no pair came")


def without_times(pairs: tuple[Pair, ...]) -> list[tuple[Any, ...]]:
    return [(p.number, p.arm, p.prompt, p.budget, p.first, list(p.off.ids), list(p.on.ids)) for p in pairs]


def test_after_kill_9_the_run_goes_on_with_no_pair_lost_or_twice(
    whole: tuple[Done, Path], tiny: Path, tmp_path: Path
) -> None:
    record = tmp_path / "run.jsonl"
    process = started(record, tiny, *SMALL)
    wait_for_pairs(record, 3)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    before = store.load(record)
    assert 3 <= len(before.pairs) < PAIRS
    assert before.end is None
    with record.open("ab") as file:  # as if it had been hit in the middle of a line
        file.write(record.read_bytes().splitlines(keepends=True)[-1][:77])

    done = bench("--resume", record)
    assert done.code == 0, done
    after = store.load(record)
    assert not after.cut
    assert after.pairs[: len(before.pairs)] == before.pairs
    assert without_times(after.pairs) == without_times(store.load(whole[1]).pairs)
    assert len(after.resumed) == 1
    assert after.end is not None
    assert after.references == before.references, "they were there already"
    assert len(after.references) == 6
    times = [each.at_s for each in (*after.references, *after.pairs)]
    assert times == sorted(times)
    assert_refused(bench("--resume", record), USAGE, "came to its end", str(record))
    assert store.load(record) == after


def test_ctrl_c_keeps_what_is_there_and_says_how_to_go_on(tiny: Path, tmp_path: Path) -> None:
    record = tmp_path / "run.jsonl"
    process = started(record, tiny, *SMALL)
    wait_for_pairs(record, 2)
    process.send_signal(signal.SIGINT)
    done = wait(process)
    assert done.code == 130, done
    there = store.load(record)
    assert 2 <= len(there.pairs) < PAIRS
    assert not there.cut
    *_, last = done.err.splitlines()
    assert last == (
        f"surefoot: interrupted after {len(there.pairs)} of {PAIRS} pairs; to go on: "
        f"'surefoot bench --resume {record}'."
    )
    assert "chat" in done.out or "question" in done.out, "the rows so far"


def test_a_run_does_not_go_on_with_another_model(whole: tuple[Done, Path], tiny: Path, tmp_path: Path) -> None:
    """The same folder, its weights written anew."""
    model, record = tmp_path / "model", tmp_path / "run.jsonl"
    shutil.copytree(tiny, model)
    lines = whole[1].read_bytes().splitlines(keepends=True)
    record.write_bytes(b"".join(lines[:12]).replace(str(tiny).encode(), str(model).encode()))
    done = bench("--resume", record)
    assert_refused(done, USAGE, "cannot go on", "identity", "begin a new one")
    assert store.load(record).resumed == ()


def test_a_run_goes_on_under_its_own_plan(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when the model was tuned anew meanwhile, or its plan is gone; one that was changed in the record is none."""
    monkeypatch.setenv("SUREFOOT_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    with redirect_stdout(io.StringIO()):
        assert main(["tune", str(tiny), *TOY[:-1], "--quick", "--rows", "3", "--depths", "20", "--despite-noise"]) == 0
    (plan_file,) = (tmp_path / "cache" / "plans").glob("*.json")
    record = tmp_path / "run.jsonl"
    done = bench(tiny, *TOY, "--workloads", "chat", "--tokens", "12", "--pairs", "2", "--out", record)
    assert done.code == 0, done
    begun = store.load(record)
    assert [arm.label for arm in begun.run.arms] == ["ngram/goodput:reproducible=false"]
    assert begun.run.plan is not None
    assert begun.run.plan == json.loads(plan_file.read_text(encoding="utf-8"))

    lines = record.read_bytes().splitlines(keepends=True)
    kept = [line for line in lines if not line.startswith(b'{"kind":"end"')]
    until = next(at for at, line in enumerate(kept) if line.startswith(b'{"kind":"pair"')) + 1
    another = plans.load(plan_file)
    for leave in (lambda: plans.save(replace(another, when="2026-02-02T00:00:00Z"), plan_file), plan_file.unlink):
        record.write_bytes(b"".join(kept[:until]))
        leave()
        assert bench("--resume", record).code == 0
        assert without_times(store.load(record).pairs) == without_times(begun.pairs)
        assert store.load(record).run == begun.run

    record.write_bytes(b"".join(kept[:until]).replace(b'"turns":', b'"turns":1', 1))
    assert_refused(bench("--resume", record), USAGE, "cannot go on", "plan in its record", "changed", "begin a new one")


def test_both_sides_draw_the_same_text_and_the_document_says_all(tiny: Path, tmp_path: Path) -> None:
    options = ("--workloads", "chat", "--tokens", "12,24", "--pairs", "1", "--temperature", "0.9", "--seed", "7")
    done = bench(tiny, *TOY, *options, "--out", tmp_path / "run.jsonl", "--json")
    assert done.code == 0, done
    found = json.loads(done.out)
    assert found["schema"] == 1
    assert found["record"] == str(tmp_path / "run.jsonl")
    assert [(row["budget"], row["same_ids"], row["all_pairs"]) for row in found["analysis"]["rows"]] == [
        (12, 1, 1), (24, 1, 1),
    ]  # fmt: skip
    loaded = store.load(tmp_path / "run.jsonl")
    assert loaded.run.seed == 7
    assert loaded.run.sampling["temperature"] == 0.9


@pytest.mark.parametrize("layout", ["lines", "text"])
def test_prompts_come_from_a_file(tiny: Path, tmp_path: Path, layout: str) -> None:
    if layout == "lines":
        prompts = tmp_path / "mine.jsonl"
        rows = [{"question_id": n, "category": "poem", "turns": [f"Write poem number {n}."]} for n in (1, 2)]
        prompts.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        prompts = tmp_path / "mine.txt"
        prompts.write_text("Write a poem.")
    done = bench(
        tiny, *TOY, "--prompts", prompts, "--tokens", "8", "--pairs", "2", "--out", tmp_path / "run.jsonl", "--quiet"
    )
    assert (done.code, done.err) == (0, "")
    loaded = store.load(tmp_path / "run.jsonl")
    used = Counter(pair.prompt for pair in loaded.pairs)
    assert sorted(used.values()) == ([1, 1] if layout == "lines" else [2])


def test_the_peer_and_our_fixed_length_are_chosen_alike_on_prompts_that_are_not_measured(
    tiny: Path, tmp_path: Path
) -> None:
    pytest.importorskip("torch", reason="the runtime of this test: pip install 'surefoot[hf]'")
    record = tmp_path / "run.jsonl"
    options = ("--runtime", "hf", "--peer", "--quick", "--workloads", "chat", "--tokens", "16", "--pairs", "1")
    done = bench(tiny, *options, "--out", record)
    assert done.code in (0, 1), done
    loaded = store.load(record)
    ours, fixed, peer = loaded.run.arms
    assert ours.label == "ngram/additive"
    assert ours.chosen == ""
    assert fixed.label.startswith("ngram/fixed:draft_len=")
    assert peer.label.startswith("peer:draft_len=")
    measured = {use.id for use in loaded.run.prompts}
    for arm in (fixed, peer):
        assert "the fastest of 2, 3, 5, 7, 10" in arm.chosen
        named = arm.chosen.partition("(")[2].partition(")")[0].split(", ")
        assert named
        assert not measured & set(named)
        assert arm.chosen in done.err
    assert [gate.name for gate in loaded.gates] == ["baseline", "lossless"]
    assert "checked" not in loaded.gates[0].details
    by_arm = {pair.arm: pair for pair in loaded.pairs}
    assert by_arm[peer.label].on.steps is None
    assert by_arm[ours.label].on.steps
    assert isinstance(loaded.references[0], Reference)
    assert plan(loaded.run)[-1].number == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), ["MODEL"]),
        (("m", "--resume", "x.jsonl"), ["--resume", "'m'"]),
        (("--resume", "x.jsonl", "--pairs", "3"), ["--resume", "'--pairs'"]),
        (("--resume", "none.jsonl"), ["none.jsonl"]),
        (("m", "--tokens", "256;512"), ["--tokens", "256;512"]),
        (("m", "--arm", "ngrm"), ["ngrm", "ngram"]),
        (("m", "--arm", "ngram", "--set", "drafts.max_n=3"), ["--arm", "drafts.max_n=3"]),
        (("m", "--set", "judge=ratio", "--temperature", "1"), ["no file or folder m"]),
        (("m", "--prompts", "none.jsonl"), ["none.jsonl"]),
        (("m", "--workloads", "chat,poem"), ["poem", "chat"]),
        (("m", "--time-limit", "soon"), ["--time-limit", "soon"]),
    ],
)
def test_what_cannot_be_asked_for(options: tuple[str, ...], words: list[str], tmp_path: Path) -> None:
    done = bench(*options)
    assert_refused(done, USAGE, *words)


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--peer",), NOT_ELIGIBLE, ["toy", "generate of its own"]),
        (("--peer", "--temperature", "1"), USAGE, ["peer", "greedy"]),
        (("--set", "judge=ratio", "--temperature", "1"), USAGE, ["ratio", "match"]),
        (("--set", "runtime.max_length=64"), USAGE, ["prompt", "64"]),
    ],
)
def test_what_this_model_cannot_do(
    tiny: Path, tmp_path: Path, options: tuple[str, ...], code: int, words: list[str]
) -> None:
    record = tmp_path / "run.jsonl"
    toy = TOY[:6] + TOY[8:] if "runtime.max_length=64" in options else TOY
    assert_refused(bench(tiny, *toy, *options, "--out", record), code, *words)
    assert not record.exists()


def test_a_record_in_the_way_is_left_alone(tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("keep")
    done = bench(tiny, *SMALL, "--out", tmp_path / "mine")
    assert_refused(done, USAGE, "is there already")
    assert (tmp_path / "mine").read_text() == "keep"
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_where_the_record_goes_is_looked_at_before_the_model(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("keep")
    assert_refused(bench(tmp_path / "no-model", "--out", tmp_path / "mine"), USAGE, "is there already")
    assert_refused(bench(tmp_path / "no-model", "--out", tmp_path / "none" / "new"), USAGE, "is no folder")


def test_a_runtime_that_fails_leaves_what_was_measured(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from surefoot.core.errors import TargetError
    from surefoot.lab import bench as runner

    record, real = tmp_path / "run.jsonl", runner._measure

    def failing(planned: Any, *rest: Any) -> Pair:
        if planned.number == 2:
            raise TargetError("out of luck", backend="toy", operation="extend")
        return real(planned, *rest)

    monkeypatch.setattr(runner, "_measure", failing)
    done = bench(tiny, *SMALL, "--out", record)
    assert done.code == 4
    kept, failed = done.err.splitlines()[-2:]
    assert f"surefoot bench --resume {record}" in kept
    assert "out of luck" in failed
    assert len(store.load(record).pairs) == 2
    monkeypatch.undo()
    assert bench("--resume", record).code == 0
    assert [pair.number for pair in store.load(record).pairs] == list(range(PAIRS))
