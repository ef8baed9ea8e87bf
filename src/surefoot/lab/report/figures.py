"""The figures of a report. Each panel is narrow enough for a phone; a page puts as many beside each other as fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from surefoot.lab.analysis import Analysis, Row
from surefoot.lab.report import numbers, words
from surefoot.lab.report.svg import COLOURS, dash, draw, fitted, marker, series

FEW = 20
"""chosen: the share of fewer drafts is not known to 20 percentage points."""
WIDTH = 372
"""chosen: three beside each other on a desk's screen; on a phone of 360 pixels letters are still 9 pixels high."""
PHASES = ("extend", "draft", "judge", "commit", "other")
_LEFT, _LEFT_OF_BARS, _RIGHT, _TOP, _BOTTOM = 88, 104, 50, 26, 38


@dataclass(frozen=True, slots=True)
class Panel:
    """A figure and the words above it. missing: what it cannot show, and why; svg is empty where that is everything."""

    title: str
    svg: str
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Order:
    """The place of each arm in legends, the same in every figure and every run."""

    arms: tuple[str, ...]

    def __getitem__(self, arm: str) -> int:
        return self.arms.index(arm)


def key(name: str, place: int) -> str:
    """The mark of an arm, as beside its name in a legend."""

    def paint(figure: Any) -> None:
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_axis_off()
        axes.set(xlim=(0, 1), ylim=(-1, 1))
        axes.plot([0.05, 0.95], [0, 0], color=series(place), linestyle=dash(place), linewidth=2)
        axes.plot([0.5], [0], color=series(place), marker=marker(place), markersize=6.5)

    return draw(name, "", "", (28, 12), paint)


def speed(name: str, title: str, rows: Sequence[Row], order: Order, range_: tuple[float, float]) -> Panel:
    """Ratio and interval of each arm, workload below workload, on a scale on which twice and half are equally far."""
    workloads = list(dict.fromkeys(row.workload for row in rows))
    places: list[tuple[float, Row]] = []
    middles: list[float] = []
    at = 0.0
    for workload in workloads:
        inside = [row for row in rows if row.workload == workload]
        places += [(at + i, row) for i, row in enumerate(inside)]
        middles.append(at + (len(inside) - 1) / 2)
        at += len(inside) + 0.8
    height = _TOP + _BOTTOM + 17 * (at - 0.8) + 8

    def paint(figure: Any) -> None:
        axes = _axes(figure, height)
        axes.set_xscale("log")
        axes.set_xlim(*range_)
        axes.set_ylim(at - 1.2, -0.9)
        ticks = _ratio_ticks(range_)
        axes.set_xticks(ticks, [f"{tick:g}{numbers.TIMES}" for tick in ticks])
        axes.minorticks_off()
        axes.grid(axis="x")
        axes.axvline(1, color=COLOURS["strong"], linewidth=1.4)
        axes.set_yticks(middles, [fitted(workload, _LEFT - 8) for workload in workloads])
        axes.set_xlabel("tokens per second, drafts off = 1")
        to_the_right = axes.get_yaxis_transform()
        for y, row in places:
            place = order[row.arm]
            if row.ratio is None:
                axes.text(1, y, " no figure", color=COLOURS["muted"], va="center", style="italic")
                continue
            span = [row.ratio.low, row.ratio.high]
            axes.plot(span, [y, y], color=series(place), linewidth=2.2, solid_capstyle="butt")
            axes.plot([row.ratio.estimate], [y], color=series(place), marker=marker(place), markersize=7)
            axes.text(
                1.14, y, numbers.estimate(row.ratio) + numbers.TIMES, transform=to_the_right, ha="right", va="center",
                color=COLOURS["ink"],
            )  # fmt: skip
        top = axes.get_xaxis_transform()
        axes.annotate("slower", (1, 1), (-7, 4), top, "offset points", ha="right", color=COLOURS["muted"])
        axes.annotate("faster", (1, 1), (7, 4), top, "offset points", ha="left", color=COLOURS["muted"])

    if all(row.ratio is None for row in rows):
        return Panel(title, "", _missing(rows))
    told = "; ".join(
        f"{row.workload}, {row.arm}: {numbers.estimate(row.ratio)} times ({numbers.limits(row.ratio)})"
        for _, row in places
        if row.ratio is not None
    )
    return Panel(title, draw(name, f"Speed by workload, {title}", told, (WIDTH, height), paint), _missing(rows))


