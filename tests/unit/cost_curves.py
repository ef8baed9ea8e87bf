"""The cost curves of tests/data/cost-curves.json, as the core reads them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from surefoot.core.cost import CostCurve, fit_curve, published

DATA = Path(__file__).parent.parent / "data" / "cost-curves.json"

ONE_RUN = 0.035
"""chosen: differences under 5 % are noise, and a figure somebody published may be a single run: 5 % by root 2."""

SEED = "m4max-30b-int4"


@cache
def data() -> Any:
    return json.loads(DATA.read_text(encoding="utf-8"))


def ids() -> list[str]:
    return [each["id"] for each in (*data()["published"], *data()["measured"]["curves"])]


def context(name: str) -> int:
    return int(_record(name).get("context", 0))


def curve(name: str, *, can_pad: bool = False, host_s: float = 0.0) -> CostCurve:
    """A curve by its id; figures that are ratios are read as seconds."""
    record = _record(name)
    unit = 1.0 if record["unit"] == "ratio" else 1e-3
    seconds = {int(rows): cost * unit for rows, cost in record["rows"].items()}
    error = ONE_RUN if record in data()["published"] else 0.02
    return fit_curve(published(seconds, context(name), error), host_s=host_s, can_pad=can_pad)


def at_two_depths(shallow: str, deep: str, *, can_pad: bool = False) -> CostCurve:
    return fit_curve((*curve(shallow).points, *curve(deep).points), can_pad=can_pad)


def _record(name: str) -> Any:
    return next(each for each in (*data()["published"], *data()["measured"]["curves"]) if each["id"] == name)
