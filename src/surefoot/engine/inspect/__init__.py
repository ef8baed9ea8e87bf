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

from surefoot.core.eligibility import of_draft
from surefoot.engine.embedded import Progress
from surefoot.engine.inspect import locate, verdicts
from surefoot.engine.inspect.findings import FORMATS, Evidence, Facts, Format, Objection, Verdict

__all__ = ["FORMATS", "Evidence", "Facts", "Format", "Inspection", "Objection", "Verdict", "as_draft", "inspect"]


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

    Raises: ConfigError for files that are missing, damaged or of no known format, in bounded time and memory.
    """
    facts = locate.read(name, cache_dir, wanted, progress)
    return Inspection(name, facts, verdicts.general(facts), verdicts.by_runtime(facts))


def as_draft(target: Inspection, draft: Inspection) -> Verdict:
    """Whether `draft` fits as a draft model of `target`, by what both files say."""

    def sizes(facts: Facts) -> dict[str, int | None]:
        return {
            "vocabulary": facts.vocabulary.value if facts.vocabulary else None,
            "context": facts.context.value if facts.context else None,
        }

    evidence = [each for each in (draft.facts.vocabulary, draft.facts.context) if each is not None]
    read = tuple(piece for each in evidence for piece in each.evidence)
    found = tuple(Objection(refusal, read) for refusal in of_draft(sizes(target.facts), sizes(draft.facts)))
    if found:
        return Verdict("draft model", "no", f"it {'; '.join(each.refusal.text for each in found)}", found)
    unknown = [name for name, value in sizes(draft.facts).items() if value is None]
    if unknown:
        return Verdict("draft model", "not known", f"the files do not say its {' and '.join(unknown)}")
    return Verdict(
        "draft model", "yes", "vocabulary and context fit; that the tokens mean the same is not in the sizes"
    )