def _missing(rows: Sequence[Row]) -> tuple[str, ...]:
    """For each reason not to print a ratio, a sentence with all that it holds for."""
    found: dict[str, list[str]] = {}
    for row in rows:
        if row.ratio is None:
            found.setdefault(row.why, []).append(f"{row.workload} with {row.arm}")
    return tuple(
        f"No figure{'' if len(of) == len(rows) else f' for {words.and_list(of)}'}: {why}." for why, of in found.items()
    )


def ratio_range(rows: Sequence[Row]) -> tuple[float, float]:
    """The ends of a scale on which all intervals and 1 have room."""
    known = [row.ratio for row in rows if row.ratio is not None]
    low = min([0.92, *(interval.low for interval in known)])
    high = max([1.09, *(interval.high for interval in known)])
    pad = (high / low) ** 0.04
    return max(low, 1e-3) / pad, high * pad


def acceptance(name: str, title: str, rows: Sequence[Row], order: Order) -> Panel:
    """By position in the draft: how many drafts live to there, and how many of those take the step."""
    height = 190.0
    longest = max((p.position for row in rows if row.drafts for p in row.drafts.positions), default=1)

    def paint(figure: Any) -> None:
        for column, (what, said) in enumerate((("survival", "lives to here"), ("conditional", "takes this step"))):
            left = (38 + column * 172) / WIDTH
            axes = figure.add_axes((left, _BOTTOM / height, 154 / WIDTH, 1 - (_BOTTOM + 24) / height))
            axes.set_title(said, loc="left", color=COLOURS["muted"])
            axes.set_ylim(0, 103)
            axes.set_xlim(0.6, longest + 0.4)
            axes.set_yticks([0, 25, 50, 75, 100], ["0", "", "50", "", "100 %"] if column == 0 else [""] * 5)
            axes.tick_params(axis="y", labelcolor=COLOURS["muted"])
            axes.set_xticks(_whole_ticks(longest))
            axes.grid(axis="y")
            axes.tick_params(axis="x", pad=7)
            axes.set_xlabel("position in the draft")
            for row in rows:
                if row.drafts is None:
                    continue
                known = [p for p in row.drafts.positions if getattr(p, what) is not None]
                few = {at for at, p in enumerate(known) if (p.offered if what == "survival" else p.reached) < FEW}
                x, y = [p.position for p in known], [100 * getattr(p, what) for p in known]
                place = order[row.arm]
                look = {"color": series(place), "marker": marker(place), "markersize": 5.5, "clip_on": False}
                axes.plot(
                    x, y, linestyle=dash(place), linewidth=1.8, markevery=sorted(set(range(len(x))) - few), **look
                )
                look |= {"markerfacecolor": COLOURS["paper"], "markeredgewidth": 1.4}
                axes.plot([x[at] for at in sorted(few)], [y[at] for at in sorted(few)], linestyle="none", **look)

    told = "; ".join(
        f"{row.arm}: survival "
        + ", ".join(f"{numbers.share(p.survival)} % at {p.position}" for p in row.drafts.positions)
        for row in rows
        if row.drafts is not None
    )
    return Panel(title, draw(name, f"Acceptance by position, {title}", told, (WIDTH, height), paint))


def shapes(name: str, title: str, rows: Sequence[Row], order: Order) -> Panel:
    """The share of rounds by how many rows they scored, the root included."""
    height = 160.0
    known = [row for row in rows if row.drafts is not None and row.drafts.rounds]
    most = max((shape.rows for row in known for shape in (row.drafts.shapes if row.drafts else ())), default=1)

    def paint(figure: Any) -> None:
        axes = figure.add_axes((38 / WIDTH, _BOTTOM / height, 1 - 46 / WIDTH, 1 - (_BOTTOM + 8) / height))
        thick = 0.82 / max(len(known), 1)
        for i, row in enumerate(known):
            drafts = row.drafts
            assert drafts is not None
            x = [shape.rows - 0.41 + thick * (i + 0.5) for shape in drafts.shapes]
            y = [100 * shape.rounds / drafts.rounds for shape in drafts.shapes]
            axes.bar(x, y, thick * 0.9, color=series(order[row.arm]))
        axes.set_xlim(0.4, most + 0.6)
        axes.set_xticks(_whole_ticks(most))
        axes.set_ylim(0, 100)
        axes.set_yticks([0, 25, 50, 75, 100], ["0", "", "50", "", "100 %"])
        axes.tick_params(axis="y", labelcolor=COLOURS["muted"])
        axes.grid(axis="y")
        axes.set_xlabel("rows in the round")

    told = "; ".join(
        f"{row.arm}: "
        + ", ".join(f"{numbers.share(s.rounds / row.drafts.rounds)} % of {s.rows} rows" for s in row.drafts.shapes)
        for row in known
        if row.drafts is not None
    )
    return Panel(title, draw(name, f"Rounds by shape, {title}", told, (WIDTH, height), paint))


