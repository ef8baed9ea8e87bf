"""The union as it is configured and built: what a member may say, and what an exception in one costs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from guessers import PROMPT, RIGHT, TOY, named, plain_text, sources, union, wrong

from surefoot.core.acceptance import Acceptance
from surefoot.core.errors import ConfigError, NotEligible
from surefoot.core.ports import Workshop
from surefoot.core.sampling import Sampling
from surefoot.drafters.ngram import NgramDrafter
from surefoot.drafters.ngram import Options as NgramOptions
from surefoot.drafters.suffix.drafter import SuffixDrafter
from surefoot.drafters.suffix.options import Options as SuffixOptions
from surefoot.drafters.union import PLUGIN, Options
from surefoot.drafters.union.drafter import CHEAP, Union
from surefoot.drafters.union.gate import Rule
from surefoot.drafters.union.options import MODEL_COST
from surefoot.engine import parts
from surefoot.engine.config import load_config, parse_assignment
from surefoot.engine.guarded import Guarded
from surefoot.testing.drafter_suite import run, written
from surefoot.testing.drafters import oracle
from surefoot.testing.workshops import ToyWorkshop

# ---------------------------------------------------------------- an exception in a member


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=1.0, seed=4)], ids=["greedy", "drawn"])
@pytest.mark.parametrize("verb", ["begin", "propose", "observe"])
@pytest.mark.parametrize("choice", ["value", "longest", "first"])
def test_a_member_that_fails_costs_its_own_draft_and_a_note(choice: str, verb: str, sampling: Sampling) -> None:
    calls = {"n": 0}

    class Fails(NgramDrafter):
        def __getattribute__(self, name: str) -> Any:
            if name == verb:
                calls["n"] += 1
                if calls["n"] in (1, 3):
                    raise RuntimeError("spoilt")
            return super().__getattribute__(name)

    notes: list[str] = []
    guarded = Guarded(Fails(NgramOptions(min_n=1)), "fails", TOY, notes.append)
    rounds = run(union(guarded, SuffixDrafter(SuffixOptions()), choice=choice), TOY, PROMPT, 60, sampling=sampling)
    assert written(rounds) == plain_text(60, sampling)
    assert notes
    assert any(round_.drafted for round_ in rounds)


def test_through_the_workshop_members_are_guarded() -> None:
    made = ToyWorkshop(TOY, {}, guarded=True).drafter("union", {})
    assert isinstance(made, Guarded)
    assert isinstance(made.inner, Union)
    assert all(isinstance(member.drafter, Guarded) for member in made.inner.members)


# ---------------------------------------------------------------- configuration


def order_of_engines(folder: Path) -> tuple[ToyWorkshop, Union]:
    """The order of engines of the page on unions, built from a file."""
    page = Path(__file__).parents[2] / "docs" / "drafters" / "union.md"
    [order] = re.findall(r"```toml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    path = folder / "order.toml"
    path.write_text(order, encoding="utf-8")
    config = load_config(path)
    workshop = ToyWorkshop(TOY, {})
    made = workshop.drafter(config.drafts.name, config.drafts.options)
    assert isinstance(made, Union)
    return workshop, made


def names(made: Union) -> list[str]:
    return [member.seat.label or member.seat.name for member in made.members]


def test_the_documented_order_of_engines_is_built_from_a_file(tmp_path: Path) -> None:
    workshop, made = order_of_engines(tmp_path)
    assert names(made) == ["lookahead", "union"]
    inner = made.members[1].drafter
    assert isinstance(inner, Union)
    assert names(inner) == ["pld3", "suffix", "pld2"]
    assert sum("does without it" in note for note in workshop.notes) == 4
    assert set(sources(made)) <= {"lookahead", "lookahead-ngram", "pld3", "suffix", "suffix-split", "pld2", ""}


@pytest.mark.parametrize("documented", [True, False], ids=["its gate", "the default one"])
def test_those_behind_lookahead_are_reached_where_one_guess_in_five_holds(tmp_path: Path, documented: bool) -> None:
    """It has a draft in every round, so with `first` all others wait until its gate has closed."""
    _, made = order_of_engines(tmp_path)
    first, second = made.members
    first.drafter = named(
        "lookahead", lambda known, budget: (oracle(RIGHT) if len(known) % 6 == 0 else wrong)(known, 1)
    )
    if not documented:
        first.seat = replace(first.seat, rule=Rule())
    found = sources(made, 110)
    assert (set(found) == {"lookahead"}) == (not documented)
    assert first.gate.is_open == (not documented)
    assert second.asked == documented


def test_members_can_be_set_on_the_command_line() -> None:
    key, value = parse_assignment('drafts.members=["suffix", {name="ngram", max_n=3}]')
    config = load_config(overrides={"drafts": "union", key: value})
    assert PLUGIN.options(**config.drafts.options).seats()[1].options == {"max_n": 3}


def test_names_with_a_plus_are_a_union() -> None:
    config = load_config(overrides={"drafts": "suffix+ngram", "drafts.choice": "longest"})
    made = ToyWorkshop(TOY, {}).drafter(config.drafts.name, config.drafts.options)
    assert isinstance(made, Union)
    assert [member.seat.name for member in made.members] == ["suffix", "ngram"]
    with pytest.raises(ConfigError, match="there is no drafter called 'nrgam'; did you mean 'ngram'"):
        load_config(overrides={"drafts": "suffix+nrgam"})
    with pytest.raises(ConfigError, match="leave one of them out"):
        ToyWorkshop(TOY, {}).drafter("suffix+ngram", {"members": ["suffix"]})


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"choice": "best"}, "choice"),
        ({"members": [{"max_n": 3}]}, "union member 1 has no name"),
        ({"members": ["suffix", {"name": "ngram", "max_m": 3}]}, r"union member 2 \(ngram\): .*max_m"),
        ({"members": [{"name": "nrgam"}]}, r"union member 1 \(nrgam\): there is no drafter called 'nrgam'"),
        ({"members": [{"name": "ngram", "cost": -1.0}]}, r"union member 1 \(ngram\): cost must be"),
        ({"members": [{"name": "ngram", "cost": "much"}]}, "cost takes a number"),
        ({"members": [{"name": "ngram", "gate": "ajar"}]}, "gate takes open or closed"),
        ({"members": [{"name": "ngram", "gate_close": 0.5}]}, "close <= open"),
        ({"members": [{"name": "ngram", "probe_every": 0}]}, "probe_every must be .* so that a gate can open again"),
        ({"members": [{"name": "ngram", "gate_open": 1.0}]}, "open below 1 so that a gate can open again"),
    ],
)
def test_a_bad_member_is_refused_by_its_place(options: Mapping[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        ToyWorkshop(TOY, {}).drafter("union", options)


def test_a_member_with_a_second_model_is_not_taken_to_be_free() -> None:
    free, dear, stated = Options(
        ("suffix", {"name": "m", "model": "x"}, {"name": "m", "model": "x", "cost": 0})
    ).seats()
    assert (free.cost, dear.cost, stated.cost) == (0.0, MODEL_COST, 0.0)
    assert MODEL_COST * 2 > CHEAP


@pytest.mark.parametrize(
    ("member", "cost"),
    [
        ({"name": "union", "members": ["suffix"]}, 0.0),
        ({"name": "union", "members": ["suffix", {"name": "ngram", "cost": 0.3}]}, 0.3),
        ({"name": "union", "members": [{"name": "union", "members": [{"name": "ngram", "cost": 0.3}]}]}, 0.3),
        ({"name": "union", "members": ["suffix", {"name": "ngram", "cost": 0.3}], "cost": 0.1}, 0.1),
        ({"name": "union", "members": ["suffix", {"name": "model", "cost": 0.3, "optional": True}]}, 0.0),
        ("suffix+ngram", 0.0),
    ],
)
def test_a_union_in_a_union_is_as_dear_as_its_dearest_member(member: Any, cost: float) -> None:
    """Of those that are there, unless it says so itself."""
    drafter: Any = ToyWorkshop(TOY, {}).drafter("union", {"members": [member, "ngram"]})
    seat = drafter.members[0].seat
    assert seat.cost == cost


def test_a_union_of_nothing_is_refused() -> None:
    with pytest.raises(NotEligible, match="none of the drafters"):
        ToyWorkshop(TOY, {}).drafter("union", {"members": [{"name": "eagle3", "optional": True}]})


def test_every_option_has_help_and_lookups_are_cheap() -> None:
    assert parts.find("drafter", "union") is PLUGIN
    assert all(seat.cost * 256 <= CHEAP for seat in Options().seats())
    workshop: Workshop = ToyWorkshop(TOY, {})
    assert isinstance(PLUGIN.build(Options(), TOY, workshop), Union)
    assert Acceptance().survival("", 0, 0, 1) == [0.5]
