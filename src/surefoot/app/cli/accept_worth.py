"""What `surefoot accept` predicts speeds with: a cost curve, and what the drafts of each drafter cost."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping, Sequence

from surefoot.core.errors import ConfigError
from surefoot.engine import plans
from surefoot.engine.config import Config
from surefoot.lab import arms as arm_texts
from surefoot.lab import curvefile
from surefoot.lab.curvefile import NamedCurve
from surefoot.lab.records import Arm, Run

ALL = ""
"""For whose drafts a cost was stated that names none."""


def check(args: argparse.Namespace) -> None:
    """Nothing. Raises: ConfigError for a curve or costs that cannot be read or do not go together."""
    stated = _stated(args.draft_ms)
    if args.curve is not None:
        named = curvefile.read(args.curve)
        if any(stated.values()):
            curvefile.need_milliseconds(named, "--draft-ms")


def curve(args: argparse.Namespace, run: Run) -> NamedCurve | None:
    """What the predictions go by: the curve that was named, else that of the plan the run has, where there is one."""
    if args.curve is not None:
        return curvefile.read(args.curve)
    if run.plan is None:
        return None
    plan = plans.read(run.plan)
    about = f"{plan.owner.model} on {plan.owner.runtime}, {plan.owner.cpu}"
    return None if plan.curve is None else NamedCurve("the plan of the run", plan.curve, about)


def draft_ms(args: argparse.Namespace, arms: Sequence[Arm]) -> dict[str, float]:
    """By the label of the arm, what a token of its drafts costs; an arm of which that is not known is not there.

    Raises: ConfigError for costs of drafts that no arm has.
    """
    stated = _stated(args.draft_ms)
    drafts = {arm.label: arm_texts.drafts_label(arm) for arm in arms}
    for name in stated:
        if name not in (ALL, *drafts.values()):
            there = " or ".join(dict.fromkeys(drafts.values()))
            raise ConfigError(f"--draft-ms is given for {name}, which is not counted here; name {there}")
    usual = {arm.label: stated.get(ALL, None if arm_texts.has_second_model(arm) else 0.0) for arm in arms}
    found = {label: stated.get(drafts[label], usual[label]) for label in drafts}
    return {label: ms for label, ms in found.items() if ms is not None}


def no_prediction(curve: NamedCurve | None, arms: Sequence[Arm], known: Mapping[str, float]) -> dict[str, str]:
    """By the label of the arm, why no speed is predicted for it alone. known: what the others cost."""
    if curve is None:
        return {}
    return {arm.label: _wanted(arm, curve.relative) for arm in arms if arm.label not in known}


def _wanted(arm: Arm, relative: bool) -> str:
    option = f"--draft-ms {shlex.quote(f'{arm_texts.drafts_label(arm)}=X')}"
    where = ", and with a curve in milliseconds" if relative else ""
    return (
        "a drafted token may be a forward of a second model, and nothing is timed here; say how many milliseconds it "
        f"takes with {option}{where}"
    )


def _stated(texts: Sequence[str]) -> dict[str, float]:
    """Milliseconds by the drafts that they were stated for. Raises: ConfigError."""
    found: dict[str, float] = {}
    for text in texts:
        drafts, _, number = text.rpartition("=")
        try:
            ms = float(number)
        except ValueError:
            ms = -1.0
        if not 0 <= ms < 1e6:
            raise ConfigError(f"--draft-ms takes milliseconds from 0 up, such as 8 or suffix=0.01; got {text!r}")
        name = arm_texts.drafts_label(arm_texts.parse([drafts], Config())[0]) if drafts else ALL
        if name in found:
            raise ConfigError(f"--draft-ms {text} says again what {name or 'a drafted token'} costs; leave one out")
        found[name] = ms
    return found
