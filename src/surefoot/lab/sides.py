"""Texts by our own loop, timed: what stands on either side of a pair."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from surefoot.core.ports import Clock, Drafter
from surefoot.core.types import Ids, Round
from surefoot.engine.config import Config
from surefoot.engine.generator import Generation, Model
from surefoot.lab.records import Side, Step


def write(model: Model, ids: Ids, config: Config, clock: Clock, cancelled: Callable[[], bool] = lambda: False) -> Side:
    """The text after `ids`, greedy or drawn, drafts on or off, as `config` says.

    Shapes: ids (n,) int32, the whole prompt.
    Units: seconds of `clock`. `decode_s` is that of the rounds after the first token, drafting, judging and decoding to
    text included. `cancelled` is asked after every round: the text then ends there.
    """
    generation = written(model, ids, config, clock, cancelled)
    stats = generation.stats()
    return Side(
        ids=tuple(generation.ids),
        n_output=len(generation.ids),
        finish=generation.finish,
        prefill_s=stats.prefill_s,
        decode_s=stats.decode_s,
        steps=tuple(step(round_) for round_ in generation.rounds[1:]),
    )


def written(
    model: Model,
    ids: Ids,
    config: Config,
    clock: Clock,
    cancelled: Callable[[], bool] = lambda: False,
    around: Callable[[Drafter], Drafter] | None = None,
) -> Generation:
    """The same text as the generation that wrote it, closed. around: as in `Model.generate`."""
    config = replace(config, top_logprobs=None)
    with model.generate(ids, config=config, clock=clock, around=around) as generation:
        for _ in generation.steps():
            if cancelled():
                generation.cancel()
    return generation


def step(round_: Round) -> Step:
    """A decode round without its ids."""
    return Step(
        drafted=round_.drafted,
        evaluated=round_.evaluated,
        accepted=round_.accepted,
        emitted=len(round_.new_ids),
        depth=round_.depth,
        rows=round_.rows,
        width=round_.width,
        draft_s=round_.draft_s,
        extend_s=round_.extend_s,
        judge_s=round_.judge_s,
        commit_s=round_.commit_s,
        source=round_.source,
        match_len=round_.match_len,
    )
