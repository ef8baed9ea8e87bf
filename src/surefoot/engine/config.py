"""The configuration: one frozen tree, from defaults, a TOML file and single overrides, checked as a whole."""

from __future__ import annotations

import tomllib
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from surefoot.core.errors import ConfigError
from surefoot.core.judge import JUDGES, LOSSY, Tolerance, check_greedy
from surefoot.core.sampling import Sampling
from surefoot.engine import parts

AUTO = "auto"
WITHOUT_PLAN = "additive"
"""What the policy auto is where no cost curve was measured; with one it is goodput."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part by name, and the options given for it; what is not given keeps the part's own default."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Config:
    """Everything that decides what is written and how.

    runtime "auto" takes the runtime that fits the model's format, policy "auto" goodput where a plan with a cost curve
    is there, else additive. `plan` is a file, "off", or "auto": the one that was made for this model here.
    `seed` None draws one when sampling and reports it.
    `top_logprobs` None reports no log-probabilities, 0 those of the emitted tokens alone.
    `raw` sends the prompt as it is, without the model's chat template. `weights` is the format that a runtime gets
    which reads none of the model's own: fp16, int8, int4, or auto (fp16 where it stays small, else int8). `cache` is
    where such a model keeps its keys and values: state (in the runtime), caller (in arrays of ours), or auto (state).
    `draft_gap_s` is a pause before each draft, in seconds, where drafting at once slows the target down.
    `tolerance` is how far the lossy judge `tolerant` goes; no other judge looks at it.
    """

    runtime: Part = field(default_factory=lambda: Part(AUTO))
    drafts: Part = field(default_factory=lambda: Part("ngram"))
    policy: Part = field(default_factory=lambda: Part(AUTO))
    sampling: Sampling = field(default_factory=Sampling)
    judge: str = "match"
    tolerance: Tolerance = field(default_factory=Tolerance)
    seed: int | None = None
    max_tokens: int = 512
    stop: tuple[str, ...] = ()
    stop_ids: frozenset[int] = frozenset()
    top_logprobs: int | None = None
    allow_near_ties: bool = False
    raw: bool = False
    weights: Literal["auto", "fp16", "int8", "int4"] = "auto"
    cache: Literal["auto", "state", "caller"] = "auto"
    plan: str = AUTO
    draft_gap_s: float = 0.0

    def __post_init__(self) -> None:
        if self.max_tokens < 1:
            raise ConfigError(f"max_tokens must be at least 1; got {self.max_tokens}.")
        if self.sampling.min_tokens > self.max_tokens:
            raise ConfigError(
                f"min_tokens is {self.sampling.min_tokens} and max_tokens only {self.max_tokens}; change one of them."
            )
        if self.judge not in JUDGES:
            raise ConfigError(parts.unknown("judge", self.judge, JUDGES))
        if self.judge in LOSSY:
            check_greedy(self.sampling)
            if self.tolerance.is_none:
                raise ConfigError(
                    "the lossy judge tolerant is asked for and nothing is tolerated; set tolerance.top_n above 1 or "
                    "tolerance.margin above 0, or leave the judge out, which is match."
                )
        if self.seed is not None and not 0 <= self.seed < 2**64:
            raise ConfigError(f"seed must be a whole number from 0 to 2**64 - 1; got {self.seed}.")
        if not self.plan:
            raise ConfigError("plan takes a file, auto or off; got an empty text.")
        if not 0 <= self.draft_gap_s <= 1:
            raise ConfigError(f"draft_gap_s must be between 0 and 1 second; got {self.draft_gap_s}.")
        if "" in self.stop:
            raise ConfigError("an empty stop string would stop before the first token; leave it out.")
        if self.top_logprobs is not None and not 0 <= self.top_logprobs <= 1000:
            raise ConfigError(f"top_logprobs must be between 0 and 1000; got {self.top_logprobs}.")

    @property
    def lossy(self) -> str:
        """Why a text with drafts is not what the model writes by itself, without the word lossy; "" where it is."""
        if self.judge not in LOSSY:
            return ""
        given = f"top_n {self.tolerance.top_n}, margin {self.tolerance.margin:g}"
        return f"the judge {self.judge} ({given}) accepts drafts that plain decoding would not write"


_PARTS: Mapping[str, parts.Kind] = {"runtime": "target", "drafts": "drafter", "policy": "policy"}
_NOT_SAMPLING = {"seed": "seed", "end_ids": "stop_ids"}

SHORTCUTS: Mapping[str, str] = {
    "draft_len": "policy.draft_len",
    "threads": "runtime.threads",
    "device": "runtime.device",
    "ctx_size": "runtime.ctx_size",
    **{item.name: f"tolerance.{item.name}" for item in fields(Tolerance)},
    **{item.name: f"sampling.{item.name}" for item in fields(Sampling) if item.name not in _NOT_SAMPLING},
}
"""Names that flags and keyword arguments may use for a place deeper in the tree."""


def load_config(path: Path | None = None, overrides: Mapping[str, Any] | None = None) -> Config:
    """The configuration of a TOML file, then the overrides, keyed by dotted path or by shortcut.

    A part may be given as its name alone: {"drafts": "off"} is {"drafts.name": "off"}.
    Raises: ConfigError that names the key, for an unknown key or part, a wrong type or values that contradict.
    """
    tree = _read(path) if path else {}
    places = {SHORTCUTS.get(key, key): value for key, value in (overrides or {}).items()}
    for key, value in places.items():
        _place(tree, key, value)
    config = _build(tree)
    for key in places:
        # What a file says of the policy may stay there while drafts are switched off for once.
        if config.drafts.name == "off" and key.partition(".")[0] == "policy":
            name = key.removesuffix(".name").removeprefix("policy.")
            raise ConfigError(f"{name} decides the length of drafts, and drafts are off; drop one of the two.")
        # The same for what a file tolerates, while another judge is taken for once.
        if config.judge not in LOSSY and key.partition(".")[0] == "tolerance":
            raise ConfigError(
                f"{key} is of the lossy judge tolerant, and the judge is {config.judge}; drop one of the two."
            )
    return config


def parse_assignment(text: str) -> tuple[str, Any]:
    """KEY=VALUE as a dotted key and a value, read as TOML where it is TOML and as text where it is not."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"a setting is written KEY=VALUE, such as drafts.max_n=4; got {text!r}.")
    try:
        return key.strip().replace("-", "_"), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key.strip().replace("-", "_"), value.strip()


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"the configuration {path} cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"the configuration {path} is not TOML: {error}.") from error


