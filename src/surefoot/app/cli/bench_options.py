"""What the options of `surefoot bench` mean, each with one sentence where it cannot be read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from surefoot.core.errors import ConfigError

if TYPE_CHECKING:
    from surefoot.lab.workloads import PromptSet

OWN, SPEC_BENCH = "own", "spec-bench"
_DURATION = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>[smh])")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_NOT_REPEATED = {
    "--out": 1, "--time-limit": 1, "--resume": 1, "--print": 1, "--curve": 1, "--draft-ms": 1,
    "--json": 0, "-q": 0, "--quiet": 0, "--debug": 0,
}  # fmt: skip
"""Options that decide nothing about the figures, and how many values each takes."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured where the user does not say. workloads: how many of them, None for all."""

    budgets: tuple[int, ...]
    pairs: int
    workloads: int | None
    tuning_prompts: int | None


FULL = Size((256, 512), 8, None, None)
"""chosen: both budgets, because drafts gain as the text grows; six pairs are the fewest that have an interval
(lab/stats.py), and two may be left out."""
QUICK = Size((96,), 8, 3, 2)
"""chosen: under two minutes for a model of 100 million parameters on two cores."""


def budgets(text: str) -> tuple[int, ...]:
    """Output tokens, ascending. Raises: ConfigError."""
    found = [_whole(item, "--tokens", "256,512") for item in text.split(",")]
    if len(set(found)) < len(found):
        raise ConfigError(f"--tokens {text} names a budget twice; leave one of them out")
    if min(found) < 2:
        raise ConfigError(f"--tokens {text}: a text of one token has no speed; give at least 2")
    return tuple(sorted(found))


def names(text: str) -> tuple[str, ...]:
    """Workloads, in the order given. Raises: ConfigError."""
    found = tuple(item.strip() for item in text.split(","))
    if not all(found):
        raise ConfigError(f"--workloads takes names with commas between them, such as chat,code; got {text!r}")
    if len(set(found)) < len(found):
        raise ConfigError(f"--workloads {text} names a workload twice; leave one of them out")
    return found


def band(text: str) -> tuple[float, float]:
    """The lowest and the highest baseline that counts, in tokens per second. Raises: ConfigError."""
    low, comma, high = text.partition(",")
    try:
        found = float(low), float(high)
    except ValueError:
        comma = ""
        found = 0.0, 0.0
    if not comma or not 0 < found[0] < found[1] < float("inf"):
        raise ConfigError(f"--band takes LOW,HIGH in tokens per second, such as 26,28; got {text!r}")
    return found


def seconds(text: str) -> float:
    """A time limit. Raises: ConfigError."""
    found = _DURATION.fullmatch(text.strip())
    if not found or float(found["number"]) == 0:
        raise ConfigError(f"--time-limit takes a time such as 90s, 12m or 1h; got {text!r}")
    return float(found["number"]) * _SECONDS[found["unit"]]


def count(value: int | None, option: str) -> int | None:
    """A number of things, where it was given. Raises: ConfigError below 1."""
    if value is not None and value < 1:
        raise ConfigError(f"{option} must be at least 1; got {value}")
    return value


def prompt_set(name: str) -> PromptSet:
    """The prompts called `own` or `spec-bench`, or those of a file. Raises: ConfigError."""
    from surefoot.lab import workloads

    if name == OWN:
        return workloads.own()
    if name == SPEC_BENCH:
        return workloads.spec_bench()
    return workloads.read(Path(name).expanduser())


def repeated(arguments: Sequence[str]) -> tuple[str, ...]:
    """The arguments that decide the figures: those that a run is repeated with."""
    kept: list[str] = []
    skip = 0
    for argument in arguments:
        name, equals, _ = argument.partition("=")
        if skip:
            skip -= 1
        elif name in _NOT_REPEATED:
            skip = 0 if equals else _NOT_REPEATED[name]
        else:
            kept.append(argument)
    return tuple(kept)


def _whole(text: str, option: str, example: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ConfigError(
            f"{option} takes whole numbers with commas between them, such as {example}; got {text!r}"
        ) from None
