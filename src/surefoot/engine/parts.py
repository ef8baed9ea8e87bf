"""Interchangeable parts, found by name through entry points and given validated options."""

from __future__ import annotations

import difflib
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from importlib import metadata
from typing import Any, Literal

from surefoot.core.errors import ConfigError, NotEligible
from surefoot.core.ports import Plugin

Kind = Literal["target", "drafter", "policy"]

GROUPS: Mapping[Kind, str] = {
    "target": "surefoot.targets",
    "drafter": "surefoot.drafters",
    "policy": "surefoot.policies",
}
_CALLED: Mapping[Kind, str] = {"target": "runtime", "drafter": "drafter", "policy": "policy"}


def names(kind: Kind) -> tuple[str, ...]:
    """The installed parts of a kind, in alphabetical order; nothing is imported."""
    return tuple(sorted({entry.name for entry in metadata.entry_points(group=GROUPS[kind])}))


def find(kind: Kind, name: str) -> Plugin:
    """The part called `name`, its module imported now; "suffix+ngram" is the union of these drafters.

    Raises: ConfigError for a name that is not installed; NotEligible when the part's module cannot be imported.
    """
    if kind == "drafter" and "+" in name:
        return _together(name)
    entries = [entry for entry in metadata.entry_points(group=GROUPS[kind]) if entry.name == name]
    if not entries:
        raise ConfigError(unknown(_CALLED[kind], name, names(kind)))
    try:
        plugin = entries[0].load()
    except ImportError as error:
        raise NotEligible(f"the {_CALLED[kind]} {name!r} cannot be loaded here: {error}.") from error
    if not isinstance(plugin, Plugin):
        raise NotEligible(f"the {_CALLED[kind]} {name!r} ({entries[0].value}) is not a surefoot.core.ports.Plugin.")
    return plugin


def _together(name: str) -> Plugin:
    """The union of drafters that are named with a plus between them, each with its default options."""
    union, members = find("drafter", "union"), tuple(each.strip() for each in name.split("+"))
    for each in members:
        find("drafter", each)

    def build(options: Any, target: Any, workshop: Any) -> Any:
        if options.members:
            raise ConfigError(f"{name} names its members, and so does drafts.members; leave one of them out.")
        return union.build(replace(options, members=members), target, workshop)

    return replace(union, name=name, build=build)


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """The sentence for a name that does not exist, with the one that was probably meant."""
    known = list(known)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f" did you mean {near[0]!r}?" if near else ""
    return f"there is no {what} called {name!r};{hint} there is {', '.join(known)}."


def make_options(plugin: Plugin, values: Mapping[str, Any], where: str) -> Any:
    """The options dataclass of a part, from plain values.

    Raises: ConfigError for an option that the part does not have, or a value of another type; the sentence names it
    as `where`.option.
    """
    hints = typing.get_type_hints(plugin.options)
    known = [item.name for item in fields(plugin.options)]
    for option in values:
        if option not in known:
            what = f"option of {plugin.name!r} ({where})"
            raise ConfigError(
                unknown(what, option, known) if known else f"{plugin.name!r} has no options; got {where}.{option}."
            )
    return plugin.options(**{k: typed(v, hints[k], f"{where}.{k}") for k, v in values.items()})


def typed(value: Any, hint: Any, where: str) -> Any:
    """`value` as the type `hint`. Raises: ConfigError when it is not of that type."""
    if hint is Any:
        return value
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return _one_of(value, typing.get_args(hint), where)
    if origin is Literal:
        if value not in typing.get_args(hint):
            raise ConfigError(unknown(f"value of {where}", str(value), map(str, typing.get_args(hint))))
        return value
    if origin in (tuple, frozenset, list) and isinstance(value, list | tuple | set | frozenset):
        return origin(typed(item, typing.get_args(hint)[0], where) for item in value)
    if origin is not None and issubclass(origin, Mapping) and isinstance(value, Mapping):
        key, item = typing.get_args(hint)
        return {_key(k, key, where): typed(v, item, f"{where}.{k}") for k, v in value.items()}
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(hint, type) and isinstance(value, hint) and isinstance(value, bool) == (hint is bool):
        return value
    raise ConfigError(f"{where} takes {_spelled(hint)}; got {value!r}.")


def _one_of(value: Any, hints: tuple[Any, ...], where: str) -> Any:
    if value is None and type(None) in hints:
        return None
    for hint in hints:
        if hint is not type(None):
            try:
                return typed(value, hint, where)
            except ConfigError as error:
                failure = error
    raise failure


def _key(key: Any, hint: Any, where: str) -> Any:
    """A mapping's key; TOML writes whole numbers as strings."""
    if hint is int and isinstance(key, str):
        try:
            return int(key)
        except ValueError:
            raise ConfigError(f"{where} is keyed by token ids; got {key!r}.") from None
    return key


def _spelled(hint: Any) -> str:
    origin = typing.get_origin(hint)
    if origin in (tuple, frozenset, list):
        return "a list"
    if origin is not None:
        return "a table"
    return {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}.get(hint, str(hint))
