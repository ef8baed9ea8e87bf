"""`surefoot tune` writes a plan that the other commands find, say and respect; what does not belong is refused."""

from __future__ import annotations

import io
import json
import shutil
import signal
import time
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from cli_run import Done, assert_refused, start, wait

FAILED, USAGE, NOT_ELIGIBLE, INTERRUPTED = 1, 2, 3, 130
TOY = ("--runtime", "toy", "--set", "runtime.vocab_size=258", "--set", "runtime.order=1")
SMALL = ("--rows", "5", "--depths", "20,60", "--despite-noise")
"""Whether the machine of the tests is quiet is not what they ask."""
WRITE = ("-p", "one two one two one two", "--max-tokens", "40")


def surefoot(*arguments: object, env: Mapping[str, str] | None = None) -> Done:
    """The command, run inside this process: most of what a process of its own would take is imports."""
    from surefoot.app.cli.main import main

    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="") for _ in range(2))
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setenv("SUREFOOT_CACHE", (env or {}).get("SUREFOOT_CACHE", "nowhere"))
        code = main(list(map(str, arguments)))
    return Done(code, *(_written(stream) for stream in (out, err)))


def _written(stream: io.TextIOWrapper) -> str:
    stream.flush()
    stream.seek(0)
    return stream.read()


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory, tiny: Path) -> Path:
    """A cache folder that holds the plan of the toy."""
    folder = tmp_path_factory.mktemp("tuned")
    done = surefoot("tune", tiny, *TOY, *SMALL, "--json", env={"SUREFOOT_CACHE": str(folder)})
    assert done.code == 0, done.err
    (folder / "document.json").write_text(done.out, encoding="utf-8")
    return folder


def document(cache: Path) -> Any:
    return json.loads((cache / "document.json").read_text(encoding="utf-8"))


def copied(cache: Path, folder: Path) -> tuple[Path, Mapping[str, str]]:
    """A cache folder of its own with the same plan: the plan, and the environment."""
    shutil.copytree(cache, folder / "cache")
    (plan,) = (folder / "cache" / "plans").glob("*.json")
    return plan, {"SUREFOOT_CACHE": str(folder / "cache")}


def write(tiny: Path, env: Mapping[str, str], *options: object) -> Done:
    return surefoot("generate", tiny, *TOY, *WRITE, *options, env=env)


def test_one_document_with_the_plan_and_what_follows_from_it(cache: Path) -> None:
    found = document(cache)
    assert found["schema"] == 1
    plan = json.loads(Path(found["path"]).read_text(encoding="utf-8"))
    del plan["digest"]
    assert plan == found["plan"]
    assert plan["curve"]["points"][0]["samples_s"] == []
    assert [line["rows"] for line in plan["curve"]["lines"]] == [1, 2, 3, 4, 5]
    assert [stairs["depth"] for stairs in found["staircases"]] == [20, 60]
    assert len(plan["workloads"]) == 7
    for workload in plan["workloads"]:
        outcome = workload["outcome"]
        assert outcome["low"] <= outcome["gain"] <= outcome["high"]
        assert (outcome["draft_len"] > 0) == (outcome["kind"] == "draft")
    assert set(found["seconds"]) == {"load", "rows", "sweep", "texts", "replay"}
    assert found["machine"]["cores"] >= 1
    assert not found["resumed"]
    assert list((cache / "plans").glob("*.jsonl")) == []


def test_the_picture_is_a_file_of_its_own(cache: Path) -> None:
    text = Path(document(cache)["picture"]).read_text(encoding="utf-8")
    root = ElementTree.fromstring(text)
    assert root.tag.endswith("svg")
    assert "--series-0" in text
    assert "plateaus" in text  # read to those who do not see it


def test_the_tables_are_for_people(tiny: Path, tmp_path: Path) -> None:
    picture = tmp_path / "here.svg"
    env, kept = {"SUREFOOT_CACHE": str(tmp_path)}, tmp_path / "samples.jsonl"
    done = surefoot("tune", tiny, *TOY, *SMALL, "--quick", "--svg", picture, "--samples", kept, env=env)
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0].startswith(f"{tiny} on toy, cpu")
    bars = [line for line in lines if "█" in line]
    assert [int(line.split()[0]) for line in bars] == [1, 2, 3, 4, 5] * 2
    assert max(map(len, bars)) <= 120
    for beginning in ("what binds: ", "drafts here: ", "verdict: ", "rows: identical", "took ", "plan: "):
        assert any(line.startswith(beginning) for line in lines), beginning
    assert sum(line.startswith(("chat ", "code ", "tools ")) for line in lines) == 3
    assert f"picture: {picture}" in lines
    assert picture.exists()
    records = [json.loads(line) for line in kept.read_text(encoding="utf-8").splitlines()]
    assert [record["kind"] for record in records[:2]] == ["begin", "rows"]
    assert sum(record["kind"] == "turn" for record in records) >= 7
    assert records[-1]["kind"] == "seconds"
    assert any("s of it before any round counted" in line for line in lines)
    again = surefoot("tune", tiny, *TOY, *SMALL, "--quick", env=env)
    assert sum(line.startswith("against the plan of 2") for line in again.out.splitlines()) == 1


