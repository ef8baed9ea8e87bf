"""Conversations and tools: taken as they are, or refused in one sentence."""

from __future__ import annotations

import pytest

from surefoot.core.errors import ConfigError
from surefoot.engine.messages import check_messages, check_tools

USER = {"role": "user", "content": "hi"}
CALL = {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": {}}}]}
PARTS = {"role": "user", "content": [{"type": "text", "text": "hi"}]}


@pytest.mark.parametrize("messages", [[USER], [{"role": "system", "content": ""}, USER, CALL], [PARTS]])
def test_messages_are_taken_as_they_are(messages: list[object]) -> None:
    assert check_messages(messages, "chat.json") == messages


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([], "an empty list"),
        ({}, "an object"),
        ("hi", "a string"),
        (3, "a number"),
        (None, "null"),
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
def test_what_is_no_conversation(value: object, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        check_messages(value, "chat.json")
    assert "chat.json" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_tools() -> None:
    tools = [{"type": "function", "function": {"name": "f"}}]
    assert check_tools(tools, "tools.json") == tools
    with pytest.raises(ConfigError, match=r"tool 1 of tools.json must be an object, and it is a string"):
        check_tools(["f"], "tools.json")
    for value in ({}, []):
        with pytest.raises(ConfigError, match="list of tools"):
            check_tools(value, "tools.json")
