"""Drafts for transformers, in the place of its prompt lookup.

    from surefoot.app.adapters.transformers import drafting

    with drafting(model):
        model.generate(**inputs, max_new_tokens=200)

transformers 5.24 chooses its candidate generator in a method of the model and has no setting for another one, so that
method and `generate` are replaced while the context is open. Goes when `generate` takes a candidate generator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from surefoot.app.adapters.handed import LONGEST, Handed, hand
from surefoot.core.errors import ConfigError, NotEligible
from surefoot.core.types import as_ids

_METHOD = "_get_candidate_generator"


class Candidates:
    """What `transformers.generation.CandidateGenerator` is asked for. Holds changing state: the text so far."""

    requires_model_outputs = False

    def __init__(self, handed: Handed, max_length: int, end_ids: frozenset[int], longest: int) -> None:
        """max_length: of the whole text, as `generate` was told."""
        self.handed = handed
        self._max_length = max_length
        self._end_ids = end_ids
        self._longest = longest

    def get_candidates(self, input_ids: Any, **kwargs: Any) -> tuple[Any, None]:
        """The tokens so far with the draft behind them. Shapes: (1, n) -> (1, n + k).

        Raises: NotEligible for more than one sequence.
        """
        import torch

        if input_ids.shape[0] != 1:
            raise NotEligible(f"drafts are for one sequence at a time; transformers asks for {input_ids.shape[0]}.")
        ids = as_ids(input_ids[0].cpu().numpy())
        room = min(self._longest, self._max_length - len(ids) - 1)
        # No draft holds an end of text, as with transformers' own lookup: what follows one would be accepted with it.
        draft = self.handed(ids, max(0, room), self._end_ids).tolist()
        if not draft:
            return input_ids, None
        more = torch.tensor([draft], dtype=input_ids.dtype, device=input_ids.device)
        return torch.cat((input_ids, more), dim=1), None

    def update_candidate_strategy(self, input_ids: Any, scores: Any, num_matches: int) -> None:
        """Nothing: what was accepted shows in the next tokens."""


def handed_for(
    model: Any,
    drafts: str = "ngram",
    draft_options: Mapping[str, Any] | None = None,
    policy: str = "goodput",
    policy_options: Mapping[str, Any] | None = None,
) -> Handed:
    """A drafter and a policy for this model, as `handed.hand`; what the policy learns stays from context to context."""
    config = model.config.get_text_config()
    return hand(
        "transformers",
        int(config.vocab_size),
        int(getattr(config, "max_position_embeddings", 2**31 - 1)),
        drafts=drafts,
        draft_options=draft_options,
        policy=policy,
        policy_options=policy_options,
    )


@contextmanager
def drafting(model: Any, handed: Handed | None = None, *, longest: int = LONGEST) -> Iterator[list[Candidates]]:
    """`model.generate` drafts while the context is open; yields a list that gets one entry a text.

    handed: what `handed_for` gave; without it, lookup with goodput. longest: tokens in a draft at most.
    Raises: ConfigError for a length out of range, for a model that somebody drafts for already, and in `generate` for
    another model or head of the caller that is to draft; NotEligible for a transformers without the method that is
    replaced.
    """
    if not 1 <= longest <= LONGEST:
        raise ConfigError(f"longest must be from 1 to {LONGEST} tokens; got {longest}.")
    if not callable(getattr(type(model), _METHOD, None)):
        raise NotEligible(f"{type(model).__name__} has no {_METHOD}, which this adapter replaces (transformers 5.24).")
    if _METHOD in vars(model):
        raise ConfigError(
            f"{type(model).__name__} has a {_METHOD} that was put in the place of its own, as drafting() does while it "
            "is open; leave that context first."
        )
    drafter = handed or handed_for(model)
    made: list[Candidates] = []

    def choose(generation_config: Any, **named: Any) -> Candidates:
        _refuse_other_drafts(generation_config, named.get("assistant_model"))
        ends = generation_config._eos_token_tensor
        end_ids = frozenset() if ends is None else frozenset(np.atleast_1d(ends.cpu().numpy()).tolist())
        made.append(Candidates(drafter, int(generation_config.max_length), end_ids, longest))
        return made[-1]

    def generate(*given: Any, **named: Any) -> Any:
        # With this setting `generate` asks for a candidate generator at all; its value is that of its own lookup.
        return written_by(*given, **{"prompt_lookup_num_tokens": longest, **named})

    written_by, own = model.generate, vars(model).get("generate")
    setattr(model, _METHOD, choose)
    model.generate = generate
    try:
        yield made
    finally:
        delattr(model, _METHOD)
        del model.generate
        if own is not None:  # somebody had replaced it before
            model.generate = own


def _refuse_other_drafts(generation_config: Any, assistant_model: Any) -> None:
    """Raises: ConfigError where the caller has named another source of drafts, which would be asked for nothing."""
    asked = {
        "assistant_model": assistant_model,
        "assistant_early_exit": generation_config.assistant_early_exit,
        "use_mtp": generation_config.use_mtp,
    }
    for name, value in asked.items():
        if value not in (None, False):
            raise ConfigError(
                f"generate was given {name} while drafting() is open; both say where drafts come from, so leave one out"
            )
