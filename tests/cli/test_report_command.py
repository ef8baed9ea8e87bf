"""`surefoot report` from a record to files: what it writes, where, over what, and how it refuses."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path

import pytest
from cli_run import Done, assert_refused, start, surefoot, wait

import synthetic_run
from synthetic_run import Plan

SMALL = Plan(workloads=("code",), budgets=(64,), excluded=False)


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return synthetic_run.write(tmp_path_factory.mktemp("runs") / "fp16.jsonl", SMALL)


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another run in a file of the same name."""
    return synthetic_run.write(tmp_path_factory.mktemp("others") / "fp16.jsonl", Plan(**{**vars(SMALL), "seed": 2}))


def report(*arguments: object, into: Path) -> Done:
    """The command, run in the folder `into`."""
    program = f"import os, sys; os.chdir({str(into)!r}); from surefoot.app.cli.main import main; sys.exit(main())"
    return wait(start(["-c", program, "report", *map(str, arguments)]))


def test_a_page_is_the_default_and_gives_the_same_bytes_again(record: Path, tmp_path: Path) -> None:
    first = report(record, into=tmp_path)
    assert (first.code, first.out, first.err) == (0, "fp16.html\n", "")
    page = (tmp_path / "fp16.html").read_bytes()
    assert page.startswith(b"<!doctype html>")
    os.environ["PYTHONHASHSEED"] = "7"
    try:
        again = report(record, into=tmp_path)
    finally:
        del os.environ["PYTHONHASHSEED"]
    assert (again.code, again.out) == (0, "fp16.html\n")
    assert (tmp_path / "fp16.html").read_bytes() == page
    assert [path.name for path in tmp_path.iterdir()] == ["fp16.html"]


def test_several_runs_in_several_formats_share_a_name(record: Path, other: Path, tmp_path: Path) -> None:
    out = tmp_path / "both.html"
    done = surefoot("report", record, other, "--out", out, "--format", "html,md,csv,json", "--quiet")
    assert (done.code, done.err) == (0, "")
    written = [Path(line) for line in done.out.splitlines()]
    assert {path.suffix for path in written} == {".html", ".md", ".csv", ".json"}
    assert set(written) == set(tmp_path.iterdir())
    with (tmp_path / "both.csv").open(newline="", encoding="utf-8") as file:
        from_csv = list(csv.DictReader(file))
    from_json = json.loads((tmp_path / "both.json").read_text(encoding="utf-8"))["tables"]["speed"]
    assert len(from_csv) == len(from_json) == 6
    names = {row["run"] for row in from_csv}
    assert len(names) == 2
    assert {name.split("/")[-1] for name in names} == {"fp16"}


def test_stdout_takes_one_format(record: Path, tmp_path: Path) -> None:
    done = report(record, "--out", "-", "--format", "json", into=tmp_path)
    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out)["tables"]["gates"]
    assert list(tmp_path.iterdir()) == []
    assert_refused(report(record, "--out", "-", "--format", "md,json", into=tmp_path), 2, "one format")


def test_what_is_no_report_is_not_written_over(record: Path, tmp_path: Path) -> None:
    """Nothing is written, not even the files that could be."""
    notes = tmp_path / "notes.md"
    notes.write_text("# Mine\n")
    done = report(record, "--out", "notes.md", "--format", "json,md", into=tmp_path)
    assert_refused(done, 2, "notes.md", "no report of Surefoot", "--force")
    assert notes.read_text() == "# Mine\n"
    assert [path.name for path in tmp_path.iterdir()] == ["notes.md"]
    assert report(record, "--out", "notes.md", "--force", into=tmp_path).code == 0
    assert "Is it faster?" in notes.read_text(encoding="utf-8")
    assert report(record, "--out", "notes.md", into=tmp_path).code == 0
    for suffix in ("csv", "json"):
        assert report(record, "--format", suffix, into=tmp_path).code == 0
        assert report(record, "--format", suffix, into=tmp_path).code == 0


