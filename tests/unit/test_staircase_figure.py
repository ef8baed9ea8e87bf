"""The picture of cost curves: a file of its own that says in words what it shows, the same bytes for the same data."""

from __future__ import annotations

import re
import sys
from xml.etree import ElementTree

import plan_samples as samples
import pytest

from surefoot.core.errors import NotEligible
from surefoot.lab.report.staircase import Named, figure
from surefoot.lab.report.svg import standalone

SVG = "{http://www.w3.org/2000/svg}"
ZIGZAG = {1: 1.0, 2: 1.9, 3: 2.1, 4: 1.8, 5: 2.5}


def picture(**options: bool) -> str:
    named = [
        Named("stairs <&> at 200", samples.curve(), 200),
        Named("zigzag", samples.curve(ZIGZAG, can_pad=True), 850),
    ]
    return figure("compared", "What rows cost", named, **options)


def test_it_is_whole_and_says_what_it_shows() -> None:
    root = ElementTree.fromstring(standalone(picture()))
    title, words = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
    assert title is not None
    assert title.text == "What rows cost"
    assert words is not None
    assert words.text is not None
    assert "stairs <&> at 200: times one row 1.00 at 1, 1.02 at 2" in words.text
    assert "plateaus 1 to 3" in words.text
    text = "".join(root.itertext())
    for shown in ("stairs <&> at 200", "zigzag", "times one row", "rows of the forward"):
        assert shown in text


def test_every_colour_it_uses_is_defined_in_it() -> None:
    text = standalone(picture())
    style = text[text.index("<style>") : text.index("</style>")]
    used = set(re.findall(r"var\((--[\w-]+)\)", text))
    assert "--series-1" in used
    assert all(f"{name}:" in style for name in used)
    assert "prefers-color-scheme: dark" in style


def test_the_same_curves_give_the_same_bytes() -> None:
    assert picture() == picture()
    assert picture(relative=False) != picture()
    assert "milliseconds" in picture(relative=False)


def test_without_matplotlib_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(NotEligible, match=r"surefoot\[bench\]"):
        picture()
