"""Lookahead: the buffer against the seeds' rule, what it reads of the scores, and what it is worth on a toy."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.core.errors import ConfigError
from surefoot.core.ports import Scores
from surefoot.core.sampling import Sampling
from surefoot.core.types import Draft, Ids, as_ids
from surefoot.drafters.lookahead import PLUGIN, LookaheadDrafter, Options, refreshed
from surefoot.drafters.ngram import NgramDrafter
from surefoot.drafters.ngram import Options as NgramOptions
from surefoot.targets.toy import Options as ToyOptions
from surefoot.targets.toy import ToyTarget
from surefoot.testing.drafter_suite import run
from surefoot.testing.references import fresh_logits

TOY = ToyTarget(ToyOptions(order=1))
PROMPT = as_ids([5, 1, 2, 3])
NO_LOOKUP = Options(max_n=0)
NO_SCORES: Any = None


class Rows:
    """Scores that say what they are told."""

    def __init__(self, said: Sequence[int]) -> None:
        self.rows = self.width = len(said)
        self.read = 0
        self._said = as_ids(said)

    def argmax(self) -> Ids:
        self.read += 1
        return self._said

    def logits(self, row: int) -> Any:
        raise AssertionError("only the argmax is read")

    def tap(self, name: str) -> Any:
        raise AssertionError("only the argmax is read")


def seeds_rule(old: Sequence[int], argmax: Sequence[int], matched: int, k: int, filler: int) -> list[int]:
    """CoreML-LLM's refreshJacobiGuesses in its own terms: K rows, the tail behind the match, then the old buffer."""
    fresh = [argmax[place] for place in range(matched + 1, k)]
    while len(fresh) < k - 1:
        fresh.append(old[len(fresh)] if len(fresh) < len(old) else filler)
    return fresh[: k - 1]


@settings(max_examples=300)
@given(st.data(), st.integers(2, 9))
def test_at_one_length_it_is_the_rule_of_the_seeds(data: st.DataObject, k: int) -> None:
    drafter, filler = LookaheadDrafter(Options(window=k - 1, max_n=0)), 0
    drafter.begin(PROMPT, 0, NO_SCORES)
    buffer: list[int] = []
    for _ in range(4):
        argmax = data.draw(st.lists(st.integers(1, 9), min_size=k, max_size=k))
        matched = data.draw(st.integers(0, k - 1))
        new_ids = [*data.draw(st.lists(st.integers(1, 9), min_size=matched, max_size=matched)), filler]
        drafter.observe(new_ids, Rows(argmax))
        buffer = seeds_rule(buffer, argmax, matched, k, filler)
        assert drafter.propose(k - 1).ids.tolist() == buffer


@pytest.mark.parametrize(
    ("guesses", "said", "emitted", "due"),
    [
        ([1, 2, 3, 4, 5], [], 1, [2, 3, 4, 5, 5]),  # a plain round: everything moves up, the last place stays
        ([1, 2, 3, 4, 5], [8], 1, [8, 3, 4, 5, 5]),  # cut to two rows: the third guess is now the second
        ([1, 2, 3, 4, 5], [8, 9], 2, [8, 9, 5, 4, 5]),
        ([], [8, 9], 3, [8, 9]),
        ([1, 2], [7, 8, 9, 6, 5, 4], 1, [7, 8, 9, 6, 5]),
    ],
)
def test_drafts_that_were_cut_leave_guesses_in_their_new_places(
    guesses: list[int], said: list[int], emitted: int, due: list[int]
) -> None:
    assert refreshed(guesses, said, emitted, 5) == due


def test_lookup_goes_first_and_guesses_fill_where_it_finds_nothing() -> None:
    drafter = LookaheadDrafter(Options())
    drafter.begin(as_ids([1, 2, 3, 1]), 2, NO_SCORES)
    draft = drafter.propose(4)
    assert (draft.ids.tolist(), draft.source, draft.match_len) == ([3, 1, 2, 3], "lookahead-ngram", 2)
    drafter.observe((9,), Rows([9, 4, 5, 6, 7]))
    draft = drafter.propose(4)
    assert (draft.ids.tolist(), draft.source, draft.match_len) == ([4, 5, 6, 7], "lookahead", 0)
    assert len(drafter.propose(50)) == 7


