"""From what the files say to an answer: can drafts be verified on it at all, and by which runtime."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

from surefoot.core.eligibility import Refusal, of_counts, of_recurrence, of_vocabulary
from surefoot.core.errors import DamagedModel, NotEligible
from surefoot.engine.generator import RUNTIMES
from surefoot.engine.inspect import programs
from surefoot.engine.inspect.findings import FORMATS, Evidence, Facts, Objection, Verdict, shown
from surefoot.targets.openvino import gguf_source, safetensors_source

ANY = "any runtime"

_READ_AS: Mapping[str, str] = {"mlx": "safetensors"}
"""The format that a runtime would take this one for."""

_PACKED = "holds weights packed by MLX, which {} does not read: give the weights that they were made from"

_HF_GGUF = (
    "llama", "mistral", "qwen2", "qwen2moe", "qwen3", "qwen3moe", "gpt-oss", "lfm2", "falcon", "phi3", "bloom",
    "stablelm", "gpt2", "starcoder2", "mamba", "nemotron", "gemma2", "gemma3", "gemma4",
)  # fmt: skip
"""Architectures whose GGUF files transformers reads. Source: transformers 5.24, integrations/ggml.py."""

Check = Callable[[Facts], Iterator[Objection]]


def general(facts: Facts) -> Verdict:
    """Whether the model itself lets drafts be verified, whoever runs it."""
    objections = tuple(_general(facts))
    if objections:
        text = "; ".join(each.refusal.text for each in objections)
        return Verdict(ANY, "no", f"it {text}", objections)
    unknown = _unknown(facts)
    if unknown:
        return Verdict(ANY, "not known", f"the files do not say {' and '.join(unknown)}")
    if facts.rows is not None and not facts.rows.value.dynamic:
        widths = ", ".join(map(str, facts.rows.value.counts))
        return Verdict(ANY, "yes", f"in blocks of {widths} rows, shorter drafts padded")
    return Verdict(ANY, "yes", "any number of rows, and rejected ones can be dropped")


def by_runtime(facts: Facts) -> tuple[Verdict, ...]:
    """The answer of each runtime that this Surefoot has, in the order in which they are tried."""
    return tuple(_by(name, facts) for name in RUNTIMES)


def _by(name: str, facts: Facts) -> Verdict:
    runtime = RUNTIMES[name]
    if _READ_AS.get(facts.format, facts.format) not in runtime.reads:
        reads = ", ".join(runtime.reads)
        reason = Objection(Refusal("format", f"comes as {FORMATS[facts.format]}, and {name} reads {reads}"))
        return Verdict(name, "no", f"it {reason.refusal.text}", (reason,))
    found = tuple(_CHECKS.get(name, _plain)(facts))
    if found:
        return Verdict(name, "no", f"it {'; '.join(each.refusal.text for each in found)}", found)
    here = any(map(find_spec, runtime.modules))
    absent = "" if here else f"; not installed here: pip install 'surefoot[{name}]'"
    unknown = _unknown(facts) if facts.format == "openvino" else _unknown_to_hf(facts) if name == "hf" else []
    if unknown:
        return Verdict(name, "not known", f"the files do not say {' and '.join(unknown)}{absent}")
    how = "converted once" if name == "openvino" and facts.format != "openvino" else "as it is"
    return Verdict(name, "yes", f"{how}{absent}")


def _general(facts: Facts) -> Iterator[Objection]:
    yield from facts.stated
    told = {each.refusal.kind for each in facts.stated}
    if facts.rows is not None and "static rows" not in told:
        refusal = of_counts(facts.rows.value.counts)
        if refusal is not None:
            yield Objection(refusal, facts.rows.evidence)
    if "cumulative state" not in told:
        yield from _recurrent(facts)
    refusal = of_vocabulary(facts.vocabulary.value if facts.vocabulary else None)
    if refusal is not None and not told & {"no language model", "encoder-decoder", "format"}:
        yield Objection(refusal)


def _recurrent(facts: Facts) -> Iterator[Objection]:
    """Layers whose state no discipline of ours rolls back."""
    if facts.layers is None or not facts.layers.value.get("recurrent"):
        return
    n = facts.layers.value["recurrent"]
    for refusal in of_recurrence([f"recurrent state ({n} of {sum(facts.layers.value.values())} layers)"]):
        yield Objection(Refusal(refusal.kind, f"is hybrid or recurrent: {refusal.text}"), facts.layers.evidence[:2])


def _unknown(facts: Facts) -> list[str]:
    """What would have to be known for a yes."""
    missing = []
    if facts.rows is None:
        missing.append("how many rows a forward scores")
    elif not facts.rows.value.dynamic and facts.rows.value.counts == (1,):
        return missing
    if facts.head is None:
        missing.append("whether the head is computed on all rows")
    if facts.format in ("coreml", "coreai") and not programs.dense(facts.states):
        missing.append("whether every state is keys and values")
    return missing


def _unknown_to_hf(facts: Facts) -> list[str]:
    """What the installed transformers would have to know."""
    kind = facts.architecture.value if facts.architecture else ""
    if facts.format == "gguf":
        return [] if kind in _HF_GGUF else [f"whether transformers reads GGUF files of the architecture {kind}"]
    spec = find_spec("transformers")
    folders = [Path(place) for place in (spec.submodule_search_locations or ())] if spec is not None else []
    name = kind.replace("-", "_")
    # The part of a larger family that writes text lies in the family's folder.
    known = (name, name.removesuffix("_text"))
    if (
        not folders
        or not name.isidentifier()
        or any((place / "models" / n).is_dir() for place in folders for n in known)
    ):
        return []
    return [f"whether the installed transformers knows the model type {shown(kind)}"]


def _plain(facts: Facts) -> Iterator[Objection]:
    yield from _general(facts)


def _openvino(facts: Facts) -> Iterator[Objection]:
    """What the runtime says of its own format, and its export of the others."""
    yield from _general(facts)
    if facts.format == "mlx" and _is_packed(facts):
        yield Objection(Refusal("weight format", _PACKED.format("the OpenVINO export")), facts.size.evidence[-1:])
    elif facts.format in ("safetensors", "mlx", "gguf"):
        yield from _exported(facts)


def _exported(facts: Facts) -> Iterator[Objection]:
    """Why the export cannot write this family."""
    kind = facts.architecture.evidence if facts.architecture else ()
    try:
        if facts.format == "gguf":
            gguf_source.check_fields(facts.settings, ("rope_freqs.weight",), facts.path)
        else:
            safetensors_source.spec_from_config(facts.settings, facts.path)
    except (NotEligible, DamagedModel) as error:
        yield Objection(Refusal("family", _clause(str(error), facts.path)), kind)


def _hf(facts: Facts) -> Iterator[Objection]:
    """Also what its cache cannot drop, although another's could."""
    yield from _general(facts)
    if facts.layers is not None and facts.layers.value.get("indexed attention"):
        for refusal in of_recurrence(["indexed attention"]):
            yield Objection(refusal, facts.layers.evidence[:2])
    if facts.format == "mlx" and _is_packed(facts):
        yield Objection(Refusal("weight format", _PACKED.format("transformers")), facts.size.evidence[-1:])
    if facts.format in ("safetensors", "mlx") and facts.architecture is None:
        yield Objection(
            Refusal("family", "has a config.json that names no model_type"),
            (Evidence("config.json", "model_type", "-"),),
        )


def _is_packed(facts: Facts) -> bool:
    """Whether MLX has quantised the weights."""
    return "U32" in facts.size.value.types


def _clause(text: str, path: Path) -> str:
    """A sentence about the path as a clause about the model."""
    return text.removeprefix(f"{path} ")


_CHECKS: Mapping[str, Check] = {"openvino": _openvino, "hf": _hf}
"""What a runtime asks beside what all ask; one that is not here asks nothing more."""
