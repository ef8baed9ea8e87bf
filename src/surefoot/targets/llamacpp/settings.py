"""The options as llama.cpp's parameters, and what is known of the rows under them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from surefoot.core.errors import ConfigError
from surefoot.core.types import RowClass

if TYPE_CHECKING:
    from surefoot.targets.llamacpp import Options

MAX_ROWS = 64
"""chosen: twice the longest sweep of row counts; their logits are 39 MB at a 152k vocabulary, and always reserved."""

DEFAULT_LENGTH = 8192
"""chosen: llama.cpp reserves the whole cache at once, and the 131,072 tokens of many models would be 16 GB of it."""

CACHE_TYPES: Mapping[str, tuple[int, float]] = {
    "f32": (0, 4), "f16": (1, 2), "bf16": (30, 2), "q8_0": (8, 34 / 32), "q5_1": (7, 24 / 32), "q5_0": (6, 22 / 32),
    "iq4_nl": (20, 18 / 32), "q4_1": (3, 20 / 32), "q4_0": (2, 18 / 32),
}  # fmt: skip
"""The number of each type of cached values, and its bytes a value. Source: enum ggml_type and ggml-common.h."""

_FLASH = {"auto": -1, "off": 0, "on": 1}


def check_options(options: Options) -> None:
    """Raises: ConfigError for a value that no model could take."""
    for name, kind in (("cache_type_k", options.cache_type_k), ("cache_type_v", options.cache_type_v)):
        if kind not in CACHE_TYPES:
            raise ConfigError(f"{name} must be one of {', '.join(CACHE_TYPES)}; got {kind!r}")
    if options.flash_attn not in _FLASH:
        raise ConfigError(f"flash_attn must be auto, on or off; got {options.flash_attn!r}")
    if options.cache_type_v not in ("f32", "f16", "bf16") and options.flash_attn != "on":
        raise ConfigError(f"cache_type_v {options.cache_type_v} needs flash attention: give flash_attn on too")
    if options.threads is not None and options.threads < 1:
        raise ConfigError(f"threads must be at least 1; got {options.threads}")
    if options.ctx_size is not None and options.ctx_size < 2:
        raise ConfigError(f"ctx_size must be at least 2; got {options.ctx_size}")
    if options.ubatch < 1:
        raise ConfigError(f"ubatch must be at least 1; got {options.ubatch}")
    if options.gpu_layers < -1:
        raise ConfigError(f"gpu_layers must be a number of layers, or -1 for all; got {options.gpu_layers}")


def model_values(options: Options) -> dict[str, int]:
    """Fields of llama_model_params."""
    return {"n_gpu_layers": options.gpu_layers, "use_extra_bufts": options.repack}


def context_values(options: Options, max_length: int, on_cpu: bool) -> dict[str, int]:
    """Fields of llama_context_params. Both thread counts are the same, so that a block is no other kind of forward."""
    threads = options.threads or physical_cores()
    return {
        # Padding of a block may stand behind the last token of the context.
        "n_ctx": max_length + MAX_ROWS,
        "n_batch": max(options.ubatch, MAX_ROWS),
        "n_ubatch": max(options.ubatch, MAX_ROWS),
        "n_seq_max": 1,
        "n_outputs_max": MAX_ROWS,
        "n_threads": threads,
        "n_threads_batch": threads,
        "flash_attn_type": _FLASH["off" if flash_off(options, on_cpu) else options.flash_attn],
        "type_k": CACHE_TYPES[options.cache_type_k][0],
        "type_v": CACHE_TYPES[options.cache_type_v][0],
        # A window's cache as long as the context: a shorter one forgets rows that a rejected draft would bring back.
        "swa_full": 1,
        "kv_unified": 1,
        "no_perf": 1,
    }


def flash_off(options: Options, on_cpu: bool) -> bool:
    """Whether flash attention is surely not used."""
    return options.flash_attn == "off" or (options.flash_attn == "auto" and on_cpu)


def row_class(options: Options, weights: frozenset[str], on_cpu: bool) -> RowClass:
    """What is known of these settings without measuring."""
    return "near-tie"


def physical_cores() -> int:
    """Cores that this process may use, each counted once however many threads it runs; all processors elsewhere."""
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
    shared = Path("/sys/devices/system/cpu")
    try:
        cores = {(shared / f"cpu{cpu}/topology/thread_siblings_list").read_text("ascii") for cpu in allowed}
    except OSError:
        return len(allowed)
    return len(cores)
