"""Conversations and tools, checked before a chat template sees them: many templates leave out what they do not find."""

from __future__ import annotations

from typing import Any

from surefoot.core.errors import ConfigError

Messages = list[dict[str, Any]]


def check_messages(value: object, where: str) -> Messages:
    """The same value, if it is a conversation; `where` names it in the error."""
    if not isinstance(value, list) or not value:
        raise ConfigError(
            f'{where} must hold a list of messages like [{{"role": "user", "content": "..."}}], '
            f"and it holds {_kind(value)}"
        )
    for i, message in enumerate(value):
        problem = _problem(message)
        if problem:
            raise ConfigError(f'message {i + 1} of {where} {problem}: write {{"role": "user", "content": "..."}}')
    return value


def check_tools(value: object, where: str) -> list[dict[str, Any]]:
    """The same value, if it is a list of tools; `where` names it in the error."""
    if not isinstance(value, list) or not value:
        raise ConfigError(f"{where} must hold a list of tools, one object each, and it holds {_kind(value)}")
    for i, tool in enumerate(value):
        if not isinstance(tool, dict):
            raise ConfigError(f"tool {i + 1} of {where} must be an object, and it is {_kind(tool)}")
    return value


def _problem(message: object) -> str | None:
    """What keeps this from being a message."""
    if not isinstance(message, dict):
        return f"is {_kind(message)}"
    if not isinstance(message.get("role"), str):
        return "has no role"
    content = message.get("content")
    if content is None and not message.get("tool_calls"):
        return "has no content"
    if isinstance(content, list):
        return None if all(isinstance(part, dict) for part in content) else "has a content that lists something else"
    return None if content is None or isinstance(content, str) else f"has a content that is {_kind(content)}"


def _kind(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "true or false", type(None): "null"}
    return "an empty list" if value == [] else names.get(type(value), "a number")
