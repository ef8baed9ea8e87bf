"""Cost curves out of files: a plan that `surefoot tune` wrote, or sweeps of which the medians are known."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from surefoot.core.cost import NOISE, CostCurve, Point, fit_curve, published
from surefoot.core.errors import ConfigError
from surefoot.engine import plans
from surefoot.engine.bounded import json_object

ONE_RUN = 0.035
"""chosen: differences under 5 % are noise, and a figure that somebody published may be a single run: 5 % by root 2."""

_ROW_COUNT = re.compile(r"[1-9][0-9]{0,2}")
"""chosen: no sweep has 1,000 rows, and one way to write a number keeps two keys from meaning the same."""

_LEAST, _MOST = 1e-6, 1e9
"""chosen: in milliseconds a nanosecond and eleven days. A forward takes more than the one and less than the other, and
far smaller figures have no square that a float can hold."""

_BOTH = "+"


@dataclass(frozen=True, slots=True)
class NamedCurve:
    """A curve and where it comes from. name: as it was asked for. about: runtime and model, in words.

    relative: costs are by that of one row, so that seconds say nothing and ratios do.
    """

    name: str
    curve: CostCurve
    about: str
    relative: bool = False


def read(text: str) -> NamedCurve:
    """The curve of FILE, a plan; or of FILE:ID in a collection, FILE:ID+ID for one measured at two depths.

    Raises: ConfigError, in one sentence, for a file that is neither, or a curve that is not in it.
    """
    path, name = _place(text)
    if not path.is_file():
        raise ConfigError(
            f"there is no file {path}: give a plan of `surefoot tune`, or FILE:ID of a collection of curves"
        )
    document = json_object(path)
    found = _records(document)
    if not found:
        return _of_plan(text, path)
    wanted = name.split(_BOTH) if name else list(found) if len(found) == 1 else []
    unknown = [each for each in wanted if each not in found]
    if unknown or not wanted:
        asked = f"no curve {unknown[0]!r}" if unknown else f"{len(found)} curves"
        near = difflib.get_close_matches(name, found, n=4, cutoff=0.4) or sorted(found)[:4]
        raise ConfigError(f"{path} holds {asked}; name one as {path.name}:ID, such as {', '.join(near)}")
    points: list[Point] = []
    for each in wanted:
        points += _points(found[each], f"the curve {each} of {path}")
    records = [found[each][0] for each in wanted]
    curve = fit_curve(points, can_pad=all(record.get("can_pad") is True for record in records))
    if curve.rows[0] != 1:
        raise ConfigError(f"{text} holds no cost of one row, which is plain decoding: nothing can be compared with it")
    about = ", ".join(dict.fromkeys(str(record.get("runtime", "")) for record in records))
    return NamedCurve(text, curve, about, any(record.get("unit") == "ratio" for record in records))


def need_milliseconds(curve: NamedCurve, option: str) -> None:
    """Nothing. Raises: ConfigError for a curve of ratios, beside which milliseconds mean nothing."""
    if curve.relative:
        raise ConfigError(
            f"{option} is in milliseconds, and {curve.name} has only ratios to the cost of one row; leave {option} "
            "out, or give a curve in milliseconds"
        )


def _place(text: str) -> tuple[Path, str]:
    """The file and what is named in it; a file of that whole name goes first."""
    whole = Path(text).expanduser()
    if whole.is_file() or ":" not in whole.name:
        return whole, ""
    file, _, name = text.rpartition(":")
    return Path(file).expanduser(), name


def _of_plan(text: str, path: Path) -> NamedCurve:
    plan = plans.load(path)
    if plan.curve is None:
        raise ConfigError(f"the plan {path} holds no curve: make one with 'surefoot tune {plan.owner.model}'")
    return NamedCurve(text, plan.curve, f"{plan.owner.model} on {plan.owner.runtime}, {plan.owner.cpu}")


def _records(document: Mapping[str, Any]) -> dict[str, tuple[Mapping[str, Any], float]]:
    """Every sweep of a collection by its id, with the error of one of its figures; {} for another kind of file."""
    measured = document.get("measured")
    groups = (
        (document.get("published"), ONE_RUN),
        (measured.get("curves") if isinstance(measured, Mapping) else None, NOISE),
        (document.get("curves"), NOISE),
    )
    found: dict[str, tuple[Mapping[str, Any], float]] = {}
    for group, error in groups:
        for record in group if isinstance(group, list) else ():
            if isinstance(record, Mapping) and isinstance(record.get("id"), str) and "rows" in record:
                found[record["id"]] = (record, error)
    if not found and isinstance(document.get("rows"), Mapping) and "unit" in document:
        found[str(document.get("id", "curve"))] = (document, NOISE)
    return found


def _points(found: tuple[Mapping[str, Any], float], where: str) -> tuple[Point, ...]:
    record, error = found
    rows, depth = record.get("rows"), record.get("context", 0)
    if not isinstance(rows, Mapping) or type(depth) is not int or not 0 <= depth < 1 << 40:
        raise ConfigError(f"{where} does not give rows and a context: rows is an object of costs by number of rows")
    # A ratio is read as seconds: then the cost of one row is a second, and only ratios mean anything.
    unit = 1.0 if record.get("unit") == "ratio" else 1e-3
    seconds: dict[int, float] = {}
    for key, cost in rows.items():
        if not _ROW_COUNT.fullmatch(key) or type(cost) not in (int, float):
            raise ConfigError(f"{where} gives {key[:20]!r}: {str(cost)[:20]} where a cost by number of rows belongs")
        if not _LEAST <= cost <= _MOST:
            raise ConfigError(f"{where} says that {key} rows cost {str(cost)[:20]}, which nothing does")
        seconds[int(key)] = cost * unit
    return published(seconds, depth, error)
