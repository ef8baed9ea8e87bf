"""Records that are none: whatever is in a file, the answer is one sentence that names it and the line."""

from __future__ import annotations

import contextlib
import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lab_records as make
import pytest

from surefoot.core.errors import ConfigError
from surefoot.lab import store
from surefoot.lab.analysis import analyse
from surefoot.lab.records import Gate
from surefoot.lab.store import Store, load


def change(line: int, how: Callable[[Any], Any]) -> Callable[[list[bytes]], bytes]:
    """The record with one line changed as JSON."""

    def changed(lines: list[bytes]) -> bytes:
        value = json.loads(lines[line - 1])
        lines[line - 1] = json.dumps(how(value) or value).encode() + b"\n"
        return b"".join(lines)

    return changed


def put(line: int, *way: str | int, value: Any) -> Callable[[list[bytes]], bytes]:
    """The record with one value of one line changed."""

    def how(record: Any) -> None:
        for key in way[:-1]:
            record = record[key]
        record[way[-1]] = value

    return change(line, how)


def drop(line: int, *way: str) -> Callable[[list[bytes]], bytes]:
    """The record without one field of one line."""

    def how(record: Any) -> None:
        for key in way[:-1]:
            record = record[key]
        del record[way[-1]]

    return change(line, how)


def raw(line: int, text: bytes) -> Callable[[list[bytes]], bytes]:
    """The record with one line put as it is."""
    return lambda lines: b"".join([*lines[: line - 1], text, *lines[line:]])


