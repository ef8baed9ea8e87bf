"""The values that cross the contracts: drafts, verdicts, rounds. All frozen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from surefoot.core.errors import LawError

Ids = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]

Finish = Literal["stop", "length", "context", "cancel"]
"""Why writing ended: a stop id or string, the output limit, a full context, the caller."""

RowClass = Literal["identical", "near-tie", "row-dependent"]
"""How rows of one block compare with the same rows computed one by one: no difference seen; only where the two
likeliest tokens nearly tie; or neither."""


def as_ids(values: Sequence[int] | npt.NDArray[Any]) -> Ids:
    """The same ids as (n,) int32."""
    return np.asarray(values, dtype=np.int32).reshape(-1)


@dataclass(frozen=True, slots=True)
class Caps:
    """What a target can do. Every length is in tokens, every size in rows.

    `max_rows` bounds one `extend`; `max_length` bounds committed and provisional tokens together.
    `tap_names` are the hidden states that `open(taps=...)` accepts. `settings` are the runtime
    settings that can change a bit of the result: they belong beside every figure and every gate. `row_class` is
    what is known of these settings without measuring here; `near-tie` where nothing is.
    """

    backend: str
    vocab_size: int
    max_length: int
    max_rows: int
    discipline: str
    can_pad: bool = False
    can_tree: bool = False
    tap_names: tuple[str, ...] = ()
    device: str = "cpu"
    row_class: RowClass = "near-tie"
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Vocabulary:
    """What the tokens of a model spell, each on its own. A model may have more rows than tokens here (padding).

    spelled: by id, in UTF-8, b"" for an id without a text. control: ids that are no text, such as the end of a turn.
    single: ids that stand for one byte, as <0xE4> does. start: ids that the model wants before a text.
    """

    spelled: Sequence[bytes]
    control: frozenset[int] = frozenset()
    single: frozenset[int] = frozenset()
    start: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.spelled)


@dataclass(frozen=True, slots=True, eq=False)
class Draft:
    """Guessed tokens, parents before children.

    Shapes: ids (n,) int32; q (n, V) float64 or None; parents (n,) int32 or None.
    `parents[i]` indexes this draft, -1 standing for the root; None is a chain. `q[i]` is the law that
    ids[i] was drawn from, and is only given when the drafter, the length and the inclusion of a token
    were all fixed before that draw. Without q the draft is a point mass. q goes with chains only.
    """

    ids: Ids
    q: Doubles | None = None
    parents: Ids | None = None
    source: str = ""
    match_len: int = 0

    def __post_init__(self) -> None:
        n = len(self.ids)
        if self.q is not None and (self.parents is not None or self.q.ndim != 2 or len(self.q) != n):
            raise LawError(f"drafter {self.source!r} gave q for {n} tokens that is not one row per chain token")
        if self.parents is not None:
            if len(self.parents) != n:
                raise LawError(f"drafter {self.source!r} gave {len(self.parents)} parents for {n} tokens")
            if n and not bool(np.all((self.parents >= -1) & (self.parents < np.arange(n)))):
                raise LawError(f"drafter {self.source!r} gave a tree whose parents do not come before their children")

    def __len__(self) -> int:
        return len(self.ids)

    def head(self, n: int) -> Draft:
        """The first n tokens of this draft; itself when it is no longer than that."""
        if n >= len(self.ids):
            return self
        return Draft(
            self.ids[:n],
            None if self.q is None else self.q[:n],
            None if self.parents is None else self.parents[:n],
            self.source,
            self.match_len,
        )


EMPTY_DRAFT = Draft(np.zeros(0, np.int32))


class State(NamedTuple):
    """What a policy may look at before a draft exists. `room` is the largest draft_len that still fits."""

    room: int
    depth: int
    emitted: int


class Verdict(NamedTuple):
    """What a judge lets through: accepted drafts, then one correction or bonus token.

    `path[j]` is the row of the block that predicted `new_ids[j]`. Row 0 is the root, so the rows to keep
    when the first k new ids are emitted are exactly `path[:k]`. `lossy` are the places in `new_ids` of drafts that
    plain decoding would not have written, which only a lossy judge accepts.
    """

    new_ids: tuple[int, ...]
    path: tuple[int, ...]
    lossy: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """Natural-log probability of one emitted token under the model's own law, and the likeliest others."""

    id: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


class Round(NamedTuple):
    """One turn of the loop, and the only event there is.

    The first round of a generation is the prefill (`source == "prefill"`): it emits the first root.
    drafted: tokens the drafter proposed; cut: how many of them the policy dropped before scoring.
    accepted: drafts among `new_ids`. depth: tokens committed before the round. rows: scored, the root
    included; width: rows computed, padding included. Times are seconds of the injected clock. lossy: how many of
    `new_ids` plain decoding would not have written there, always 0 but for a lossy judge. host_s: from the end of the
    round before to the start of this one (the policy, the text, and who reads it); 0 for the prefill.
    """

    new_ids: tuple[int, ...]
    drafted: int
    cut: int
    accepted: int
    depth: int
    rows: int
    width: int
    source: str = ""
    match_len: int = 0
    draft_s: float = 0.0
    extend_s: float = 0.0
    judge_s: float = 0.0
    commit_s: float = 0.0
    finish: Finish | None = None
    logprobs: tuple[TokenLogprob, ...] | None = None
    lossy: int = 0
    host_s: float = 0.0

    @property
    def evaluated(self) -> int:
        """Drafts that were scored."""
        return self.drafted - self.cut
