"""Real inputs for the gates: short, of several kinds, the same on every run and for every model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from surefoot.core.errors import NotEligible
from surefoot.core.types import Ids
from surefoot.engine.generator import Model

_TEXTS: Mapping[str, str] = {
    "code": (
        "Rewrite this function so that it also returns the number of lines, and change nothing else:\n\n"
        "def longest_line(path):\n    longest = ''\n    with open(path) as file:\n        for line in file:\n"
        "            if len(line) > len(longest):\n                longest = line\n    return longest\n"
    ),
    "chat": "What should somebody who has never grown vegetables plant first, and why? Answer in a few paragraphs.",
    "list": (
        "Write this list as JSON, one object per line with the keys name, height and country:\n"
        "Everest 8849 Nepal\nKilimanjaro 5895 Tanzania\nDenali 6190 United States\nMont Blanc 4806 France\n"
    ),
    "summary": (
        "Summarise in three sentences: The stair was built in 1862 to join the upper town with the harbour. It had 218 "
        "steps of granite, each of them cut by hand, and a landing after every twelfth. In 1911 a funicular took most "
        "of its traffic, and the stair fell into disrepair. In 1974 the town voted to restore it, not to close it."
    ),
    "translation": "Translate to French, then to German: The train to the coast leaves at a quarter past nine.",
    "question": "Which is the larger number, 17 times 23 or 19 times 21? Show each step of the calculation.",
}
"""chosen: one that copies from its prompt (code), then open answers in turn, so that any number of the first ones mixes
texts that lookup predicts with texts that it does not."""


@dataclass(frozen=True, slots=True)
class Input:
    """A prompt as this model reads it. label: what kind of text it asks for."""

    label: str
    ids: Ids


def inputs(model: Model, count: int, room: int) -> tuple[Input, ...]:
    """The first `count` inputs, each cut so that `room` more tokens fit behind it.

    Raises: NotEligible when the context is too short to try anything.
    """
    longest = model.target.caps.max_length - room
    if longest < 1:
        raise NotEligible(
            f"the context of {model.target.caps.max_length} tokens is too short for a gate, which writes {room}; "
            "raise --ctx-size where the model allows it."
        )
    raw = model.config.raw or not model.tokenizer.has_template
    encoded = {label: model.encode(text, raw=raw) for label, text in list(_TEXTS.items())[:count]}
    return tuple(Input(label, ids[:longest]) for label, ids in encoded.items())
