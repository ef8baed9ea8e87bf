"""The prompts that are measured: enough of each kind, the same everywhere, and never those that choose options."""

from __future__ import annotations

import contextlib
import json
import random
import re
import zipfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from surefoot.core.errors import ConfigError
from surefoot.lab import workloads
from surefoot.lab.promptfile import UNFETCHED
from surefoot.lab.workloads import KINDS, Prompt, PromptSet, identities, identity, own, read, select, spec_bench, tuning


def test_our_own_prompts_are_enough_of_each_kind() -> None:
    prompts = own()
    assert prompts.workloads == KINDS
    measured = Counter(prompt.workload for prompt in prompts.prompts if not prompt.tuning)
    # An interval counts prompts, not pairs, and that of six goes from the least to the largest.
    assert min(measured.values()) >= 7
    for workload in KINDS:
        assert len(tuning(prompts, workload)) >= 2
        lengths = [len(str(prompt.content)) for prompt in select(prompts, [workload])]
        assert max(lengths) > 2 * min(lengths), workload
    texts = [prompt.content for prompt in prompts.prompts]
    assert len(set(texts)) == len(texts)
    assert not prompts.notes


def test_spec_bench_is_whole_and_under_our_names() -> None:
    prompts = spec_bench()
    assert Counter(prompt.workload for prompt in prompts.prompts) == {
        "chat": 30, "math": 45, "code": 5, "translation": 40, "summary": 40, "question": 40, "retrieval": 40,
    }  # fmt: skip
    assert prompts.notes == ("40 of 240 prompts of spec-bench have more than one turn: the first is measured",)
    assert {prompt.source for prompt in prompts.prompts} == {"spec-bench"}
    for workload in prompts.workloads:
        assert tuning(prompts, workload)
    assert prompts.prompts[0].id == "81"
    assert str(prompts.prompts[0].content).startswith("Compose an engaging travel blog post")


@pytest.mark.parametrize("prompts", [own(), spec_bench()], ids=["own", "spec-bench"])
def test_options_are_chosen_on_prompts_that_are_never_measured(prompts: PromptSet) -> None:
    measured = {identity([prompt]) for prompt in select(prompts)}
    assert len(measured) == len(select(prompts))
    for workload in prompts.workloads:
        for prompt in tuning(prompts, workload):
            assert prompt.tuning
            assert prompt.workload == workload
            assert identity([prompt]) not in measured


