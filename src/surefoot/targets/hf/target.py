"""A loaded transformers model, and the trial that shows it can be rolled back exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from surefoot.core.errors import NotEligible, SurefootError, TargetError
from surefoot.core.types import Caps, Floats, as_ids
from surefoot.targets.hf.runner import Runner
from surefoot.targets.hf.session import MAX_ROWS, HfSession


class HfTarget:
    """A loaded model. Its sessions share the weights."""

    def __init__(self, runner: Runner, caps: Caps) -> None:
        self._runner = runner
        self._caps = caps

    @property
    def caps(self) -> Caps:
        """What this target can do."""
        return self._caps

    @property
    def module(self) -> Any:
        """The torch module itself, for what transformers does with it on its own."""
        return self._runner.model

    def open(self, taps: Sequence[str] = ()) -> HfSession:
        """A new empty session that records the named taps."""
        for name in taps:
            if name not in self._caps.tap_names:
                known = f"{self._caps.tap_names[0]} to {self._caps.tap_names[-1]}" if self._caps.tap_names else "none"
                raise NotEligible(f"tap {name!r} is not among this model's hidden states ({known})")
        return HfSession(self._runner, tuple(taps), self._caps.max_rows)


@dataclass(frozen=True, slots=True)
class Trial:
    """What a model showed on eight tokens."""

    vocab_size: int
    steerable: bool


def try_out(runner: Runner) -> Trial:
    """The trial's findings, after a chain, a rollback and a tree on the real model and its real cache.

    Raises: NotEligible when the model's rows are not those of fresh prefills, so that nothing would be lossless.
    """
    ids = np.linspace(1, runner.embeddings - 1, 7).astype(np.int32)
    prompt, (a, b, c) = ids[:4], ids[4:]
    try:
        session = HfSession(runner, (), MAX_ROWS)
        vocab_size = len(session.prefill(prompt).logits(0))
        scores = session.extend(as_ids([a, b, c]))
        chain = [scores.logits(row) for row in range(3)]
        session.commit(0)
        alone = session.extend(as_ids([a])).logits(0)
        session.reset(0)
        fresh = session.prefill(as_ids([*prompt, a, b, c])).logits(0)
        session.close()
    except TargetError as error:
        raise NotEligible(f"the model does not run a cached forward as other causal models do: {error}") from error
    _require(runner, chain[0], alone, "a row changes with the tokens behind it: the model is not causal")
    _require(runner, chain[2], fresh, "a row after a rollback differs from a fresh prefill of the same tokens")
    may_tree = runner.takes_positions and runner.windows is not None
    return Trial(vocab_size, may_tree and _tree_holds(runner, ids, chain))


def _tree_holds(runner: Runner, ids: np.ndarray[Any, Any], chain: list[Floats]) -> bool:
    """Whether rows of a tree, and a row after a path was committed, equal those of the chain a, b, c."""
    prompt, (a, b, c) = ids[:4], ids[4:]
    try:
        session = HfSession(replace(runner, steerable=True), (), MAX_ROWS)
        session.prefill(prompt)
        tree = session.extend(as_ids([a, c, b]), parents=[-1, -1, 0])
        rows = [tree.logits(0), tree.logits(2)]
        session.commit([0, 2])
        rows.append(session.extend(as_ids([c])).logits(0))
        session.close()
    except SurefootError:
        return False
    return all(_same(runner, row, other) for row, other in zip(rows, chain, strict=True))


def _require(runner: Runner, row: Floats, other: Floats, reason: str) -> None:
    if not _same(runner, row, other):
        raise NotEligible(f"{type(runner.model).__name__} cannot be used: {reason}")


def _same(runner: Runner, row: Floats, other: Floats) -> bool:
    """Whether two rows differ by rounding only.

    The tolerance is a share of the row's spread. chosen: a wrong mask or position moves rows by a tenth of it and
    more, float32 rounding by under 1e-5, bfloat16 rounding by about 1e-2.
    """
    spread = float(row.max() - row.min())
    share = 1e-3 if runner.model.dtype.itemsize >= 4 else 5e-2
    return bool(np.abs(row - other).max() <= share * spread)
