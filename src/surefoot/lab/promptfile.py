"""Prompts out of files that others wrote. Whatever is in them, the answer is prompts or one sentence."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from surefoot.core.errors import ConfigError
from surefoot.engine.messages import check_messages, check_tools

MAX_BYTES = 256 * 2**20
"""chosen: the largest set in use, the 32k split of SPEED-Bench, is under 200 MiB."""

MAX_NAME = 100
"""chosen: the name of a prompt or a workload stands in a table."""

UNFETCHED = "FULL BENCHMARK DATA SHOULD BE FETCHED"
"""Source: SPEED-Bench puts this where a text may not be passed on, until its prepare_data.py has filled it in."""

_LAYOUT = '{"question_id": "1", "category": "chat", "turns": ["What is a stair?"]}'

_TABLES = (".csv", ".tsv")
"""Endings that would be taken for one long text."""

_FORMATS = (
    (b"\x1f\x8b", "is compressed with gzip: unpack it first"),
    (b"PK\x03\x04", "is a zip archive: unpack it first"),
    (b"PAR1", "is a Parquet file: write it as JSON Lines first (pandas: to_json(..., orient='records', lines=True))"),
    (b"\xff\xfe", "is UTF-16: save it as UTF-8"),
    (b"\xfe\xff", "is UTF-16: save it as UTF-8"),
)


@dataclass(frozen=True, slots=True)
class Entry:
    """A prompt as a file has it. later_turns: of the user, after the first; they answer a text that does not exist."""

    id: str
    category: str
    content: str | tuple[Mapping[str, Any], ...]
    tools: tuple[Mapping[str, Any], ...] | None = None
    tuning: bool = False
    later_turns: int = 0


def entries(path: Path) -> list[Entry]:
    """The prompts of the file, by its ending: `.jsonl`, `.json`, or plain text.

    Raises: ConfigError, one sentence that names the file, and the line where it has lines.
    """
    try:
        if path.is_file() and path.stat().st_size > MAX_BYTES:
            raise ConfigError(f"{path} has {path.stat().st_size / 2**20:.0f} MiB: prompts have at most 256")
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    ending = path.suffix.lower()
    if ending == ".jsonl":
        return json_lines(data, str(path))
    if ending in _TABLES:
        raise ConfigError(f"{path} is a table: write its prompts as JSON Lines (.jsonl); a line reads {_LAYOUT}")
    name = path.stem
    text = _text(data, str(path))
    if ending != ".json":
        if not text.strip():
            raise ConfigError(f"{path} holds no text")
        return [Entry(name, name, text)]
    return [_conversation(_parse(text, str(path)), name, str(path))]


def json_lines(data: bytes, where: str) -> list[Entry]:
    """The prompts of JSON Lines: `question_id`, `category` and `turns` as in Spec-Bench and SPEED-Bench, or `messages`
    in the place of `turns`; `tools` and `tuning` where they are there. Other fields describe, and are not read.

    Raises: ConfigError, one sentence with the number of the line.
    """
    found: list[Entry] = []
    lines: dict[str, int] = {}
    for number, line in enumerate(_text(data, where).split("\n"), 1):
        if not line.strip():
            continue
        here = f"line {number} of {where}"
        entry = _entry(_parse(line, here), here)
        if entry.id in lines:
            raise ConfigError(
                f"{here} has the question_id {_show(entry.id)} of line {lines[entry.id]}: give each line its own"
            )
        lines[entry.id] = number
        found.append(entry)
    if not found:
        raise ConfigError(f"{where} holds no prompt; a line reads {_LAYOUT}")
    return found


def _entry(row: Any, where: str) -> Entry:
    if not isinstance(row, dict):
        raise ConfigError(f"{where} must be an object with question_id, category and turns, and it is {_show(row)}")
    number = row.get("question_id")
    name = _name(str(number) if type(number) is int else number, "question_id", where)
    category = _name(row.get("category"), "category", where)
    if ("turns" in row) == ("messages" in row):
        which = "both turns and messages" if "turns" in row else "neither turns nor messages"
        raise ConfigError(f"{where} has {which}: give one of them")
    tuning = row.get("tuning", False)
    if type(tuning) is not bool:
        raise ConfigError(f"{where}: tuning must be true or false, and it is {_show(tuning)}")
    if "turns" in row:
        content, later = _turns(row["turns"], where)
        return Entry(name, category, content, _tools(row, where), tuning, later)
    return Entry(name, category, _messages(row["messages"], where), _tools(row, where), tuning)


def _name(name: object, what: str, where: str) -> str:
    if not isinstance(name, str) or not name.strip():
        layout = f"; a line reads {_LAYOUT}" if name is None else ""
        raise ConfigError(f"{where}: {what} must be a name, and it is {_show(name)}{layout}")
    if len(name) > MAX_NAME or not name.isprintable():
        raise ConfigError(f"{where}: {what} {_show(name)} is no name of at most {MAX_NAME} printable characters")
    return name


def _turns(turns: object, where: str) -> tuple[str, int]:
    if not isinstance(turns, list) or not turns:
        raise ConfigError(f"{where}: turns must be a list of texts, and it is {_show(turns)}")
    for i, turn in enumerate(turns):
        if not isinstance(turn, str) or not turn.strip():
            raise ConfigError(f"{where}: turn {i + 1} must be a text, and it is {_show(turn)}")
    _check_fetched(turns[0], where)
    return turns[0], len(turns) - 1


def _messages(value: object, where: str) -> tuple[Mapping[str, Any], ...]:
    messages = check_messages(value, where)
    if messages[-1]["role"] in ("assistant", "system"):
        raise ConfigError(f"{where} ends with a message of the {messages[-1]['role']}: there is nothing to answer")
    for message in messages:
        if isinstance(message.get("content"), str):
            _check_fetched(message["content"], where)
    return tuple(messages)


def _conversation(value: Any, name: str, where: str) -> Entry:
    """The one prompt of a JSON file: messages, or an object with messages and tools."""
    if isinstance(value, dict):
        if "messages" not in value:
            raise ConfigError(
                f"{where} is an object without messages: write them as a list, or give JSON Lines (.jsonl)"
            )
        return Entry(name, name, _messages(value["messages"], where), _tools(value, where))
    return Entry(name, name, _messages(value, where))


def _tools(row: Mapping[str, Any], where: str) -> tuple[Mapping[str, Any], ...] | None:
    return None if row.get("tools") is None else tuple(check_tools(row["tools"], where))


def _check_fetched(text: str, where: str) -> None:
    if text.startswith(UNFETCHED):
        raise ConfigError(
            f"{where} is a placeholder of SPEED-Bench: fill it in with their prepare_data.py, or leave the line out"
        )


def _text(data: bytes, where: str) -> str:
    for start, what in _FORMATS:
        if data.startswith(start):
            raise ConfigError(f"{where} {what}")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ConfigError(f"line {line} of {where} is not UTF-8: save it as UTF-8") from error
    if "\0" in text:
        raise ConfigError(
            f"line {text[: text.index(chr(0))].count(chr(10)) + 1} of {where} holds a zero byte: it is no text"
        )
    return text


def _parse(text: str, where: str) -> Any:
    def refuse(word: str) -> NoReturn:
        raise ConfigError(f"{where} holds {word}, which is not JSON")

    try:
        value = json.loads(text, parse_constant=refuse)
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except json.JSONDecodeError as error:
        at = f"line {error.lineno} character {error.colno}" if "\n" in text else f"character {error.colno}"
        raise ConfigError(f"{where} is not JSON ({error.msg}, {at})") from error
    except UnicodeEncodeError as error:
        raise ConfigError(
            f"{where} holds half a character (an unpaired surrogate), which no tokenizer reads"
        ) from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{where} is JSON that cannot be read: {error}") from error
    return value


def _show(value: object) -> str:
    text = json.dumps(value, ensure_ascii=True, default=str)
    return "not there" if value is None else text if len(text) <= 60 else text[:57] + "..."
