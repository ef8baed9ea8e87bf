"""Prompt lookup against a scanner that reads the whole text every time, and the work it must not do."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from importlib.metadata import entry_points
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from surefoot.core.errors import ConfigError
from surefoot.core.ports import Needs
from surefoot.core.types import as_ids
from surefoot.drafters.ngram import PLUGIN, Match, NgramDrafter, Options

NO_SCORES: Any = None  # prompt lookup reads no scores

# ---------------------------------------------------------------- the reference


def reference(text: Sequence[int], budget: int, options: Options) -> tuple[list[int], int]:
    """The draft and its match length, found by reading all of the text."""
    text, size = list(text), len(text)
    lengths = [options.min_n] if options.match == "recent" else range(options.max_n, options.min_n - 1, -1)
    for n in lengths:
        ends = [end for end in range(n, size) if text[end - n : end] == text[size - n :]]
        if not options.overlap:
            ends = [end for end in ends if end < size - n]
        if not ends or budget <= 0:
            continue
        end = ends[0] if options.match == "first" else ends[-1]
        draft = text[end : size if options.overlap else size - n]
        if options.extend:
            for _ in range(budget):
                draft.append((text + draft)[size + len(draft) - (size - end)])
        agree = n
        while agree < min(options.max_n, end) and text[end - agree - 1] == text[size - agree - 1]:
            agree += 1
        return draft[:budget], agree
    return [], 0


def coreml_reference(text: Sequence[int], budget: int, n: int) -> list[int]:
    """CoreML-LLM's rule in its own terms: one n, at least 2n + 1 tokens of text, nothing that touches the tail."""
    text, tail = list(text), len(text) - n
    if budget <= 0 or len(text) < 2 * n + 1:
        return []
    for start in range(tail - n - 1, -1, -1):
        if text[start : start + n] == text[tail:]:
            return text[start + n : min(start + n + budget, tail)]
    return []


def started(text: Sequence[int], options: Options) -> NgramDrafter:
    """A drafter that has seen the text, its last token being the root."""
    drafter = NgramDrafter(options)
    drafter.begin(as_ids(text[:-1]), text[-1], NO_SCORES)
    return drafter


def proposed(text: Sequence[int], budget: int, options: Options) -> tuple[list[int], int]:
    draft = started(text, options).propose(budget)
    return draft.ids.tolist(), draft.match_len


MATCHES: tuple[Match, ...] = ("longest", "first", "recent")
COMBINATIONS = [
    (match, overlap, extend) for match in MATCHES for overlap, extend in ((True, True), (True, False), (False, False))
]


@st.composite
def any_options(draw: st.DrawFn) -> Options:
    match, overlap, extend = draw(st.sampled_from(COMBINATIONS))
    min_n = draw(st.integers(1, 4))
    return Options(draw(st.integers(min_n, 6)), min_n, match, overlap, extend)


# Few different tokens, and loops, so that matches of every length and overlap are common.
texts = st.one_of(
    st.lists(st.integers(0, 2), min_size=2, max_size=60),
    st.lists(st.integers(0, 40_000), min_size=2, max_size=60),
    st.builds(
        lambda head, period, times, cut: (head + period * times)[: max(2, len(head) + len(period) * times - cut)],
        st.lists(st.integers(0, 3), min_size=1, max_size=8),
        st.lists(st.integers(0, 3), min_size=1, max_size=7),
        st.integers(1, 8),
        st.integers(0, 6),
    ),
)


@pytest.mark.parametrize(("match", "overlap", "extend"), COMBINATIONS)
@settings(max_examples=300, deadline=None)
@given(text=texts, budget=st.integers(0, 20), sizes=st.tuples(st.integers(1, 4), st.integers(0, 3)))
def test_every_option_equals_the_full_scan(
    match: Match, overlap: bool, extend: bool, text: list[int], budget: int, sizes: tuple[int, int]
) -> None:
    options = Options(sizes[0] + sizes[1], sizes[0], match, overlap, extend)
    assert proposed(text, budget, options) == reference(text, budget, options)


@settings(max_examples=500, deadline=None)
@given(text=texts, budget=st.integers(0, 20), n=st.integers(1, 4))
@example(text=[1, 2, 3, 9, 1, 2, 3], budget=8, n=3)  # 2n + 1 tokens: the shortest text that gives a draft
@example(text=[1, 2, 3, 1, 2, 3], budget=8, n=3)  # 2n: none
def test_without_overlap_and_with_one_n_it_is_coreml_llm(text: list[int], budget: int, n: int) -> None:
    assert proposed(text, budget, Options(n, n, "longest", False, False))[0] == coreml_reference(text, budget, n)
    assert proposed(text, budget, Options(n, n, "recent", False, False))[0] == coreml_reference(text, budget, n)


# ---------------------------------------------------------------- the table in the documentation

