"""The corpus of earlier outputs: what it learns, what it drops, and that nothing but its owner's file holds it."""

from __future__ import annotations

import logging
import os
import signal
import stat
import subprocess
import sys
import textwrap
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.core.errors import ConfigError
from surefoot.core.types import as_ids
from surefoot.drafters.suffix import PLUGIN, file_name
from surefoot.drafters.suffix.automaton import Automaton
from surefoot.drafters.suffix.corpus import OVERHEAD_BYTES, Caps, Corpus, kept, read, write
from surefoot.drafters.suffix.drafter import Cursor, SuffixDrafter
from surefoot.drafters.suffix.options import Options
from surefoot.targets.toy import Options as ToyOptions
from surefoot.targets.toy import ToyTarget
from surefoot.testing.drafter_suite import Watched, run
from surefoot.testing.workshops import ToyWorkshop

NO_SCORES: Any = None
WIDE = Caps(10**6, 10**6)
VOCAB = 200_000
TOY = ToyTarget(ToyOptions(order=1))


def corpus(folder: Path, *outputs: Sequence[int], caps: Caps = WIDE, identity: str = "m") -> Corpus:
    made = Corpus(folder / "c.npz", identity, caps, VOCAB)
    for output in outputs:
        made.learn(output)
    return made


def drafted(known: Corpus, prompt: Sequence[int], budget: int = 8, **options: Any) -> tuple[list[int], str, int]:
    drafter = SuffixDrafter(Options(**options), known)
    drafter.begin(as_ids(prompt[:-1]), prompt[-1], NO_SCORES)
    draft = drafter.propose(budget)
    return draft.ids.tolist(), draft.source, draft.match_len


def test_an_earlier_output_is_continued_and_ends_where_it_ended(tmp_path: Path) -> None:
    known = corpus(tmp_path, [1, 2, 3, 4, 5], [7, 8])
    assert drafted(known, [9, 2, 3]) == ([4, 5], "corpus", 2)
    assert drafted(known, [9, 7]) == ([], "", 0)
    assert drafted(known, [5, 7, 8]) == ([], "", 0)  # no draft crosses from one output to the next


def test_the_longer_match_wins_and_the_text_before_the_corpus(tmp_path: Path) -> None:
    known = corpus(tmp_path, [1, 2, 3, 4, 5])
    assert drafted(known, [2, 3, 9, 2, 3], 1)[:2] == ([9], "suffix")
    assert drafted(known, [2, 3, 9, 1, 2, 3], 1)[:2] == ([4], "corpus")


@settings(max_examples=200)
@given(
    outputs=st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=12), max_size=5),
    text=st.lists(st.integers(0, 4), min_size=1, max_size=20),
)
def test_the_cursor_stands_at_the_longest_suffix_that_the_corpus_holds(
    outputs: list[list[int]], text: list[int]
) -> None:
    automaton, cursor = Automaton(), Cursor()
    for output in outputs:
        automaton.extend([*output, 9])
    joined = [token for output in outputs for token in (*output, 9)]
    for place, token in enumerate(text):
        cursor.read(automaton, token)
        suffixes = (text[place + 1 - size : place + 1] for size in range(place + 1, 0, -1))
        held = (part for part in suffixes if any(joined[at : at + len(part)] == part for at in range(len(joined))))
        assert cursor.matched == len(next(held, []))


def test_learns_what_was_emitted_and_nothing_else(tmp_path: Path) -> None:
    """No prompt, no rejected draft; the root and what was observed."""
    known = corpus(tmp_path)
    drafter = SuffixDrafter(Options(), known)
    drafter.begin(as_ids([1, 2, 3, 1, 2]), 3, NO_SCORES)
    assert drafter.propose(4).ids.tolist() == [1, 2, 3, 1]
    drafter.observe((1, 5), NO_SCORES)
    drafter.propose(4)
    drafter.finish()
    drafter.finish()
    assert [each.tolist() for each in read(tmp_path / "c.npz", "m", VOCAB)] == [[3, 1, 5]]


