"""Arms of a comparison: from what the user writes to what runs.

ngram                            a drafter with the default policy
ngram:max_n=3/fixed:draft_len=4  a drafter and a policy with options
off                              no drafts on either side, which shows what the machine alone does to a ratio
peer, peer:draft_len=5           the speculative feature of the runtime itself

Values are TOML where they are TOML, and text where they are not. A slash inside an option belongs to its value unless
the name of a policy follows the last one, and anything may stand in a quoted value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from surefoot.core.errors import ConfigError
from surefoot.engine import parts
from surefoot.engine.config import AUTO, WITHOUT_PLAN, Config, Part, parse_assignment
from surefoot.lab.records import Arm

OFF = "off"
PEER = "peer"
CHOOSE = "choose"
"""The value of a draft length that is found on prompts that are not measured."""

_STRING = re.compile(r""""(?:\\.|[^"\\])*"|'[^']*'""")
_BRACKETED = re.compile(r"\[[^\[\]{}]*\]|\{[^\[\]{}]*\}")
_PLAIN = re.compile(r"[A-Za-z][\w.+-]*")
"""Texts that an arm shows without quotes."""

_ALWAYS_CHOSEN = ("fixed",)  # chosen: a fixed length fits one machine; the other policies find theirs while they run
_LONGEST_PEER = 64  # chosen: eight times the best length seen on any runtime here, so only a slip of the finger


def parse(texts: Sequence[str], config: Config) -> tuple[Arm, ...]:
    """The arms, in the order given; without any, the one that `config` describes.

    Raises: ConfigError for an arm that cannot be read, has an unknown part or option, or comes twice.
    """
    arms = [_parsed(text, config) for text in texts] or [_default(config)]
    for number, arm in enumerate(arms):
        if arm.label in [other.label for other in arms[:number]]:
            raise ConfigError(f"the arm {arm.label} is given twice; leave one of them out")
    return tuple(arms)


def is_free(arm: Arm) -> bool:
    """Whether the draft length of this arm is still to be chosen."""
    return CHOOSE in (arm.policy.get("draft_len"), arm.peer.get("draft_len"))


def settled(arm: Arm, draft_len: int, chosen: str = "") -> Arm:
    """The arm with this draft length; `chosen` tells how it was found."""
    values = {"draft_len": draft_len}
    if arm.kind == "peer":
        return replace(arm, label=_label(PEER, values), peer=values, chosen=chosen)
    policy = {**arm.policy, **values}
    return replace(arm, label=_labels(arm.drafts, policy), policy=policy, chosen=chosen)


def drafts_label(arm: Arm) -> str:
    """Its drafts without the policy, as --arm takes them."""
    return arm.label if arm.kind != "drafts" else _label(str(arm.drafts["name"]), _part(arm.drafts).options)


def has_second_model(arm: Arm) -> bool:
    """Whether each of its drafted tokens may be a forward of another model."""
    return _sets(arm.drafts, "model")


def with_policy(arm: Arm, policy: str) -> str:
    """The drafts of this arm with another policy, as --arm takes them."""
    return _labels(arm.drafts, {"name": policy})


def configured(arm: Arm, config: Config, budget: int) -> Config:
    """`config` with the parts of this arm, `budget` tokens long. A peer has none: that is an error of the caller."""
    if arm.kind == "off":
        return plain(config, budget)
    return replace(config, max_tokens=budget, drafts=_part(arm.drafts), policy=_part(arm.policy))


def plain(config: Config, budget: int) -> Config:
    """`config` without drafts, `budget` tokens long."""
    return replace(config, max_tokens=budget, drafts=Part(OFF))


def _default(config: Config) -> Arm:
    if config.drafts.name == OFF:
        return Arm(OFF, "off")
    policy = _policy(config)
    return _drafts(dict(config.drafts.options), config.drafts.name, dict(policy.options), policy.name)


def _policy(config: Config) -> Part:
    """The policy of the configuration; auto is what it is without a plan, as long as no model has said otherwise."""
    return Part(WITHOUT_PLAN, config.policy.options) if config.policy.name == AUTO else config.policy


def _parsed(text: str, config: Config) -> Arm:
    drafter, slash, policy = _halves(text)
    name, options = _read(drafter, text)
    if name in (OFF, PEER) and slash:
        raise ConfigError(f"the arm {text}: {name} takes no policy; write {name} alone")
    if name == OFF:
        if options:
            raise ConfigError(f"the arm {text}: off has no options; write off alone")
        return Arm(OFF, "off")
    if name == PEER:
        return _peer(options, text)
    if not slash:
        default = _policy(config)
        return _drafts(options, name, dict(default.options), default.name)
    policy_name, policy_options = _read(policy, text)
    return _drafts(options, name, policy_options, policy_name)


