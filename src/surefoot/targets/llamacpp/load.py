"""From a GGUF file to a target that was tried out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from surefoot.core.eligibility import of_direction, of_recurrence, of_vocabulary
from surefoot.core.errors import ConfigError, DamagedModel, NotEligible, TargetError
from surefoot.core.types import Caps
from surefoot.targets import large_pages
from surefoot.targets.llamacpp.api import ERROR, Api, open_api
from surefoot.targets.llamacpp.exactness import row_class
from surefoot.targets.llamacpp.memory import cache_bytes, shortage
from surefoot.targets.llamacpp.runtime import Weights
from surefoot.targets.llamacpp.session import FINAL
from surefoot.targets.llamacpp.settings import DEFAULT_LENGTH, MAX_ROWS, Chosen, check_options, choose
from surefoot.targets.llamacpp.target import LlamacppTarget

if TYPE_CHECKING:
    from surefoot.targets.llamacpp import Options


_LIMITS: Mapping[str, tuple[int, int]] = {"block_count": (1, 512), "expert_count": (0, 1024)}
"""Counts beyond which llama.cpp ends the process instead of refusing the file. Source: LLAMA_MAX_LAYERS and
LLAMA_MAX_EXPERTS in src/llama-hparams.h, and tried with build 11549 on 2026-11-30."""

_SCALINGS = ("none", "linear", "yarn", "longrope")
"""Kinds of rotary scaling; at any other llama.cpp ends the process. Source: LLAMA_ROPE_SCALING_TYPES in
src/llama-model.cpp, and tried as above."""

_REARRANGE = "rearrange"
"""The operation of an error for which loading weights as they are stored helps."""


def load(options: Options, path: Path) -> LlamacppTarget:
    """The target for the GGUF model at `path`, loaded and tried out on two tokens."""
    check_options(options)
    _check_file(path)
    api = open_api(options.binding)
    offloads = bool(api.fn.llama_supports_gpu_offload())
    if options.gpu_layers > 0 and not offloads:
        raise NotEligible(
            f"gpu_layers is {options.gpu_layers}, and the library of {api.door.name} {api.door.version} was built for "
            "the CPU alone: leave gpu_layers out, or install a binding that was built for your graphics processor"
        )
    on_cpu = options.gpu_layers == 0 or not offloads
    chosen = choose(options, _tensor_types(api, path), on_cpu)
    weights, chosen = _weights(api, path, chosen, options.repack == "auto")
    _check_kind(weights, path)
    max_length = _max_length(options, weights, path)
    values = chosen.context_values(max_length)
    features = _features(api)
    caps = Caps(
        backend="llamacpp",
        vocab_size=weights.vocab_size,
        max_length=max_length,
        max_rows=min(chosen.max_rows, max_length),
        discipline="removal by position",
        can_pad=True,
        # What some architectures give out is several streams side by side and not what enters the head.
        tap_names=(FINAL,) if weights.hidden_size == weights.number("n_embd") else (),
        device="cpu" if on_cpu else "gpu",
        row_class=row_class(
            chosen,
            weights.metadata("general.architecture") or "",
            int(weights.metadata("{arch}.expert_count") or 0),
            set(features),
            (api.door.name, api.door.version),
            _computes_itself(api),
        ),
        settings=_settings(api, chosen, features, values["n_ubatch"]),
    )
    target = LlamacppTarget(weights, caps, values, chosen.min_rows, cache_bytes(weights, values["n_ctx"], chosen))
    _try_out(target, path)
    return target


def _check_file(path: Path) -> None:
    """Raises: DamagedModel when it is no GGUF file."""
    try:
        with path.open("rb") as file:
            head = file.read(16)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from error
    if head[:4] != b"GGUF" or len(head) < 16:
        raise DamagedModel(f"{path} is not a GGUF file: it does not begin as one")


def _tensor_types(api: Api, path: Path) -> frozenset[str]:
    """The types of the model's tensors in all its shards, as llama.cpp names them when it reads their headers.

    Raises: DamagedModel for a claim that llama.cpp would not survive; NotEligible where there are no weights.
    """
    address, lines = _load(api, path, {"vocab_only": 1})
    for claim, takes in _fatal_claims(Weights(api, address)):
        raise DamagedModel(
            f"{path} claims {claim}, and llama.cpp takes {takes}: the file is damaged or of a kind that is not "
            "supported"
        )
    found = (re.search(r"- type +(\w+): +\d+ tensors", text) for text in lines)
    kinds = frozenset(match[1] for match in found if match)
    if not kinds:
        raise NotEligible(f"{path} holds a vocabulary and no weights: give the file of the model itself")
    return kinds


def _fatal_claims(header: Weights) -> Iterator[tuple[str, str]]:
    """What the header claims where llama.cpp would end the process, and what it takes there.

    A value that is no number at all is left to llama.cpp, which refuses it.
    """

    def told(key: str) -> str:
        return header.metadata(f"{{arch}}.{key}") or ""

    def count(key: str) -> int:
        return int(told(key)) if told(key).isdecimal() else 0

    for key, (least, most) in _LIMITS.items():
        if told(key).isdecimal() and not least <= count(key) <= most:
            yield f"{key} {told(key)}", f"{least} to {most}"
    experts, used = count("expert_count"), count("expert_used_count")
    if (experts or used) and not 1 <= used <= experts:
        yield f"expert_used_count {used} of {experts}", f"1 to {experts}" if experts else "0 where there are no experts"
    if (kind := told("rope.scaling.type") or "none") not in _SCALINGS:
        yield f"rope.scaling.type {kind[:40]}", " or ".join(_SCALINGS)
    epsilon = told("attention.layer_norm_rms_epsilon")
    if epsilon.startswith("-") or "nan" in epsilon:
        yield f"attention.layer_norm_rms_epsilon {epsilon}", "0 or more"


def _weights(api: Api, path: Path, chosen: Chosen, or_as_stored: bool) -> tuple[Weights, Chosen]:
    """The loaded model, and with which settings: `or_as_stored`, weights stay in the file that do not fit beside it."""
    moves = chosen.on_cpu and chosen.repack and large_pages.available()
    try:
        with large_pages.for_new_memory() if moves else nullcontext():  # rearranged weights; others stay in the file
            return Weights(api, _load(api, path, chosen.model_values())[0]), chosen
    except TargetError as error:
        if not or_as_stored or error.operation != _REARRANGE:
            raise
    as_stored = replace(chosen, repack=False)
    return Weights(api, _load(api, path, as_stored.model_values())[0]), as_stored


def _load(api: Api, path: Path, values: Mapping[str, int]) -> tuple[int, list[str]]:
    """The address of a loaded model, and what llama.cpp said of it.

    Raises: TargetError, its operation _REARRANGE where weights that llama.cpp rearranges do not fit into memory.
    """
    missing = ""

    def fits() -> bool:
        nonlocal missing
        missing = shortage(text for _, text in lines)
        return not missing

    with api.listening() as lines:
        address = api.load_model(str(path), values, fits)
    if address is None:
        raise _refusal(path, [text for level, text in lines if level >= ERROR and text], missing)
    return address, [text for _, text in lines]


def _refusal(path: Path, lines: Sequence[str], missing: str) -> DamagedModel | NotEligible | TargetError:
    """The error for what llama.cpp says when it cannot load a file. missing: the memory that it was not let take."""
    told = [re.sub(r"^(\w+: |error loading model[\w ]*: )+", "", line) for line in lines]
    said = "; ".join(line for line in told if "failed to load model" not in line) or "it gives no reason"
    about = _without_names(said, path)
    # Source of the words: load_tensors in src/llama-model.cpp, and the names of the buffers that ggml-cpu copies into.
    if missing or re.search(r"unable to allocate (CPU_|AMX)", about):
        return TargetError(
            f"the weights of {path} that llama.cpp would rearrange do not fit into memory ({missing or said}): leave "
            "them in the file with repack off",
            backend="llamacpp",
            operation=_REARRANGE,
        )
    if match := re.search(r"unknown model architecture: '([^']*)'", about):
        return NotEligible(
            f"llama.cpp does not know the architecture {match[1]} of {path}: install a newer binding, or use a model "
            "of another family"
        )
    if re.search(r"(invalid|illegal) split file", about):
        return DamagedModel(
            f"{path} is not the first part of its model, or its parts are not called what their headers say: give the "
            "first, and rename the parts back to names that end in -00001-of-00003.gguf and so on"
        )
    if re.search(r"alloc|out of memory|mmap failed|mlock", about):
        return TargetError(f"{path} does not fit into memory ({said})", backend="llamacpp", operation="load")
    if re.search(
        r"missing tensor|tensor .* not found|wrong (shape|number)|key not found|unknown pre-tokenizer|unsupported",
        about,
    ):
        return NotEligible(f"llama.cpp cannot run {path}: {said}")
    if re.search(r"corrupt|incomplete|bounds|magic|invalid|wrong type|failed to read|read error", about):
        return DamagedModel(f"{path} is damaged or cut off ({said}): fetch it again")
    return TargetError(f"llama.cpp cannot load {path}: {said}", backend="llamacpp", operation="load")


def _without_names(said: str, path: Path) -> str:
    """The words without the names of the model's files, which may hold any."""
    stem = re.sub(r"(-\d{5}-of-\d{5})?\.gguf$", "", str(path), flags=re.IGNORECASE)
    return re.sub(re.escape(stem) + r"(-\d{5}-of-\d{5})?\.gguf", "", said, flags=re.IGNORECASE)