def test_a_generation_is_learned_when_it_ends_and_helps_the_next(tmp_path: Path) -> None:
    options = {"corpus": str(tmp_path / "new" / "folder"), "min_match": 1}
    accepted = []
    for _ in range(2):
        workshop = ToyWorkshop(TOY, {})
        watched = Watched(workshop.drafter("suffix", options), TOY.caps.vocab_size)
        rounds = run(watched, TOY, as_ids([1, 2, 3]), 40, lengths=(8,))
        accepted.append(sum(round_.accepted for round_ in rounds))
        workshop.end()
    assert accepted[1] > accepted[0]
    [path] = (tmp_path / "new" / "folder").iterdir()
    assert path.name == f"{file_name('toy')}.npz"
    assert [len(output) for output in read(path, "toy", TOY.caps.vocab_size)] == [40]


def test_one_index_serves_all_texts_of_a_model(tmp_path: Path) -> None:
    workshop = ToyWorkshop(TOY, {})
    first, second = (workshop.drafter("suffix", {"corpus": str(tmp_path)}) for _ in range(2))
    assert isinstance(first, SuffixDrafter)
    assert isinstance(second, SuffixDrafter)
    assert first._corpus is second._corpus is not None


def test_it_is_off_by_default_and_needs_to_know_the_model(tmp_path: Path) -> None:
    workshop = ToyWorkshop(TOY, {}, identity="")
    drafter = workshop.drafter("suffix", {})
    run(drafter, TOY, as_ids([1, 2, 3]), 10)
    assert not workshop.endings
    with pytest.raises(ConfigError, match="remembers the outputs of a model"):
        workshop.drafter("suffix", {"corpus": str(tmp_path)})
    assert not list(tmp_path.iterdir())


# ---------------------------------------------------------------- caps


def test_the_oldest_outputs_go_first_and_equal_ones_stay_once() -> None:
    outputs = [as_ids(each) for each in ([1, 1], [2, 2], [3], [1, 1])]
    assert [each.tolist() for each in kept(outputs, 100)] == [[2, 2], [3], [1, 1]]
    assert [each.tolist() for each in kept(outputs, 5)] == [[3], [1, 1]]
    assert kept(outputs, 2) == []


@pytest.mark.parametrize("caps", [Caps(OVERHEAD_BYTES + 400, 10**6), Caps(10**6, 200)], ids=["bytes", "nodes"])
def test_both_caps_hold_whatever_is_learned(tmp_path: Path, caps: Caps) -> None:
    rng = np.random.default_rng(3)
    known = corpus(tmp_path, caps=caps)
    for _ in range(60):
        known.learn(rng.integers(0, 50, int(rng.integers(1, 40))).tolist())
        known.save()
        assert known.automaton.states <= caps.nodes
        assert (tmp_path / "c.npz").stat().st_size <= caps.file_bytes
    latest = known.n_tokens
    assert 0 < latest <= caps.tokens
    again = corpus(tmp_path, caps=caps)
    assert again.automaton.states <= caps.nodes
    assert again.n_outputs > 1


def test_the_cap_of_the_file_holds_for_many_short_outputs(tmp_path: Path) -> None:
    """Each has an end in the file, which has to be counted in full."""
    caps = Caps(OVERHEAD_BYTES + 2_000, 10**6)
    known = corpus(tmp_path, caps=caps, identity="0123456789abcdef")
    for number in range(300):
        known.learn(range(3 * number, 3 * number + 1 + number % 3))
    known.save()
    assert 0.9 * caps.file_bytes < (tmp_path / "c.npz").stat().st_size <= caps.file_bytes


def test_of_an_output_that_is_too_long_the_end_is_kept(tmp_path: Path) -> None:
    known = corpus(tmp_path, list(range(500)), caps=Caps(10**6, 100))
    assert drafted(known, [900, 497, 498])[0] == [499]
    assert drafted(known, [900, 10, 11])[0] == []
    corpus(tmp_path, [1, 2, 3], caps=Caps(1, 100)).save()
    assert not (tmp_path / "c.npz").exists()


