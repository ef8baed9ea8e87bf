"""The numbers of one generation, each defined here and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from surefoot.core.types import Finish, Round

STALL = 4.0
"""chosen: a fuller cache, or a core shared with another process, slows a forward by two at the most; a core taken away
for a time slice, or weights that have to come from the disk again, by more."""
ENOUGH = 8
"""chosen: a median of fewer may be a stall itself."""


@dataclass(frozen=True, slots=True)
class Stats:
    """What one generation did. The prefill and its token are outside every decode figure.

    rounds: forwards after the prefill; rows: rows they scored, roots included. drafted, evaluated, accepted: tokens
    proposed, scored, emitted. accepted_per_round: accepted drafts per round; tokens per round are that plus one, but
    for a last round that a stop cut short. decode_s: wall clock of the rounds, drafting, judging and decoding to text
    included, the reader's time excluded. host_share: the part of it outside the runtime's forwards. stalls: forwards
    that took far longer than others of as many rows, and stalled_s the time lost in them. lossy_tokens: accepted
    drafts that plain decoding would not have written there; 0 but for a lossy judge.
    """

    prompt_tokens: int
    output_tokens: int
    rounds: int
    rows: int
    drafted: int
    evaluated: int
    accepted: int
    accepted_per_round: float
    prefill_s: float
    decode_s: float
    tokens_per_second: float
    host_share: float
    stalls: int
    stalled_s: float
    finish: Finish | None
    lossy_tokens: int = 0


def summarise(n_prompt: int, rounds: Sequence[Round], walls: Sequence[float], finish: Finish | None) -> Stats:
    """The numbers of `rounds`, the prefill first; `walls` are their wall-clock seconds."""
    decode, prefill = rounds[1:], rounds[:1]
    decode_s = sum(walls[1:])
    emitted = sum(len(r.new_ids) for r in decode)
    accepted = sum(r.accepted for r in decode)
    lost = stalls(decode)
    return Stats(
        prompt_tokens=n_prompt,
        output_tokens=emitted + len(prefill),
        rounds=len(decode),
        rows=sum(r.rows for r in decode),
        drafted=sum(r.drafted for r in decode),
        evaluated=sum(r.evaluated for r in decode),
        accepted=accepted,
        accepted_per_round=accepted / len(decode) if decode else 0.0,
        prefill_s=sum(walls[:1]),
        decode_s=decode_s,
        tokens_per_second=emitted / decode_s if decode_s > 0 else 0.0,
        host_share=1 - sum(r.extend_s for r in decode) / decode_s if decode_s > 0 else 0.0,
        stalls=len(lost),
        stalled_s=sum(lost),
        finish=finish,
        lossy_tokens=sum(r.lossy for r in decode),
    )


def stalls(rounds: Sequence[Round]) -> list[float]:
    """Seconds above the usual of each forward that took `STALL` times the usual of its row count, or more.

    Nothing is said of row counts of which there are fewer than `ENOUGH` forwards.
    """
    by_width: dict[int, list[float]] = {}
    for round_ in rounds:
        by_width.setdefault(round_.width, []).append(round_.extend_s)
    usual = {width: median(taken) for width, taken in by_width.items() if len(taken) >= ENOUGH}
    return [
        round_.extend_s - usual[round_.width]
        for round_ in rounds
        if round_.width in usual and round_.extend_s >= STALL * usual[round_.width] > 0
    ]
