"""The suffix drafter against a reader of the whole text, its state, and the work it must not do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from surefoot.core.errors import ConfigError
from surefoot.core.types import as_ids
from surefoot.drafters.suffix import PLUGIN, walk
from surefoot.drafters.suffix.automaton import COUNTED, Automaton
from surefoot.drafters.suffix.drafter import SuffixDrafter
from surefoot.drafters.suffix.options import Options

NO_SCORES: Any = None  # lookup reads no scores

texts = st.one_of(
    st.lists(st.integers(0, 2), min_size=2, max_size=60),
    st.lists(st.integers(0, 40_000), min_size=2, max_size=40),
    st.builds(
        lambda head, period, times, cut: (head + period * times)[: max(2, len(head) + len(period) * times - cut)],
        st.lists(st.integers(0, 3), min_size=1, max_size=8),
        st.lists(st.integers(0, 3), min_size=1, max_size=7),
        st.integers(1, 8),
        st.integers(0, 6),
    ),
)


def started(text: Sequence[int], options: Options) -> SuffixDrafter:
    """A drafter that has seen the text, its last token being the root."""
    drafter = SuffixDrafter(options)
    drafter.begin(as_ids(text[:-1]), text[-1], NO_SCORES)
    return drafter


def state(drafter: SuffixDrafter) -> Any:
    return vars(drafter.automaton)


# ---------------------------------------------------------------- the references, which read all of the text


def ends_of(text: Sequence[int], part: Sequence[int]) -> list[int]:
    """The places after which the text goes on behind an occurrence of the part."""
    size = len(part)
    return [end for end in range(size, len(text) + 1) if list(text[end - size : end]) == list(part)]


def longest_repeated(text: Sequence[int]) -> int:
    """Tokens of the longest suffix that occurred before."""
    return next((size for size in range(len(text) - 1, 0, -1) if len(ends_of(text, text[len(text) - size :])) > 1), 0)


def chain_reference(text: Sequence[int], budget: int, options: Options) -> tuple[list[int], int]:
    """The draft, a token at a time: what followed match and draft so far most often, the latest among equals."""
    text = list(text)
    matched = longest_repeated(text)
    if budget <= 0 or matched < options.min_match:
        return [], 0
    draft: list[int] = []
    context = text[len(text) - matched :]
    chance = 1.0
    while len(draft) < budget:
        followed = [end for end in ends_of(text, context) if end < len(text)]
        if not followed:
            if not options.extend:
                break
            context = text[len(text) - matched :]  # the draft has reached the end: it goes on by repeating itself
            continue
        counts = Counter(text[end] for end in followed)
        latest = {text[end]: end for end in followed}
        token = max(counts, key=lambda each: (counts[each], latest[each]))
        chance *= counts[token] / counts.total()
        if chance < options.min_chance:
            break
        draft.append(token)
        context = [*context, token]
    return draft, (matched if draft else 0)


@settings(max_examples=400)
@given(text=texts)
@example(text=[1] * 40)
@example(text=[0, 1] * 30)
def test_the_automaton_knows_every_substring_how_often_and_where_last(text: list[int]) -> None:
    automaton = Automaton()
    automaton.extend(text)
    assert automaton.size == len(text)
    assert automaton.states <= max(2, 2 * len(text))
    assert automaton.length(automaton.repeated) == longest_repeated(text)
    for start in range(len(text)):
        at = 0
        for stop in range(start, min(len(text), start + 12)):
            at = automaton.step(at, text[stop])
            ends = ends_of(text, text[start : stop + 1])
            if len(text) <= COUNTED:
                assert (automaton.count(at), automaton.last(at)) == (len(ends), ends[-1] - 1)
            assert automaton.count(at) <= len(ends)
            assert dict(automaton.after(at)).keys() == {text[end] for end in ends if end < len(text)}
    assert automaton.step(0, 50_000) == -1


@settings(max_examples=600)
@given(
    text=texts, budget=st.integers(-1, 20), min_match=st.integers(1, 4),
    min_chance=st.sampled_from([0.0, 0.1, 0.4, 1.0]), extend=st.booleans(),
)  # fmt: skip
def test_a_chain_equals_the_full_scan(
    text: list[int], budget: int, min_match: int, min_chance: float, extend: bool
) -> None:
    if len(text) > COUNTED:
        text = text[:COUNTED]  # above that the counts in a loop are bounds
    options = Options(min_match=min_match, min_chance=min_chance, extend=extend)
    draft = started(text, options).propose(budget)
    assert (draft.ids.tolist(), draft.match_len) == chain_reference(text, budget, options)


@pytest.mark.parametrize("period", [1, 2, 3, 7, 50])
def test_a_loop_is_extended_by_its_period(period: int) -> None:
    text = [99, *(list(range(period)) * 40)]
    draft = started(text, Options()).propose(3 * period + 5)
    assert draft.ids.tolist() == [place % period for place in range(3 * period + 5)]
    assert draft.match_len == len(text) - 1 - period
    assert len(started(text, Options(extend=False)).propose(3 * period + 5)) == period


def test_more_frequent_goes_before_later_and_later_before_earlier() -> None:
    assert started([1, 2, 7, 1, 2, 7, 1, 2, 8, 1, 2], Options()).propose(1).ids.tolist() == [7]
    assert started([1, 2, 7, 1, 2, 8, 1, 2], Options()).propose(1).ids.tolist() == [8]


def test_the_source_says_whether_the_occurrences_agree() -> None:
    assert started([1, 2, 7, 1, 2, 7, 1, 2], Options()).propose(3).source == "suffix"
    assert started([1, 2, 7, 1, 2, 8, 1, 2], Options()).propose(3).source == "suffix-split"


# ---------------------------------------------------------------- trees


@settings(max_examples=300)
@given(text=texts, budget=st.integers(0, 12), branches=st.integers(2, 4))
def test_a_tree_holds_what_followed_each_of_its_nodes(text: list[int], budget: int, branches: int) -> None:
    options = Options(min_match=1, branches=branches)
    draft = started(text, options).propose(budget)
    assert len(draft) <= budget
    parents = list(range(-1, len(draft) - 1)) if draft.parents is None else draft.parents.tolist()
    children = Counter(parents)
    assert not children or max(children.values()) <= branches
    pairs = set(zip(parents, draft.ids.tolist(), strict=True))
    assert len(pairs) == len(draft), "the same token twice after one node"
    for node, token in enumerate(draft.ids.tolist()):
        before = text[-1] if parents[node] < 0 else int(draft.ids[parents[node]])
        assert any(pair == (before, token) for pair in pairwise(text)), "a pair that never occurred"


def test_what_may_come_next_is_ranked_by_count_and_then_by_shorter_matches() -> None:
    text = [5, 1, 2, 7, 5, 1, 2, 7, 5, 1, 2, 8, 6, 1, 2, 9, 5, 1, 2]
    automaton = started(text, Options()).automaton
    ways = walk._children(automaton, automaton.repeated, 3, 2, walk.stop)
    assert [token for token, _, _ in ways] == [7, 8, 9]  # 5 1 2 went on with 7 twice and 8 once, 1 2 with 9 once more
    chances = [chance for _, _, chance in ways]
    assert chances == sorted(chances, reverse=True)
    assert sum(chances) < 1
    assert [token for token, _, _ in walk._children(automaton, automaton.repeated, 2, 2, walk.stop)] == [7, 8]
    assert started(text, Options(branches=3)).propose(5).ids.tolist()[0] == 7


def test_a_tree_in_a_loop_asks_few_classes() -> None:
    """Each suffix of a loop is a class of its own, and all of them say the same."""

    class Counting(Automaton):
        asked = 0

        def after(self, state: int) -> list[tuple[int, int]]:
            Counting.asked += 1
            return super().after(state)

    automaton = Counting()
    automaton.extend([0] * 3_000)
    grown = walk.tree(automaton, automaton.repeated, 16, 3, 2, -1, lambda _: automaton.repeated)
    assert grown.ids == [0] * 16
    assert Counting.asked <= 17 * walk.SHORTER


def test_a_tree_without_a_second_way_is_a_chain() -> None:
    draft = started([1, 2, 3, 4, 1, 2], Options(branches=4)).propose(2)
    assert (draft.ids.tolist(), draft.parents) == ([3, 4], None)
    assert SuffixDrafter(Options(branches=2)).needs.trees
    assert not SuffixDrafter(Options()).needs.trees


# ---------------------------------------------------------------- state and work


@settings(max_examples=200)
@given(
    branches=st.sampled_from([1, 3]),
    prompt=texts,
    rounds=st.lists(st.tuples(st.integers(0, 12), st.lists(st.integers(0, 3), max_size=5)), max_size=8),
)
def test_rejected_drafts_leave_no_trace(branches: int, prompt: list[int], rounds: list[tuple[int, list[int]]]) -> None:
    options = Options(branches=branches)
    drafter, written = started(prompt, options), list(prompt)
    for budget, new_ids in rounds:
        drafter.propose(budget)
        drafter.observe(new_ids, NO_SCORES)
        written += new_ids
        assert state(drafter) == state(started(written, options))


def test_begin_forgets_the_text_before() -> None:
    drafter = started([1, 2, 3, 4, 1, 2], Options())
    assert len(drafter.propose(4))
    drafter.begin(as_ids([1, 2, 9, 1]), 3, NO_SCORES)
    assert state(drafter) == state(started([1, 2, 9, 1, 3], Options()))


@pytest.mark.parametrize("kind", ["constant", "period 2", "natural", "distinct"])
def test_states_and_ways_grow_with_the_text_and_not_faster(kind: str) -> None:
    rng = np.random.default_rng(7)
    text = {
        "constant": [0] * 20_000,
        "period 2": [place % 2 for place in range(20_000)],
        "natural": (rng.zipf(1.3, 10_000).clip(max=40_000).tolist()) * 2,
        "distinct": list(range(20_000)),
    }[kind]
    automaton = Automaton()
    automaton.extend(text)
    ways = sum(len(automaton.after(at)) for at in range(automaton.states))
    assert automaton.states <= 2 * len(text)
    assert ways <= 3 * len(text)


def test_counting_stays_bounded_in_a_loop() -> None:
    """In a text of one token every suffix is a class of its own; only the longest are counted on."""
    automaton = Automaton()
    automaton.extend([0] * 5_000)
    assert automaton.count(automaton.repeated) == 2
    shortest = automaton.step(0, 0)
    assert automaton.count(shortest) == COUNTED


# ---------------------------------------------------------------- options


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"min_match": 0}, "min_match must be at least 1"),
        ({"min_chance": 1.5}, "min_chance must be from 0 to 1"),
        ({"branches": 0}, "branches must be from 1 to 16"),
        ({"corpus_mb": 0.0}, "corpus_mb must be above 0"),
        ({"corpus_nodes": 0}, "corpus_nodes must be from 1"),
    ],
)
def test_bad_options_are_refused_in_a_sentence(values: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        PLUGIN.options(**values)