def _check_kind(weights: Weights, path: Path) -> None:
    """Raises: NotEligible for a model that writes no text, or whose memory cannot drop rejected tokens."""
    architecture = weights.metadata("general.architecture") or "unknown"
    is_both = bool(weights.number("has_encoder") and weights.number("has_decoder"))
    recurrent = ("recurrent state",) if weights.number("is_recurrent") or weights.number("is_hybrid") else ()
    found = [
        of_direction(is_both, architecture),
        of_vocabulary(weights.vocab_size or None),
        *(of_recurrence(recurrent) if recurrent else ()),
    ]
    reasons = [refusal.text for refusal in found if refusal is not None]
    if weights.number("is_diffusion") or not weights.number("has_decoder"):
        reasons.append("it does not write one token after the other")
    if reasons:
        raise NotEligible(f"{path} ({architecture}) cannot be used for drafts", reasons)


def _max_length(options: Options, weights: Weights, path: Path) -> int:
    own = weights.number("n_ctx_train")
    if own < 2:
        raise DamagedModel(
            f"{path} claims a context of {own} tokens, and drafts need two at least: the file is damaged"
        )
    if options.ctx_size is not None and options.ctx_size > own:
        raise NotEligible(f"ctx_size is {options.ctx_size}, and the model in {path} reads {own} tokens at most")
    length = options.ctx_size or min(own, DEFAULT_LENGTH)
    # Beyond its first context a model with two sets of rotary factors takes the other one, for all of its text.
    scaling = weights.metadata("{arch}.rope.scaling.type") or "none"
    first = int(weights.metadata("{arch}.rope.scaling.original_context_length") or 0)
    if scaling not in ("none", "longrope") or not length <= first < min(own, length + MAX_ROWS):
        return length
    if options.ctx_size is not None and first > MAX_ROWS + 1:
        raise NotEligible(
            f"ctx_size is {length}, and {MAX_ROWS} rows more are needed for drafts, with which the model in {path} "
            f"takes the rotary factors of a context above {first} tokens: give at most {first - MAX_ROWS}, or more "
            f"than {first}"
        )
    return max(2, first - MAX_ROWS)


