"""What a report says is what the analysis says, in every format, and whatever names it is given."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import pytest
from report_pages import BROKEN_OUT, SCRIPT, page, runs

from surefoot.lab.analysis import Row
from surefoot.lab.report import html, markdown, numbers, rows, svg, words
from surefoot.lab.report.rows import NamedRun
from surefoot.lab.stats import Interval

VOID = {"meta", "link", "br", "path", "use", "rect"}


class Outline(HTMLParser):
    """Tags in order, whether they are closed in order, and the text without the style. Holds what is open."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open, f"</{tag}> closes nothing"
            assert self.open.pop() == tag, f"</{tag}> at {self.getpos()}"

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


PAGES = [("openvino",), ("openvino", "hf"), ("slow",), ("short",), ("hostile",), ("hostile", "slow")]


@pytest.mark.parametrize("names", PAGES, ids=" ".join)
def test_a_page_is_well_formed_and_holds_nothing_from_outside(names: tuple[str, ...]) -> None:
    outline = Outline(page(*names))
    assert outline.open == []
    tags = {tag for tag, _ in outline.tags}
    assert not tags & {"script", "img", "iframe", "object", "embed", "form", "base"}
    for tag, attributes in outline.tags:
        assert not [name for name in attributes if name.startswith("on")], (tag, attributes)
        for name in ("href", "src"):
            value = attributes.get(name)
            assert value is None or value.startswith("#") or value == "data:,", (tag, value)
    style = page(*names).partition("<style>")[2].partition("</style>")[0]
    assert "@import" not in style
    assert "url(" not in style
    ids = [attributes["id"] for _, attributes in outline.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    targets = {str(attributes["href"])[1:] for tag, attributes in outline.tags if tag in ("a", "use")}
    assert targets <= set(ids)


def test_hostile_names_are_shown_and_not_obeyed() -> None:
    text = page("hostile")
    assert "<script" not in text
    assert "<img" not in text
    shown = Outline(text).text
    assert f"</title>{SCRIPT}" in shown
    assert " ".join(BROKEN_OUT.split()) in shown
    assert "{{ 7 * 7 }}" in shown
    assert "49 `" not in shown
    assert 'id="b"' in shown
    assert "url(#a)" in shown


def test_a_page_can_be_read_aloud() -> None:
    outline = Outline(page("openvino", "hf"))
    tags = outline.tags
    assert next(attributes["lang"] for tag, attributes in tags if tag == "html") == "en"
    pictures = [attributes for tag, attributes in tags if tag == "svg"]
    for attributes in pictures:
        assert attributes.get("aria-hidden") == "true" or attributes.get("role") == "img", attributes
    told = re.findall(r"<title id=\"[^\"]+\">([^<]+)</title><desc id=\"[^\"]+\">([^<]+)</desc>", page("openvino", "hf"))
    assert len(told) == sum(attributes.get("role") == "img" for attributes in pictures) > 20
    assert any("code, ngram/additive: 3." in description for _, description in told)
    for tag, attributes in tags:
        assert tag != "th" or attributes.get("scope") in {"col", "row", "colgroup"}, attributes
    levels = [int(tag[1]) for tag, _ in tags if re.fullmatch(r"h\d", tag)]
    assert levels.count(1) == 1
    assert all(below - above <= 1 for above, below in itertools.pairwise(levels))


def test_the_same_run_gives_the_same_bytes() -> None:
    again = html.render(runs("openvino"))
    assert again == page("openvino")
    figures = re.findall(r"<svg.*?</svg>", again, re.DOTALL)
    assert not [figure for figure in figures if re.search(r"20\d\d-\d\d-\d\d", figure)]


def luminance(colour: str) -> float:
    """Source: WCAG 2.2, relative luminance."""
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_colours_can_be_told_from_the_paper(scheme: int) -> None:
    """Source: WCAG 2.2, 1.4.3 and 1.4.11: 4.5 for text, 3 for what a figure shows."""
    style = (html.TEMPLATES / "report.css").read_text(encoding="utf-8")
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", style.split(":root {")[scheme + 1].split("}")[0]))
    assert set(svg.COLOURS) <= set(colours)
    for name in ("ink", "muted", "good", "bad", "unsure", "link"):
        assert contrast(colours[name], colours["paper"]) >= 4.5, name
        assert name in {"link"} or contrast(colours[name], colours["wash"]) >= 4.5, name
    for name in ("good", "bad", "unsure"):
        assert contrast(colours[name], colours[f"{name}-wash"]) >= 4.5, name
    for name in [name for name in svg.COLOURS if name.startswith(("series", "phase-")) and name != "phase-extend"]:
        assert contrast(colours[name], colours["paper"]) >= 3, name
    assert contrast(colours["phase-extend"], colours["paper"]) >= 2.7


NUMBERS: list[tuple[str, Callable[[Row], Any]]] = [
    ("ratio", lambda row: row.ratio and row.ratio.estimate),
    ("ratio_low", lambda row: row.ratio and row.ratio.low),
    ("ratio_high", lambda row: row.ratio and row.ratio.high),
    ("baseline_tok_per_s", lambda row: row.baseline_tps and row.baseline_tps.estimate),
    ("arm_tok_per_s_high", lambda row: row.arm_tps and row.arm_tps.high),
    ("pairs_used", lambda row: row.pairs_used),
    ("pairs_left_out", lambda row: row.pairs_left_out),
    ("accepted", lambda row: row.drafts and row.drafts.accepted),
    ("tokens_per_round", lambda row: row.drafts and row.drafts.tokens_per_round),
    ("arm_extend_share", lambda row: row.phases and row.phases.extend),
    ("baseline_other_share", lambda row: row.baseline_phases and row.baseline_phases.other),
]


def read_csv(table: rows.Table) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(rows.as_csv(table), newline="")))