def time_per_token(name: str, title: str, rows: Sequence[Row], order: Order, longest_ms: float) -> Panel:
    """Milliseconds for a token, drafts off and on, split into what they went to."""
    return _time(name, title, rows, order, "milliseconds per token", 1.0, PHASES, longest_ms)


def host_per_token(name: str, title: str, rows: Sequence[Row], order: Order) -> Panel:
    """The part of `time_per_token` outside the model's forward, in microseconds."""
    return _time(name, title, rows, order, "microseconds per token outside the forward", 1000.0, PHASES[1:], None)


def _time(
    name: str, title: str, rows: Sequence[Row], order: Order, unit: str, scale: float, shown: Sequence[str],
    longest: float | None,
) -> Panel:  # fmt: skip
    bars: list[_Bar] = []
    middles: list[tuple[float, str]] = []
    at = 0.0
    for workload in dict.fromkeys(row.workload for row in rows):
        inside = _bars([row for row in rows if row.workload == workload], at, scale, shown)
        if inside:
            bars += inside
            middles.append((at + (len(inside) - 1) / 2, workload))
            at += len(inside) + 0.8
    height = 12 + _BOTTOM + 17 * max(at - 0.8, 1) + 8
    end = longest or 1.06 * max((bar.length for bar in bars), default=1.0)

    def paint(figure: Any) -> None:
        axes = _axes(figure, height, top=12, left=_LEFT_OF_BARS)
        axes.set_xlim(0, end)
        axes.set_ylim(at - 1.2, -0.7)
        axes.set_yticks([y for y, _ in middles], [fitted(workload, _LEFT_OF_BARS - 26) for _, workload in middles])
        axes.tick_params(axis="y", pad=20)
        axes.xaxis.set_major_locator(_few_ticks())
        axes.grid(axis="x")
        axes.set_xlabel(unit)
        for bar in bars:
            _paint_bar(axes, bar, order)

    told = "; ".join(f"{bar.arm or 'drafts off'} {bar.label}" for bar in bars)
    return Panel(title, draw(name, f"{words.capital(unit)}, {title}", told, (WIDTH, height), paint))


def longest_ms(rows: Sequence[Row]) -> float:
    """The end of a scale on which every bar of `time_per_token` has room."""
    known = [each.estimate for row in rows for each in (row.arm_tps, row.baseline_tps) if each is not None]
    return 1060 / min(known, default=1000)


def baseline_over_time(name: str, title: str, analysis: Analysis) -> Panel:
    """Drafts off, pair by pair as they ran, each with its band, and which pairs were left out."""
    height = 200.0
    when = {pair.number: pair.at_s / 60 for pair in analysis.pairs}
    used = [pair for pair in analysis.pairs if not pair.reasons]
    left_out = analysis.excluded
    once = [pair for pair in used if not pair.shared]

    def paint(figure: Any) -> None:
        axes = figure.add_axes((38 / WIDTH, _BOTTOM / height, 1 - 58 / WIDTH, 1 - (_BOTTOM + 24) / height))
        top = 1.12 * max((pair.off_tps for pair in analysis.pairs), default=1)
        axes.vlines(
            [when[band.pair] for band in analysis.bands], [band.low for band in analysis.bands],
            [min(band.high, top) for band in analysis.bands], linewidth=3, color=COLOURS["line"],
        )  # fmt: skip
        axes.plot(
            [pair.at_s / 60 for pair in once], [pair.off_tps for pair in once], linestyle="none", marker="o",
            markersize=3.4, color=COLOURS["series-0"],
        )  # fmt: skip
        axes.plot(
            [pair.at_s / 60 for pair in left_out], [pair.off_tps for pair in left_out], linestyle="none", marker="x",
            markersize=7, markeredgewidth=2, color=COLOURS["series-1"],
        )  # fmt: skip
        axes.set_ylim(0, top)
        axes.xaxis.set_major_locator(_few_ticks())
        axes.grid(axis="y")
        axes.tick_params(axis="y", labelcolor=COLOURS["muted"])
        axes.set_xlabel("minutes since the run began")
        axes.text(-30 / 314, 1.05, "tok/s, drafts off", transform=axes.transAxes, color=COLOURS["muted"])

    told = f"{len(used)} pairs used; left out: " + (
        ", ".join(f"pair {pair.number} at {pair.off_tps:.1f} tokens per second" for pair in left_out) or "none"
    )
    return Panel(title, draw(name, f"Drafts off over the run, {title}", told, (WIDTH, height), paint))


