"""What a draft model is taken to cost where goodput goes by no clock and nobody has said it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tiny_tokenizers import byte_level
from tune_world import VOCABULARY, Machine, tuned

from surefoot.core.types import RowClass, State
from surefoot.drafters.model.follower import UNSAID_COST
from surefoot.drafters.union.options import MODEL_COST
from surefoot.engine import plans
from surefoot.engine.config import Config, Part
from surefoot.engine.generator import Generation
from surefoot.engine.tokenizer import Tokenizer
from surefoot.engine.workshop import Shelf
from surefoot.policies.goodput.policy import GoodputPolicy
from surefoot.targets.toy import Options, ToyTarget

MODEL = {"model": "small", "confidence": 0.0}
SECOND = {"name": "model", **MODEL}
GOODPUT = Part("goodput")


def second(model: str, config: Config) -> tuple[ToyTarget, Tokenizer]:
    target = ToyTarget(Options(vocab_size=VOCABULARY, order=1, max_length=4096, seed=1))
    return target, Tokenizer("toy", byte_level(), frozenset())


def written(folder: Path, drafts: Part, policy: Part = GOODPUT, row_class: RowClass = "near-tie") -> Generation:
    """A text of a model with a plan, and with a second model at hand."""
    machine = Machine(row_class=row_class)
    found = tuned(machine, folder)
    model = machine.model(folder, drafts=drafts, policy=policy, allow_near_ties=True, max_tokens=40)
    model = replace(model, found=plans.Found(found.plan, found.path), shelf=Shelf(second))
    with model.generate([1, 2, 3, 1, 2, 3], clock=machine.clock) as generation:
        for _ in generation:
            pass
    return generation


def plain_ms(folder: Path) -> float:
    """A round of one row by the plan, at the deepest context that was swept."""
    [path] = (folder / "cache").rglob("*.json")
    curve = plans.load(path).curve
    assert curve is not None
    return 1e3 * curve.round_s(1, 160)


@pytest.mark.parametrize(
    ("drafts", "cost"),
    [
        (Part("model", MODEL), UNSAID_COST),
        (Part("union", {"members": [{"name": "ngram"}, SECOND]}), MODEL_COST),
        (Part("union", {"members": [{"name": "ngram"}, {**SECOND, "cost": 0.3}]}), 0.3),
    ],
    ids=["model", "union", "union with a cost"],
)
def test_without_a_clock_a_draft_model_is_not_taken_to_be_free(tmp_path: Path, drafts: Part, cost: float) -> None:
    found = written(tmp_path, drafts)
    assert found.policy.options["draft_ms"] == pytest.approx(cost * plain_ms(tmp_path))
    [note] = found.notes
    assert note.startswith(f"goodput takes a token of the drafter {drafts.name} for ")
    assert f"ms, {cost:g} of a plain round" in note
    assert "--policy goodput --set policy.draft_ms=MS" in note
    assert max(round_.drafted for round_ in found.rounds[:4]) <= 2, "it is asked for little until it has held"


@pytest.mark.parametrize(
    ("drafts", "policy", "row_class", "options"),
    [
        (Part("model", MODEL), Part("goodput", {"draft_ms": 0.0}), "near-tie", {"reproducible": True, "draft_ms": 0.0}),
        (Part("model", MODEL), GOODPUT, "identical", {"reproducible": False}),
        (Part("ngram"), GOODPUT, "near-tie", {"reproducible": True}),
        (Part("model", MODEL), Part("fixed", {"draft_len": 3}), "near-tie", {"draft_len": 3}),
    ],
    ids=["said", "by the clock", "look-ups", "another policy"],
)
def test_what_is_said_or_seen_is_not_assumed(
    tmp_path: Path, drafts: Part, policy: Part, row_class: RowClass, options: dict[str, Any]
) -> None:
    found = written(tmp_path, drafts, policy, row_class)
    assert found.policy == Part(policy.name, options)
    assert found.notes == []
    if options.get("draft_ms") == 0.0:
        assert found.rounds[1].drafted > 8, "what is said to be free is asked for the longest draft"


def test_without_a_curve_it_is_a_share_of_the_round_that_is_assumed(tmp_path: Path) -> None:
    machine = Machine(row_class="near-tie")
    model = machine.model(tmp_path, drafts=Part("model", MODEL), policy=GOODPUT, allow_near_ties=True, max_tokens=4)
    with replace(model, shelf=Shelf(second)).generate([1, 2, 3]) as generation:
        assert generation.policy.options["draft_ms"] == pytest.approx(UNSAID_COST * 20)


@pytest.mark.parametrize(("drafts", "weighed"), [("off", False), ("ngram", True)])
def test_without_drafts_the_plan_s_policy_weighs_nothing(
    tmp_path: Path, drafts: str, weighed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would take its time in every round of plain decoding, and so in every baseline."""
    asked: list[int] = []
    budget = GoodputPolicy.budget

    def counted(self: GoodputPolicy, state: State) -> int:
        asked.append(state.depth - state.emitted)
        return budget(self, state)

    monkeypatch.setattr(GoodputPolicy, "budget", counted)
    written(tmp_path, Part(drafts))
    # Tuning weighs drafts, too, behind longer prompts; this one has six tokens.
    assert (5 in asked) == weighed