def _halves(text: str) -> tuple[str, str, str]:
    """The drafter, the slash or "" where there is none, and the policy."""
    name, slash, _ = text.partition("/")
    if slash and ":" in name:  # the drafter has options, and slashes in them are theirs
        hidden, policies = _hidden(text), parts.names("policy")
        at = next((at for at in _places("/", hidden)[::-1] if hidden[at + 1 :].partition(":")[0] in policies), None)
        return (text, "", "") if at is None else (text[:at], "/", text[at + 1 :])
    return text.partition("/")


def _hidden(text: str) -> str:
    """The text, as long as it was, without what stands in quotes and brackets of TOML."""
    hidden = _STRING.sub(lambda found: "_" * len(found[0]), text)
    while _BRACKETED.search(hidden):
        hidden = _BRACKETED.sub(lambda found: "_" * len(found[0]), hidden)
    return hidden


def _places(mark: str, text: str) -> list[int]:
    return [at for at, letter in enumerate(text) if letter == mark]


def _items(text: str) -> list[str]:
    """The options, at the commas between them."""
    ends = [-1, *_places(",", _hidden(text)), len(text)]
    return [text[start + 1 : end] for start, end in pairwise(ends)] if text else []


def _read(text: str, arm: str) -> tuple[str, dict[str, Any]]:
    """A part's name and its options."""
    name, colon, rest = text.partition(":")
    if not name.strip() or (colon and not rest.strip()):
        raise ConfigError(f"the arm {arm!r} cannot be read: write it as ngram, ngram/fixed:draft_len=4, off or peer")
    options: dict[str, Any] = {}
    for item in _items(rest):
        key, equals, _ = item.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"the arm {arm}: an option is written KEY=VALUE, such as draft_len=4; got {item!r}")
        key, value = parse_assignment(item)
        if key in options:
            raise ConfigError(f"the arm {arm}: {key} is given twice; leave one of them out")
        options[key] = value
    return name.strip(), options


def _drafts(options: dict[str, Any], name: str, policy_options: dict[str, Any], policy: str) -> Arm:
    parts.make_options(parts.find("drafter", name), options, name)
    if _sets(options, "corpus"):
        raise ConfigError(
            f"{name} with a corpus remembers what it wrote for the same prompt before, so a figure would say nothing; "
            "leave the corpus out"
        )
    plugin = parts.find("policy", policy)
    if policy in _ALWAYS_CHOSEN:
        policy_options.setdefault("draft_len", CHOOSE)
    checked = {key: value for key, value in policy_options.items() if (key, value) != ("draft_len", CHOOSE)}
    parts.make_options(plugin, checked, policy)
    if CHOOSE in policy_options.values():
        parts.make_options(plugin, {**checked, "draft_len": 1}, policy)
    drafts_part, policy_part = {"name": name, **options}, {"name": policy, **policy_options}
    return Arm(_labels(drafts_part, policy_part), "drafts", drafts_part, policy_part)


def _sets(options: Mapping[str, Any], key: str) -> bool:
    """Whether a drafter, or a member of a union, has this option and it is not empty."""
    members = options.get("members") or ()
    return bool(options.get(key)) or any(isinstance(each, Mapping) and _sets(each, key) for each in members)


def _peer(options: dict[str, Any], text: str) -> Arm:
    unknown = [key for key in options if key != "draft_len"]
    if unknown:
        raise ConfigError(f"the arm {text}: peer has no option {unknown[0]}; it has draft_len")
    length = options.get("draft_len", CHOOSE)
    if length != CHOOSE and not (type(length) is int and 1 <= length <= _LONGEST_PEER):
        raise ConfigError(f"the arm {text}: draft_len of peer must be from 1 to {_LONGEST_PEER} tokens, or {CHOOSE}")
    return Arm(_label(PEER, {"draft_len": length}), "peer", peer={"draft_len": length})


def _part(part: Mapping[str, Any]) -> Part:
    return Part(str(part["name"]), {key: value for key, value in part.items() if key != "name"})


def _labels(drafts: Mapping[str, Any], policy: Mapping[str, Any]) -> str:
    return "/".join(_label(str(part["name"]), _part(part).options) for part in (drafts, policy))


def _label(name: str, options: Mapping[str, Any]) -> str:
    """As --arm takes it."""
    shown = ",".join(f"{key}={_spelled(value)}" for key, value in options.items())
    return f"{name}:{shown}" if shown else name


def _spelled(value: Any) -> str:
    """The value as `_read` takes it: TOML, where a name could be taken for something else."""
    return value if isinstance(value, str) and _is_plain(value) else _toml(value)


def _is_plain(text: str) -> bool:
    return bool(_PLAIN.fullmatch(text)) and parse_assignment(f"value={text}")[1] == text


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key} = {_toml(item)}' for key, item in value.items())}}}"
    if isinstance(value, Sequence | frozenset):
        return f"[{', '.join(map(_toml, value))}]"
    return str(value)