def test_generate_says_which_plan_it_uses(tiny: Path, cache: Path) -> None:
    env = {"SUREFOOT_CACHE": str(cache)}
    done = write(tiny, env)
    assert done.code == 0
    plan, summary = done.err.splitlines()
    assert plan.startswith(f"surefoot: plan {document(cache)['path']} (of ")
    assert "draft lengths by goodput, by the clock too" in plan
    assert "; ngram/goodput, rows identical; greedy." in summary
    off = write(tiny, env, "--plan", "off")
    assert off.out == done.out
    assert "; ngram/additive, rows identical; greedy." in off.err
    assert "surefoot: plan " not in off.err
    assert "ngram/fixed" in write(tiny, env, "--policy", "fixed").err.splitlines()[1]
    plain = write(tiny, env, "--drafts", "off")
    assert "plan" not in plain.err
    assert plain.out == done.out


def test_the_rounds_of_the_reproducible_mode_are_the_same_each_time(tiny: Path, cache: Path) -> None:
    env = {"SUREFOOT_CACHE": str(cache)}
    options = ("--json", "--policy", "goodput", "--set", "policy.reproducible=true")
    runs = [json.loads(write(tiny, env, *options).out)["rounds"] for _ in range(2)]
    shapes = [[(round_["rows"], round_["drafted"], round_["new_ids"]) for round_ in run] for run in runs]
    assert shapes[0] == shapes[1]


def test_a_plan_that_was_found_and_does_not_belong_is_left_aside(tiny: Path, cache: Path) -> None:
    env = {"SUREFOOT_CACHE": str(cache)}
    done = write(tiny, env, "--set", "runtime.discipline=mask")
    assert done.code == 0
    note, summary = done.err.splitlines()
    assert "is not used: it was made with the cache discipline truncate, and this runs with mask" in note
    assert "make a new one with 'surefoot tune " in note
    assert " --set runtime.discipline=mask'" in note
    assert "ngram/additive" in summary


def test_a_plan_that_was_named_has_to_belong(tiny: Path, cache: Path) -> None:
    path = document(cache)["path"]
    done = write(tiny, {}, "--plan", path)
    assert done.code == 0, done.err
    assert f"plan {path}" in done.err
    done = write(tiny, {}, "--plan", path, "--set", "runtime.discipline=mask")
    assert_refused(done, USAGE, "cache discipline", "surefoot tune")
    assert_refused(write(tiny, {}, "--plan", "nowhere.json"), USAGE, "nowhere.json", "surefoot tune MODEL")


def test_a_plan_that_was_changed_is_refused(tiny: Path, cache: Path, tmp_path: Path) -> None:
    plan, env = copied(cache, tmp_path)
    plan.write_text(plan.read_text(encoding="utf-8").replace('"identical"', '"near-tie"', 1), encoding="utf-8")
    assert_refused(write(tiny, {}, "--plan", plan), USAGE, "changed since it was written", "surefoot tune")
    done = write(tiny, env)
    assert done.code == 0
    assert "changed since it was written" in done.err


def test_a_weaker_class_is_respected_until_the_user_says_so(tiny: Path, cache: Path, tmp_path: Path) -> None:
    """What `gate` does where a row differs, by its own function."""
    from surefoot.core.types import Caps
    from surefoot.engine import plans

    path, env = copied(cache, tmp_path)
    owner, claimed = plans.load(path).owner, Caps("toy", 258, 512, 32, "truncate", row_class="identical")
    where = tmp_path / "cache"
    assert plans.demote(owner, claimed, "near-tie", "3 of 9 rows differ", "gate rows", "now", where) == path
    assert_refused(write(tiny, env), NOT_ELIGIBLE, "gate rows found it here: 3 of 9 rows differ", "--allow-near-ties")
    allowed = write(tiny, env, "--allow-near-ties")
    assert allowed.code == 0
    assert "near ties allowed" in allowed.err
    assert "by the plan and the text alone; rows are near-tie" in allowed.err
    assert surefoot("tune", tiny, *TOY, *SMALL, "--quick", "--allow-near-ties", env=env).code == 0
    again = write(tiny, env)
    assert again.code == 0
    assert "near ties allowed" in again.err