# ---------------------------------------------------------------- the file


@settings(max_examples=50)
@given(outputs=st.lists(st.lists(st.integers(0, 150_000), min_size=1, max_size=20), max_size=8))
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, outputs: list[list[int]]) -> None:
    path = tmp_path_factory.mktemp("corpus") / "c.npz"
    write(path, "m", [as_ids(output) for output in outputs])
    assert [output.tolist() for output in read(path, "m", VOCAB)] == outputs


def test_a_second_process_adds_to_the_file_and_loses_nothing(tmp_path: Path) -> None:
    one, two = corpus(tmp_path, [1, 2, 3]), corpus(tmp_path, [4, 5, 6])
    one.save()
    two.save()
    one.save()
    assert [each.tolist() for each in read(tmp_path / "c.npz", "m", VOCAB)] == [[1, 2, 3], [4, 5, 6]]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_only_the_owner_may_read_it(tmp_path: Path) -> None:
    mask = os.umask(0)
    try:
        Corpus(tmp_path / "new" / "c.npz", "m", WIDE, VOCAB).save()
        known = Corpus(tmp_path / "new" / "c.npz", "m", WIDE, VOCAB)
        known.learn([1, 2, 3])
        known.save()
        known.learn([4])
        known.save()
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "new" / "c.npz").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700


def test_nothing_of_it_reaches_a_log_or_an_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    known = corpus(tmp_path, [12345, 67890])
    known.save()
    drafted(known, [12345, 67890])
    (tmp_path / "c.npz").write_bytes((tmp_path / "c.npz").read_bytes()[:200])
    with pytest.raises(ConfigError) as caught:
        corpus(tmp_path)
    assert "12345" not in caplog.text + str(caught.value)


ZIP_FLAGS, ZIP_METHOD = 8, 10
"""Places in an entry of the directory of a zip file. Source: APPNOTE.TXT 4.3.12."""
HEADER = np.asarray(["1", "m"])


def in_directory(file: bytes, place: int, value: int) -> bytes:
    """The file with another byte in the first entry of its directory."""
    at = file.index(b"PK\1\2") + place
    return file[:at] + bytes([value]) + file[at + 1 :]


@pytest.mark.parametrize(
    "damage", ["cut", "garbage", "array", "empty", "encrypted", "deflated", "unknown method", "no arrays"]
)
def test_a_damaged_file_is_refused_in_a_sentence(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "c.npz"
    write(path, "m", [as_ids([1, 2, 3])])
    whole = path.read_bytes()
    if damage == "array":
        with path.open("wb") as file:
            np.save(file, np.zeros(3))
    elif damage == "no arrays":
        with zipfile.ZipFile(path, "w") as archive:
            for name in ("header", "ids", "ends"):
                archive.writestr(f"{name}.npy", b"text")
    else:
        damaged = {
            "cut": whole[: len(whole) // 2],
            "garbage": b"x" * 300,
            "empty": b"",
            "encrypted": in_directory(whole, ZIP_FLAGS, 1),
            "deflated": in_directory(whole, ZIP_METHOD, 8),
            "unknown method": in_directory(whole, ZIP_METHOD, 97),
        }
        path.write_bytes(damaged[damage])
    with pytest.raises(ConfigError, match="move it away"):
        corpus(tmp_path)


@pytest.mark.parametrize(
    "changed",
    [
        {"header": np.asarray([object()])},
        {"ends": np.asarray([2], np.int32)},
        {"ends": np.asarray([3], np.int64)},
        {"ids": as_ids([1, VOCAB, 3])},
        {"ids": as_ids([1, -1, 3])},
        {"ids": np.asarray([1.0, 2.0, 3.0])},
        {"ids": as_ids([1, 2, 3]).reshape(1, 3)},
    ],
    ids=["pickle", "halves", "wide ends", "no such token", "negative", "fractions", "table"],
)
def test_arrays_that_are_no_outputs_of_the_model_are_refused(tmp_path: Path, changed: dict[str, Any]) -> None:
    with (tmp_path / "c.npz").open("wb") as file:
        np.savez(file, **{"header": HEADER, "ids": as_ids([1, 2, 3]), "ends": np.asarray([3], np.int32), **changed})
    with pytest.raises(ConfigError, match="move it away"):
        corpus(tmp_path)


@pytest.mark.parametrize("mask", [1, 8, 255])
def test_a_byte_that_has_changed_is_seen_or_changes_nothing(tmp_path: Path, mask: int) -> None:
    path = tmp_path / "c.npz"
    write(path, "m", [as_ids([1, 2, 3]), as_ids([4])])
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ mask]) + whole[place + 1 :])
        try:
            outputs = [output.tolist() for output in read(path, "m", VOCAB)]
        except ConfigError:
            continue
        assert outputs == [[1, 2, 3], [4]], place