def test_guesses_are_what_the_model_said_behind_the_accepted_prefix() -> None:
    """Each guess, from fresh prefills: the model's choice after the draft so far, of which one token was wrong."""
    drafts: list[tuple[tuple[int, ...], Draft]] = []

    class Kept(LookaheadDrafter):
        def propose(self, budget: int) -> Draft:
            draft = super().propose(budget)
            drafts.append((tuple(known), draft))
            return draft

        def observe(self, new_ids: Sequence[int], scores: Scores) -> None:
            super().observe(new_ids, scores)
            known.extend(new_ids)

        def begin(self, prompt: Ids, root: int, scores: Scores) -> None:
            super().begin(prompt, root, scores)
            known[:] = [*prompt.tolist(), root]

    known: list[int] = []
    run(Kept(NO_LOOKUP), TOY, PROMPT, 30, lengths=(5,))
    checked = 0
    for (before, draft), (after, following) in pairwise(drafts):
        emitted = len(after) - len(before)
        said = [
            int(np.argmax(fresh_logits(TOY, [*before, *draft.ids[:row].tolist()]))) for row in range(len(draft) + 1)
        ][emitted:]
        assert following.ids.tolist()[: len(said)] == said[: len(following)]
        checked += len(said)
    assert checked > 30


def test_guesses_hold_where_the_model_goes_by_the_place_and_not_by_the_last_token() -> None:
    """A text that the model knows by heart: after one forward over nonsense every guess is right."""
    text = list(range(100, 160))
    drafter, at, accepted = LookaheadDrafter(NO_LOOKUP), 0, []
    drafter.begin(PROMPT, text[0], NO_SCORES)
    for _ in range(4):
        draft = drafter.propose(5).ids.tolist()
        said = text[at + 1 : at + 7]
        held = next((place for place in range(5) if draft[place] != said[place]), 5)
        drafter.observe(said[: held + 1], Rows(said))
        at += held + 1
        accepted.append(held)
    assert accepted == [0, 5, 0, 5], "a draft that holds whole leaves no row behind it to guess by"


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=1.0, seed=2)], ids=["greedy", "drawn"])
def test_begin_forgets_the_guesses(sampling: Sampling) -> None:
    used, new = LookaheadDrafter(Options()), LookaheadDrafter(Options())
    run(used, TOY, as_ids([9, 8, 7]), 30, sampling=sampling)
    first, second = (run(each, TOY, PROMPT, 30, lengths=(5,), sampling=sampling) for each in (used, new))
    assert [(r.new_ids, r.drafted, r.source) for r in first] == [(r.new_ids, r.drafted, r.source) for r in second]


@settings(max_examples=100)
@given(
    rounds=st.lists(st.tuples(st.integers(0, 6), st.integers(1, 3)), min_size=1, max_size=6), seed=st.integers(0, 99)
)
def test_after_a_round_the_lookup_is_a_fresh_one_and_the_guesses_follow_from_the_scores(
    rounds: list[tuple[int, int]], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    drafter, text = LookaheadDrafter(Options()), [*PROMPT.tolist(), 4]
    drafter.begin(PROMPT, 4, NO_SCORES)
    guesses: list[int] = []
    for budget, emitted in rounds:
        drafter.propose(budget)
        new_ids = rng.integers(0, 4, emitted).tolist()
        argmax = rng.integers(0, 9, max(budget + 1, emitted)).tolist()
        drafter.observe(new_ids, Rows(argmax))
        text += new_ids
        guesses = refreshed(guesses, argmax[emitted:], emitted, 7)
        fresh = NgramDrafter(NgramOptions(max_n=3, min_n=2))
        fresh.begin(as_ids(text[:-1]), text[-1], NO_SCORES)
        assert drafter._lookup is not None
        assert vars(drafter._lookup) == vars(fresh)
        assert (drafter._guesses, drafter._root) == (guesses, text[-1])


def test_nothing_is_read_where_nothing_was_scored_behind() -> None:
    drafter = LookaheadDrafter(Options())
    drafter.begin(PROMPT, 0, NO_SCORES)
    rows = Rows([3])
    drafter.observe((3,), rows)
    assert rows.read == 0


@pytest.mark.parametrize(
    ("values", "says"),
    [({"window": 0}, "window must be"), ({"max_n": 2, "min_n": 3}, "does not go with"), ({"max_n": -1}, "does not go")],
)
def test_bad_options_are_refused_in_a_sentence(values: dict[str, int], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        PLUGIN.options(**values)