@pytest.mark.parametrize("names", [("openvino", "hf"), ("slow",), ("hostile",)], ids=" ".join)
def test_csv_and_json_hold_the_numbers_of_the_analysis(names: tuple[str, ...]) -> None:
    of = runs(*names)
    tables = rows.tables(of)
    document = json.loads(rows.as_json(tables))
    assert document[rows.COLUMN] == rows.SCHEMA
    expected = [(run.name, row) for run in of for row in run.analysis.rows]
    from_csv, from_json = read_csv(tables[0]), document["tables"]["speed"]
    assert len(from_csv) == len(from_json) == len(expected)
    for (name, row), text, value in zip(expected, from_csv, from_json, strict=True):
        assert (value["run"], value["workload"], value["arm"]) == (name, row.workload, row.arm)
        assert (text["run"], text["workload"], text["arm"]) == (name, row.workload, row.arm)
        assert text[rows.COLUMN] == str(rows.SCHEMA)
        for column, figure in NUMBERS:
            assert value[column] == figure(row), column
            assert (float(text[column]) if text[column] else None) == figure(row), column
    for table in tables:
        assert [tuple(record.values()) for record in document["tables"][table.name]] == list(table.rows)
        as_text = [[row[column] for column in table.columns] for row in read_csv(table)]
        assert as_text == [[rows._text(cell) for cell in row] for row in table.rows]


def test_every_table_of_the_analysis_is_in_the_rows() -> None:
    (run,) = runs("openvino")
    tables = {table.name: table for table in rows.tables([run])}
    drafted = [row.drafts for row in run.analysis.rows if row.drafts]
    assert len(tables["positions"].rows) == sum(len(drafts.positions) for drafts in drafted)
    assert len(tables["draft_lengths"].rows) == sum(len(drafts.by_draft_len) for drafts in drafted)
    assert len(tables["shapes"].rows) == sum(len(drafts.shapes) for drafts in drafted)
    assert len(tables["pairs"].rows) == len(run.analysis.pairs)
    left_out = [record for record in tables["pairs"].records() if not record["used"]]
    assert [record["pair"] for record in left_out] == [pair.number for pair in run.analysis.excluded] != []
    assert all(record["left_out_because"] for record in left_out)
    assert len(tables["gates"].rows) == 4
    assert any(record["setting"] == "command" for record in tables["settings"].records())


def test_where_no_speed_up_may_be_printed_stands_the_reason() -> None:
    """Neither a ratio nor the ratio of a single pair gets out."""
    for name, why in (("slow", "the baseline gate failed"), ("short", "3 of 3 pairs are left")):
        (run,) = runs(name)
        shown = Outline(page(name)).text
        assert re.search(why, shown, re.IGNORECASE)
        assert not re.search(rf"\d{numbers.TIMES}", page(name))
        assert why in " ".join(markdown.render([run]).split())
        tables = {table.name: table.records() for table in rows.tables([run])}
        assert {record["ratio"] for record in tables["speed"]} == {None}
        assert {record["ratio"] for record in tables["pairs"]} == {None}
        assert all(why in str(record["why_no_ratio"]) for record in tables["speed"])


def test_the_ratio_of_a_disturbed_pair_is_never_printed() -> None:
    (run,) = runs("openvino")
    pairs = {record["pair"]: record for record in rows.tables([run])[5].records()}
    for pair in run.analysis.pairs:
        assert pairs[pair.number]["ratio"] == (None if pair.reasons else pair.ratio)
    flattering = max(run.analysis.excluded, key=lambda pair: pair.ratio)
    assert flattering.ratio > 1.3
    for reason in flattering.reasons:
        assert reason in Outline(page("openvino")).text