def test_a_record_is_never_written_over(record: Path, tmp_path: Path) -> None:
    before = record.read_bytes()
    link = tmp_path / "link.html"
    link.symlink_to(record)
    for out in (record, link):
        done = surefoot("report", record, "--out", out, "--format", "html", "--force")
        assert_refused(done, 2, "the record that the report is made from")
    assert record.read_bytes() == before


def test_a_report_appears_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who reads the old report reads all of it; on a disk that is full the old one stays, and nothing else is left."""
    from surefoot.core.errors import ConfigError
    from surefoot.lab.report.save import save

    path = tmp_path / "a.md"
    save({path: "<!-- surefoot report 1 -->\nolder\n"}, [], force=False)
    with path.open() as reader:
        save({path: "<!-- surefoot report 1 -->\nold\n"}, [], force=False)
        assert reader.read().endswith("older\n")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("surefoot.engine.whole.os.fsync", full)
    with pytest.raises(ConfigError, match="No space left"):
        save({path: "<!-- surefoot report 1 -->\nnew\n"}, [], force=False)
    assert path.read_text().endswith("old\n")
    assert list(tmp_path.iterdir()) == [path]


def test_matplotlib_without_a_folder_of_its_own_says_nothing(record: Path, tmp_path: Path) -> None:
    done = surefoot("report", record, "--out", tmp_path / "a.html", env={"MPLCONFIGDIR": str(record / "inside")})
    assert (done.code, done.err) == (0, "")


def lines(record: Path, *kinds: str) -> bytes:
    """The lines of a record that are of these kinds."""
    return b"".join(line for line in record.read_bytes().splitlines(keepends=True) if json.loads(line)["kind"] in kinds)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nowhere.jsonl",), ("nowhere.jsonl cannot be read",)),
        (("page.html",), ("page.html", "is not JSON")),
        (("empty.jsonl",), ("holds no run",)),
        (("new.jsonl",), ("schema", "2")),
        (("bare.jsonl",), ("bare.jsonl holds no pair", "run it again")),
        (("RECORD", "RECORD"), ("given twice",)),
        (("RECORD", "--out", "a.txt"), ("a.txt names no format",)),
        (("RECORD", "--format", "pdf"), ("no 'pdf'", "html, md, csv, json")),
        (("RECORD", "--format", ""), ("no ''",)),
        (("RECORD", "--out", "a.html", "--format", "md"), ("contradict",)),
        (("RECORD", "--out", "no/a.html"), ("folder no ", "does not exist")),
        (("RECORD", "--out", "folder.html"), ("folder.html is not a file",)),
        (("RECORD", "--out", "/", "--format", "md"), ("is a folder",)),
        ((), ("RUN",)),
    ],
)
def test_bad_input_is_one_sentence(
    record: Path, tmp_path: Path, arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    (tmp_path / "page.html").write_text("<!doctype html>\n")
    (tmp_path / "empty.jsonl").touch()
    run = lines(record, "run")
    (tmp_path / "new.jsonl").write_bytes(run.replace(b'"schema":1', b'"schema":2'))
    (tmp_path / "bare.jsonl").write_bytes(lines(record, "run", "gate", "reference"))
    (tmp_path / "folder.html").mkdir()
    before = sorted(tmp_path.iterdir())
    done = report(*[record if each == "RECORD" else each for each in arguments], into=tmp_path)
    assert_refused(done, 2, *words)
    assert sorted(tmp_path.iterdir()) == before


WITHOUT = """
import sys
sys.modules[{missing!r}] = None
from surefoot.app.cli.main import main
sys.exit(main())
"""


@pytest.mark.parametrize("missing", ["matplotlib", "jinja2"])
def test_without_a_package_of_the_extra_a_page_is_not_eligible(record: Path, tmp_path: Path, missing: str) -> None:
    out = tmp_path / "a.html"
    done = wait(start(["-c", WITHOUT.format(missing=missing), "report", str(record), "--out", str(out)]))
    assert_refused(done, 3, missing, "pip install 'surefoot[bench]'")
    assert not out.exists()
    text = wait(start(["-c", WITHOUT.format(missing=missing), "report", str(record), "--out", "-", "--format", "md"]))
    assert (text.code, text.err) == (0, "")
