"""The union: several drafters guess at once, and the guess that is worth most is scored."""

from __future__ import annotations

from dataclasses import replace

from surefoot.core.errors import ConfigError, NotEligible
from surefoot.core.ports import Drafter, Plugin, Target, Workshop
from surefoot.drafters.union.drafter import Union
from surefoot.drafters.union.member import Member
from surefoot.drafters.union.options import Options, Seat


def _build(options: Options, target: Target, workshop: Workshop) -> Union:
    members = []
    for number, seat in enumerate(options.seats(), 1):
        drafter = _seated(number, seat, workshop)
        if drafter is not None:
            dear = not seat.said and ("+" in seat.name or seat.name == "union")
            members.append(Member(replace(seat, cost=drafter.needs.token_cost) if dear else seat, drafter))
    if not members:
        raise NotEligible("none of the drafters of the union can be had here; name others in drafts.members.")
    reproducible = options.reproducible
    if reproducible is None:  # where rows are identical, other rounds write the same text
        reproducible = workshop.row_class != "identical"
    return Union(members, options.choice, None if reproducible else workshop.clock)


def _seated(number: int, seat: Seat, workshop: Workshop) -> Drafter | None:
    """The drafter; None for an optional one that cannot be had, which is noted."""
    try:
        return workshop.drafter(seat.name, seat.options)
    except (ConfigError, NotEligible) as error:
        told = f"union member {number} ({seat.name}): {error}"
        if seat.optional:
            workshop.note(f"{told} The union does without it.")
            return None
        raise type(error)(told) from error


PLUGIN = Plugin(
    name="union",
    summary="several drafters at once: the draft that is expected to hold longest for its cost is scored",
    options=Options,
    build=_build,
    workshop=True,
)
