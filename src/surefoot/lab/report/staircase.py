"""The figure of a cost curve: what a forward costs by its rows, with intervals and plateaus; or several beside each
other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from surefoot.core.cost import CostCurve
from surefoot.core.plateaus import Staircase, staircase
from surefoot.lab.report.svg import COLOURS, dash, draw, marker, series

WIDTH, HEIGHT = 640.0, 340.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 18, 30, 44
_LINE = 17.0


@dataclass(frozen=True, slots=True)
class Named:
    """A curve of a picture. `depth` is the one it is drawn at."""

    name: str
    curve: CostCurve
    depth: int


def figure(name: str, title: str, curves: Sequence[Named], *, relative: bool = True) -> str:
    """An `<svg>` with a step line for each curve: points with intervals, plateaus as broad lines.

    relative: in units of one row of the same curve; else in milliseconds.
    """
    shown = [(each, staircase(each.curve, each.depth)) for each in curves]
    height = HEIGHT + _LINE * len(curves)

    def paint(canvas: Any) -> None:
        top, bottom = _TOP + _LINE * len(curves), _BOTTOM
        axes = canvas.add_axes(
            (_LEFT / WIDTH, bottom / height, 1 - (_LEFT + _RIGHT) / WIDTH, 1 - (top + bottom) / height)
        )
        for place, (each, stairs) in enumerate(shown):
            _paint(axes, each, stairs, place, relative)
        widest = max(each.curve.max_rows for each, _ in shown)
        axes.set_xlim(0.4, widest + 0.6)
        axes.set_ylim(bottom=0)
        axes.set_xticks(range(1, widest + 1, 1 if widest <= 20 else 2))
        axes.grid(axis="y")
        axes.set_xlabel("rows of the forward (drafts + 1)")
        axes.text(
            -(_LEFT - 10) / (WIDTH - _LEFT - _RIGHT), 1.04, "times one row" if relative else "milliseconds",
            transform=axes.transAxes, color=COLOURS["muted"],
        )  # fmt: skip
        for place, (each, _) in enumerate(shown):
            y = 1 - (14 + _LINE * place) / height
            canvas.lines.append(_key(canvas, place, y))
            canvas.text((_LEFT + 30) / WIDTH, y, each.name, color=COLOURS["ink"], va="center")

    return draw(name, title, "; ".join(_told(each, stairs) for each, stairs in shown), (WIDTH, height), paint)


def _paint(axes: Any, each: Named, stairs: Staircase, place: int, relative: bool) -> None:
    """One curve: its points, their intervals, the price with padding as a step line, plateaus as broad lines."""
    curve, depth = each.curve, each.depth
    unit = 1 / curve.direct_s(1, depth) if relative else 1e3
    colour = series(place)
    rows = list(range(1, curve.max_rows + 1))
    axes.step(
        rows, [curve.price(n, depth).seconds * unit for n in rows], where="mid", color=colour, linestyle=dash(place),
        linewidth=1.4,
    )  # fmt: skip
    for line in curve.lines:
        at = line.at(depth) * unit
        half = 1.96 * line.error * at
        axes.plot([line.rows, line.rows], [at - half, at + half], color=colour, linewidth=1.4, solid_capstyle="butt")
    axes.plot(
        list(curve.rows), [line.at(depth) * unit for line in curve.lines], linestyle="none", marker=marker(place),
        markersize=5, color=colour,
    )  # fmt: skip
    for tread in stairs.plateaus:
        axes.plot(
            [tread.first - 0.4, tread.last + 0.4], [tread.first_s * unit, tread.last_s * unit], color=colour,
            linewidth=7, alpha=0.25, solid_capstyle="butt",
        )  # fmt: skip


def _key(canvas: Any, place: int, y: float) -> Any:
    """The mark of a curve beside its name."""
    from matplotlib.lines import Line2D

    return Line2D(
        [_LEFT / WIDTH, (_LEFT + 22) / WIDTH], [y, y], transform=canvas.transFigure, figure=canvas, color=series(place),
        linestyle=dash(place), linewidth=2, marker=marker(place), markersize=5,
    )  # fmt: skip


def _told(each: Named, stairs: Staircase) -> str:
    """The curve in words, for those who do not see it."""
    costs = ", ".join(f"{each.curve.relative(rows, each.depth):.2f} at {rows}" for rows in each.curve.rows)
    treads = ", ".join(f"{tread.first} to {tread.last}" for tread in stairs.plateaus) or "none"
    return f"{each.name}: times one row {costs} rows; plateaus {treads}"