@dataclass(frozen=True, slots=True)
class _Bar:
    """A way to decode, at the height y; the arm is empty for drafts off. parts: by phase; empty where not known."""

    y: float
    arm: str
    length: float
    parts: tuple[tuple[str, float], ...]

    @property
    def label(self) -> str:
        return f"{self.length:.1f}" if self.length < 100 else f"{self.length:.0f}"


def _bars(rows: Sequence[Row], y: float, scale: float, shown: Sequence[str]) -> list[_Bar]:
    """Drafts off as the first arm was compared with, then the arms; without those that do not tell the phases shown."""
    bars: list[_Bar] = []
    known = [row for row in rows if row.arm_tps is not None and row.baseline_tps is not None]
    ways = [("", known[0].baseline_tps, known[0].baseline_phases)] if known else []
    ways += [(row.arm, row.arm_tps, row.phases) for row in known]
    for arm, tps, phases in ways:
        assert tps is not None
        whole = 1000 * scale / tps.estimate
        if phases is not None:
            parts = tuple((phase, whole * max(getattr(phases, phase), 0)) for phase in shown)
            bars.append(_Bar(y + len(bars), arm, sum(part for _, part in parts), parts))
        elif "extend" in shown:
            bars.append(_Bar(y + len(bars), arm, whole, ()))
    return bars


def _paint_bar(axes: Any, bar: _Bar, order: Order) -> None:
    ink, muted = COLOURS["ink"], COLOURS["muted"]
    begin = 0.0
    if not bar.parts:
        axes.barh(bar.y, bar.length, 0.62, color="none", edgecolor=muted, linewidth=1, linestyle=(0, (2, 2)))
    for phase, part in bar.parts:
        axes.barh(bar.y, part, 0.62, begin, color=COLOURS[f"phase-{phase}"], linewidth=0)
        begin += part
    axes.annotate(bar.label, (bar.length, bar.y), (5, 0), textcoords="offset points", va="center", color=ink)
    left = axes.get_yaxis_transform()
    if bar.arm:
        mark = {"color": series(order[bar.arm]), "marker": marker(order[bar.arm])}
        axes.plot([-0.045], [bar.y], transform=left, markersize=6, clip_on=False, **mark)
    else:
        axes.text(-0.015, bar.y, "off", transform=left, ha="right", va="center", color=muted, fontsize=9)


def _few_ticks() -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(5, steps=[1, 2, 5, 10])


def _axes(figure: Any, height: float, top: int = _TOP, left: int = _LEFT) -> Any:
    return figure.add_axes((left / WIDTH, _BOTTOM / height, 1 - (left + _RIGHT) / WIDTH, 1 - (top + _BOTTOM) / height))


def _ratio_ticks(range_: tuple[float, float]) -> list[float]:
    """At most eight round ratios inside the range."""
    low, high = range_
    fine = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.8, 2.0)
    middle = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0)
    coarse = tuple(2.0**power for power in range(-10, 11))
    for ticks in (fine, middle):
        inside = [tick for tick in ticks if low <= tick <= high]
        if len(inside) <= 7 and low >= ticks[0] and high <= ticks[-1] * 1.3:
            return inside
    return [tick for tick in coarse if low <= tick <= high]


def _whole_ticks(most: int) -> list[int]:
    """1, 2, 3 ... and fewer of them where there are many."""
    step = max(1, -(-most // 10))
    return list(range(1, most + 1, step))
