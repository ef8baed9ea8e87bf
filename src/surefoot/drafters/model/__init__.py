"""A draft model: a smaller or quicker model of the same vocabulary writes ahead, on any runtime."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from surefoot.core.errors import ConfigError, NotEligible
from surefoot.core.noise import KeyedSampler
from surefoot.core.ports import Companion, Plugin, Target, Workshop
from surefoot.drafters.model.follower import Draws, Follower, Reading, Style
from surefoot.drafters.model.same import Same, difference

NAME = "model"
Scalar = bool | int | float | str
ShortContext = Literal["refuse", "stop"]


@dataclass(frozen=True, slots=True)
class Options:
    """Which model guesses, where it runs, and how it guesses.

    Source: `confidence` is transformers' `assistant_confidence_threshold`, there of the token drawn, here of the
    likeliest one, so that a draw keeps its law. `gap_ms` is an option of Forge (3 ms), against stalls of a drafter that
    is sent right after a verification.
    """

    model: str = field(default="", metadata={"help": "the draft model: a folder, a GGUF file, a Hub id (required)"})
    runtime: str = field(default="auto", metadata={"help": "what runs it; auto takes one that fits its files"})
    weights: str = field(
        default="auto", metadata={"help": "for a runtime that converts: auto, fp16, int8 or int4 of the draft model"}
    )
    threads: int | None = field(default=None, metadata={"help": "CPU threads of the draft model"})
    runtime_options: Mapping[str, Scalar] = field(
        default_factory=dict, metadata={"help": "further options of its runtime, such as ctx_size"}
    )
    draws: Draws = field(
        default="shared",
        metadata={
            "help": "what it does where the text is drawn: shared (draws with the same noise) or greedy (takes "
            "the likeliest token)"
        },
    )
    confidence: float = field(
        default=0.4, metadata={"help": "it stops where its likeliest token is less likely than this; 0 never stops"}
    )
    short_context: ShortContext = field(
        default="refuse",
        metadata={"help": "where its context is shorter than the target's: refuse, or stop (no drafts past its end)"},
    )
    gap_ms: float = field(default=0.0, metadata={"help": "milliseconds to wait before each draft"})

    def __post_init__(self) -> None:
        if not 0 <= self.confidence < 1:
            raise ConfigError(f"confidence must be from 0 (never stops) to below 1; got {self.confidence}.")
        if not 0 <= self.gap_ms <= 1000:
            raise ConfigError(f"gap_ms must be from 0 to 1000 milliseconds; got {self.gap_ms}.")


def companion(name: str, options: Options, workshop: Workshop) -> Companion:
    """The draft model. Raises: ConfigError when none is named, or as loading it does."""
    if not options.model:
        raise ConfigError(f"the drafter {name} needs a draft model; name it with drafts.model = NAME.")
    settings: dict[str, Any] = {"runtime": options.runtime}
    settings |= {f"runtime.{key}": value for key, value in options.runtime_options.items()}
    if options.threads is not None:
        settings["runtime.threads"] = options.threads
    if options.weights != "auto":
        settings["weights"] = options.weights
    return workshop.companion(options.model, settings)


def check_context(second: Companion, target: Target, options: Options) -> None:
    """Raises: NotEligible when the draft model's context is the shorter one and that was not allowed."""
    its, needed = second.target.caps.max_length, target.caps.max_length
    if options.short_context == "refuse" and its < needed:
        raise NotEligible(
            f"the draft model {second.name} holds {its} tokens and the target {needed}: give both the same ctx_size "
            "(the draft model's under drafts.runtime_options), or allow drafts to end there with "
            "drafts.short_context = stop."
        )


def follower(
    name: str, options: Options, target: Target, second: Companion, reading: Reading, workshop: Workshop
) -> Follower:
    """The drafter of a draft model, its options checked."""
    # Draws under the ratio test count with their law; under match they are points, and the law would cost time.
    style = Style(name, options.draws, options.confidence, options.gap_ms / 1000, workshop.judge == "ratio")
    return Follower(
        second.target,
        target.caps.vocab_size,
        reading,
        style,
        workshop.sampling,
        KeyedSampler(workshop.sampling.seed),
        open_session=workshop.open,
        pause=workshop.pause,
        clock=workshop.clock,
        note=workshop.note,
    )


def _build(options: Options, target: Target, workshop: Workshop) -> Follower:
    second = companion(NAME, options, workshop)
    check_context(second, target, options)
    differ = workshop.kept((NAME, second), lambda: difference(workshop.vocabulary, second.vocabulary))
    if differ is not None:
        count, token = differ
        here, there = (bytes(v.spelled[token]) for v in (workshop.vocabulary, second.vocabulary))
        raise NotEligible(
            f"the draft model {second.name} has another vocabulary: {count} tokens differ, first {token}, which spells "
            f"{here!r} for the target and {there!r} for the draft model; use the drafter crossvocab, or a draft model "
            "of the same family."
        )
    reading = Same(target.caps.vocab_size, second.target.caps.vocab_size)
    return follower(NAME, options, target, second, reading, workshop)


PLUGIN = Plugin(
    name=NAME,
    summary="a second, quicker model of the same vocabulary writes ahead, on any runtime",
    options=Options,
    build=_build,
    workshop=True,
)