def test_the_file_of_another_model_is_refused(tmp_path: Path) -> None:
    corpus(tmp_path, [1, 2], identity="other").save()
    with pytest.raises(ConfigError, match="belongs to another model"):
        corpus(tmp_path)


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    known = Corpus(tmp_path / "c.npz", "m", WIDE, VOCAB)
    known.learn([1, 2])
    known._path = tmp_path / "file" / "c.npz"
    with pytest.raises(ConfigError, match=r"cannot be (read|written)"):
        known.save()


@pytest.mark.skipif(os.name == "nt", reason="Windows cannot kill like this")
def test_a_kill_at_any_moment_leaves_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    """A process that does nothing but save is killed again and again; every file it leaves can be read."""
    script = textwrap.dedent(
        """
        import sys
        from pathlib import Path
        from surefoot.drafters.suffix.corpus import Caps, Corpus
        known = Corpus(Path(sys.argv[1]) / "c.npz", "m", Caps(10**6, 10**6), 200_000)
        print("ready", flush=True)
        number = 0
        while True:
            number += 1
            known.learn(range(number, number + 50))
            known.save()
        """
    )
    sizes = []
    for _ in range(4):
        process = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        while not (tmp_path / "c.npz").exists() or (tmp_path / "c.npz").stat().st_size < 2_000 * (len(sizes) + 1):
            assert process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        outputs = read(tmp_path / "c.npz", "m", VOCAB)
        assert all(len(output) == 50 for output in outputs)
        sizes.append(len(outputs))
    assert sizes == sorted(sizes)
    age(tmp_path)
    corpus(tmp_path, [7]).save()
    assert [path.name for path in tmp_path.iterdir()] == ["c.npz"]


def age(folder: Path) -> None:
    """Make all files of the folder two hours old."""
    for path in folder.iterdir():
        written_s = path.stat().st_mtime - 7_200
        os.utime(path, (written_s, written_s))


@pytest.mark.skipif(os.name == "nt", reason="Windows cannot kill like this")
def test_what_a_kill_left_half_written_goes_when_it_is_old(tmp_path: Path) -> None:
    """It holds tokens. A young one may be that of a process that is writing now."""
    script = textwrap.dedent(
        """
        import os, signal, sys
        from pathlib import Path
        from surefoot.core.types import as_ids
        from surefoot.drafters.suffix.corpus import write
        os.fsync = lambda file: os.kill(os.getpid(), signal.SIGKILL)
        write(Path(sys.argv[1]) / "c.npz", "m", [as_ids([1, 2, 3])])
        """
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    [left] = tmp_path.iterdir()
    assert left.name.startswith(".c.npz.")
    corpus(tmp_path, [1]).save()
    assert left.exists()
    (tmp_path / ".d.npz.1").write_bytes(b"")
    age(tmp_path)
    corpus(tmp_path, [2]).save()
    assert sorted(path.name for path in tmp_path.iterdir()) == [".d.npz.1", "c.npz"], "that of another model is left"


def test_the_drafter_is_built_by_its_entry_point() -> None:
    assert isinstance(PLUGIN.build(PLUGIN.options(), TOY, ToyWorkshop(TOY, {})), SuffixDrafter)
