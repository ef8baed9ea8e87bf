"""A session under test, with a record beside it of what it must hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from surefoot.core.ports import Scores, Session, Target
from surefoot.core.types import Floats, as_ids
from surefoot.testing.references import fresh_logits


@dataclass(slots=True)
class Probe:
    """A session and its record. Holds changing state: the committed ids, and the tail with its parents.

    Every verb does the same to both, then compares: the length, and the rows with those of fresh prefills.
    `tolerance` is in logits; 0 means bit for bit.
    """

    target: Target
    tolerance: float
    taps: Sequence[str] = ()
    session: Session = field(init=False)
    committed: list[int] = field(default_factory=list)
    tail: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.session = self.target.open(self.taps)

    def prefill(self, ids: Sequence[int]) -> Scores:
        """Append and commit, and compare the row after the last of `ids`."""
        scores = self.session.prefill(as_ids(ids))
        self.committed += ids
        demand(scores.rows == 1, f"prefill gave {scores.rows} rows; it gives one, after its last token")
        self.check_length(f"prefill of {len(ids)} tokens")
        self.check_row(scores, 0, self.committed, f"prefill of {len(ids)} tokens")
        return scores

    def extend(
        self, block: Sequence[int], parents: Sequence[int] | None = None, width: int | None = None, every: int = 1
    ) -> Scores:
        """Append to the tail, and compare every `every`-th row and the last."""
        start = len(self.tail)
        scores = self.session.extend(as_ids(block), parents, width)
        chain = range(start - 1, start + len(block) - 1)
        self.tail += block
        self.parents += chain if parents is None else parents
        what = f"extend of {len(block)} rows" + ("" if parents is None else f" with parents {list(parents)}")
        what += "" if width is None else f" at width {width}"
        demand(scores.rows == len(block), f"{what} gave {scores.rows} rows")
        demand(scores.width >= max(len(block), width or 0), f"{what} says that it computed {scores.width} rows")
        self.check_length(what)
        self.check_rows(scores, start, what, every)
        return scores

    def check_rows(self, scores: Scores, start: int, what: str, every: int = 1) -> None:
        """Compare the rows of an extend whose first token stands at `start` in the tail."""
        for row in range(scores.rows):
            if row % every == 0 or row == scores.rows - 1:
                self.check_row(scores, row, self.seen_by(start + row), what)

    def commit(self, keep: int | Sequence[int]) -> None:
        """Keep part of the tail, and compare the length."""
        self.session.commit(keep)
        places = range(keep) if isinstance(keep, int) else keep
        self.committed += [self.tail[place] for place in places]
        self.forget_tail()
        self.check_length(f"commit({keep})")

    def reset(self, keep: int) -> None:
        """Go back to the first `keep` tokens, and compare the length."""
        self.session.reset(keep)
        self.committed = self.committed[:keep]
        self.forget_tail()
        self.check_length(f"reset({keep})")

    def renew(self) -> None:
        """Close, and go on with a new session."""
        self.session.close()
        self.session = self.target.open(self.taps)
        self.committed = []
        self.forget_tail()

    def forget_tail(self) -> None:
        """Take the tail out of the record."""
        self.tail, self.parents = [], []

    def next_row(self, token: int, what: str) -> None:
        """Drop the tail, and compare the row after one more token: the session still works and holds what it must."""
        self.commit(0)
        scores = self.session.extend(as_ids([token]))
        self.check_row(scores, 0, [*self.committed, token], f"one row {what}")
        self.commit(0)

    def seen_by(self, place: int) -> list[int]:
        """What the tail token at `place` follows, itself included."""
        branch: list[int] = []
        while place >= 0:
            branch.append(self.tail[place])
            place = self.parents[place]
        return self.committed + branch[::-1]

    def check_length(self, what: str) -> None:
        """The session counts committed tokens as the record does."""
        found = self.session.length
        demand(found == len(self.committed), f"after {what} length is {found}; {len(self.committed)} are committed")

    def check_row(self, scores: Scores, row: int, ids: Sequence[int], what: str) -> None:
        """Row `row` is that of a fresh prefill of `ids`, and its argmax is the first index of its largest logit."""
        found = scores.logits(row)
        demand(
            found.dtype == np.float32 and found.shape == (self.target.caps.vocab_size,),
            f"{what}: logits({row}) is {found.dtype} {found.shape}; float32 ({self.target.caps.vocab_size},) was due",
        )
        delta = difference(found, fresh_logits(self.target, ids))
        demand(
            delta <= self.tolerance,
            f"{what}: row {row} differs from a fresh prefill of the same {len(ids)} tokens by {delta:.3g} "
            f"(tolerance {self.tolerance:.3g})",
        )
        picks = scores.argmax()
        demand(
            picks.dtype == np.int32 and picks.shape == (scores.rows,),
            f"{what}: argmax() is {picks.dtype} {picks.shape}; int32 ({scores.rows},) was due",
        )
        demand(
            picks[row] == found.argmax(),
            f"{what}: argmax of row {row} is {picks[row]}; the first index of its largest logit is {found.argmax()}",
        )


def difference(a: Floats, b: Floats) -> float:
    """The largest difference of two rows; 0 only when they are equal bit for bit, infinite logits included."""
    if np.array_equal(a, b):
        return 0.0
    with np.errstate(invalid="ignore"):
        delta = np.abs(a.astype(np.float64) - b.astype(np.float64))
    return float(np.where(np.isnan(delta), np.where(a == b, 0.0, np.inf), delta).max())


def demand(holds: bool, sentence: str) -> None:
    """Raises: AssertionError with the sentence when the promise does not hold; not an `assert`, which -O removes."""
    if not holds:
        raise AssertionError(sentence)
