"""What a model's files say about drafts, from the files alone: no runtime is loaded and nothing in them is run.

findings   what is found, each with its evidence
locate     which format a path is in, and its reader
verdicts   from the findings to an answer for each runtime
checkpoint, gguf_file, openvino_ir, onnx_file, coreml_package, coreai_bundle   one reader for each format
config_json, ir_xml, wire, mlir_bytecode, programs   what they share or are written in
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from surefoot.core.eligibility import of_draft_context, padded_alike
from surefoot.engine.embedded import Progress
from surefoot.engine.inspect import locate, verdicts
from surefoot.engine.inspect.findings import FORMATS, Evidence, Facts, Format, Objection, Verdict

__all__ = ["FORMATS", "Evidence", "Facts", "Format", "Inspection", "Objection", "Verdict", "as_draft", "inspect"]

DRAFT = "draft model"


@dataclass(frozen=True, slots=True)
class Inspection:
    """What was found, and what follows. verdict: of the model itself; runtimes: of each runtime of this Surefoot."""

    name: str
    facts: Facts
    verdict: Verdict
    runtimes: tuple[Verdict, ...]

    @property
    def works(self) -> bool:
        """Whether a runtime of this Surefoot can verify drafts on it, as far as the files say."""
        return any(each.answer == "yes" for each in self.runtimes)


def inspect(
    name: str, cache_dir: Path, *, wanted: Format | None = None, progress: Progress | None = None
) -> Inspection:
    """What the files of the model called `name` say. `wanted`: the format to look at in a folder of several.

    Raises: ConfigError for files that are missing or of no known format, DamagedModel for damaged ones, in bounded time
    and memory.
    """
    facts = locate.read(name, cache_dir, wanted, progress)
    return Inspection(name, facts, verdicts.general(facts), verdicts.by_runtime(facts))


def as_draft(target: Inspection, draft: Inspection) -> Verdict:
    """Whether `draft` fits as a draft model of `target`, and by which drafter, as far as both files say."""
    ours, theirs = target.facts, draft.facts
    if not (ours.vocabulary and ours.context and theirs.vocabulary and theirs.context):
        return Verdict(DRAFT, "not known", "the files do not say vocabulary and context of both")
    short = of_draft_context(ours.context.value, theirs.context.value)
    if short is not None:
        objection = Objection(short, (*theirs.context.evidence, *ours.context.evidence))
        return Verdict(
            DRAFT, "no", f"it {short.text}; allow drafts to end there with drafts.short_context = stop", (objection,)
        )
    here, there = ours.vocabulary.value, theirs.vocabulary.value
    if padded_alike(here, there):
        return Verdict(DRAFT, "yes", "by the drafter model, if the tokens mean the same, which sizes do not say")
    return Verdict(DRAFT, "yes", f"by the drafter crossvocab: it has {there} tokens where the target has {here}")