def _place(tree: dict[str, Any], key: str, value: Any) -> None:
    *sections, last = key.split(".")
    for section in sections:
        inner = tree.setdefault(section, {})
        if isinstance(inner, str) and section in _PARTS:
            inner = tree[section] = {"name": inner}
        if not isinstance(inner, dict):
            raise ConfigError(f"{section} is a single value, so {key} cannot be set.")
        tree = inner
    if last in _PARTS and isinstance(value, str) and isinstance(tree.get(last), dict):
        tree[last]["name"] = value
    else:
        tree[last] = value


def _build(tree: Mapping[str, Any]) -> Config:
    hints = typing.get_type_hints(Config)
    values: dict[str, Any] = {}
    for key, value in tree.items():
        if key in _PARTS:
            values[key] = _part(key, value)
        elif key == "sampling":
            values[key] = _sampling(value)
        elif key == "tolerance":
            values[key] = _tolerance(value)
        elif key in hints:
            values[key] = parts.typed(value, hints[key], key)
        else:
            raise ConfigError(parts.unknown("setting", key, hints))
    return Config(**values)


def _part(key: str, value: Any) -> Part:
    """A part whose options hold, as far as the part is known before the model is."""
    table = {"name": value} if isinstance(value, str) else value
    if not isinstance(table, Mapping):
        raise ConfigError(f"{key} takes a name or a table with a name; got {value!r}.")
    default: Part = getattr(Config(), key)
    name = parts.typed(table.get("name", default.name), str, f"{key}.name")
    options = {k: v for k, v in table.items() if k != "name"}
    if name == AUTO and key == "policy":
        _check_auto_policy(options)
    elif name != AUTO or key != "runtime":
        parts.make_options(parts.find(_PARTS[key], name), options, key)
    return Part(name, options)


def _check_auto_policy(options: Mapping[str, Any]) -> None:
    """What auto stands for is known with the model, so that an option has to be one of every policy."""
    plugin = parts.find("policy", WITHOUT_PLAN)
    known = [item.name for item in fields(plugin.options)]
    for name in options:
        if name not in known:
            raise ConfigError(
                f"policy.{name} is set and no policy is named: name the one that it belongs to, such as goodput, with "
                f"policy.name or --policy; what goes with every policy is {', '.join(known)}."
            )
    parts.make_options(plugin, options, "policy")


def _tolerance(value: Any) -> Tolerance:
    if not isinstance(value, Mapping):
        raise ConfigError(f"tolerance takes a table; got {value!r}.")
    hints = typing.get_type_hints(Tolerance)
    for key in value:
        if key not in hints:
            raise ConfigError(parts.unknown("setting of tolerance", key, hints))
    return Tolerance(**{key: parts.typed(item, hints[key], f"tolerance.{key}") for key, item in value.items()})


def _sampling(value: Any) -> Sampling:
    if not isinstance(value, Mapping):
        raise ConfigError(f"sampling takes a table; got {value!r}.")
    hints = typing.get_type_hints(Sampling)
    given = {}
    for key, item in value.items():
        if key in _NOT_SAMPLING:
            raise ConfigError(f"sampling.{key} is set as {_NOT_SAMPLING[key]}, at the top of the configuration.")
        if key not in hints:
            raise ConfigError(parts.unknown("setting of sampling", key, [h for h in hints if h not in _NOT_SAMPLING]))
        given[key] = parts.typed(item, hints[key], f"sampling.{key}")
    return Sampling(**given)
