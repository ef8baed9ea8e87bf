"""A draft model of another vocabulary: its tokens count where the target has one that spells the same."""

from __future__ import annotations

from surefoot.core.errors import NotEligible
from surefoot.core.ports import Plugin, Target, Workshop
from surefoot.drafters.crossvocab.surface import Coverage, surface_map
from surefoot.drafters.model import Options, check_context, companion, follower
from surefoot.drafters.model.follower import Follower

NAME = "crossvocab"
LEAST = 0.05
"""chosen: with fewer of the draft model's tokens shared, hardly a draft outlives its first token."""


def _build(options: Options, target: Target, workshop: Workshop) -> Follower:
    second = companion(NAME, options, workshop)
    check_context(second, target, options)
    sizes = target.caps.vocab_size, second.target.caps.vocab_size
    reading = workshop.kept(
        (NAME, second), lambda: surface_map(workshop.vocabulary, sizes[0], second.vocabulary, sizes[1])
    )
    if reading.coverage.its_share < LEAST:
        raise NotEligible(
            f"the draft model {second.name} shares too few tokens with the target: {told(reading.coverage)}; "
            "use another draft model."
        )
    workshop.note(f"crossvocab, {second.name}: {told(reading.coverage)}.")
    return follower(NAME, options, target, second, reading, workshop)


def told(coverage: Coverage) -> str:
    """The coverage in words."""
    return (
        f"{coverage.its_shared:,} of its {coverage.its_tokens:,} tokens ({coverage.its_share:.0%}) are also tokens of "
        f"the target, and {coverage.shared:,} of the target's {coverage.tokens:,} ({coverage.share:.0%}) are its own"
    )


PLUGIN = Plugin(
    name=NAME,
    summary="a draft model of another vocabulary, its tokens mapped by what they spell",
    options=Options,
    build=_build,
    workshop=True,
)
