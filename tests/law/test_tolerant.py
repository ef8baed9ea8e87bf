"""The lossy judge: with nothing tolerated it is greedy `match`, and what it writes always lies within the tolerance."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest

from surefoot.core.errors import ConfigError
from surefoot.core.history import History
from surefoot.core.judge import Tolerance, make_judge
from surefoot.core.limits import Limits
from surefoot.core.loop import generate
from surefoot.core.ports import Drafter
from surefoot.core.processors import process
from surefoot.core.sampling import Sampling
from surefoot.core.types import Draft, Round, Verdict, as_ids
from surefoot.targets.toy import Options, ToyTarget
from surefoot.targets.toy.session import ToyScores
from surefoot.testing.drafter_suite import Budgets, written
from surefoot.testing.drafters import Guesser, scripted
from surefoot.testing.laws import FreshRows

PROMPT = (0, 1, 2, 0, 1)
LETTERS = 3
TIES = ToyTarget(Options(vocab_size=LETTERS, order=1, quantum=2.0))
"""Its logits are whole steps apart, so that tokens tie."""
SMOOTH = ToyTarget(Options(vocab_size=LETTERS, order=1))
TARGETS = {"ties": TIES, "smooth": SMOOTH}
FRESH = {name: FreshRows(target) for name, target in TARGETS.items()}
VARIANTS = {
    "plain": Sampling(),
    "penalties": Sampling(repetition_penalty=2.0, presence_penalty=1.0, frequency_penalty=1.0),
    "banned": Sampling(banned=frozenset({1})),
    "forced": Sampling(forced={0: 2, 2: 1}),
    "min_tokens": Sampling(min_tokens=3, end_ids=frozenset({0})),
}
NEVER = frozenset[int]()
TOLERANCES = {
    "top 2": Tolerance(top_n=2),
    "margin": Tolerance(margin=2.5),
    "both": Tolerance(2, 3.0),
    "all": Tolerance(9),
}


def run(
    target: ToyTarget,
    drafter: Drafter,
    sampling: Sampling,
    judge: str,
    tolerance: Tolerance,
    n_tokens: int,
    stops: frozenset[int] = frozenset(),
) -> list[Round]:
    session = target.open()
    rounds = list(
        generate(
            session, as_ids(PROMPT), caps=target.caps, drafter=drafter, policy=Budgets((3,)),
            judge=make_judge(judge, sampling, tolerance=tolerance), limits=Limits(n_tokens, stops), clock=lambda: 0.0,
        )
    )  # fmt: skip
    assert session.length == len(PROMPT) + len(written(rounds)) - 1
    return rounds


def tree(known: tuple[int, ...], budget: int) -> Draft:
    """Every token of the vocabulary after the root, in an order that changes, and one token more on the first."""
    ids = [(place + len(known)) % LETTERS for place in range(LETTERS)]
    return Draft(as_ids([*ids, 2]), parents=as_ids([-1] * LETTERS + [0])).head(budget)


def drafters() -> list[Drafter]:
    """Every draft of three tokens, the same in each round, and trees."""
    chains = [Guesser(scripted(list(draft))) for draft in product(range(LETTERS), repeat=3)]
    return [*chains, Guesser(tree, trees=True)]


def is_near(logits: Sequence[float], token: int, tolerance: Tolerance) -> bool:
    """The rule once more, by sorting."""
    order = sorted(range(len(logits)), key=lambda each: (-logits[each], each))
    allowed = {each for each in order[: tolerance.top_n] if logits[each] > float("-inf")}
    allowed |= {each for each in order if logits[order[0]] - logits[each] < tolerance.margin}
    return token in allowed


def strays(fresh: FreshRows, rounds: Sequence[Round], sampling: Sampling, tolerance: Tolerance) -> list[int]:
    """How many tokens of each round greedy decoding would not have written there, all of them near enough."""
    history, counts = History(as_ids(PROMPT)), list[int]()
    for round_ in rounds:
        counts.append(0)
        for token in round_.new_ids:
            logits = process(fresh(history.tokens.tolist()), sampling, history).tolist()
            assert is_near(logits, token, tolerance)
            counts[-1] += token != max(range(LETTERS), key=lambda each: (logits[each], -each))
            history.push(token)
    return counts


@pytest.mark.parametrize("toy", TARGETS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_tolerating_nothing_is_match(variant: str, toy: str) -> None:
    sampling, target = VARIANTS[variant], TARGETS[toy]
    for n_tokens in (1, 2, 6):
        for lossy, exact in zip(drafters(), drafters(), strict=True):
            found = run(target, lossy, sampling, "tolerant", Tolerance(), n_tokens)
            assert found == run(target, exact, sampling, "match", Tolerance(), n_tokens)


@pytest.mark.parametrize("toy", TARGETS)
@pytest.mark.parametrize("tolerance", TOLERANCES.values(), ids=TOLERANCES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_what_is_written_lies_within_the_tolerance_and_is_counted(variant: str, tolerance: Tolerance, toy: str) -> None:
    """Near to what the model says after the very text that was written, and lossy where that is not its own choice."""
    sampling, total = VARIANTS[variant], 0
    for n_tokens, stops in ((1, NEVER), (2, NEVER), (6, NEVER), (6, frozenset({0}))):
        for drafter in drafters():
            rounds = run(TARGETS[toy], drafter, sampling, "tolerant", tolerance, n_tokens, stops)
            counted = [round_.lossy for round_ in rounds]
            assert counted == strays(FRESH[toy], rounds, sampling, tolerance)
            total += sum(counted)
    assert total > 0 or variant != "plain", "nothing was tolerated, so this proves nothing"


def test_every_draft_near_enough_is_accepted() -> None:
    for draft in product(range(LETTERS), repeat=3):
        rounds = run(SMOOTH, Guesser(scripted(list(draft))), Sampling(), "tolerant", Tolerance(LETTERS), 9)
        assert [round_.accepted for round_ in rounds[1:]] == [3, 3]
        assert written(rounds)[1:4] == list(draft)


def judged(draft: Draft, logits: Sequence[Sequence[float]], tolerance: Tolerance) -> Verdict:
    """What becomes of a draft where the rows are these."""
    judge = make_judge("tolerant", Sampling(), tolerance=tolerance)
    return judge.judge(draft, ToyScores(np.array(logits, np.float32), len(logits), {}), History(as_ids(PROMPT)))


@pytest.mark.parametrize(
    ("logits", "tolerance", "token", "lossy"),
    [
        ((3.0, 2.0, 2.0, 0.0), Tolerance(top_n=2), 1, 1),  # of equal ones the lower id has the better rank
        ((3.0, 2.0, 2.0, 0.0), Tolerance(top_n=2), 2, 0),
        ((3.0, 2.0, 1.0, 0.0), Tolerance(margin=1.0), 1, 0),  # less than the margin, not as much
        ((3.0, 2.5, 1.0, 0.0), Tolerance(margin=1.0), 1, 1),
        ((3.0, float("-inf"), 1.0, 0.0), Tolerance(top_n=4), 1, 0),
    ],
)
def test_the_edges_of_the_tolerance(logits: tuple[float, ...], tolerance: Tolerance, token: int, lossy: int) -> None:
    verdict = judged(Draft(as_ids([token])), [logits, logits], tolerance)
    assert len(verdict.lossy) == lossy
    assert verdict.new_ids == ((token, 0) if lossy else (0,))


def test_of_branches_the_models_own_is_taken_and_else_the_likeliest_that_is_near() -> None:
    logits = (3.0, 2.0, 2.5, 0.0)
    siblings = as_ids([-1, -1])
    own = judged(Draft(as_ids([2, 0]), parents=siblings), [logits] * 3, Tolerance(3))
    assert (own.new_ids[0], own.path, own.lossy) == (0, (0, 2), ())
    near = judged(Draft(as_ids([1, 2]), parents=siblings), [logits] * 3, Tolerance(3))
    assert (near.new_ids[0], near.path, near.lossy) == (2, (0, 2), (0,))


def test_it_needs_a_text_that_is_not_drawn() -> None:
    with pytest.raises(ConfigError, match=r"lossy judge tolerant .* temperature 0\.7 draws; set temperature to 0"):
        make_judge("tolerant", Sampling(temperature=0.7))


@pytest.mark.parametrize(
    ("given", "said"),
    [({"top_n": 0}, "top_n must be at least 1"), ({"margin": -0.5}, "from 0 up; got -0.5"),
     ({"margin": float("nan")}, "got nan"), ({"margin": float("inf")}, "got inf")],
)  # fmt: skip
def test_a_tolerance_that_makes_no_sense_is_refused(given: dict[str, float], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Tolerance(**given)  # type: ignore[arg-type]