def test_a_gate_that_finds_a_difference_writes_it_down(tiny: Path, tmp_path: Path) -> None:
    """The kernel of this toy rounds blocks of three rows and more otherwise than single rows."""
    from surefoot.targets.toy.session import ToyScores

    plain = ToyScores.logits
    env = {"SUREFOOT_CACHE": str(tmp_path)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ToyScores, "logits", lambda self, row: plain(self, row) + (0.01 * row if self.rows > 2 else 0))
        done = surefoot("gate", tiny, *TOY, "--quick", "--only", "rows", env=env)
    assert done.code == FAILED
    assert "rows FAILED" in " ".join(done.out.split())
    assert "rows are near-tie here and not identical: from now on drafts need --allow-near-ties" in done.err
    assert_refused(write(tiny, env), NOT_ELIGIBLE, "gate rows found it here", "--allow-near-ties")
    assert write(tiny, env, "--drafts", "off").code == 0


def test_an_interrupted_run_is_gone_on_with(tiny: Path, tmp_path: Path) -> None:
    """On a toy whose forwards take two milliseconds more than they do."""
    slow = (
        "import sys, time\n"
        "from surefoot.targets.toy.session import ToySession\n"
        "plain = ToySession.extend\n"
        "def extend(self, *given, **options):\n"
        "    time.sleep(0.002)\n"
        "    return plain(self, *given, **options)\n"
        "ToySession.extend = extend\n"
        "from surefoot.app.cli.main import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    arguments = ["-c", slow, *map(str, ("tune", tiny, *TOY, "--depths", "20,60", "--despite-noise", "--json"))]
    process = start(arguments, SUREFOOT_CACHE=str(tmp_path))
    while process.poll() is None:
        kept = list(tmp_path.glob("plans/*.samples.jsonl"))
        if kept and kept[0].read_bytes().count(b"\n") > 3:
            process.send_signal(signal.SIGINT)
            break
        time.sleep(0.01)
    done = wait(process)
    assert (done.code, done.out) == (INTERRUPTED, "")
    assert "what was measured is kept for a day" in done.err
    again = surefoot(*arguments[2:], env={"SUREFOOT_CACHE": str(tmp_path)})
    assert again.code == 0, again.err
    assert "going on where an earlier run was interrupted" in again.err
    assert json.loads(again.out)["resumed"]
    assert list(tmp_path.glob("plans/*.samples.jsonl")) == []


def test_bench_gives_the_curve_to_its_arms(tiny: Path, cache: Path, tmp_path: Path) -> None:
    out = tmp_path / "run.jsonl"
    done = surefoot(
        "bench", tiny, *TOY, "--quick", "--tokens", 12, "--pairs", 1, "--workloads", "code", "--out", out,
        env={"SUREFOOT_CACHE": str(cache)},
    )  # fmt: skip
    assert done.code in (0, 1), done.err
    run = json.loads(out.read_text(encoding="utf-8").splitlines()[0])
    assert [arm["label"] for arm in run["arms"]] == ["ngram/goodput:reproducible=false"]
    assert run["model"]["plan"]


def test_configurations_are_compared(tiny: Path, cache: Path, tmp_path: Path) -> None:
    _, env = copied(cache, tmp_path)
    toys = ("toy:vocab_size=258,order=1", "toy:vocab_size=258,order=1,discipline=mask", "toy:vocab_size=16")
    given = [word for toy in toys for word in ("--compare", toy)]
    done = surefoot("tune", tiny, *given, *SMALL, "--json", env=env)
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert [row["name"] for row in found["rows"]] == list(toys)
    assert "the tokenizer" in found["rows"][2]["why"]
    assert list(found["plans"]) == list(toys[:2])
    assert "is there; --fresh measures again" in done.err  # the first was tuned before
    assert {each["workload"] for each in found["fastest"]} == {"chat", "code", "tools", "summary", "question",
                                                               "translation", "retrieval"}  # fmt: skip
    assert {each["name"] for each in found["fastest"]} <= set(toys[:2])
    assert [row["reused"] for row in found["rows"]] == [True, False, False]
    for each in found["fastest"]:
        assert each["low"] <= each["tokens_per_s"] <= each["high"]
        assert bool(each["level"]) == bool(each["doubt"]) == (each["lead"] < 1.45 or bool(each["level"]))
    assert Path(found["picture"]).exists()
    shown = surefoot("tune", tiny, *given[:4], *SMALL, env=env)
    assert shown.code == 0
    lines = shown.out.splitlines()
    assert sum(line.startswith(("fastest on ", "level on ")) for line in lines) == 7
    assert all("decides" in line for line in lines if line.startswith("level on "))
    assert [line.split()[0] for line in shown.out.splitlines()[3:5]] == list(toys[:2])


def test_a_configuration_that_can_only_write_plainly_is_compared_by_that(
    tiny: Path, cache: Path, tmp_path: Path
) -> None:
    """The kernel of this toy moves rows of blocks far from single rows; the plan of the first was made before."""
    from surefoot.targets.toy.session import ToyScores

    plain = ToyScores.logits
    _, env = copied(cache, tmp_path)
    toys = ("toy:vocab_size=258,order=1", "toy:vocab_size=258,order=1,discipline=mask")
    given = [word for toy in toys for word in ("--compare", toy)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ToyScores, "logits", lambda self, row: plain(self, row) + (2.0 * row if self.rows > 2 else 0))
        done = surefoot("tune", tiny, *given, *SMALL, "--json", env=env)
        shown = surefoot("tune", tiny, *given, *SMALL, env=env)
        alone = surefoot("tune", tiny, *given[2:], *SMALL, env=env)
    assert done.code == 0, done.err
    found = json.loads(done.out)
    tuned, untuned = found["rows"]
    assert (tuned["row_class"], tuned["reused"]) == ("identical", True)
    assert (untuned["row_class"], untuned["drafts"], untuned["why"]) == ("row-dependent", False, "")
    assert untuned["plain"] > 0
    assert [speed["workload"] for speed in untuned["speeds"]] == [speed["workload"] for speed in tuned["speeds"]]
    assert {speed["draft_len"] for speed in untuned["speeds"]} == {0}
    assert list(found["plans"]) == [toys[0]]
    assert "drafts would change the text here" in done.err
    assert shown.code == 0, shown.err
    assert "row-dependent, drafts off" in shown.out
    assert alone.code == NOT_ELIGIBLE
    assert "none of the configurations" in alone.err.splitlines()[-1]
    assert "drafts would change the text" in alone.err.splitlines()[-1]


def test_the_length_goes_to_other_engines(tiny: Path, cache: Path) -> None:
    path = document(cache)["path"]
    workload = document(cache)["plan"]["workloads"][0]
    done = surefoot("export", path, "--to", "vllm", "--workload", workload["name"], "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)["flags"]
    assert (found["draft_len"] > 0) == ("num_speculative_tokens" in found["flags"])
    shown = surefoot("export", path, "--to", "llama.cpp")
    assert shown.code == 0
    assert "on toy, where it was measured" in shown.err
    assert_refused(surefoot("export", path, "--to", "vllm", "--workload", "poetry"), USAGE, "poetry")
    assert_refused(surefoot("export", tiny / "config.json", "--to", "vllm"), USAGE, "another schema")
    assert_refused(surefoot("export", tiny, "--workload", "code"), USAGE, "--workload", "--to")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["{tiny}", "--rows", "1"], USAGE, ["--rows", "from 2 to 64", "got 1"]),
        (["{tiny}", "--depths", "a"], USAGE, ["--depths", "200,850", "'a'"]),
        (["{tiny}", "--depths", "0"], USAGE, ["--depths"]),
        (["{tiny}", "--compare", "abacus"], USAGE, ["abacus"]),
        (["{tiny}", "--compare", "toy:"], USAGE, ["--compare", "openvino:weights=int8"]),
        (["{tiny}", "--compare", "toy:shape=3"], USAGE, ["shape"]),
        (["{tiny}", "--compare", "toy", "--samples", "s.jsonl"], USAGE, ["--samples", "several configurations"]),
        (["{tiny}", "--compare", "toy", "--compare", "toy"], USAGE, ["twice"]),
        (["{tiny}", "--compare", "toy:vocab_size=16"], NOT_ELIGIBLE, ["none of the configurations"]),
        (["nowhere/at-all.gguf"], USAGE, ["nowhere/at-all.gguf"]),
        (["{tiny}", "--policy", "fixed"], USAGE, ["--policy"]),
    ],
)
def test_bad_input_is_one_sentence(tiny: Path, arguments: list[str], code: int, words: list[str]) -> None:
    done = surefoot("tune", *[argument.replace("{tiny}", str(tiny)) for argument in arguments])
    assert done.code == code
    assert done.out == ""
    for word in words:
        assert word in done.err.splitlines()[-1], done.err