LONGEST = Options(max_n=3, min_n=2)
COLUMNS = {
    "longest": LONGEST,
    "first": Options(max_n=3, min_n=2, match="first"),
    "recent": Options(max_n=3, min_n=2, match="recent"),
    "extend off": Options(max_n=3, min_n=2, extend=False),
    "overlap off": Options(max_n=3, min_n=2, overlap=False, extend=False),
    "CoreML-LLM, n = 3": Options(max_n=3, min_n=3, match="recent", overlap=False, extend=False),
    "CoreML-LLM, n = 2": Options(max_n=2, min_n=2, match="recent", overlap=False, extend=False),
}
BUDGET = 4


@dataclass(frozen=True)
class Case:
    text: str
    drafts: tuple[str, ...]
    why: str


CASES = [
    Case(
        "abcpqabcrsbctuabc",
        ("rsbc", "pqab", "tuab", "rsbc", "rsbc", "rsbc", "tua"),
        "`abc` occurred twice, `bc` once more since then",
    ),
    Case("abpqrabstuab", ("stua", "pqra", "stua", "stua", "stu", "", "stu"), "only two tokens match"),
    Case(
        "abcabc", ("abca", "abca", "abca", "abc", "a", "", "a"), "2n tokens for n = 3: the occurrence touches the end"
    ),
    Case("abcdabc", ("dabc", "dabc", "dabc", "dabc", "d", "d", "da"), "2n + 1 tokens for n = 3"),
    Case("xababab", ("abab", "abab", "abab", "ab", "ab", "", "ab"), "a loop of period 2"),
    Case("xaaaaaa", ("aaaa", "aaaa", "aaaa", "a", "a", "", "a"), "a loop of period 1"),
    Case("abcdefg", ("", "", "", "", "", "", ""), "nothing repeats"),
    Case("abcdcefgc", ("", "", "", "", "", "", ""), "one token repeats, and min_n is 2"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.text)
def test_table_of_policies(case: Case) -> None:
    text = [ord(letter) for letter in case.text]
    drafts = tuple(bytes(proposed(text, BUDGET, options)[0]).decode() for options in COLUMNS.values())
    assert drafts == case.drafts


def test_documented_table_is_the_tested_one() -> None:
    def cell(draft: str) -> str:
        return f"`{draft}`" if draft else "none"

    rows = [["text so far", *COLUMNS, "why"], ["---"] * (len(COLUMNS) + 2)]
    rows += [[f"`{case.text}`", *map(cell, case.drafts), case.why] for case in CASES]
    table = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    page = Path(__file__).parents[2] / "docs" / "drafters" / "ngram.md"
    assert table in page.read_text(encoding="utf-8"), f"put this table into {page.name}:\n{table}"


# ---------------------------------------------------------------- state


@settings(max_examples=300, deadline=None)
@given(
    options=any_options(),
    prompt=texts,
    rounds=st.lists(st.tuples(st.integers(0, 12), st.lists(st.integers(0, 3), max_size=5)), max_size=8),
)
def test_rejected_drafts_leave_no_trace(
    options: Options, prompt: list[int], rounds: list[tuple[int, list[int]]]
) -> None:
    drafter = started(prompt, options)
    written = list(prompt)
    for budget, new_ids in rounds:
        drafter.propose(budget)
        drafter.observe(new_ids, NO_SCORES)
        written += new_ids
        assert vars(drafter) == vars(started(written, options))


def test_begin_forgets_the_text_before() -> None:
    drafter = started([1, 2, 3, 4, 1, 2], Options())
    assert len(drafter.propose(4))
    drafter.begin(as_ids([1, 2, 9, 1]), 3, NO_SCORES)
    assert vars(drafter) == vars(started([1, 2, 9, 1, 3], Options()))


@settings(max_examples=300, deadline=None)
@given(options=any_options(), text=texts, budget=st.integers(-3, 300))
def test_a_draft_keeps_to_the_budget_and_to_tokens_that_occurred(
    options: Options, text: list[int], budget: int
) -> None:
    draft = started(text, options).propose(budget)
    assert len(draft) <= max(0, budget)
    assert draft.ids.dtype == np.int32
    assert set(draft.ids.tolist()) <= set(text)
    assert draft.parents is None
    assert draft.q is None
    if len(draft):
        assert draft.source == "ngram"
        assert options.min_n <= draft.match_len <= options.max_n
        assert not options.extend or len(draft) == budget


def test_a_draft_is_a_copy() -> None:
    drafter = started([1, 2, 3, 1, 2], Options())
    drafter.propose(8).ids[:] = 0
    assert drafter.propose(3).ids.tolist() == [3, 1, 2]
    drafter.observe([7], NO_SCORES)  # a view into the text would forbid it to grow
    assert drafter.needs == Needs()


# ---------------------------------------------------------------- work, counted and not timed


class Ledger:
    """How many tokens and index entries were touched, and how many bytecodes ran."""

    def __init__(self) -> None:
        self.tokens = 0
        self.entries = 0
        self.bytecodes = 0


def counted_text(text: array[int], ledger: Ledger) -> array[int]:
    class Counted(array):  # type: ignore[type-arg]
        def __getitem__(self, place: Any) -> Any:
            ledger.tokens += len(range(*place.indices(len(self)))) if isinstance(place, slice) else 1
            return array.__getitem__(self, place)

        def __iter__(self) -> Iterator[int]:
            ledger.tokens += len(self)
            return array.__iter__(self)

        def append(self, token: int) -> None:
            ledger.tokens += 1
            array.append(self, token)

    for name in ("index", "count", "tobytes", "tolist", "__contains__", "__reversed__", "buffer_info"):
        setattr(Counted, name, lambda *_: pytest.fail("the whole text was read"))
    return Counted("i", text)


def counted_index(index: dict[bytes, int], ledger: Ledger) -> dict[bytes, int]:
    class Counted(dict[bytes, int]):
        def get(self, key: bytes, default: Any = None) -> Any:
            ledger.entries += 1
            return dict.get(self, key, default)

        def setdefault(self, key: bytes, default: Any = None) -> Any:
            ledger.entries += 1
            return dict.setdefault(self, key, default)

        def __setitem__(self, key: bytes, value: int) -> None:
            ledger.entries += 1
            dict.__setitem__(self, key, value)

        def __iter__(self) -> Iterator[bytes]:
            pytest.fail("the whole index was read")

    return Counted(index)


def work(action: Callable[[], object], ledger: Ledger) -> Ledger:
    """The ledger after running the action, with its bytecodes."""

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        if not frame.f_globals["__name__"].startswith("surefoot."):
            return None  # the garbage collector calls hypothesis back whenever it likes
        frame.f_trace_opcodes = True
        ledger.bytecodes += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    finally:
        sys.settrace(before)
    return ledger


def instrumented(text: Sequence[int], options: Options) -> tuple[NgramDrafter, Ledger]:
    drafter, ledger = started(text, options), Ledger()
    drafter._history = counted_text(drafter._history, ledger)
    drafter._ends = {n: counted_index(index, ledger) for n, index in drafter._ends.items()}
    return drafter, ledger


def stream(kind: str, length: int) -> list[int]:
    if kind == "natural":
        rng = np.random.default_rng(7)
        words = rng.zipf(1.3, length).clip(max=40_000).astype(np.int64).tolist()
        return [*words[: length // 2], *words[: length - length // 2]]
    return [place % {"constant": 1, "period 2": 2}[kind] for place in range(length)]


@pytest.mark.parametrize("kind", ["constant", "period 2", "natural"])
@pytest.mark.parametrize(("match", "overlap", "extend"), COMBINATIONS)
def test_work_does_not_grow_with_the_context(kind: str, match: Match, overlap: bool, extend: bool) -> None:
    options = Options(4, 2, match, overlap, extend)
    budget, new_ids, sizes = 8, [0, 1, 0], (2, 3, 4)
    per_length = []
    for length in (500, 4_000, 32_000):
        drafter, ledger = instrumented(stream(kind, length), options)
        proposal = work(lambda drafter=drafter: drafter.propose(budget), ledger)  # type: ignore[misc]
        assert proposal.entries <= len(sizes)
        # One key per n, the draft, and two tokens for each step that a match is followed back.
        assert proposal.tokens <= sum(sizes) + budget + 2 * (max(sizes) - min(sizes) + 1)
        total = work(lambda drafter=drafter: drafter.observe(new_ids, NO_SCORES), ledger)  # type: ignore[misc]
        assert total.entries <= len(sizes) + len(new_ids) * len(sizes)
        per_length.append(vars(total))
    if kind != "natural":  # there the length of the match may differ, and with it a few bytecodes
        assert per_length[0] == per_length[1] == per_length[2]
    # chosen: three times the most that any of them takes (644); one pass over 32,000 tokens would take far more.
    assert max(counts["bytecodes"] for counts in per_length) < 2_000


def test_begin_takes_time_proportional_to_the_prompt() -> None:
    def bytecodes(length: int) -> int:
        prompt = as_ids(stream("natural", length))
        drafter = NgramDrafter(Options())
        return work(lambda: drafter.begin(prompt, 0, NO_SCORES), Ledger()).bytecodes

    one, two, four = bytecodes(1_000), bytecodes(2_000), bytecodes(4_000)
    assert four - two == 2 * (two - one)


# ---------------------------------------------------------------- options


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"min_n": 0}, "min_n = 0"),
        ({"min_n": -2}, "min_n = -2"),
        ({"min_n": 33, "max_n": 40}, "min_n = 33"),
        ({"min_n": 3, "max_n": 2}, "max_n = 2 does not go with min_n = 3"),
        ({"max_n": 10**9}, "max_n = 1000000000"),
        ({"match": "last"}, "longest, first, recent"),
        ({"overlap": False}, "extend = true needs overlap = true"),
    ],
)
def test_bad_options_are_refused_in_a_sentence(values: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Options(**values)


def test_the_entry_point_builds_it_and_every_option_has_help() -> None:
    [entry] = entry_points(group="surefoot.drafters", name="ngram")
    plugin = entry.load()
    assert plugin is PLUGIN
    assert isinstance(plugin.build(plugin.options(), None), NgramDrafter)
    assert all(option.metadata["help"] for option in fields(plugin.options))
