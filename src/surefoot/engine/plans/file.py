"""Plans as files: JSON that people can read, written whole or not at all, refused where it was changed."""

from __future__ import annotations

import hashlib
import json
import shlex
import sys
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NoReturn

from surefoot.core.cost import MOST_ROWS, CostCurve
from surefoot.core.errors import ConfigError
from surefoot.engine.plans.plan import SCHEMA, Plan
from surefoot.engine.whole import write_whole

MAX_BYTES = 4 * 2**20
"""chosen: a plan of 32 row counts at ten depths is under 100 kB, so a larger file is another kind of file."""

_WIDE = 110
"""chosen: a value stands on one line where that is no longer than a screen is wide."""

_TOO_LARGE = 2**63
"""chosen: nothing that a plan counts needs more than 64 bits, and a product with seconds must be a number."""


def save(plan: Plan, path: Path) -> None:
    """Nothing; the file holds the plan, whole. Raises: ConfigError where the disk refuses."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"the plan {path} cannot be written: {error.strerror or error}") from error
    write_whole(path, _readable(document(plan)) + "\n", "the plan ")


def load(path: Path) -> Plan:
    """The plan in a file.

    Raises: ConfigError, one sentence with the reason and the command that makes a new one, for a file that is no plan,
    is of another schema, or was changed since it was written.
    """
    found = _parsed(path)
    try:
        return read(found)
    except ConfigError as error:
        _refuse(path, str(error), found)


def document(plan: Plan) -> dict[str, Any]:
    """The plan as its file has it: plain values, and the digest that tells whether they were changed."""
    values: dict[str, Any] = _plain(without_samples(plan))
    return {**values, "digest": _digest(values)}


def read(document: Mapping[str, Any]) -> Plan:
    """The plan of a document.

    Raises: ConfigError, half a sentence, for one that is of another schema, was changed, or is none.
    """
    values = {name: value for name, value in document.items() if name != "digest"}
    try:
        digest = _digest(values)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"it holds what no plan holds: {error}") from error
    schema = document.get("schema")
    if schema != SCHEMA or isinstance(schema, bool):
        age = "an older" if isinstance(schema, int) and schema < SCHEMA else "another"
        raise ConfigError(f"it is of {age} schema ({_shown(schema)}, and this Surefoot reads {SCHEMA})")
    if document.get("digest") != digest:
        raise ConfigError("it was changed since it was written, so its figures are nobody's measurements")
    plan = _read(Plan, values, "the plan")
    assert isinstance(plan, Plan)
    if plan.curve is not None:
        _check(plan.curve)
    return plan


def digest_of(plan: Plan) -> str:
    """16 hexadecimal digits that stand for what the plan says."""
    return _digest(_plain(without_samples(plan)))[:16]


def without_samples(plan: Plan) -> Plan:
    """The plan as a file keeps it: medians and intervals, and not the samples they come from."""
    if plan.curve is None:
        return plan
    points = tuple(replace(point, samples_s=()) for point in plan.curve.points)
    return replace(plan, curve=replace(plan.curve, points=points))


def _parsed(path: Path) -> dict[str, Any]:
    def refuse(word: str) -> NoReturn:
        raise ValueError(f"it holds the number {word}")

    try:
        if path.stat().st_size > MAX_BYTES:
            _refuse(path, f"it is larger than {MAX_BYTES // 2**20} MiB", {})
        value = json.loads(path.read_bytes(), parse_constant=refuse)
    except OSError as error:
        _refuse(path, f"it cannot be read: {error.strerror or error}", {})
    except (ValueError, RecursionError) as error:
        _refuse(path, f"it is not JSON: {error}", {})
    if not isinstance(value, dict):
        _refuse(path, f"it holds a {type(value).__name__} where the fields of a plan belong", {})
    return value


def _refuse(path: Path, why: str, document: Mapping[str, Any]) -> NoReturn:
    owner = document.get("owner")
    model = owner.get("model") if isinstance(owner, dict) else None
    name = shlex.quote(model) if isinstance(model, str) and len(model) < 300 and model.isprintable() else "MODEL"
    raise ConfigError(f"the plan {path} is not used: {why}; make a new one with 'surefoot tune {name}'")


def _digest(document: Mapping[str, Any]) -> str:
    """The SHA-256 of the fields, in any order."""
    text = json.dumps(document, ensure_ascii=True, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {item.name: _plain(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _readable(value: Any, indent: int = 0) -> str:
    """JSON with what fits on a line on one line."""
    line = json.dumps(value, ensure_ascii=False, allow_nan=False)
    if len(line) + indent <= _WIDE or not isinstance(value, dict | list) or not value:
        return line
    pad, end = " " * (indent + 1), " " * indent
    if isinstance(value, dict):
        inner = [f"{pad}{json.dumps(key)}: {_readable(item, indent + 1)}" for key, item in value.items()]
        return "{\n" + ",\n".join(inner) + f"\n{end}}}"
    return "[\n" + ",\n".join(pad + _readable(item, indent + 1) for item in value) + f"\n{end}]"


def _read(hint: Any, value: Any, at: str) -> Any:
    """The value as its field wants it. Raises: ConfigError that names the field."""
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        if value is None:
            return None
        return _read(next(part for part in inside if part is not types.NoneType), value, at)
    if origin is Literal:
        if value in inside and isinstance(value, str):
            return value
    elif origin in (Sequence, tuple) and isinstance(value, list):
        if origin is tuple and Ellipsis not in inside:
            if len(value) == len(inside):
                return tuple(_read(part, each, at) for part, each in zip(inside, value, strict=True))
        else:
            return tuple(_read(inside[0], each, f"{at}[{i}]") for i, each in enumerate(value))
    elif origin is Mapping and isinstance(value, dict):
        return {key: _read(inside[1], each, f"{at}.{key}") for key, each in value.items()}
    elif is_dataclass(hint) and isinstance(value, dict):
        return _build(hint, value, at)
    elif hint is float and type(value) in (int, float) and abs(value) <= sys.float_info.max:
        return float(value)
    elif isinstance(hint, type) and type(value) is hint and (not isinstance(value, int) or abs(value) < _TOO_LARGE):
        return value
    raise ConfigError(f"{at} is {_shown(value)}, which no plan holds there")


def _build(kind: Any, value: dict[str, Any], at: str) -> Any:
    hints = typing.get_type_hints(kind)
    known = {item.name: item for item in fields(kind)}
    unknown = [name for name in value if name not in known]
    missing = [name for name, item in known.items() if name not in value and item.default is MISSING]
    if unknown or missing:
        what = f"has no {missing[0]}" if missing else f"has a field {unknown[0]!r} that this Surefoot does not know"
        raise ConfigError(f"{at} {what}")
    return kind(**{name: _read(hints[name], each, f"{at}.{name}") for name, each in value.items()})


def _check(curve: CostCurve) -> None:
    """Raises: ConfigError for a curve that no sweep gives and that prices could not be taken from."""
    rows = [line.rows for line in curve.lines]
    if not rows or rows[0] != 1 or any(b <= a for a, b in pairwise(rows)):
        raise ConfigError(f"its curve has the row counts {_shown(rows)}, which do not rise from 1")
    if rows[-1] > MOST_ROWS:
        raise ConfigError(f"its curve reaches {rows[-1]} rows, and no sweep has more than {MOST_ROWS}")
    costs = [number for line in curve.lines for number in (line.base_s, line.slope_s)]
    if min(costs) < 0 or curve.host_s < 0 or any(line.at(1) <= 0 or line.error <= 0 for line in curve.lines):
        raise ConfigError("its curve has costs that are not positive")


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else f"{text[:50]}..."
