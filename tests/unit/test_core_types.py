"""Drafts that break their own contract cannot be made, and their heads stay whole."""

from __future__ import annotations

import numpy as np
import pytest

from surefoot.core.errors import ConfigError, LawError
from surefoot.core.history import History
from surefoot.core.judge import make_judge
from surefoot.core.sampling import Sampling
from surefoot.core.types import EMPTY_DRAFT, Draft, Round, Verdict, as_ids
from surefoot.targets.toy import Options as ToyOptions
from surefoot.targets.toy import ToyTarget

THREE = as_ids([1, 2, 3])


@pytest.mark.parametrize("parents", [[-1, 0], [-1, 1, 0], [0, 0, 0], [-2, 0, 0], [-1, 0, 2]])
def test_parents_must_come_before_their_children(parents: list[int]) -> None:
    with pytest.raises(LawError, match="drafter 'x' gave"):
        Draft(THREE, parents=as_ids(parents), source="x")


@pytest.mark.parametrize("q", [np.ones((2, 4)), np.ones(3)])
def test_q_is_one_row_per_token(q: np.ndarray) -> None:
    with pytest.raises(LawError, match="q for 3 tokens"):
        Draft(THREE, q=q)


def test_q_and_trees_do_not_go_together() -> None:
    with pytest.raises(LawError, match="q for 3 tokens"):
        Draft(THREE, q=np.ones((3, 4)), parents=as_ids([-1, 0, 1]))


def test_a_head_keeps_everything_of_its_tokens() -> None:
    draft = Draft(THREE, q=np.eye(3), source="x", match_len=4)
    head = draft.head(2)
    assert (head.ids.tolist(), head.q.tolist(), head.source, head.match_len) == (  # type: ignore[union-attr]
        [1, 2], np.eye(3)[:2].tolist(), "x", 4,
    )  # fmt: skip
    tree = Draft(THREE, parents=as_ids([-1, -1, 1])).head(2)
    assert tree.parents is not None
    assert tree.parents.tolist() == [-1, -1]
    assert draft.head(3) is draft


def test_evaluated_is_what_was_not_cut() -> None:
    assert Round((1,), drafted=5, cut=2, accepted=0, depth=3, rows=4, width=4).evaluated == 3


def test_an_unknown_judge_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="no judge called 'mach'; the judges are match, ratio, tolerant"):
        make_judge("mach", Sampling())


@pytest.mark.parametrize("judge", ["match", "ratio", "tolerant"])
def test_a_round_without_a_draft_gets_a_whole_verdict(judge: str) -> None:
    prompt = as_ids([1, 2])
    scores, history = ToyTarget(ToyOptions(order=1)).open().prefill(prompt), History(prompt)
    verdict = make_judge(judge, Sampling()).judge(EMPTY_DRAFT, scores, history)
    assert verdict == Verdict((int(scores.argmax()[0]),), (0,))
    assert verdict.lossy == ()
    assert history.tokens.tolist() == [1, 2, *verdict.new_ids]
