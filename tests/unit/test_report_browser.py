"""Reports as a real browser shows them: on a desk and on a phone, in light and in dark."""

from __future__ import annotations

from pathlib import Path

import browser
import pytest
from browser import Browser
from report_pages import page

from surefoot.lab.report import html

DESK, PHONE = 1280, 360


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Browser:
    return browser.find(tmp_path_factory.mktemp("browser"))


def paper(dark: bool) -> tuple[int, int, int]:
    """The background that the style sheet asks for."""
    style = (html.TEMPLATES / "report.css").read_text(encoding="utf-8")
    value = style.split("--paper: #")[2 if dark else 1][:6]
    return int(value[:2], 16), int(value[2:4], 16), int(value[4:], 16)


def test_nothing_reaches_past_the_edge(chromium: Browser) -> None:
    """In a frame of each width: a page of two runs, one of names wider than a phone; and one that is too wide."""
    planted = page("slow").replace("<main>", '<main><div class="planted" style="width: 700px">wide</div>')
    pages = [(page(*names), width) for names in (("openvino", "hf"), ("hostile", "slow")) for width in (PHONE, DESK)]
    *found, wide = chromium.measure([*pages, (planted, PHONE)])
    assert len(found) == len(pages)
    for (_, width), measured in zip(pages, found, strict=True):
        assert measured["width"] == width
        assert measured["scrollWidth"] == width, measured["wide"]
        assert measured["wide"] == []
        assert measured["cut"] == []
        assert measured["figures"] >= 4
        assert measured["letters"] >= 9
        assert measured["requests"] == []
        assert measured["scrolling"] >= (1 if width == PHONE else 0)
    assert wide["scrollWidth"] > PHONE
    assert "div.planted" in wide["wide"]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_follows_the_colours_of_the_reader(chromium: Browser, dark: bool) -> None:
    (found,) = chromium.measure([(page("openvino"), DESK)], dark)
    assert found["dark"] == dark
    assert found["background"] == f"rgb{paper(dark)}"
    assert len(found["ink"]) >= 2
    assert f"rgb{paper(dark)}" not in found["ink"]


@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_pictures_of_it(chromium: Browser, width: int, dark: bool) -> None:
    """The browser complains of nothing, and the picture is the page: its paper, and ink on it down to the end."""
    from matplotlib.image import imread

    height = 1600
    name = f"report-{width}-{'dark' if dark else 'light'}"
    picture, complaints = chromium.picture(page("openvino", "hf"), name, width, height, dark)
    assert complaints == []
    pixels = (imread(picture)[:, :, :3] * 255).round().astype(int)
    assert pixels.shape == (height, width, 3)
    is_paper = (pixels == paper(dark)).all(axis=2)
    assert is_paper[:4].all()
    assert is_paper[:, 0].all()
    for begin in range(0, height, 400):
        assert 0.01 < 1 - is_paper[begin : begin + 400].mean() < 0.5


def test_what_reaches_outside_would_be_heard(chromium: Browser, tmp_path: Path) -> None:
    planted = page("slow").replace("<main>", '<main><img src="http://localhost:9/x.png"><script>1</script>')
    _, complaints = chromium.picture(planted, "planted", DESK, 400)
    assert len(complaints) >= 2
    assert any("x.png" in line for line in complaints)
