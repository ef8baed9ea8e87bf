"""From a GGUF file to a target that was tried out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from surefoot.core.errors import ConfigError, NotEligible, TargetError
from surefoot.core.types import Caps
from surefoot.targets.llamacpp.api import ERROR, Api, open_api
from surefoot.targets.llamacpp.memory import check_memory
from surefoot.targets.llamacpp.runtime import Weights
from surefoot.targets.llamacpp.settings import (
    DEFAULT_LENGTH,
    MAX_ROWS,
    check_options,
    context_values,
    flash_off,
    model_values,
    row_class,
)
from surefoot.targets.llamacpp.target import LlamacppTarget

if TYPE_CHECKING:
    from surefoot.targets.llamacpp import Options


def load(options: Options, path: Path) -> LlamacppTarget:
    """The target for the GGUF model at `path`, loaded and tried out on two tokens."""
    check_options(options)
    _check_file(path)
    api = open_api(options.binding)
    weights, kinds = _load(api, options, path)
    _check_kind(weights, path)
    max_length = _max_length(options, weights, path)
    on_cpu = options.gpu_layers == 0 or not api.fn.llama_supports_gpu_offload()
    values = context_values(options, max_length, on_cpu)
    check_memory(weights, values, options)
    caps = Caps(
        backend="llamacpp",
        vocab_size=weights.vocab_size,
        max_length=max_length,
        max_rows=min(MAX_ROWS, max_length),
        discipline="removal by position",
        can_pad=True,
        device="cpu" if on_cpu else "gpu",
        row_class=row_class(options, kinds, on_cpu),
        settings=_settings(api, options, kinds, values, on_cpu),
    )
    target = LlamacppTarget(weights, caps, values, values["n_ubatch"])
    _try_out(target, path)
    return target


def _check_file(path: Path) -> None:
    """Raises: ConfigError when it is no GGUF file; NotEligible when it holds a vocabulary and no weights."""
    try:
        with path.open("rb") as file:
            head = file.read(16)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from error
    if head[:4] != b"GGUF" or len(head) < 16:
        raise ConfigError(f"{path} is not a GGUF file: it does not begin as one")
    if int.from_bytes(head[8:16], "little") == 0:
        raise NotEligible(f"{path} holds a vocabulary and no weights: give the file of the model itself")


def _load(api: Api, options: Options, path: Path) -> tuple[Weights, frozenset[str]]:
    """The model, and the types of its tensors, as llama.cpp names them."""
    with api.listening() as lines:
        address = api.load_model(str(path), model_values(options))
    if address is None:
        raise _refusal(path, [text for level, text in lines if level >= ERROR and text])
    found = (re.search(r"- type +(\w+): +\d+ tensors", text) for _, text in lines)
    return Weights(api, address), frozenset(match[1] for match in found if match)


def _refusal(path: Path, lines: Sequence[str]) -> ConfigError | NotEligible | TargetError:
    """The error for what llama.cpp says when it cannot load a file."""
    told = [re.sub(r"^(\w+: |error loading model[\w ]*: )+", "", line) for line in lines]
    said = "; ".join(line for line in told if "failed to load model" not in line) or "it gives no reason"
    if match := re.search(r"unknown model architecture: '([^']*)'", said):
        return NotEligible(
            f"llama.cpp does not know the architecture {match[1]} of {path}: install a newer binding, or use a model "
            "of another family"
        )
    if re.search(r"alloc|out of memory|mmap failed|mlock", said):
        return TargetError(f"{path} does not fit into memory ({said})", backend="llamacpp", operation="load")
    if re.search(
        r"missing tensor|tensor .* not found|wrong shape|key not found|unknown pre-tokenizer|unsupported", said
    ):
        return NotEligible(f"llama.cpp cannot run {path}: {said}")
    if re.search(r"corrupt|incomplete|bounds|magic|invalid|failed to read|read error|gguf", said):
        return ConfigError(f"{path} is damaged or cut off ({said}): fetch it again")
    return TargetError(f"llama.cpp cannot load {path}: {said}", backend="llamacpp", operation="load")


def _check_kind(weights: Weights, path: Path) -> None:
    """Raises: NotEligible for a model that writes no text, or whose memory cannot drop rejected tokens."""
    architecture = weights.metadata("general.architecture")
    reasons = []
    if weights.number("has_encoder") or not weights.number("has_decoder"):
        reasons.append("it reads a text and does not write one token after the other")
    if weights.number("is_diffusion"):
        reasons.append("it does not write one token after the other")
    if weights.number("is_recurrent"):
        reasons.append("its recurrent state cannot drop rejected tokens")
    if weights.number("is_hybrid"):
        reasons.append("some of its layers keep a recurrent state, which cannot drop rejected tokens")
    if not weights.vocab_size:
        reasons.append("it has no vocabulary")
    if reasons:
        raise NotEligible(f"{path} ({architecture}) cannot be used for drafts", reasons)


def _max_length(options: Options, weights: Weights, path: Path) -> int:
    own = weights.number("n_ctx_train")
    if options.ctx_size is not None and options.ctx_size > own:
        raise ConfigError(f"ctx_size is {options.ctx_size}, and the model in {path} reads {own} tokens at most")
    return options.ctx_size or min(own, DEFAULT_LENGTH)


def _settings(
    api: Api, options: Options, kinds: frozenset[str], values: dict[str, int], on_cpu: bool
) -> dict[str, str]:
    features = " ".join((api.fn.llama_print_system_info() or b"").decode(errors="replace").split())
    return {
        api.door.name: api.door.version,
        "weights": "+".join(sorted(kinds)) or "as found",
        "cache": f"{options.cache_type_k}/{options.cache_type_v}",
        "flash_attention": "off" if flash_off(options, on_cpu) else options.flash_attn,
        "repack": str(options.repack),
        "threads": str(values["n_threads"]),
        "ubatch": str(values["n_ubatch"]),
        "gpu_layers": "0" if on_cpu else "all" if options.gpu_layers < 0 else str(options.gpu_layers),
        "built_for": ",".join(re.findall(r"(\w+) = 1", features)),
    }


def _try_out(target: LlamacppTarget, path: Path) -> None:
    """Raises: NotEligible where rows cannot be removed, or two rows do not give two rows of logits."""
    session = target.open()
    try:
        session.extend(np.zeros(2, np.int32))
        session.commit(1)
        scores = session.extend(np.zeros(2, np.int32))
        if not np.isfinite(scores.logits(1)).any():
            raise NotEligible(f"llama.cpp gives no finite logits for {path}: its weights are damaged")
    except TargetError as error:
        raise NotEligible(f"{path} cannot be used for drafts: {error}") from error
    finally:
        session.close()
