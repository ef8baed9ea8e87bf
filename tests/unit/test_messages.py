"""Conversations and tools in files: taken as they are, or refused in one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from surefoot.core.errors import ConfigError
from surefoot.engine.messages import load_messages, load_tools

USER = {"role": "user", "content": "hi"}
CALL = {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": {}}}]}
PARTS = {"role": "user", "content": [{"type": "text", "text": "hi"}]}


def write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


@pytest.mark.parametrize("messages", [[USER], [{"role": "system", "content": ""}, USER, CALL], [PARTS]])
def test_messages_are_taken_as_they_are(messages: list[object], tmp_path: Path) -> None:
    assert load_messages(write(tmp_path / "m", json.dumps(messages))) == messages
    assert load_messages(write(tmp_path / "m", json.dumps({"model": "x", "messages": messages}))) == messages


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([], "an empty list"),
        ({}, "an object"),
        ("hi", "a string"),
        (3, "a number"),
        (None, "null"),
        ({"messages": {}}, "an object"),
        (["hi"], "message 1 of"),
        ([USER, {"content": "hi"}], "message 2 of"),
        ([{"role": 1, "content": "hi"}], "has no role"),
        ([{"role": "user"}], "has no content"),
        ([{"role": "user", "content": None}], "has no content"),
        ([{"role": "user", "content": 3}], "a content that is a number"),
        ([{"role": "user", "content": {"text": "hi"}}], "a content that is an object"),
        ([{"role": "user", "content": ["hi"]}], "lists something else"),
    ],
)
def test_what_is_no_conversation(value: object, said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        load_messages(write(tmp_path / "m", json.dumps(value)))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe", b"[" * 100_000])
def test_what_is_not_json(data: bytes, tmp_path: Path) -> None:
    for load in (load_messages, load_tools):
        with pytest.raises(ConfigError, match="is not JSON"):
            load(write(tmp_path / "m", data))


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        load_messages(tmp_path / "nothing")


def test_tools(tmp_path: Path) -> None:
    tools = [{"type": "function", "function": {"name": "f"}}]
    assert load_tools(write(tmp_path / "t", json.dumps(tools))) == tools
    with pytest.raises(ConfigError, match=r"tool 1 of .* must be an object, and it is a string"):
        load_tools(write(tmp_path / "t", '["f"]'))
    with pytest.raises(ConfigError, match="list of tools"):
        load_tools(write(tmp_path / "t", "{}"))
