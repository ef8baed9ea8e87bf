"""What a forward spends its time on: host, dispatch, bytes of the weights, arithmetic per row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from surefoot.core.cost import CostCurve
from surefoot.core.errors import ConfigError

Share = Literal["host", "dispatch", "bytes", "fixed", "rows", "context"]


@dataclass(frozen=True, slots=True)
class Binding:
    """The seconds of a plain round by what they are spent on, and the largest of them.

    fixed_s: of a forward, whatever its rows; bytes_s of it stream the weights and dispatch_s is the rest, where both
    the bytes and the bandwidth are known. row_s: for each row. context_s: for the context at this depth. misfit: the
    largest relative distance of a point from this line; a staircase has a large one.
    """

    host_s: float
    fixed_s: float
    bytes_s: float | None
    dispatch_s: float | None
    row_s: float
    context_s: float
    misfit: float
    binds: Share
    text: str


def what_binds(
    curve: CostCurve, depth: int, *, weight_bytes: float | None = None, bytes_per_s: float | None = None
) -> Binding:
    """The line fixed + row * S through the forwards at this depth, and its parts.

    The weights are read once per forward, however many rows it has. Without their size and the memory's bandwidth,
    bytes and dispatch cannot be told apart by any number of row counts, and stay one figure.
    Source: the additive form of the roofline (S. Williams et al., Communications of the ACM 52:65, 2009).
    Raises: ConfigError for a curve of fewer than two row counts.
    """
    if len(curve.lines) < 2:
        raise ConfigError("what binds shows in how the cost rises with the rows; measure two row counts at least")
    context_s = float(np.median([line.slope_s for line in curve.lines])) * depth
    rows = np.asarray(curve.rows, np.float64)
    cost = np.asarray([line.at(depth) for line in curve.lines])
    weights = np.asarray([(line.at(depth) * line.error) ** -2 for line in curve.lines])
    fixed, row = _line(rows, cost, weights)
    misfit = float(np.max(np.abs(fixed + row * rows - cost) / cost))
    fixed = max(0.0, fixed - context_s)
    bytes_s = dispatch_s = None
    if weight_bytes is not None and bytes_per_s is not None:
        bytes_s = min(fixed, weight_bytes / bytes_per_s)
        dispatch_s = fixed - bytes_s
    parts: dict[Share, float] = {"host": curve.host_s, "rows": row, "context": context_s}
    parts |= {"fixed": fixed} if bytes_s is None else {"bytes": bytes_s, "dispatch": fixed - bytes_s}
    binds = max(parts, key=lambda name: parts[name])
    return Binding(
        curve.host_s, fixed, bytes_s, dispatch_s, row, context_s, misfit, binds, _text(parts, binds, row)
    )  # fmt: skip


def _line(rows: np.ndarray, cost: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """Fixed and per-row cost of least squares, neither below 0."""
    centre, level = np.average(rows, weights=weights), np.average(cost, weights=weights)
    row = float((weights * (rows - centre) * cost).sum() / (weights * (rows - centre) ** 2).sum())
    if row <= 0:
        return float(level), 0.0
    fixed = float(level - row * centre)
    if fixed < 0:
        return 0.0, float((weights * rows * cost).sum() / (weights * rows**2).sum())
    return fixed, row


_WORDS: dict[Share, str] = {
    "host": "the host between forwards",
    "dispatch": "starting the forward (dispatch)",
    "bytes": "reading the weights (bytes)",
    "fixed": "what a forward costs whatever its rows (dispatch and bytes together)",
    "rows": "arithmetic per row",
    "context": "reading the context",
}


def _text(parts: dict[Share, float], binds: Share, row_s: float) -> str:
    plain_s = sum(parts.values())
    tail = f"a further row adds {row_s / plain_s:.0%} to it"
    if binds == "host":
        tail += ", and fewer rounds pay whatever their rows"
    if binds == "context":
        tail += "; rows share the reading of the context only where the kernel does"
    return f"{_WORDS[binds]} takes {parts[binds] / plain_s:.0%} of a plain round: {tail}"