MALFORMED: dict[str, tuple[Callable[[list[bytes]], bytes], str]] = {
    "empty": (lambda lines: b"", "holds no run: it is empty"),
    "one line, cut": (lambda lines: lines[0][:-9], "cut in its first line"),
    "no run": (lambda lines: b"".join(lines[1:]), "line 1 .* is a gate: a run record begins with a run"),
    "two runs": (lambda lines: lines[0] * 2, "line 2 .* begins a second run"),
    "blank line": (raw(2, b"\n"), "line 2 .* is not JSON"),
    "text": (raw(1, b"# a bench record\n"), "line 1 .* is not JSON"),
    "another document": (raw(1, b'{"version": 1, "benchmarks": []}\n'), 'line 1 .* is an object without a "kind"'),
    "a list": (raw(3, b"[1, 2]\n"), 'line 3 .* is a list without a "kind"'),
    "a number": (raw(3, b"7\n"), 'line 3 .* is a number without a "kind"'),
    "null": (raw(3, b"null\n"), 'line 3 .* is null without a "kind"'),
    "unknown kind": (
        put(4, "kind", value="triple"),
        'line 4 .* is of the kind "triple", and a run record has run, gate',
    ),
    "kind of another type": (put(4, "kind", value=["pair"]), r'line 4 .* is of the kind \["pair"\]'),
    "newer schema": (put(1, "schema", value=99), "line 1 .* has the schema 99 and this Surefoot reads 1"),
    "no schema": (drop(1, "schema"), "line 1 .* has the schema null"),
    "schema as text": (put(1, "schema", value="1"), 'line 1 .* has the schema "1"'),
    "missing field": (drop(4, "budget"), 'line 4 .* has no "budget"'),
    "missing field inside": (drop(4, "off", "ids"), 'line 4 .* has no "off.ids"'),
    "missing column": (drop(4, "on", "steps", "rows"), 'line 4 .* has no "on.steps.rows"'),
    "unknown field": (put(4, "colour", value="red"), 'line 4 .* has a field "colour" that this Surefoot does not know'),
    "unknown field inside": (put(4, "off", "colour", value=1), 'line 4 .* has a field "off.colour"'),
    "unknown column": (put(4, "off", "steps", "colour", value=1), 'line 4 .* has a field "off.steps.colour"'),
    "text for a count": (put(4, "number", value="4"), 'line 4 .*"number" must be a whole number, and it is "4"'),
    "true for a count": (put(4, "number", value=True), 'line 4 .*"number" must be a whole number, and it is true'),
    "fraction for a count": (put(4, "budget", value=64.5), 'line 4 .*"budget" must be a whole number'),
    "negative count": (put(4, "number", value=-1), 'line 4 .*"number" must be a whole number not below 0'),
    "negative seconds": (put(4, "off", "decode_s", value=-0.1), 'line 4 .*"off.decode_s" must be a number not below 0'),
    "negative column": (
        put(4, "off", "steps", "draft_s", value=-1),
        'line 4 .*"off.steps.draft_s" must be a number not',
    ),
    "nan": (raw(4, b'{"kind": "pair", "number": NaN}\n'), "line 4 .* holds the number NaN"),
    "infinity": (raw(4, b'{"kind": "pair", "at_s": -Infinity}\n'), "line 4 .* holds the number -Infinity"),
    "too large a number": (raw(4, b'{"kind": "pair", "at_s": 1e999}\n'), "line 4 .* holds the number 1e999"),
    "a time past all clocks": (put(4, "at_s", value=10**400), 'line 4 .*"at_s" must be a number up to 1e\\+15'),
    "a count past all counting": (put(4, "off", "n_output", value=10**400), 'line 4 .*"off.n_output" must be a whole'),
    "an id past all vocabularies": (put(4, "off", "ids", value=[10**400]), r'line 4 .*"off.ids\[0\]" must be a whole'),
    "faster than a clock tells": (put(4, "on", "decode_s", value=1e-300), "line 4 .* wrote 5 tokens in no time"),
    "very many digits": (
        raw(4, b'{"kind": "pair", "number": ' + b"9" * 5000 + b"}\n"),
        "line 4 .* no run record holds",
    ),
    "deep nesting": (raw(4, b"[" * 100_000 + b"]" * 100_000 + b"\n"), "line 4 .* no run record holds"),
    "half a character": (put(1, "surefoot", value="\ud800"), "line 1 .* no run record holds"),
    "field given twice": (
        raw(8, b'{"kind": "end", "when": "a", "when": "b", "why": "time"}\n'),
        'line 8 .* "when" twice',
    ),
    "word not in the list": (put(4, "first", value="both"), 'line 4 .*"first" must be "off" or "on", and it is "both"'),
    "another gate": (put(2, "name", value="speed"), 'line 2 .*"name" must be "rows" or "lossless"'),
    "text for true": (put(2, "passed", value="yes"), 'line 2 .*"passed" must be true or false'),
    "object for a list": (put(4, "off", "ids", value={}), 'line 4 .*"off.ids" must be a list'),
    "list for an object": (put(1, "model", value=[]), 'line 1 .*"model" must be an object'),
    "text among ids": (put(4, "off", "ids", value=[1, "2"]), r'line 4 .*"off.ids\[1\]" must be a whole number'),
    "negative id": (put(4, "off", "ids", value=[1, -2]), r'line 4 .*"off.ids\[1\]" must be a whole number not below 0'),
    "number for a text": (put(1, "when", value=1), 'line 1 .*"when" must be a string, and it is 1'),
    "band of one": (put(1, "band", value=[26.0]), 'line 1 .*"band" must be a list of 2 numbers'),
    "band upside down": (put(1, "band", value=[28.0, 26.0]), "line 1 .* has a band from 28 to 26 tokens per second"),
    "two arms of a name": (
        change(1, lambda r: r["arms"].append(r["arms"][0])),
        'line 1 .* names the arm "ngram" twice',
    ),
    "two prompts of a name": (
        change(1, lambda r: r["prompts"].append(r["prompts"][0])),
        'names the prompt "chat-1" twice',
    ),
    "share above 1": (put(4, "on_conditions", "steal_cpu", value=1.5), "line 4 .*on_conditions.* has steal_cpu 1.5"),
    "accepts more than it drafts": (
        put(4, "on", "steps", "accepted", value=4),
        "line 4 .*round 1 of on.steps.* accepts 4 of 3",
    ),
    "emits from nowhere": (
        put(4, "on", "steps", "emitted", value=3),
        "line 4 .*round 1 of on.steps.* emits 3 tokens with 1",
    ),
    "rows past the width": (put(4, "on", "steps", "width", value=2), "line 4 .* scores 4 rows in a width of 2"),
    "short column": (
        put(4, "off", "steps", "depth", value=[1, 2]),
        'line 4 .* has 2 values of "off.steps.depth" for 3 rounds',
    ),
    "more rounds than memory": (
        put(4, "off", "steps", "rounds", value=10**12),
        'line 4 .*"off.steps.rounds" must be at most',
    ),
    "rounds that are no table": (
        put(4, "off", "steps", value=[{}]),
        'line 4 .*"off.steps" must be an object of columns',
    ),
    "tokens that no round wrote": (
        put(4, "off", "n_output", value=50),
        "line 4 .* wrote 50 tokens, and its rounds and the",
    ),
    "a text in no time": (put(4, "off", "decode_s", value=0), "line 4 .* wrote 4 tokens in no time"),
    "pair repeated": (lambda lines: b"".join([*lines[:4], lines[3]]), "line 5 .* is pair 0 after pair 0"),
    "pairs out of order": (put(7, "number", value=2), "line 7 .* is pair 2 after pair 3"),
    "a text shared with no pair": (
        put(4, "shared", value=True),
        "line 4 .* is pair 0, whose plain text is not the one",
    ),
    "a text shared out of turn": (put(6, "first", value="off"), "line 7 .* is pair 4, whose plain text is not the one"),
    "a text shared with another": (put(6, "off", "decode_s", value=9), "line 7 .* is pair 4, whose plain text is not"),
    "unknown arm": (put(4, "arm", value="eagle"), 'line 4 .* of the arm "eagle", which the run does not name'),
    "unknown prompt": (put(4, "prompt", value="x"), 'line 4 .* uses the prompt "x", which the run does not name'),
    "another workload": (
        put(4, "workload", value="code"),
        'line 4 .* counts the prompt "chat-1" to "code", and the run to',
    ),
    "unknown budget": (put(3, "budget", value=9), "line 3 .* has a budget of 9 tokens, which the run does not name"),
    "after the end": (lambda lines: b"".join([*lines, lines[1]]), "line 9 .* is a gate after the end of the run"),
    "not utf-8": (raw(4, b'{"kind": "\xff"}\n'), r"line 4 .* is not UTF-8 \(byte 11\)"),
    "utf-16": (lambda lines: b"".join(lines).decode().encode("utf-16"), "line 1 .* is not UTF-8"),
    "zero bytes": (raw(4, b"\0" * 600 + b"\n"), "line 4 .* is not JSON"),
    "gzip": (lambda lines: b"\x1f\x8b\x08\0\n" + lines[0], "line 1 .* is not UTF-8"),
    "huge line": (lambda lines: lines[0] + b" " * (2**20 + 2) + b"\n", "has a line of more than 1 MiB"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_record_is_one_sentence(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MAX_LINE_BYTES", 2**20)
    path = make.write(tmp_path / "run.jsonl")
    spoil, wanted = MALFORMED[name]
    path.write_bytes(spoil(path.read_bytes().splitlines(keepends=True)))
    for read in (load, Store.open):
        with pytest.raises(ConfigError) as caught:
            read(path)
        told = str(caught.value)
        assert re.search(wanted, told), told
        assert "\n" not in told
        assert str(path) in told
        assert len(told) < 400, told
        assert "Error" not in told
    Path(f"{path}.moved").write_bytes(path.read_bytes())  # no handle is left open
    path.unlink()


def test_whatever_a_disk_does_to_a_record_it_is_read_or_refused(tmp_path: Path) -> None:
    """Bytes changed, lost and doubled at random: what still loads can be analysed, and nothing else is raised."""
    difference = {"texts": 1, "differences": [{"pair": 1, "again": "none"}]}
    gates = (make.BASELINE, Gate("lossless", True, 0, 0, "texts", "", difference))
    run_pairs = [make.pair(number) for number in range(7)]
    path = make.write(tmp_path / "run.jsonl", (*gates, make.reference(), *run_pairs))
    whole = path.read_bytes()
    rng = random.Random(7)
    read = 0
    for _ in range(600):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 2)):
            at, length = rng.randrange(len(data)), rng.randint(1, 12)
            match rng.randrange(4):
                case 0:
                    data[at] = rng.randrange(256)
                case 1:
                    del data[at : at + length]
                case 2:
                    data[at:at] = data[at : at + length]
                case _:
                    data[at : at + 1] = rng.choice([b"9", b"-", b"e9", b"null", b"0.5", b"[]", b'"', b"}", b"true"])
        path.write_bytes(data)
        with contextlib.suppress(ConfigError):
            analyse(load(path))
            read += 1
    assert 20 <= read <= 300
