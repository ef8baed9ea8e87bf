"""Where two texts part, and how far apart the two likeliest tokens were there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from surefoot.core.types import Ids, as_ids
from surefoot.engine.generator import Model

_CONTEXT = 12  # chosen: enough tokens to find the place in a text


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first token that differs. An id is None where that text had ended. before: the text up to there, its end.

    gap: logits between the two likeliest tokens there, of a fresh prefill.
    """

    index: int
    one_id: int | None
    other_id: int | None
    gap: float
    before: str

    def describe(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def first_difference(one: Sequence[int], other: Sequence[int]) -> int | None:
    """Where two texts part; None where they are the same."""
    for place, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return place
    return None if len(one) == len(other) else min(len(one), len(other))


def divergence(model: Model, prompt: Ids, one: Sequence[int], other: Sequence[int]) -> Divergence | None:
    """Where two texts after `prompt` part, looked at once more; None where they are the same."""
    place = first_difference(one, other)
    if place is None:
        return None
    session = model.target.open()
    try:
        row = session.prefill(np.concatenate([prompt, as_ids(one[:place])])).logits(0)
    finally:
        session.close()
    top = np.sort(row)[-2:] if len(row) > 1 else np.zeros(2)
    ids = [text[place] if place < len(text) else None for text in (one, other)]
    before = model.tokenizer.decode(one[max(0, place - _CONTEXT) : place], skip_special=False)
    return Divergence(place, ids[0], ids[1], float(top[1] - top[0]), before)
