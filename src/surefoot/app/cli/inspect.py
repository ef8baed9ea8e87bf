"""`surefoot inspect`: what a model's files say about drafts, before anything is loaded."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from surefoot.app.cli import errors
from surefoot.app.cli.command import Commands, Context, begin, finish

if TYPE_CHECKING:
    from surefoot.app.cli.console import Console
    from surefoot.engine.inspect import Evidence, Facts, Inspection, Verdict

SCHEMA = 1
_FORMATS = ("safetensors", "mlx", "gguf", "openvino", "onnx", "coreml", "coreai")
_COLORS = {"yes": "32", "no": "31", "not known": "33", "can work": "32", "cannot work": "31", "text only": "33"}
_MARGIN, _NAME = 15, 12


@dataclass(frozen=True, slots=True)
class Result:
    """What --json prints. works: a runtime of this Surefoot can verify drafts on it. Units: bytes, tokens."""

    schema: int
    surefoot: str
    model: str
    works: bool
    verdict: Verdict
    runtimes: tuple[Verdict, ...]
    draft: Verdict | None
    facts: dict[str, Any]


def add_to(commands: Commands, with_parts: bool) -> None:
    """Add this command to `surefoot`."""
    parser = begin(
        commands,
        "inspect",
        "say from a model's files whether drafts can be verified on it",
        "Reads the headers of MODEL and says whether drafts can be verified on it, by which runtime, and "
        "why not; its layers, window, experts, vocabulary, context, rows, head and cache. Every finding comes with the "
        "file and key where it was read. No runtime is loaded and nothing in the files is run. Exit code 3 when no "
        "runtime of Surefoot can, or it is not known.",
    )
    parser.add_argument(
        "model", metavar="MODEL",
        help="a folder or file of transformers, MLX, GGUF, OpenVINO, ONNX, Core ML or Core AI; a Hub id; smollm2-135m",
    )  # fmt: skip
    parser.add_argument("--format", choices=_FORMATS, help="which one to look at, in a folder that holds several")
    parser.add_argument("--draft", metavar="MODEL", help="also say whether this one fits it as a draft model")
    finish(parser, run, "the lines")


def run(args: argparse.Namespace, context: Context) -> int:
    """The exit code: good when a runtime of Surefoot can verify drafts on this model."""
    from surefoot.core.errors import NotEligible

    try:
        from surefoot.engine.inspect import as_draft, inspect

        with context.console.working(f"reading {args.model}") as progress:
            found = inspect(args.model, context.cache_dir, wanted=args.format, progress=progress)
            draft = inspect(args.draft, context.cache_dir, progress=progress) if args.draft else None
    except ImportError as error:
        raise NotEligible(
            f"{error.name or error} is needed to read this model: pip install 'surefoot[text]'."
        ) from error
    fits = as_draft(found, draft) if draft is not None else None
    if args.json:
        _write_json(found, fits, context)
    else:
        for line in lines(found, fits, context.console):
            context.console.write(line + "\n")
    works = found.works and (fits is None or fits.answer != "no")
    return errors.GOOD if works else errors.NOT_ELIGIBLE


def lines(found: Inspection, fits: Verdict | None, console: Console) -> Iterable[str]:
    """The lines for people: the answer, the runtimes, the findings with where they were read."""
    from surefoot.engine.inspect import FORMATS

    facts = found.facts
    yield console.styled(f"{found.name}: {FORMATS[facts.format]}{_others(facts)}", "1")
    yield _answer("can verify", found.verdict, console)
    yield from _evidence(piece for each in found.verdict.objections for piece in each.evidence)
    for verdict in found.runtimes:
        yield _answer(f"  {verdict.runtime}", verdict, console)
    if fits is not None:
        yield _answer("as draft", fits, console)
    if facts.lookup is not None:
        word = console.styled(f"{facts.lookup.value:<{_NAME}}", _COLORS[facts.lookup.value])
        yield f"{'look-up':<{_MARGIN}}{word}{facts.lookup_text}"
        yield from _evidence(facts.lookup.evidence)
    for name, text, evidence in _findings(facts):
        yield f"{name:<{_MARGIN}}{text}"
        yield from _evidence(evidence)


def _answer(name: str, verdict: Verdict, console: Console) -> str:
    word = console.styled(f"{verdict.answer:<{_NAME}}", _COLORS[verdict.answer])
    return f"{name:<{_MARGIN}}{word}{verdict.text}"


def _others(facts: Facts) -> str:
    return f" (the folder also holds {', '.join(facts.others)}: see --format)" if facts.others else ""


def _evidence(pieces: Iterable[Evidence]) -> Iterable[str]:
    for piece in dict.fromkeys(pieces):
        yield f"{'':<{_MARGIN}}{piece.file}: {piece.key} = {piece.value}"


def _findings(facts: Facts) -> Iterable[tuple[str, str, tuple[Evidence, ...]]]:
    """Name, text and evidence of each finding; what the files do not say is said, too."""
    silent = "not said", ()
    kind = facts.architecture
    yield "family", *((kind.value, kind.evidence) if kind else silent)
    layers = facts.layers
    yield "layers", *((_layers(layers.value), layers.evidence) if layers else silent)
    window = facts.window
    yield "window", *((f"{window.value:,} tokens", window.evidence) if window else ("none said", ()))
    experts = facts.experts
    yield "experts", *((_experts(experts.value), experts.evidence) if experts else ("none said", ()))
    vocabulary = facts.vocabulary
    yield "vocabulary", *((f"{vocabulary.value:,} tokens", vocabulary.evidence) if vocabulary else silent)
    reach = facts.context
    yield "context", *((f"{reach.value:,} tokens", reach.evidence) if reach else silent)
    rows = facts.rows
    yield "rows", *((_rows(rows.value.counts), rows.evidence) if rows else silent)
    head = facts.head
    yield "head", *((f"on {head.value}" if head.value == "all rows" else "on the last row only", head.evidence)
                    if head else silent)  # fmt: skip
    states = facts.states
    yield "cache", *((_states(facts), states.evidence) if states else silent)
    size = facts.size
    yield "size", _size(facts), size.evidence


def _layers(kinds: Any) -> str:
    return f"{sum(kinds.values())}: {', '.join(f'{n} {kind}' for kind, n in kinds.items())}"


def _experts(experts: Any) -> str:
    if not experts.total:
        return "a mixture, of a number that the files do not say"
    used = f", {experts.used} for each token" if experts.used else ""
    return f"{experts.total} in a layer{used}: more rows wake more of them, so a block may cost more than its rows"


def _rows(counts: tuple[int, ...]) -> str:
    if not counts:
        return "any number (dynamic)"
    return f"{', '.join(map(str, counts))} only (static)"


def _states(facts: Facts) -> str:
    from surefoot.core.eligibility import spelled

    assert facts.states is not None
    shown = [f"{state.name} {spelled(state.shape)}, {state.held}" for state in facts.states.value[:6]]
    rest = len(facts.states.value) - len(shown)
    return "; ".join(shown) + (f"; and {rest} more" if rest else "")


def _size(facts: Facts) -> str:
    size = facts.size.value
    parameters = f", {size.parameters / 1e6:,.1f} M parameters" if size.parameters else ""
    types = ", ".join(f"{name} {n}" for name, n in sorted(size.types.items(), key=lambda each: -each[1])[:6])
    return f"{size.bytes / 1e6:,.1f} MB{parameters}{f' ({types})' if types else ''}"


def _write_json(found: Inspection, fits: Verdict | None, context: Context) -> None:
    from dataclasses import fields
    from importlib.metadata import version

    from surefoot.app.cli.document import as_json

    # The raw settings of a model are its own document, not ours.
    facts = {item.name: getattr(found.facts, item.name) for item in fields(found.facts) if item.name != "settings"}
    context.console.write(
        as_json(
            Result(SCHEMA, version("surefoot"), found.name, found.works, found.verdict, found.runtimes, fits, facts)
        )
    )
