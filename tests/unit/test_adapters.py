"""D10: drafters in other engines, which show tokens and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

import numpy as np
import numpy.typing as npt
import pytest

from surefoot.app.adapters.handed import LONGEST, Handed, hand
from surefoot.app.adapters.llama_cpp import DraftModel
from surefoot.core.errors import ConfigError, NotEligible
from surefoot.core.ports import Needs
from surefoot.core.types import Draft, Ids, Round, as_ids
from surefoot.drafters.ngram import PLUGIN as NGRAM
from surefoot.drafters.ngram import NgramDrafter
from surefoot.targets.toy import Options, ToyTarget
from surefoot.testing.drafter_suite import Budgets
from surefoot.testing.drafters import Guesser, oracle, right_then_wrong

TOY = ToyTarget(Options(order=1))
PROMPT = [1, 2, 3, 1, 2, 3, 1]


def plain(n: int, prompt: Sequence[int] = PROMPT) -> list[int]:
    session = TOY.open()
    out = [int(session.prefill(as_ids(prompt)).argmax()[0])]
    while len(out) < n:
        out.append(int(session.extend(as_ids(out[-1:])).argmax()[0]))
        session.commit(1)
    return out


def as_llama_cpp_python_does(draft_model: DraftModel, n: int, prompt: Sequence[int] = PROMPT) -> tuple[list[int], int]:
    """The text and the number of forwards.

    The loop of `Llama.generate` over the toy: evaluate what is new, sample row by row while the tokens that were
    evaluated are those sampled, then ask for a draft behind all tokens so far.
    Source: llama-cpp-python 0.3, llama_cpp/llama.py.
    """
    session = TOY.open()
    evaluated: list[int] = []
    tokens, out, forwards = list(prompt), [], 0
    while True:
        scores = session.extend(as_ids(tokens))
        forwards += 1
        rows = scores.argmax().tolist()
        first = len(evaluated) + len(tokens) - len(rows)
        evaluated += tokens
        sample = len(prompt) + len(out)  # tokens that stand when the next one is sampled
        while sample <= len(evaluated):
            token = rows[sample - 1 - first]
            out.append(token)
            if len(out) == n:
                return out, forwards
            tokens = [token]
            if sample < len(evaluated) and token != evaluated[sample]:
                break
            sample += 1
        kept = min(sample, len(evaluated))
        session.commit(len(rows) - (len(evaluated) - kept))
        del evaluated[kept:]
        draft: npt.NDArray[np.intc] = draft_model(np.asarray([*evaluated, *tokens], np.intc))
        tokens += draft.tolist()


@pytest.mark.parametrize("policy", ["additive", "fixed", "goodput"])
def test_llama_cpp_python_writes_the_same_text_in_fewer_forwards(policy: str) -> None:
    draft_model = DraftModel("ngram", {"min_n": 1}, policy)
    for prompt in (PROMPT, PROMPT[::-1], PROMPT):
        text, forwards = as_llama_cpp_python_does(draft_model, 60, prompt)
        assert text == plain(60, prompt)
        if policy != "goodput":  # which goes by a clock
            assert forwards < 50


def test_a_draft_is_what_llama_cpp_python_takes() -> None:
    draft = DraftModel("ngram", {"min_n": 1}, "fixed", {"draft_len": 5}, longest=3)(np.asarray(PROMPT, np.intc))
    assert draft.dtype == np.intc
    assert draft.tolist() == [2, 3, 1]
    assert DraftModel()(np.asarray([7], np.intc)).shape == (0,)


class Learns(Budgets):
    """A policy that writes down what it is told."""

    def __init__(self, lengths: Sequence[int]) -> None:
        super().__init__(lengths)
        self.told: list[Round] = []

    def learn(self, round: Round) -> None:
        self.told.append(round)


def drive(handed: Handed, text: Sequence[int], n_prompt: int) -> list[int]:
    """An engine that would write `text` in any case. What each round wrote."""
    n, sizes = n_prompt, []
    while n < len(text) - LONGEST - 1:
        draft = handed(as_ids(text[:n])).tolist()
        right = next((k for k, token in enumerate(draft) if token != text[n + k]), len(draft))
        sizes.append(right + 1)
        n += right + 1
    return sizes


def test_what_was_accepted_is_seen_from_the_tokens() -> None:
    text = [*PROMPT, *plain(90)]
    for n_right in (0, 2, 5):
        policy = Learns([4])
        sizes = drive(
            Handed(Guesser(right_then_wrong(text, n_right, 16)), policy, clock=lambda: 0.0), text, len(PROMPT)
        )
        told = policy.told
        assert [len(round_.new_ids) for round_ in told] == sizes[1:-1], "the first round holds the prompt"
        assert {round_.accepted for round_ in told} == {min(n_right, 4)}
        assert {(round_.drafted, round_.evaluated, round_.rows) for round_ in told} == {(4, 4, 5)}


def test_the_time_between_calls_is_that_of_the_forward() -> None:
    text = [*PROMPT, *plain(90)]
    ticks = iter(range(10_000))
    policy = Learns([2])
    drive(Handed(Guesser(oracle(text)), policy, clock=lambda: float(next(ticks))), text, len(PROMPT))
    assert {(round_.draft_s, round_.extend_s) for round_ in policy.told} == {(1.0, 1.0)}


class Begun(Guesser):
    """Writes down what it is begun on."""

    def __init__(self) -> None:
        super().__init__(lambda known, budget: Draft(as_ids([5] * budget), source="fives"))
        self.begun: list[list[int]] = []

    def begin(self, prompt: Ids, root: int, scores: object) -> None:
        self.begun.append([*prompt.tolist(), root])
        super().begin(prompt, root, scores)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "second",
    [[1, 2], [1, 2, 4], [9, 2, 3, 4, 5, 6], [1, 2, 3, 5, 5, 5, 5, 5]],
    ids=["shorter", "other end", "other text", "more than a round writes"],
)
def test_tokens_that_do_not_go_on_are_a_new_text(second: list[int]) -> None:
    drafter = Begun()
    handed = Handed(drafter, Budgets([3]))
    handed(as_ids([1, 2, 3]))
    handed(as_ids(second))
    assert drafter.begun == [[1, 2, 3], second]
    handed(as_ids([*second, 5, 5]))
    assert len(drafter.begun) == 2


def test_a_draft_ends_before_an_end_of_text_and_within_its_room() -> None:
    handed = Handed(NGRAM.build(NGRAM.options(min_n=1), None), Budgets([8]))
    assert handed(as_ids([4, 5, 6, 7, 4]), 8, frozenset({6})).tolist() == [5]
    assert handed(as_ids([4, 5, 6, 7, 4]), 2).tolist() == [5, 6]
    assert handed(as_ids([4, 5, 6, 7, 4]), 0).tolist() == []


class Taps(Guesser):
    def __init__(self) -> None:
        super().__init__(oracle([]))
        self.needs = Needs(taps=("hidden",))


def test_drafters_that_need_more_than_tokens_are_refused() -> None:
    with pytest.raises(NotEligible, match="hidden states"):
        Handed(Taps(), Budgets([1]))
    with pytest.raises(NotEligible, match="trees"):
        Handed(Guesser(oracle([]), trees=True), Budgets([1]))
    with pytest.raises(ConfigError):
        hand("other", 16, 64, drafts="model", draft_options={"model": "smollm2-135m"})


@pytest.mark.parametrize("drafts", ["ngram", "suffix", "union", "off"])
def test_drafters_that_look_at_tokens_are_handed_out(drafts: str) -> None:
    text = [*PROMPT, *plain(90)]
    handed = hand("other", 16, 512, drafts=drafts, policy="fixed")
    drive(handed, text, len(PROMPT))
    assert any(round_.drafted for round_ in handed.rounds) == (drafts != "off")


def test_a_drafter_that_looks_at_scores_is_refused() -> None:
    with pytest.raises(NotEligible, match="argmax"):
        hand("other", 16, 512, drafts="lookahead")


def test_a_drafter_that_fails_is_told_and_drafts_again(monkeypatch: pytest.MonkeyPatch) -> None:
    text = [*PROMPT, *plain(90)]
    handed = hand("other", 16, 512, draft_options={"min_n": 1}, policy="fixed")
    propose, calls = NgramDrafter.propose, count(1)

    def fail_third(self: NgramDrafter, budget: int) -> Draft:
        if next(calls) == 3:
            raise RuntimeError("after 7 8 9")
        return propose(self, budget)

    monkeypatch.setattr(NgramDrafter, "propose", fail_third)
    with pytest.warns(RuntimeWarning) as warned:
        drive(handed, text, len(PROMPT))
    assert [str(each.message) for each in warned] == handed.notes
    assert len(handed.notes) == 1
    assert "the drafter ngram failed in propose (RuntimeError at test_adapters.py:" in handed.notes[0]
    assert "7 8 9" not in handed.notes[0]
    drafted = [bool(round_.drafted) for round_ in handed.rounds]
    assert drafted[:3] == [True, True, False]
    assert any(drafted[3:])


def test_a_union_without_an_optional_member_is_handed_out_and_says_so() -> None:
    members = ["ngram", {"name": "model", "model": "smollm2-135m", "optional": True}]
    handed = hand("other", 16, 512, drafts="union", draft_options={"members": members}, policy="fixed")
    with pytest.warns(RuntimeWarning, match="The union does without it"):
        drive(handed, [*PROMPT, *plain(90)], len(PROMPT))
    assert any(round_.drafted for round_ in handed.rounds)


def test_unknown_names_and_lengths_are_refused() -> None:
    with pytest.raises(ConfigError, match="ngrm"):
        DraftModel("ngrm")
    with pytest.raises(ConfigError, match="max_m"):
        DraftModel(draft_options={"max_m": 1})
    with pytest.raises(ConfigError, match="longest"):
        DraftModel(longest=0)