def _features(api: Api) -> list[str]:
    """What the library was built for, as far as it says so: instruction sets, and its own kernels."""
    told = (api.fn.llama_print_system_info() or b"").decode(errors="replace")
    return re.findall(r"(\w+) = 1", told)


def _computes_itself(api: Api) -> bool:
    """Whether ggml's own code for the CPU is all that this library can compute with; False where that is not known."""
    count = getattr(api.fn, "ggml_backend_reg_count", None)
    return count is not None and count() == 1


def _settings(api: Api, chosen: Chosen, features: Sequence[str], ubatch: int) -> dict[str, str]:
    layers = "all" if chosen.gpu_layers < 0 else str(chosen.gpu_layers)
    return {
        api.door.name: api.door.version,
        "weights": "+".join(sorted(chosen.kinds)) or "as found",
        "cache": f"{chosen.cache_k}/{chosen.cache_v}",
        "flash_attention": chosen.flash,
        "repack": "on" if chosen.repack else "off",
        "max_rows": str(chosen.max_rows),
        "min_rows": str(chosen.min_rows),
        "threads": str(chosen.threads),
        "ubatch": str(ubatch),
        "gpu_layers": "0" if chosen.on_cpu else layers,
        "built_for": ",".join(features),
    }


def _try_out(target: LlamacppTarget, path: Path) -> None:
    """Raises: NotEligible where rows cannot be removed, or two rows do not give two rows of logits."""
    session = target.open()
    try:
        scores = session.extend(np.zeros(2, np.int32))
        if not np.isfinite(scores.logits(1)).any():
            raise NotEligible(f"llama.cpp gives no finite logits for {path}: its weights are damaged")
        session.commit(1)
        session.extend(np.zeros(1, np.int32))
    except TargetError as error:
        raise NotEligible(f"{path} cannot be used for drafts: {error}") from error
    finally:
        session.close()