def test_the_first_screen_answers_for_each_workload() -> None:
    shown = Outline(page("openvino")).text
    first = shown.partition("seconds apart; then")[2].partition("Can this be trusted?")[0]
    assert "code ▲ Faster Every interval lies above 1." in first
    (run,) = runs("openvino")
    for workload in run.analysis.run.workloads:
        own = [row for row in run.analysis.rows if row.workload == workload]
        assert re.search(rf"{workload} . {words.headline(own)[1]} {re.escape(words.sentence(own))}", first), workload
        for row in own:
            assert row.ratio is not None
            assert f"{words.WORDS[row.verdict]}: {numbers.estimate(row.ratio)}" in first
            assert numbers.limits(row.ratio) in first
    assert "said of these prompts only" in first
    assert not re.search(r"overall|on average|mean of all", shown, re.IGNORECASE)


def test_several_runs_stand_side_by_side_with_what_differs() -> None:
    shown = Outline(page("openvino", "hf")).text
    differs = shown.partition("What differs between the runs")[2].partition("Acceptance by position")[0]
    assert "model settings weights fp16 fp32" in differs
    assert "model runtime openvino hf" in differs
    assert "machine cpu" not in differs
    assert "clock rate" in shown
    assert "not told by this machine: clock rate, frequency governor and temperature" in shown


@pytest.mark.parametrize("names", PAGES, ids=" ".join)
def test_markdown_tables_have_as_many_cells_as_columns(names: tuple[str, ...]) -> None:
    text = markdown.render(runs(*names))
    assert text.startswith(f"<!-- {rows.MARK} {rows.SCHEMA} -->")
    tables = [part.splitlines() for part in text.split("\n\n") if part.startswith("| ")]
    assert len(tables) >= 4
    for lines in tables:
        cells = [len(re.findall(r"(?<!\\)\|", line)) - 1 for line in lines]
        assert set(cells) == {cells[0]}
        assert set(lines[1]) <= set("| -:")
    outside = "\n".join(part for part in text.split("\n\n") if not part.startswith("```"))
    assert not re.search(r"(?<!\\)<(?!!-- )", outside), "HTML in Markdown"


def test_a_fence_is_longer_than_what_it_holds() -> None:
    assert markdown.code("a ``` b").splitlines() == ["````text", "a ``` b", "````"]


@pytest.mark.parametrize(
    ("low", "middle", "high", "shown", "ends"),
    [
        (2.92, 3.0512, 3.21, "3.05", "2.92 to 3.21"),
        (0.95, 0.99, 1.04, "0.99", "0.95 to 1.04"),
        (0.9761, 0.9933, 1.0084, "0.993", "0.976 to 1.008"),
        (60.4, 65.23, 66.0, "65", "60 to 66"),
        (1.0, 1.00001, 1.00002, "1.000", "1.000 to 1.000"),
        (90.0, 210.0, 400.0, "210", "90 to 400"),
        (2.0, 2.0, 2.0, "2.000", "2.000 to 2.000"),
    ],
)
def test_no_digit_is_finer_than_the_interval(low: float, middle: float, high: float, shown: str, ends: str) -> None:
    interval = Interval(middle, low, high, 9)
    assert numbers.estimate(interval) == shown
    assert numbers.limits(interval) == ends


def test_headlines_never_say_more_than_their_rows() -> None:
    (run,) = runs("openvino")
    code = [row for row in run.analysis.rows if row.workload == "code"]
    slower = [row for row in run.analysis.rows if row.workload == "chat" and row.verdict == "slower"]
    assert code
    assert slower
    assert words.headline(code) == ("faster", "Faster")
    assert words.headline([*code, *slower]) == (None, "Depends: faster in part")
    said = words.sentence([code[0], slower[0]])
    assert said == f"Faster with {code[0].arm}; slower with {slower[0].arm}."


def test_without_matplotlib_the_sentence_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from surefoot.core.errors import NotEligible

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(NotEligible, match=r"pip install 'surefoot\[bench\]'"):
        html.render(runs("slow"))


def test_figures_leave_the_settings_of_the_user_alone() -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    html.render(runs("slow"))
    assert dict(matplotlib.rcParams) == before


def test_a_run_without_gates_and_a_cut_one_say_so() -> None:
    from dataclasses import replace

    (run,) = runs("slow")
    bare = replace(run.analysis, gates={}, cut=True, complete=None)
    shown = Outline(html.render([NamedRun("bare", bare)])).text
    assert "No gate was run." in shown
    assert "this gate was not run" in shown
    assert "the file ends in the middle of a line" in shown
