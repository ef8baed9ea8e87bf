"""The options that decide what is written and how, and the configuration they make with a file."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from surefoot.core.errors import ConfigError

if TYPE_CHECKING:
    from surefoot.engine.config import Config

_FLAGS = {
    "runtime": "runtime.name",
    "device": "runtime.device",
    "threads": "runtime.threads",
    "ctx_size": "runtime.ctx_size",
    "drafts": "drafts.name",
    "policy": "policy.name",
    "draft_len": "policy.draft_len",
    "judge": "judge",
    "allow_near_ties": "allow_near_ties",
    "max_tokens": "max_tokens",
    "stop": "stop",
    "temperature": "sampling.temperature",
    "top_k": "sampling.top_k",
    "top_p": "sampling.top_p",
    "min_p": "sampling.min_p",
    "repetition_penalty": "sampling.repetition_penalty",
    "presence_penalty": "sampling.presence_penalty",
    "frequency_penalty": "sampling.frequency_penalty",
    "seed": "seed",
    "logprobs": "top_logprobs",
    "raw": "raw",
    "weights": "weights",
    "cache": "cache",
    "plan": "plan",
}
"""The place of each flag in the configuration; a flag that is not given leaves that place alone."""


def add_to(parser: argparse.ArgumentParser) -> None:
    """The options that `configure` understands."""
    _add_runtime(parser.add_argument_group("runtime"))
    _add_drafts(parser.add_argument_group("drafts"))
    _add_text(parser.add_argument_group("text"))
    _add_configuration(parser)


def add_for_comparison(parser: argparse.ArgumentParser) -> None:
    """Those of them that are left where a command chooses drafts and lengths itself."""
    _add_runtime(parser.add_argument_group("runtime"))
    group = parser.add_argument_group("text")
    _add_law(group)
    _add_near_ties(group)
    _add_plan(group)
    group.add_argument("--raw", action="store_true", default=None, help="prompts go to the model without its template")
    _add_configuration(parser)


def add_for_gates(parser: argparse.ArgumentParser) -> None:
    """Those of them that are left where a command writes greedily, whatever texts it likes."""
    _add_runtime(parser.add_argument_group("runtime"))
    group = parser.add_argument_group("drafts")
    _add_parts(group)
    _add_near_ties(group)
    group = parser.add_argument_group("text")
    group.add_argument("--raw", action="store_true", default=None, help="prompts go to the model without its template")
    _add_configuration(parser)


def add_for_tuning(parser: argparse.ArgumentParser) -> None:
    """Those of them that are left where a command measures costs, and counts what a drafter offers."""
    _add_runtime(parser.add_argument_group("runtime"))
    group = parser.add_argument_group("drafts")
    group.add_argument("--drafts", metavar="NAME", help="whose drafts are counted on each workload; else ngram")
    _add_near_ties(group)
    group = parser.add_argument_group("text")
    group.add_argument("--raw", action="store_true", default=None, help="prompts go to the model without its template")
    _add_configuration(parser)


def _add_configuration(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("configuration", "flags go before the file, and the file before the defaults")
    group.add_argument("--config", type=Path, metavar="PATH", help="a TOML file with any of these settings")
    group.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="any setting by its place, such as drafts.max_n=3 or sampling.min_tokens=20 (repeatable)",
    )


def _add_runtime(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--runtime", metavar="NAME", help="what runs the model; auto takes one that fits its files")
    group.add_argument(
        "--device", metavar="NAME", help="where it runs, named by the runtime: CPU or GPU (openvino), cpu or cuda (hf)"
    )
    group.add_argument("--threads", type=int, metavar="N", help="CPU threads")
    group.add_argument(
        "--weights", metavar="FORMAT", help="for a runtime that has to convert the model: auto, fp16, int8 or int4"
    )
    group.add_argument(
        "--cache", metavar="KIND", help="the same, for its keys and values: auto, state (in the model) or caller"
    )
    group.add_argument("--ctx-size", type=int, metavar="N", help="longest context, in tokens")


def _add_plan(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--plan", metavar="FILE", help="a plan that `surefoot tune` made; off for none; else the model's own is found"
    )


def _add_drafts(group: argparse._ArgumentGroup) -> None:
    _add_parts(group)
    group.add_argument(
        "--judge",
        metavar="NAME",
        help="match (default: same text with and without drafts), ratio (same law of the text), or tolerant, which is "
        "lossy: it accepts drafts that plain decoding would not write, up to tolerance.top_n or tolerance.margin",
    )
    _add_near_ties(group)


def _add_parts(group: argparse._ArgumentGroup) -> None:
    _add_plan(group)
    group.add_argument(
        "--drafts",
        metavar="NAME",
        help="how to guess ahead: a drafter, several with a plus between them (suffix+ngram), or off",
    )
    group.add_argument(
        "--policy", metavar="NAME", help="how to choose the draft length: additive, fixed, goodput, or auto"
    )
    group.add_argument(
        "--draft-len", type=int, metavar="N", help="tokens to guess: each round, or at the most (additive)"
    )


def _add_near_ties(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--allow-near-ties",
        action="store_true",
        default=None,
        help="use drafts although the two likeliest tokens may swap where they nearly tie",
    )


def _add_text(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--max-tokens", type=int, metavar="N", help="longest output, in tokens")
    group.add_argument("--stop", action="append", metavar="TEXT", help="end before this text (repeatable)")
    _add_law(group)
    group.add_argument(
        "--logprobs", type=int, metavar="N", help="log-probabilities, with those of the N likeliest tokens"
    )


def _add_law(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--temperature", type=float, metavar="X", help="0 is greedy: always the likeliest token")
    group.add_argument("--top-k", type=int, metavar="N", help="draw from the N likeliest tokens; 0 is off")
    group.add_argument("--top-p", type=float, metavar="X", help="draw from the likeliest tokens of mass X; 1 is off")
    group.add_argument("--min-p", type=float, metavar="X", help="draw from tokens X times as likely as the likeliest")
    group.add_argument("--repetition-penalty", type=float, metavar="X", help="above 1 against repetition; 1 is off")
    group.add_argument("--presence-penalty", type=float, metavar="X", help="off the logit of each token in the output")
    group.add_argument("--frequency-penalty", type=float, metavar="X", help="the same, for each time it occurred")
    group.add_argument("--logit-bias", action="append", metavar="ID=BIAS", help="added to a token's logit (repeatable)")
    group.add_argument("--seed", type=int, metavar="N", help="the same seed draws the same text; greedy needs none")


def configure(args: argparse.Namespace) -> Config:
    """The configuration of the file, the flags and --set. Raises: ConfigError."""
    from surefoot.engine.config import SHORTCUTS, load_config, parse_assignment

    overrides: dict[str, Any] = {
        key: getattr(args, flag) for flag, key in _FLAGS.items() if getattr(args, flag, None) is not None
    }
    if getattr(args, "logit_bias", None):
        overrides["sampling.logit_bias"] = _biases(args.logit_bias)
    named_by = dict.fromkeys(overrides, "its own flag")
    for text in args.set:
        key, value = parse_assignment(text)
        key = SHORTCUTS.get(key, key)
        key = f"{key}.name" if key in ("runtime", "drafts", "policy") else key
        if key in overrides:
            raise ConfigError(f"{key} is set by --set {text} and by {named_by[key]}; leave one of them out")
        overrides[key], named_by[key] = value, "another --set"
    return load_config(args.config, overrides)


def _biases(texts: list[str]) -> dict[int, float]:
    """The bias of each token id."""
    biases: dict[int, float] = {}
    for text in texts:
        token, _, bias = text.partition("=")
        try:
            pair = int(token), float(bias)
        except ValueError:
            raise ConfigError(f"--logit-bias takes ID=BIAS, such as 42=-1.5; got {text!r}") from None
        if pair[0] in biases:
            raise ConfigError(f"--logit-bias names token {pair[0]} twice; leave one of them out")
        biases[pair[0]] = pair[1]
    return biases


def installed_parts() -> str:
    """The installed plug-ins by name. Nothing is imported for it, so that help stays quick."""
    from importlib.metadata import entry_points

    kinds = {"--runtime": "targets", "--drafts": "drafters", "--policy": "policies"}
    names = {
        flag: sorted({entry.name for entry in entry_points(group=f"surefoot.{kind}")}) for flag, kind in kinds.items()
    }
    return "installed:\n" + "\n".join(f"  {flag:<10} {', '.join(found)}" for flag, found in names.items())
