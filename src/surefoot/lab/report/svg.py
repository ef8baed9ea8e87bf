"""Figures as SVG inside a page: colours and letters are the page's, and the same data gives the same bytes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from io import StringIO
from pathlib import Path
from typing import Any

from surefoot.core.errors import NotEligible

# A colour that matplotlib is given stands for a variable of the page's style sheet, whose name replaces it.
NAMED = {"ink": "#000001", "muted": "#000002", "line": "#000003", "paper": "#000004", "strong": "#000005"}
N_SERIES = 6
"""Colours for series that the style sheet has; more series begin again with another dash."""
_SERIES = {f"series-{i}": f"#0001{i:02x}" for i in range(N_SERIES)}
_PHASES = {f"phase-{name}": f"#0002{i:02x}" for i, name in enumerate(("draft", "extend", "judge", "commit", "other"))}
COLOURS = NAMED | _SERIES | _PHASES

MARKERS = ("o", "s", "^", "D", "v", "P")
DASHES = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)))
TEXT_PT = 11.0

_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "surefoot",
    "font.family": "sans-serif",
    "font.sans-serif": [
        "DejaVu Sans"
    ],  # the widths it plans with; comes with matplotlib, so they are the same everywhere
    "font.size": TEXT_PT,
    "text.color": COLOURS["ink"],
    "axes.edgecolor": COLOURS["line"],
    "axes.labelcolor": COLOURS["muted"],
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.axisbelow": True,
    "axes.linewidth": 1.0,
    "axes.labelsize": TEXT_PT,
    "axes.titlesize": TEXT_PT,
    "axes.unicode_minus": False,
    "figure.facecolor": "none",
    "grid.color": COLOURS["line"],
    "grid.linewidth": 0.8,
    "xtick.color": COLOURS["muted"],
    "ytick.color": COLOURS["muted"],
    "xtick.labelcolor": COLOURS["muted"],
    "ytick.labelcolor": COLOURS["ink"],
    "xtick.major.size": 0.0,
    "ytick.major.size": 0.0,
    "xtick.minor.size": 0.0,
    "text.parse_math": False,  # a dollar in a model's name is a dollar
    "path.simplify": False,
}


def series(index: int) -> str:
    """The colour of a series."""
    return COLOURS[f"series-{index % N_SERIES}"]


def marker(index: int) -> str:
    return MARKERS[index % len(MARKERS)]


def dash(index: int) -> Any:
    return DASHES[index % len(DASHES)]


def fitted(text: str, width: float) -> str:
    """The text on one line, its end left out where it is wider than so many pixels."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(family="DejaVu Sans", size=TEXT_PT)
    line = " ".join(text.split())
    for end in range(len(line), 0, -1):
        shown = line if end == len(line) else line[:end].rstrip() + "…"
        if text_to_path.get_text_width_height_descent(shown, font, ismath=False)[0] <= width:
            return shown
    return "…"


def draw(name: str, title: str, description: str, size: tuple[float, float], paint: Callable[[Any], None]) -> str:
    """An `<svg>` element that fills the width it is given, up to its own.

    name: unique in the page; every id inside begins with it. title and description: what is read to those who do not
    see it; empty where text beside it says the same. size: width and height in CSS pixels. paint: draws on a
    matplotlib figure.
    """
    with _matplotlib() as figure_class:
        figure = figure_class(figsize=(size[0] / 72, size[1] / 72), dpi=72)
        paint(figure)
        sink = StringIO()
        figure.savefig(
            sink, format="svg", transparent=True, metadata=dict.fromkeys(("Date", "Creator", "Format", "Type"))
        )
    return _as_part_of_a_page(sink.getvalue(), name, title, description, size)


def standalone(svg: str) -> str:
    """The same element as a file of its own, with the colours and letters of a report, light or dark as its reader."""
    css = (Path(__file__).parent / "templates" / "report.css").read_text(encoding="utf-8")
    colours = css[: css.index("* { box-sizing")]
    style = f"<style>{colours}svg {{ background: var(--paper); font-family: system-ui, sans-serif; }}</style>"
    end = svg.index(">") + 1
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + svg[:end] + style + svg[end:]


@contextmanager
def _matplotlib() -> Iterator[Any]:
    """The class of figures, with our settings in force and whatever the user set for own plots out of the way."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as error:
        raise NotEligible("figures need matplotlib: pip install 'surefoot[bench]'") from error
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS)
        yield Figure


def _as_part_of_a_page(text: str, name: str, title: str, description: str, size: tuple[float, float]) -> str:
    body = text[text.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", body, flags=re.DOTALL)
    body = re.sub(r"<[^>]*>", lambda tag: _tag(tag[0], name), body)
    body = re.sub(r">\s*\n\s*<", "><", body)
    inside = body[body.index(">") + 1 :].strip()
    if title:
        label = f'role="img" aria-labelledby="{name}-title {name}-desc"'
        head = f'<title id="{name}-title">{escape(title)}</title>'
        inside = f'{head}<desc id="{name}-desc">{escape(description)}</desc>{inside}'
    else:
        label = 'aria-hidden="true"'
    width, height = size
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {label} viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" height="{height:g}">{inside}\n'
    )


def _tag(tag: str, name: str) -> str:
    """A tag with its ids made unique, and the page's letters and colours. Text between tags is nobody's to change."""
    tag = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', tag)
    tag = re.sub(r'xlink:href="#([^"]+)"', rf'href="#{name}-\1"', tag)
    tag = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", tag)
    tag = re.sub(r"font: ([\d.]+)px [^;\"]+", r"font-size: \1px", tag)
    tag = re.sub(r"font-family: [^;\"]+;?\s*", "", tag)
    tag = re.sub(r' transform="rotate\(-?0 [^)]*\)"', "", tag)
    for variable, colour in COLOURS.items():
        tag = tag.replace(colour, f"var(--{variable})")
    return " ".join(tag.split())
