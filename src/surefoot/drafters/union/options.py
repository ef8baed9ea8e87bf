"""The options of the union: which drafters, and how one of their drafts is chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from surefoot.core.errors import ConfigError
from surefoot.drafters.union.gate import Rule

Choice = Literal["value", "longest", "first"]

DEFAULT_MEMBERS: tuple[Mapping[str, Any], ...] = (
    {"name": "ngram", "label": "ngram-3", "max_n": 3, "min_n": 3},
    {"name": "suffix"},
    {"name": "ngram", "label": "ngram-2", "max_n": 2, "min_n": 2},
)
"""Source: the lookups of CoreML-LLM's DrafterUnion in its order of priority."""


MODEL_COST = 0.15
"""What a token of a member with a second model is taken to cost until it is stated or measured, in plain rounds.
Source: reported of a 2-core x86 machine: SmolLM2 takes 7.7 ms a token in q4_0 on llama.cpp, and 52 ms in fp32 on
transformers; the pair itself was not timed. chosen: their ratio."""


@dataclass(frozen=True, slots=True)
class Seat:
    """One member as it was asked for: the drafter, what to call its drafts, what they cost, its gate.

    cost: of a drafted token, as a share of a plain round. optional: whether the union does without it where it cannot
    be had here. said: whether the cost was stated.
    """

    name: str
    options: Mapping[str, Any]
    label: str = ""
    cost: float = 0.0
    optional: bool = False
    rule: Rule = field(default_factory=Rule)
    said: bool = False


@dataclass(frozen=True, slots=True)
class Options:
    """Which drafters guess, and whose guess is scored.

    Source: `longest` is the rule of CoreML-LLM's DrafterUnion; `value` chosen, because a longer draft is not a better
    one; `first` is the order of its engines, of which one drafts.
    """

    members: tuple[Mapping[str, Any] | str, ...] = field(
        default=(),
        metadata={
            "help": "the drafters, most trusted first: a name, or a table with name, its options, and label, cost, "
            "gate_close, gate_open, probe_every, gate or optional; empty for ngram with n = 3, suffix, ngram with n = 2"
        },
    )
    choice: Choice = field(
        default="value",
        metadata={
            "help": "whose draft is scored: value (most expected tokens for its cost), longest (then the order) or "
            "first (the first one that has a draft)"
        },
    )
    reproducible: bool | None = field(
        default=None,
        metadata={
            "help": "costs as they are stated, the same in each run; if not, as the clock measures them; left out: so "
            "unless the rows of a block are known to equal single rows"
        },
    )

    def __post_init__(self) -> None:
        if self.choice not in get_args(Choice):
            raise ConfigError(f"union choice = {self.choice!r} is unknown: choose one of {', '.join(get_args(Choice))}")
        self.seats()

    def seats(self) -> tuple[Seat, ...]:
        """The members, checked as far as they can be before they are built."""
        return tuple(seat(number, table) for number, table in enumerate(self.members or DEFAULT_MEMBERS, 1))


def seat(number: int, table: Mapping[str, Any] | str) -> Seat:
    """A member from its table or its name. Raises: ConfigError that names its place."""
    given = {"name": table} if isinstance(table, str) else dict(table)
    where = f"union member {number}"
    name = _taken(given, "name", "", where)
    if not name:
        raise ConfigError(f"{where} has no name; write it as {{name = 'ngram', max_n = 3}}, or as 'ngram'")
    where = f"{where} ({name})"
    default = Rule()
    rule = Rule(
        _taken(given, "gate_close", default.close_below, where),
        _taken(given, "gate_open", default.open_above, where),
        _taken(given, "probe_every", default.probe_every, where),
        _taken(given, "gate", "open", where, ("open", "closed")) == "open",
    )
    if not 0 <= rule.close_below <= rule.open_above < 1:
        raise ConfigError(
            f"{where}: gate_close and gate_open must be shares with close <= open, and open below 1 so that a gate can "
            f"open again; got {rule.close_below} and {rule.open_above}"
        )
    if rule.probe_every < 1:
        raise ConfigError(
            f"{where}: probe_every must be a number of rounds from 1 up, so that a gate can open again; got "
            f"{rule.probe_every}"
        )
    label = _taken(given, "label", "", where)
    said = "cost" in given
    cost = _taken(given, "cost", MODEL_COST if given.get("model") else 0.0, where)
    if not 0 <= cost < 1e6:
        raise ConfigError(f"{where}: cost must be a share of a plain round for each drafted token; got {cost}")
    return Seat(name, given, label, cost, _taken(given, "optional", False, where), rule, said)


def _taken(table: dict[str, Any], key: str, default: Any, where: str, known: Sequence[str] = ()) -> Any:
    """The value of a key, of the type of its default, taken out of the table."""
    value = table.pop(key, default)
    if isinstance(default, float) and type(value) is int:
        value = float(value)
    if type(value) is not type(default) or (known and value not in known):
        kind = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}[type(default)]
        raise ConfigError(f"{where}: {key} takes {' or '.join(known) or kind}; got {value!r}")
    return value
