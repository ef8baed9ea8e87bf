"""An exception in a drafter costs a plain round and a note, never the text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from surefoot.core.errors import LawError, TargetError
from surefoot.core.ports import Needs, Scores
from surefoot.core.sampling import Sampling
from surefoot.core.types import Draft, Ids, as_ids
from surefoot.drafters.ngram import NgramDrafter, Options
from surefoot.engine.guarded import FAILURES, Guarded
from surefoot.targets.toy import Options as ToyOptions
from surefoot.targets.toy import ToyTarget
from surefoot.testing.drafter_suite import run, written

TOY = ToyTarget(ToyOptions(order=1))
PROMPT = as_ids([1, 2, 3, 1, 2, 3, 1])


class Failing:
    """Prompt lookup that raises at the given calls of one verb, having spoilt what it knows."""

    def __init__(self, verb: str, calls: Sequence[int], error: BaseException, taps: tuple[str, ...] = ()) -> None:
        self.needs = Needs(taps=taps)
        self.inner = NgramDrafter(Options(min_n=1))
        self.plan = (verb, set(calls), error)
        self.calls: dict[str, int] = {"begin": 0, "propose": 0, "observe": 0}

    def begin(self, prompt: Ids, root: int, scores: Scores) -> None:
        self._due("begin")
        self.inner.begin(prompt, root, scores)

    def propose(self, budget: int) -> Draft:
        self._due("propose")
        return self.inner.propose(budget)

    def observe(self, new_ids: Sequence[int], scores: Scores) -> None:
        self._due("observe")
        self.inner.observe(new_ids, scores)

    def _due(self, verb: str) -> None:
        self.calls[verb] += 1
        planned, calls, error = self.plan
        if verb == planned and self.calls[verb] in calls:
            self.inner.begin(as_ids([0]), 0, NO_SCORES)
            raise error


class Spoils(NgramDrafter):
    """Prompt lookup that proposes what it is given in its second round."""

    def __init__(self, bad: Callable[[int], Any]) -> None:
        super().__init__(Options(min_n=1))
        self.bad = bad
        self.calls = 0

    def propose(self, budget: int) -> Draft:
        self.calls += 1
        if self.calls != 2:
            return super().propose(budget)
        bad: Draft = self.bad(budget)
        return bad


NO_SCORES: Any = None


def guarded(drafter: Any, note: Callable[[str], None] = lambda _: None) -> Guarded:
    return Guarded(drafter, "failing", TOY, note)


def texts(drafter: Failing, sampling: Sampling) -> tuple[list[int], list[int], list[int], list[str]]:
    """The plain text, that with the drafter, the drafts of its rounds, and the notes."""
    notes: list[str] = []
    plain = run(NgramDrafter(Options()), TOY, PROMPT, 60, lengths=(0,), sampling=sampling)
    rounds = run(guarded(drafter, notes.append), TOY, PROMPT, 60, lengths=(4,), sampling=sampling)
    return written(plain), written(rounds), [round_.drafted for round_ in rounds], notes


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=1.0, seed=2)], ids=["greedy", "drawn"])
@pytest.mark.parametrize("verb", ["begin", "propose", "observe"])
def test_the_text_is_that_of_plain_decoding_and_the_next_round_drafts_again(verb: str, sampling: Sampling) -> None:
    plain, text, drafted, notes = texts(Failing(verb, [1], RuntimeError("secret words")), sampling)
    assert text == plain
    lost = 2 if verb == "observe" else 1
    assert drafted[lost] == 0
    assert any(drafted[lost + 1 :])
    [note] = notes
    assert note.startswith(f"the drafter failing failed in {verb} (RuntimeError at test_guarded.py:")
    assert "secret" not in note


@pytest.mark.parametrize("call", [1, 4])
def test_after_a_failure_it_drafts_as_a_new_one_that_knows_the_text(call: int) -> None:
    """What the failure spoilt is made anew, so the drafts after it are those of a drafter that never failed."""
    sound = run(NgramDrafter(Options(min_n=1)), TOY, PROMPT, 60, lengths=(2,))
    failed = run(guarded(Failing("propose", [call], ValueError())), TOY, PROMPT, 60, lengths=(2,))
    by_depth = {round_.depth: (round_.drafted, round_.accepted, round_.match_len) for round_ in sound[1:]}
    after = [round_ for round_ in failed[call + 1 :] if round_.depth in by_depth]
    assert after
    assert all((each.drafted, each.accepted, each.match_len) == by_depth[each.depth] for each in after)


def test_it_is_given_up_when_it_cannot_begin_anew_or_fails_again_and_again() -> None:
    drafter = Failing("begin", range(1, 100), RuntimeError())
    plain, text, drafted, _ = texts(drafter, Sampling())
    assert (text, any(drafted), drafter.calls["begin"]) == (plain, False, 2)
    drafter = Failing("propose", range(1, 100), RuntimeError())
    plain, text, drafted, _ = texts(drafter, Sampling())
    assert (text, any(drafted), drafter.calls["propose"]) == (plain, False, FAILURES)


def test_one_that_reads_hidden_states_is_not_begun_anew() -> None:
    drafter = Failing("observe", [2], RuntimeError(), taps=("sums",))
    plain, text, drafted, _ = texts(drafter, Sampling())
    assert text == plain
    assert any(drafted[1:3])
    assert not any(drafted[3:])
    assert drafter.calls["begin"] == 1


def test_the_next_text_starts_afresh() -> None:
    drafter = guarded(Failing("begin", [1, 2], RuntimeError()))
    run(drafter, TOY, PROMPT, 20, lengths=(4,))
    assert any(round_.drafted for round_ in run(drafter, TOY, PROMPT, 20, lengths=(4,)))


def test_our_own_errors_are_told_in_their_words() -> None:
    notes: list[str] = []
    error = TargetError("the second model is gone.", backend="toy", operation="extend")
    run(guarded(Failing("propose", [1], error), notes.append), TOY, PROMPT, 20)
    assert "the second model is gone." in notes[0]


def test_an_interrupt_is_raised() -> None:
    with pytest.raises(KeyboardInterrupt):
        run(guarded(Failing("propose", [2], KeyboardInterrupt())), TOY, PROMPT, 20, lengths=(4,))


@pytest.mark.parametrize("verb", ["begin", "propose", "observe"])
def test_a_promise_that_broke_in_a_drafter_costs_drafts_and_not_the_text(verb: str) -> None:
    plain, text, drafted, notes = texts(Failing(verb, [1], LawError("its cache is too long")), Sampling())
    assert text == plain
    assert any(drafted[3:])
    assert notes == [
        f"the drafter failing failed in {verb} (its cache is too long); the text goes on without its drafts"
    ]


BAD: dict[str, tuple[Callable[[int], Any], str]] = {
    "too long": (lambda budget: Draft(as_ids([1] * (budget + 1)), source="bad"), "5 tokens where 4 were asked for"),
    "no such id": (lambda budget: Draft(as_ids([1, TOY.caps.vocab_size]), source="bad"), "outside the vocabulary"),
    "negative": (lambda budget: Draft(as_ids([-1]), source="bad"), "outside the vocabulary"),
    "no such parent": (
        lambda budget: Draft(as_ids([1]), parents=as_ids([3]), source="bad"),
        "parents do not come before",
    ),
    "a tree": (lambda budget: Draft(as_ids([1, 2]), parents=as_ids([-1, -1]), source="bad"), "a tree and did not say"),
    "q of few tokens": (lambda budget: Draft(as_ids([1]), np.ones((1, 2)) / 2, source="bad"), "q for 2 tokens"),
    "no draft": (lambda budget: None, "AttributeError"),
}


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=1.0, seed=2)], ids=["greedy", "drawn"])
def test_a_draft_that_the_loop_would_not_take_costs_a_plain_round(bad: str, sampling: Sampling) -> None:
    make, says = BAD[bad]
    notes: list[str] = []
    plain = run(NgramDrafter(Options()), TOY, PROMPT, 60, lengths=(0,), sampling=sampling)
    rounds = run(guarded(Spoils(make), notes.append), TOY, PROMPT, 60, lengths=(4,), sampling=sampling)
    assert written(rounds) == written(plain)
    assert rounds[2].drafted == 0
    assert any(round_.drafted for round_ in rounds[3:])
    [note] = notes
    assert says in note


@pytest.mark.parametrize("bad", ["too long", "no such id", "negative", "q of few tokens"])
def test_without_the_guard_the_loop_refuses_it(bad: str) -> None:
    make, says = BAD[bad]
    with pytest.raises(LawError, match=says):
        run(Spoils(make), TOY, PROMPT, 60, lengths=(4,))