def test_a_file_without_prompts_for_tuning_borrows_ours(tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    path.write_text("Say hello.", encoding="utf-8")
    found = tuning(read(path), "mine")
    assert set(found) == {prompt for prompt in own().prompts if prompt.tuning}
    theirs = next(prompt for prompt in own().prompts if prompt.tuning and prompt.workload == "chat")
    taken = PromptSet((replace(theirs, id="x", tuning=False, source="file"),))
    for workload in ("chat", "of my own"):
        found = tuning(taken, workload)
        assert found
        assert theirs.content not in {prompt.content for prompt in found}


def test_the_identity_follows_what_the_model_is_given() -> None:
    a, b = Prompt("1", "chat", "x", "Hello"), Prompt("2", "chat", "x", "Bye")
    assert identity([a]) == identity([replace(a, id="9", source="y", workload="code")])
    assert len(identity([a])) == 64
    different = [
        [a],
        [b],
        [a, b],
        [b, a],
        [replace(a, tools=({"name": "f"},))],
        [replace(a, content=({"role": "user"},))],
    ]
    assert len({identity(each) for each in different}) == len(different)
    messages: tuple[Mapping[str, Any], ...] = ({"role": "user", "content": "é"},)
    turned: tuple[Mapping[str, Any], ...] = ({"content": "é", "role": "user"},)
    assert identity([replace(a, content=messages)]) == identity([replace(a, content=turned)])
    assert identities([a, b, replace(a, workload="code")]) == {"chat": identity([a, b]), "code": identity([a])}


def test_the_identities_of_our_prompts_are_known() -> None:
    """Changing a prompt makes runs incomparable: this test makes sure that nobody does so by accident."""
    assert {name: found[:8] for name, found in identities(select(own())).items()} == OWN
    assert {name: found[:8] for name, found in identities(select(spec_bench())).items()} == SPEC_BENCH


OWN = {
    "chat": "9ff0a40d",
    "code": "d96aea89",
    "tools": "0e011c51",
    "summary": "5b77217d",
    "question": "9b0241fa",
    "translation": "f03a8ced",
    "retrieval": "02527f6e",
}
SPEC_BENCH = {
    "chat": "23670fb0",
    "math": "1ad510f7",
    "code": "ecb3d980",
    "translation": "e82a6bba",
    "summary": "fd2b7bd5",
    "question": "8ded4725",
    "retrieval": "624be3d9",
}


def test_selecting() -> None:
    prompts = own()
    assert [prompt.workload for prompt in select(prompts, ["code", "chat"], each=2)] == ["code"] * 2 + ["chat"] * 2
    assert select(prompts, ["code"], each=2) == select(prompts, ["code"])[:2]
    assert len(select(prompts, each=1)) == len(KINDS)
    with pytest.raises(ConfigError, match=r"no prompt to measure of poems; there are: chat, code"):
        select(prompts, ["chat", "poems"])
    with pytest.raises(ConfigError, match="no prompt to measure of any workload; there are: none"):
        select(PromptSet((replace(prompts.prompts[0], tuning=True),)))


def lines(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


SPEED = {
    "question_id": "9f2c", "category": "coding", "sub_category": "python", "turns": ["Write f.", "Now g."],
    "source": "humanevalpack", "src_id": "12", "difficulty": "easy", "multiturn": True,
}  # fmt: skip


def test_a_file_in_the_layout_of_speed_bench(tmp_path: Path) -> None:
    rows = (SPEED, {**SPEED, "question_id": "b", "category": "low_entropy", "turns": ["Sort."], "multiturn": False})
    found = read(lines(tmp_path / "qualitative.jsonl", *rows))
    assert found.prompts == (
        Prompt("9f2c", "code", "qualitative.jsonl", "Write f."),
        Prompt("b", "low_entropy", "qualitative.jsonl", "Sort."),
    )
    assert found.notes == ("1 of 2 prompts of qualitative.jsonl have more than one turn: the first is measured",)
    filled = {"question_id": 7, "category": "rag", "messages": [{"role": "user", "content": "Q"}]}
    assert read(lines(tmp_path / "nemo.jsonl", filled)).prompts == (
        Prompt("7", "retrieval", "nemo.jsonl", ({"role": "user", "content": "Q"},)),
    )


def test_lines_with_tools_tuning_and_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    tool = {"type": "function", "function": {"name": "f"}}
    row = {"question_id": "1", "category": "tools", "turns": ["Call f."], "tools": [tool], "tuning": True}
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(row).encode() + b"\r\n\r\n")
    assert read(path).prompts == (Prompt("1", "tools", "mine.jsonl", "Call f.", (tool,), True),)


def test_conversations_and_plain_text(tmp_path: Path) -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    for value in (messages, {"messages": messages}):
        path = tmp_path / "talk.json"
        path.write_text(json.dumps(value), encoding="utf-8")
        assert read(path).prompts == (Prompt("talk", "talk", "talk.json", tuple(messages)),)
    path = tmp_path / "letter.md"
    path.write_text("# Dear all\n\nplease answer.\n", encoding="utf-8")
    assert read(path).prompts == (Prompt("letter", "letter", "letter.md", "# Dear all\n\nplease answer.\n"),)


def test_the_data_is_in_the_package() -> None:
    root = Path(workloads.__file__).parent / "data"
    assert (root / "spec-bench" / "LICENSE").read_text(encoding="utf-8").lstrip().startswith("Apache License")
    assert sum(path.stat().st_size for path in root.rglob("*") if path.is_file()) < 400_000


def row(**changed: Any) -> bytes:
    """A line of a file, good but for what is changed; None takes a field away."""
    fields: dict[str, Any] = {"question_id": 1, "category": "qa", "turns": ["Why?"], **changed}
    return json.dumps({key: value for key, value in fields.items() if value is not ...}).encode() + b"\n"


GOOD = row()

MALFORMED: dict[str, tuple[str, bytes, str]] = {
    "empty": ("p.jsonl", b"", "holds no prompt; a line reads {.question_id.: "),
    "blank lines only": ("p.jsonl", b"\n \n\n", "holds no prompt"),
    "not json": (
        "p.jsonl",
        GOOD + b"why is the sky blue?\n",
        r"line 2 of .* is not JSON \(Expecting value, character 1\)",
    ),
    "not json, by another ending": ("P.JSONL", GOOD + b"why is the sky blue?\n", "line 2 of .* is not JSON"),
    "a table": ("p.csv", b"id,prompt\n1,Why?\n", "is a table: write its prompts as JSON Lines"),
    "cut": ("p.jsonl", GOOD + row(question_id=2)[:-9], "line 2 of .* is not JSON"),
    "a pretty object": ("p.jsonl", json.dumps(json.loads(GOOD), indent=1).encode(), "line 1 of .* is not JSON"),
    "a list": ("p.jsonl", b'["Why?"]\n', "line 1 of .* must be an object with question_id, category and turns"),
    "a string": ("p.jsonl", GOOD + b'"Why?"\n', "line 2 of .* must be an object with question_id"),
    "null": ("p.jsonl", b"null\n", "line 1 of .* must be an object .* it is not there"),
    "no id": (
        "p.jsonl",
        row(question_id=...),
        "line 1 of .*: question_id must be .* not there; a line reads {.question_id.: ",
    ),
    "id of another type": ("p.jsonl", row(question_id=1.5), "line 1 of .*: question_id must be a name, and it is 1.5"),
    "id true": ("p.jsonl", row(question_id=True), "line 1 of .*: question_id must be a name, and it is true"),
    "id empty": ("p.jsonl", row(question_id=" "), 'question_id must be a name, and it is " "'),
    "id twice": (
        "p.jsonl",
        GOOD + row(question_id=2) + row(question_id="1"),
        'line 3 of .* has the question_id "1" of line 1: give each line its own',
    ),
    "id of many characters": ("p.jsonl", row(question_id="x" * 101), "is no name of at most 100 printable characters"),
    "no category": ("p.jsonl", row(category=...), "line 1 of .*: category must be a name, and it is not there"),
    "category a number": ("p.jsonl", row(category=3), "line 1 of .*: category must be a name, and it is 3"),
    "category of two lines": ("p.jsonl", row(category="a\nb"), "is no name of at most 100 printable characters"),
    "no turns": ("p.jsonl", row(turns=...), "line 1 of .* has neither turns nor messages"),
    "turns and messages": ("p.jsonl", row(messages=[]), "line 1 of .* has both turns and messages"),
    "turns a text": ("p.jsonl", row(turns="Why?"), 'line 1 of .*: turns must be a list of texts, and it is "Why\\?"'),
    "turns empty": ("p.jsonl", row(turns=[]), r"line 1 of .*: turns must be a list of texts, and it is \[\]"),
    "turn null": ("p.jsonl", row(turns=[None]), "line 1 of .*: turn 1 must be a text, and it is not there"),
    "turn blank": ("p.jsonl", row(turns=["  \n"]), "line 1 of .*: turn 1 must be a text"),
    "later turn a number": ("p.jsonl", row(turns=["Why?", 5]), "line 1 of .*: turn 2 must be a text, and it is 5"),
    "placeholder": (
        "p.jsonl",
        GOOD + row(question_id=2, turns=[UNFETCHED + " FROM"]),
        "line 2 of .* is a placeholder of SPEED",
    ),
    "placeholder in a message": (
        "p.jsonl",
        row(turns=..., messages=[{"role": "user", "content": UNFETCHED}]),
        "line 1 of .* is a placeholder of SPEED-Bench",
    ),
    "messages empty": ("p.jsonl", row(turns=..., messages=[]), "line 1 of .* must hold a list of messages"),
    "message without a role": (
        "p.jsonl",
        row(turns=..., messages=[{"content": "x"}]),
        "message 1 of line 1 of .* has no role",
    ),
    "message without content": (
        "p.jsonl",
        row(turns=..., messages=[{"role": "user"}]),
        "message 1 of .* has no content",
    ),
    "answered already": (
        "p.json",
        b'[{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]',
        "ends with a message of the assistant: there is nothing to answer",
    ),
    "tools a text": ("p.jsonl", row(tools="f"), "line 1 of .* must hold a list of tools"),
    "tuning a text": ("p.jsonl", row(tuning="yes"), 'line 1 of .*: tuning must be true or false, and it is "yes"'),
    "nan": ("p.jsonl", b'{"question_id": NaN}\n', "line 1 of .* holds NaN, which is not JSON"),
    "very many digits": (
        "p.jsonl",
        b'{"question_id": ' + b"9" * 5000 + b"}\n",
        "line 1 of .* is JSON that cannot be read",
    ),
    "deep nesting": ("p.json", b"[" * 100_000 + b"]" * 100_000, "is JSON that cannot be read"),
    "half a character": ("p.jsonl", row(turns=["\ud83d"]), "line 1 of .* holds half a character"),
    "not utf-8": ("p.jsonl", GOOD + b'{"question_id": "\xe9"}\n', "line 2 of .* is not UTF-8"),
    "latin-1 text": ("p.txt", "één\ntwee één".encode("latin-1"), "line 1 of .* is not UTF-8"),
    "utf-16": ("p.txt", "Why?".encode("utf-16"), "is UTF-16: save it as UTF-8"),
    "zero bytes": ("p.txt", b"Why?\nA\0B", "line 2 of .* holds a zero byte"),
    "gzip": ("p.jsonl", b"\x1f\x8b\x08\x00", "is compressed with gzip: unpack it first"),
    "parquet": ("p.jsonl", b"PAR1\x15\x04", "is a Parquet file: write it as JSON Lines first"),
    "empty text": ("p.txt", b" \n\t\n", "holds no text"),
    "json number": ("p.json", b"7", "must hold a list of messages"),
    "json object": ("p.json", b'{"prompt": "Why?"}', "is an object without messages"),
    "json cut": ("p.json", b'[{"role": "user",\n "content": "x"', "is not JSON .* line 2"),
    "json empty": ("p.json", b"", "is not JSON"),
    "jsonl called json": ("p.json", GOOD + row(question_id=2), "is not JSON"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_prompt_file_is_one_sentence(tmp_path: Path, name: str) -> None:
    file, data, wanted = MALFORMED[name]
    path = tmp_path / file
    path.write_bytes(data)
    with pytest.raises(ConfigError) as caught:
        read(path)
    told = str(caught.value)
    assert re.search(wanted, told), told
    assert "\n" not in told
    assert str(path) in told
    assert len(told) < 400, told


def test_what_is_no_file_is_one_sentence_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        read(tmp_path)
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        read(tmp_path / "none.jsonl")
    archive = tmp_path / "p.jsonl"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("question.jsonl", GOOD)
    with pytest.raises(ConfigError, match="is a zip archive: unpack it first"):
        read(archive)
    monkeypatch.setattr("surefoot.lab.promptfile.MAX_BYTES", 20)
    with pytest.raises(ConfigError, match="MiB: prompts have at most 256"):
        read(archive)


@pytest.mark.parametrize("name", ["p.jsonl", "p.json", "p.txt"])
def test_whatever_is_in_a_prompt_file_it_is_read_or_refused(tmp_path: Path, name: str) -> None:
    """Bytes changed, lost and put in at random; what is read can be hashed and measured."""
    path, rng = tmp_path / name, random.Random(name)
    talk = {"question_id": "t", "category": "chat", "messages": [{"role": "user", "content": "é"}], "tools": [{"a": 1}]}
    whole = {
        "p.jsonl": GOOD + row(question_id="2", turns=["Why not?", "And now?"]) + json.dumps(talk).encode(),
        "p.json": json.dumps({"messages": talk["messages"], "tools": talk["tools"]}).encode(),
        "p.txt": "Ça va, and you?\n".encode(),
    }[name]
    read_again = 0
    for _ in range(400):
        data = bytearray(whole)
        at, length = rng.randrange(len(data)), rng.randint(1, 8)
        match rng.randrange(3):
            case 0:
                data[at] = rng.randrange(256)
            case 1:
                del data[at : at + length]
            case _:
                data[at:at] = rng.choice(
                    [b"9", b"-", b"null", b"[", b"]", b'"', b"}", b"true", b"\\ud800", b"\n", b"\0"]
                )
        path.write_bytes(data)
        with contextlib.suppress(ConfigError):
            found = read(path)
            assert identities(select(found)) or found.prompts
            read_again += 1
    assert 20 <= read_again < 400
