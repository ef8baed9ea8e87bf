"""A record as a line of JSON and back, every field checked against the dataclass that it belongs to.

The rounds of a text are written by column, a column whose values are all the same as that value, and seconds to the
nanosecond: an eighth of what a line of objects would take.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, NoReturn, Union, get_args, get_origin, get_type_hints

from surefoot.core.errors import ConfigError, LawError
from surefoot.lab.records import (
    SCHEMA,
    Conditions,
    Counted,
    End,
    Gate,
    Pair,
    Record,
    Reference,
    Resumed,
    Run,
    Side,
    Step,
)

KINDS: dict[str, type[Record]] = {
    kind.__name__.lower(): kind for kind in (Run, Gate, Reference, Pair, Counted, Resumed, End)
}

MAX_ROUNDS = 1_000_000
"""chosen: no text has as many, and a column written as one value must not fill the memory."""

NANOSECOND = 1e-9
"""Source: what the clock of the standard library tells apart."""

MOST = 10**15
"""chosen: no count, time or rate comes near it, and nothing that is worked out from smaller ones overflows."""

_SIGNED = frozenset({("Gate", "figure"), ("Gate", "limit"), ("Conditions", "temperature_c"), ("Run", "seed")})
"""The numbers that may be below zero; every other one counts or measures something."""


def encode(record: Record) -> bytes:
    """One line, its end included.

    Raises: LawError when the line could not be read again: whoever made the record is at fault.
    """
    kind = type(record).__name__.lower()
    try:
        text = json.dumps({"kind": kind, **_plain(record)}, allow_nan=False, separators=(",", ":"))
        line = text.encode("ascii") + b"\n"
        decode(line, "this record")
    except (ConfigError, TypeError, ValueError) as error:
        raise LawError(f"a {kind} record could not be read again: {error}") from error
    return line


def decode(line: bytes, where: str) -> Record:
    """The record of one line; `where` names the line in an error.

    Raises: ConfigError, one sentence, for anything that is not exactly such a record.
    """
    value = _parse(line, where)
    if not isinstance(value, dict) or "kind" not in value:
        raise ConfigError(f'{where} is {_word(value)} without a "kind": it is no run record of Surefoot')
    kind = value.pop("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise ConfigError(f"{where} is of the kind {_show(kind)}, and a run record has {', '.join(KINDS)}")
    if kind == "run" and value.get("schema") != SCHEMA:
        raise ConfigError(
            f"{where} has the schema {_show(value.get('schema'))} and this Surefoot reads {SCHEMA}: "
            "read it with the Surefoot that wrote it"
        )
    record = _build(KINDS[kind], value, where, "")
    assert isinstance(record, Record)
    return record


def check_in_run(record: Record, run: Run, last: Pair | None, end: End | None, where: str) -> None:
    """Nothing, if the record may follow what was read before it.

    Raises: ConfigError when it names what the run does not have, repeats a pair, or follows the end.
    """
    if isinstance(record, Run):
        raise ConfigError(f"{where} begins a second run: a record file has one")
    if end is not None and not isinstance(record, Resumed):
        raise ConfigError(f"{where} is a {type(record).__name__.lower()} after the end of the run")
    if isinstance(record, Pair):
        if last is not None and record.number <= last.number:
            raise ConfigError(
                f"{where} is pair {record.number} after pair {last.number}: pairs are numbered as they ran"
            )
        if record.shared and not _may_share(last, record):
            raise ConfigError(
                f"{where} is pair {record.number}, whose plain text is not the one that ended the pair before"
            )
        if record.arm not in {arm.label for arm in run.arms}:
            raise ConfigError(f"{where} is a pair of the arm {_show(record.arm)}, which the run does not name")
    if isinstance(record, Counted):
        _check_counted(record, run, where)
    if isinstance(record, Pair | Reference | Counted):
        named = {use.id: use for use in run.prompts}.get(record.prompt)
        if named is None:
            raise ConfigError(f"{where} uses the prompt {_show(record.prompt)}, which the run does not name")
        if not isinstance(record, Reference) and record.workload != named.workload:
            raise ConfigError(
                f"{where} counts the prompt {_show(record.prompt)} to {_show(record.workload)}, "
                f"and the run to {_show(named.workload)}"
            )
        if not isinstance(record, Counted) and record.budget not in run.budgets:
            raise ConfigError(f"{where} has a budget of {record.budget} tokens, which the run does not name")


def _may_share(last: Pair | None, pair: Pair) -> bool:
    """Whether the plain text of a pair is the one that the pair before ended with."""
    return (
        last is not None
        and last.number == pair.number - 1
        and (last.first, pair.first) == ("on", "off")
        and (last.prompt, last.budget, last.off, last.off_conditions)
        == (pair.prompt, pair.budget, pair.off, pair.off_conditions)
    )


def _check_counted(record: Counted, run: Run, where: str) -> None:
    """Raises: ConfigError for a text that the run does not ask for."""
    if run.counting is None or record.mode not in run.counting.modes:
        raise ConfigError(f"{where} counts a text of the mode {_show(record.mode)}, which the run does not name")
    if record.arm not in ({""} if record.mode == "plain" else {arm.label for arm in run.arms}):
        raise ConfigError(f"{where} counts a text of the arm {_show(record.arm)}, which the run does not name")
    if record.temperature not in run.counting.temperatures:
        raise ConfigError(f"{where} has the temperature {record.temperature:g}, which the run does not name")


def _plain(value: Any) -> Any:
    """The value in dictionaries and lists."""
    if isinstance(value, Side | Counted):
        rest = {f.name: _plain(getattr(value, f.name)) for f in fields(value) if f.name != "steps"}
        return {**rest, "steps": None if value.steps is None else _columns(value.steps)}
    if is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(each) for each in value]
    return value


def _columns(steps: Sequence[Step]) -> dict[str, Any]:
    table: dict[str, Any] = {"rounds": len(steps)}
    for name, (hint, _) in _fields(Step).items():
        column = [round(getattr(step, name), 9) if hint is float else getattr(step, name) for step in steps]
        table[name] = column[0] if column and all(each == column[0] for each in column) else column
    return table


def _parse(line: bytes, where: str) -> Any:
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{where} is not UTF-8 (byte {error.start + 1}): it is no run record") from error

    def refuse(word: str) -> NoReturn:
        raise ConfigError(f"{where} holds the number {word}, which no measurement gives")

    def once(items: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(items)
        if len(found) < len(items):
            twice = next(key for i, (key, _) in enumerate(items) if key in dict(items[:i]))
            raise ConfigError(f"{where} gives {_show(twice)} twice")
        return found

    def finite(word: str) -> float:
        number = float(word)
        return number if math.isfinite(number) else refuse(word)

    try:
        value = json.loads(text, parse_constant=refuse, parse_float=finite, object_pairs_hook=once)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode("utf-8")  # half a character, which nothing could print
        return value
    except json.JSONDecodeError as error:
        raise ConfigError(f"{where} is not JSON ({error.msg}, character {error.pos + 1})") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{where} is JSON that no run record holds: {error}") from error


@cache
def _fields(kind: type) -> dict[str, tuple[Any, bool]]:
    """Of each field its type, and whether it must be there."""
    hints = get_type_hints(kind)
    return {f.name: (hints[f.name], f.default is MISSING and f.default_factory is MISSING) for f in fields(kind)}


def _build(kind: type, value: dict[str, Any], where: str, at: str) -> object:
    """The dataclass of these fields. at: the way to it from the record, with a dot at its end."""
    known = _fields(kind)
    for name in value:
        if name not in known:
            raise ConfigError(f"{where} has a field {_show(at + name)} that this Surefoot does not know")
    given: dict[str, Any] = {}
    for name, (hint, needed) in known.items():
        if name in value:
            given[name] = _read(hint, value[name], where, at + name, (kind.__name__, name) in _SIGNED)
        elif needed:
            raise ConfigError(f"{where} has no {_show(at + name)}")
    made = kind(**given)
    problem = _problem(made)
    if problem:
        raise ConfigError(f"{where} {f'({at[:-1]}) ' if at else ''}{problem}")
    return made


def _read(hint: Any, value: Any, where: str, at: str, signed: bool) -> Any:
    """The value as the field wants it."""
    origin = get_origin(hint)
    if origin in (UnionType, Union):
        if value is None and NoneType in get_args(hint):
            return None
        (hint,) = (part for part in get_args(hint) if part is not NoneType)
        return _read(hint, value, where, at, signed)
    if origin is Literal:
        if value not in get_args(hint):
            raise _wrong(where, at, " or ".join(_show(word) for word in get_args(hint)), value)
        return value
    if hint == Sequence[Step]:
        return _steps(value, where, at)
    if origin is Sequence:
        if not isinstance(value, list):
            raise _wrong(where, at, "a list", value)
        (part,) = get_args(hint)
        if part is int and all(type(each) is int and 0 <= each <= MOST for each in value):
            return tuple(value)  # token ids: nearly all of a record, checked without a call for each
        return tuple(_read(part, each, where, f"{at}[{i}]", signed) for i, each in enumerate(value))
    if origin is tuple:
        parts = get_args(hint)
        if not isinstance(value, list) or len(value) != len(parts):
            raise _wrong(where, at, f"a list of {len(parts)} numbers", value)
        return tuple(_read(part, each, where, at, signed) for part, each in zip(parts, value, strict=True))
    if origin is Mapping:
        if not isinstance(value, dict):
            raise _wrong(where, at, "an object", value)
        part = get_args(hint)[1]
        return {key: _read(part, each, where, f"{at}.{key}", signed) for key, each in value.items()}
    if is_dataclass(hint):
        if not isinstance(value, dict):
            raise _wrong(where, at, "an object", value)
        assert isinstance(hint, type)
        return _build(hint, value, where, at + ".")
    return _scalar(hint, value, where, at, signed)


def _steps(value: Any, where: str, at: str) -> tuple[Step, ...]:
    """The rounds of a table of columns."""
    if not isinstance(value, dict):
        raise _wrong(where, at, "an object of columns", value)
    known = _fields(Step)
    for name in value:
        if name not in known and name != "rounds":
            raise ConfigError(f"{where} has a field {_show(f'{at}.{name}')} that this Surefoot does not know")
    n = _scalar(int, value.get("rounds"), where, f"{at}.rounds", False)
    if n > MAX_ROUNDS:
        raise _wrong(where, f"{at}.rounds", f"at most {MAX_ROUNDS}", n)
    columns = []
    for name, (hint, _) in known.items():
        if name not in value:
            raise ConfigError(f"{where} has no {_show(f'{at}.{name}')}")
        column, here = value[name], f"{at}.{name}"
        if isinstance(column, list):
            if len(column) != n:
                raise ConfigError(f"{where} has {len(column)} values of {_show(here)} for {n} rounds")
            columns.append([_scalar(hint, each, where, f"{here}[{i}]", False) for i, each in enumerate(column)])
        else:
            columns.append([_scalar(hint, column, where, here, False)] * n)
    steps = tuple(Step(*each) for each in zip(*columns, strict=True))
    for i, step in enumerate(steps):
        problem = _problem(step)
        if problem:
            raise ConfigError(f"{where} (round {i + 1} of {at}) {problem}")
    return steps


def _scalar(hint: Any, value: Any, where: str, at: str, signed: bool) -> Any:
    if hint is Any:
        return value
    if hint is float:
        if type(value) not in (int, float) or not -MOST <= value <= MOST:
            raise _wrong(where, at, f"a number up to {MOST:g}", value)
        if value < 0 and not signed:
            raise _wrong(where, at, "a number not below 0", value)
        return float(value)
    if hint is int:
        if type(value) is not int or not -MOST <= value <= MOST:
            raise _wrong(where, at, "a whole number", value)
        if value < 0 and not signed:
            raise _wrong(where, at, "a whole number not below 0", value)
        return value
    if type(value) is not hint:
        raise _wrong(where, at, {str: "a string", bool: "true or false"}[hint], value)
    return value


def _problem(made: object) -> str | None:
    """What makes the numbers of a part contradict each other."""
    match made:
        case Step():
            if not made.accepted <= made.evaluated <= made.drafted:
                return f"accepts {made.accepted} of {made.evaluated} scored of {made.drafted} drafted tokens"
            if made.emitted not in (made.accepted, made.accepted + 1):
                return f"emits {made.emitted} tokens with {made.accepted} accepted drafts"
            if made.rows > made.width:
                return f"scores {made.rows} rows in a width of {made.width}"
        case Side():
            if made.n_output > 1 and made.decode_s < NANOSECOND:
                return f"wrote {made.n_output} tokens in no time"
            written = None if made.steps is None else sum(step.emitted for step in made.steps) + 1
            if written is not None and made.n_output and written != made.n_output:
                return f"wrote {made.n_output} tokens, and its rounds and the prefill {written}"
        case Counted():
            written = sum(step.emitted for step in made.steps) + 1
            if made.mode != "oracle" and written != len(made.ids):
                return f"wrote {len(made.ids)} tokens, and its rounds and the prefill {written}"
        case Conditions():
            for name, share in (("others_cpu", made.others_cpu), ("steal_cpu", made.steal_cpu)):
                if share is not None and share > 1:
                    return f"has {name} {share:g}, and a share is not above 1"
        case Run():
            return _run_problem(made)
    return None


def _run_problem(run: Run) -> str | None:
    for what, names in (("arm", [arm.label for arm in run.arms]), ("prompt", [use.id for use in run.prompts])):
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            return f"names the {what} {_show(twice[0])} twice"
    if run.band is not None and not 0 < run.band[0] < run.band[1]:
        return f"has a band from {run.band[0]:g} to {run.band[1]:g} tokens per second"
    return None


def _wrong(where: str, at: str, wanted: str, value: Any) -> ConfigError:
    return ConfigError(f"{where}: {_show(at)} must be {wanted}, and it is {_show(value)}")


def _word(value: Any) -> str:
    kinds: dict[type, str] = {
        dict: "an object",
        list: "a list",
        str: "a string",
        bool: "true or false",
        NoneType: "null",
    }
    return kinds.get(type(value), "a number")


def _show(value: Any) -> str:
    """The value in quotes as JSON writes it, no longer than a reader wants."""
    text = json.dumps(value, ensure_ascii=True, default=str)
    return text if len(text) <= 60 else f"{text[:50]}... ({_word(value)})"
