"""Record files: what was appended can be read, after a cut at any byte, and by nobody twice at once."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import lab_records as make
import pytest

from surefoot.core.errors import ConfigError, LawError
from surefoot.lab import codec
from surefoot.lab.records import Counted, End, Gate, Record, Resumed, Run
from surefoot.lab.store import Loaded, Store, load

RECORDS = make.RECORDS


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A record of one of each kind."""
    return make.write(tmp_path / "run.jsonl")


def all_of(loaded: Loaded) -> list[Record]:
    end = [loaded.end] if loaded.end else []
    return [loaded.run, *loaded.gates, *loaded.references, *loaded.pairs, *loaded.resumed, *end]


def test_what_was_appended_is_read_again(path: Path) -> None:
    loaded = load(path)
    assert loaded.run == make.run(band=(26.0, 28.0))
    assert all_of(loaded)[1:] == [RECORDS[0], RECORDS[1], RECORDS[2], RECORDS[4], RECORDS[5], RECORDS[3], RECORDS[6]]
    assert not loaded.cut


def test_a_file_cut_at_any_byte_loads_up_to_its_last_whole_line_and_goes_on_from_there(tmp_path: Path) -> None:
    path = make.write(tmp_path / "run.jsonl", (RECORDS[0], RECORDS[2], RECORDS[6]))
    whole = path.read_bytes()
    ends = [i + 1 for i, byte in enumerate(whole) if byte == 10]
    assert len(ends) == 4
    for size in range(len(whole) + 1):
        path.write_bytes(whole[:size])
        lines = sum(end <= size for end in ends)
        if not lines:
            with pytest.raises(ConfigError, match=r"holds no run: it is (empty|cut in its first line)"):
                load(path)
            continue
        loaded = load(path)
        assert (len(all_of(loaded)), loaded.cut) == (lines, size not in ends), size
    for size in (ends[0] + 1, ends[1] - 1, ends[1] + 700, len(whole) - 1):
        path.write_bytes(whole[:size])
        kept = max(end for end in ends if end <= size)
        with Store.open(path) as store:
            assert store.loaded.cut
            assert path.read_bytes() == whole[:kept]
            store.append(Resumed("2026-03-05T12:00:00Z", {}))
        again = load(path)
        assert (again.resumed[-1].when, again.cut) == ("2026-03-05T12:00:00Z", False)


def test_each_line_is_synced_and_so_is_the_name_of_a_new_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[tuple[bool, int]] = []

    def sync(handle: int, real: Callable[[int], None] = os.fsync) -> None:
        told = os.fstat(handle)
        synced.append((stat.S_ISDIR(told.st_mode), told.st_size))
        real(handle)

    monkeypatch.setattr(os, "fsync", sync)
    new = path.with_name("new.jsonl")
    with Store.create(new, make.run()) as store:
        sizes = [new.stat().st_size]
        for record in RECORDS[:3]:
            store.append(record)
            sizes.append(new.stat().st_size)
    of_file = [size for is_folder, size in synced if not is_folder]
    assert of_file == sizes
    if sys.platform != "win32":
        assert [is_folder for is_folder, _ in synced] == [False, True, False, False, False]


def test_a_record_is_never_written_over(path: Path) -> None:
    before = path.read_bytes()
    with pytest.raises(ConfigError, match="there already"):
        Store.create(path, make.run())
    with Store.open(path) as store, pytest.raises(ConfigError, match="holds a run already"):
        store.append(make.run())
    assert path.read_bytes() == before


def test_two_processes_do_not_write_one_record(path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from surefoot.lab.store import Store\n"
        "store = Store.open(Path(sys.argv[1])); print('open', flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen([sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert other.stdout is not None
    assert other.stdout.readline() == b"open\n"
    with pytest.raises(ConfigError, match="written by another process"):
        Store.open(path)
    assert len(load(path).pairs) == 3  # a reader takes no lock
    other.kill()
    other.communicate()
    Store.open(path).close()


@pytest.mark.skipif(sys.platform == "win32", reason="no limit on the size of files there")
def test_a_full_disk_costs_the_line_and_not_the_record(path: Path) -> None:
    code = """
import resource, sys
from pathlib import Path
import lab_records as make
from surefoot.core.errors import ConfigError
from surefoot.lab.records import Resumed
from surefoot.lab.store import Store, load
path = Path(sys.argv[1])
with Store.open(path) as store:
    full = path.stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (full + 300, resource.RLIM_INFINITY))
    store.append(Resumed('now', {}))
    kept = path.read_bytes()
    try:
        store.append(make.pair(9))
    except ConfigError as error:
        assert 'cannot be written' in str(error), error
    else:
        raise SystemExit('the line was written')
    assert path.read_bytes() == kept
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    store.append(make.pair(9))
assert [pair.number for pair in load(path).pairs][-1] == 9
"""
    here = str(Path(__file__).parent)
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], cwd=here, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_what_could_not_be_read_again_is_not_written(path: Path) -> None:
    before = path.read_bytes()
    with Store.open(path) as store:
        for wrong in (
            make.pair(9, at_s=float("nan")),
            make.pair(9, at_s=-1.0),
            make.pair(9, off=make.side(n_output=3)),
            Gate("rows", True, 0.0, 0.0, "", "", {"array": object()}),
        ):
            with pytest.raises(LawError, match="could not be read again"):
                store.append(wrong)
    assert path.read_bytes() == before


def test_seconds_are_kept_to_the_nanosecond_and_rounds_in_columns() -> None:
    third = make.step(extend_s=1 / 3)
    line = codec.encode(make.pair(1, off=make.side((third, make.step(3, 2)))))
    table = json.loads(line)["off"]["steps"]
    assert table["extend_s"] == [0.333333333, 0.016]
    assert table["drafted"] == [0, 3]
    assert table["draft_s"] == 0.001
    assert table["rounds"] == 2


def test_a_folder_or_nothing_is_one_sentence_too(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.jsonl"):
        for read in (load, Store.open):
            with pytest.raises(ConfigError, match=r"cannot be (read|opened): (Is a directory|No such file)"):
                read(path)
    with pytest.raises(ConfigError, match="cannot be made: No such file"):
        Store.create(tmp_path / "no" / "run.jsonl", make.run())


def test_a_run_that_ran_out_of_time_goes_on(path: Path) -> None:
    with Store.open(path) as store:
        assert store.loaded.end
        store.append(Resumed("2026-03-05T12:00:00Z", {}))
    assert load(path).end is None
    with Store.open(path) as store:
        store.append(make.pair(7))
        store.append(End("2026-03-05T13:00:00Z", "time"))
    assert load(path).end == End("2026-03-05T13:00:00Z", "time")


def test_no_kind_of_record_is_left_out() -> None:
    # What is counted goes into runs of its own: tests/unit/test_accept.py.
    assert set(codec.KINDS.values()) == {type(record) for record in RECORDS} | {Run, Counted}
