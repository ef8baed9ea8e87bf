"""What every runtime refuses of a session, in the same words, and how its scores are read."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from surefoot.core.blocks import Bounds, check_prompt, check_reset, checked_block, closed
from surefoot.core.errors import CapacityError, ConfigError, LawError, SurefootError, TargetError
from surefoot.core.scores import HeldScores
from surefoot.core.types import Caps, as_ids

BOUNDS = Bounds(n_ids=50, max_length=20, max_rows=6, can_pad=True, can_tree=True)


def test_a_chain_stands_behind_what_is_there_and_is_padded_with_its_last_token() -> None:
    block = checked_block(as_ids([7, 8]), None, 4, BOUNDS, 10, 0, after_tree=False)
    assert (block.ids.tolist(), list(block.places)) == ([7, 8, 8, 8], [10, 11, 12, 13])
    assert (block.rows, block.width, block.parents) == (2, 4, None)
    assert block.square().tolist() == np.tri(4, dtype=bool).tolist()


def test_rows_of_a_tree_stand_at_their_depth_and_see_their_ancestors() -> None:
    block = checked_block(as_ids([1, 2, 3]), [-1, -1, 0], 4, BOUNDS, 5, 0, after_tree=False)
    assert list(block.places) == [5, 5, 6, 5]
    sees = [[0], [1], [0, 2], [3]]  # the last one is padding
    assert [np.flatnonzero(row).tolist() for row in block.square()] == sees


@pytest.mark.parametrize(
    ("ids", "parents", "width", "tail", "after_tree", "bounds", "kind", "words"),
    [
        ([], None, None, 0, False, BOUNDS, LawError, "no tokens"),
        ([1, 2], None, 1, 0, False, BOUNDS, LawError, "2 rows with a width of 1"),
        ([1], [-1], None, 1, False, BOUNDS, LawError, "only extend before its commit"),
        ([1], None, None, 1, True, BOUNDS, LawError, "only extend before its commit"),
        ([1], [-1], None, 0, False, replace(BOUNDS, can_tree=False), LawError, "can_tree"),
        ([1], None, 2, 0, False, replace(BOUNDS, can_pad=False), LawError, "can_pad"),
        ([1], None, 7, 0, False, BOUNDS, CapacityError, "7 rows are more than the 6"),
        ([1, 50], None, None, 0, False, BOUNDS, ConfigError, "token id 50 is outside the model's 50 ids"),
        ([-1, 3], None, None, 0, False, BOUNDS, ConfigError, "token id -1 "),
        ([1] * 6, None, None, 0, False, BOUNDS, CapacityError, "6 more tokens after 15 pass the context of 20"),
    ],
)
def test_a_block_that_cannot_be_appended(
    ids: list[int], parents: list[int] | None, width: int | None, tail: int, after_tree: bool, bounds: Bounds,
    kind: type[SurefootError], words: str,
) -> None:  # fmt: skip
    with pytest.raises(kind, match=words):
        checked_block(as_ids(ids), parents, width, bounds, 15, tail, after_tree)


def test_a_prompt_and_a_reset_that_cannot_be() -> None:
    check_prompt(as_ids([1, 2]), BOUNDS, 18, 0)
    for ids, length, tail, kind in (
        ([1], 0, 2, LawError), ([], 0, 0, LawError), ([1, 2], 19, 0, CapacityError), ([50], 0, 0, ConfigError),
    ):  # fmt: skip
        with pytest.raises(kind):
            check_prompt(as_ids(ids), BOUNDS, length, tail)
    check_reset(3, 3)
    for keep in (-1, 4):
        with pytest.raises(LawError, match=f"reset to {keep} tokens with 3 committed"):
            check_reset(keep, 3)
    assert isinstance(closed("toy", "extend"), TargetError)


def test_the_bounds_of_a_target() -> None:
    caps = Caps("toy", 50, 20, 6, "mask", can_pad=True, can_tree=True)
    assert Bounds.of(caps) == BOUNDS


@dataclass
class Session:
    """Counts what invalidates its scores."""

    turn: int = 0


def test_scores_are_read_until_their_session_moves_on() -> None:
    session = Session()
    held = np.array([[0.0, 2.0, 2.0], [3.0, 1.0, 2.0]], np.float16)
    scores = HeldScores(session, held, 2, 4, {"layer": "its rows"})
    assert (scores.rows, scores.width) == (2, 4)
    assert (scores.argmax().tolist(), scores.argmax().dtype) == ([1, 0], np.int32)
    row = scores.logits(1)
    assert (row.tolist(), row.dtype) == ([3.0, 1.0, 2.0], np.float32)
    assert not row.flags.writeable
    assert held.flags.writeable, "what the runtime writes to stays writable"
    assert scores.tap("layer") == "its rows"
    for wrong in (lambda: scores.logits(2), lambda: scores.logits(-1), lambda: scores.tap("other")):
        with pytest.raises(LawError):
            wrong()
    session.turn += 1
    for late in (scores.argmax, lambda: scores.logits(0), lambda: scores.tap("layer")):
        with pytest.raises(LawError, match="were read after"):
            late()


def test_rows_in_float32_are_not_copied() -> None:
    held = np.zeros((1, 3), np.float32)
    assert HeldScores(Session(), held, 1, 1).logits(0).base is not None
    assert np.shares_memory(HeldScores(Session(), held, 1, 1).logits(0), held)
