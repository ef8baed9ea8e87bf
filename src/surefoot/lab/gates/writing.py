"""Texts of our own loop with any drafter, as the gates need them: greedy, untimed, every round kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from surefoot.core import loop
from surefoot.core.cost import CostCurve
from surefoot.core.judge import make_judge
from surefoot.core.limits import Limits
from surefoot.core.ports import Drafter, Needs, Policy, Scores
from surefoot.core.sampling import Sampling
from surefoot.core.types import Draft, Ids, Round, as_ids
from surefoot.engine import parts, plans
from surefoot.engine.config import AUTO, Part
from surefoot.engine.generator import Model

LONGEST_DRAFT = 10
"""chosen: past the tops of every plateau measured so far (2 and 7), where lookup on code still gains."""


@dataclass(frozen=True, slots=True)
class Written:
    """A text and its rounds, the prefill first."""

    ids: tuple[int, ...]
    rounds: tuple[Round, ...]

    @property
    def accepted(self) -> int:
        return sum(round_.accepted for round_ in self.rounds)

    @property
    def evaluated(self) -> int:
        return sum(round_.evaluated for round_ in self.rounds)


def write(model: Model, prompt: Ids, drafter: Drafter, policy: Policy, n_tokens: int) -> Written:
    """The greedy text after `prompt`, ended as every text of this model is."""
    session = model.target.open(drafter.needs.taps)
    ends = model.tokenizer.eos_ids | model.config.stop_ids
    try:
        rounds = tuple(
            loop.generate(
                session,
                prompt,
                caps=model.target.caps,
                drafter=drafter,
                policy=policy,
                judge=make_judge("match", Sampling()),
                limits=Limits(n_tokens, ends),
                clock=lambda: 0.0,
                width=plans.padding(model.curve, model.target.caps),
            )
        )
    finally:
        session.close()
    return Written(tuple(token for round_ in rounds for token in round_.new_ids), rounds)


def plain(model: Model, prompt: Ids, n_tokens: int) -> tuple[int, ...]:
    """The greedy text without drafts."""
    return write(model, prompt, drafter(model, Part("off")), policy(Part("fixed", {"draft_len": 0})), n_tokens).ids


def drafter(model: Model, part: Part) -> Drafter:
    """A new drafter of this kind."""
    greedy_config = replace(model.config, sampling=Sampling(), judge="match")
    return model.workshop(greedy_config).drafter(part.name, part.options)


def policy(part: Part, curve: CostCurve | None = None) -> Policy:
    """A new policy of this kind."""
    plugin = parts.find("policy", part.name)
    made: Policy = plugin.build(parts.make_options(plugin, part.options, "policy"), curve)
    return made


def drafts_in_use(model: Model) -> Part:
    """The drafter that the gates try: the configured one, or lookup where drafts are off."""
    return Part("ngram") if model.config.drafts.name == "off" else model.config.drafts


def policy_in_use(model: Model) -> Part:
    """The policy that goes with it."""
    asked = Part(AUTO) if model.config.drafts.name == "off" else model.config.policy
    # Texts of gates take no time on any clock, so that lengths have to come from the curve and the text alone.
    used = plans.policy_in_use(asked, model.curve, "near-tie")
    return Part(used.name, {**used.options, "reproducible": True}) if used.name == plans.GOODPUT else used


def longest_draft(model: Model) -> int:
    """The longest draft in use: what the configured policy asks for at most, and never less than the gates try."""
    plugin = parts.find("policy", policy_in_use(model).name)
    options = parts.make_options(plugin, policy_in_use(model).options, "policy")
    asked = int(getattr(options, "draft_len", LONGEST_DRAFT))
    return min(max(asked, LONGEST_DRAFT), model.target.caps.max_rows - 1)


class Adversary:
    """Drafts the plain text with every third token replaced by a wrong one. Holds changing state: its place in it."""

    needs = Needs()

    def __init__(self, plain: Sequence[int], vocab_size: int) -> None:
        self._plain, self._vocab_size, self._written = as_ids(plain), vocab_size, 0

    def begin(self, prompt: Ids, root: int, scores: Scores) -> None:
        """At the first token."""
        self._written = 1

    def propose(self, budget: int) -> Draft:
        """What comes next, a third of it wrong."""
        ids = self._plain[self._written : self._written + budget].copy()
        wrong = (np.arange(len(ids)) + self._written) % 3 == 2
        ids[wrong] = other(ids[wrong], self._vocab_size)
        return Draft(ids, source="adversary")

    def observe(self, new_ids: Sequence[int], scores: Scores) -> None:
        """Move on by what was emitted."""
        self._written += len(new_ids)


def other(ids: Ids, vocab_size: int) -> Ids:
    """A wrong token in the place of each. Shapes: as `ids`."""
    wrong: Ids = ((ids + 1) % vocab_size).astype(np.int32)
    return wrong


def greedy(model: Model) -> Model:
    """The same model, configured to write greedily, without drafts and without anything that ends a text early."""
    config = replace(model.config, sampling=Sampling(), drafts=Part("off"), stop=(), top_logprobs=None)
    return replace(model, config=config)
