"""The options as llama.cpp's parameters."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from surefoot.core.errors import ConfigError
from surefoot.targets.llamacpp.exactness import FEW_ROWS, few_rows_only

if TYPE_CHECKING:
    from surefoot.targets.llamacpp import Options

MAX_ROWS = 48
"""chosen: more than the longest sweep of row counts has, and fewer than the 64 from which flash attention works in
tiles; their logits are 29 MB at a 152k vocabulary, and reserved at once."""

DEFAULT_LENGTH = 8192
"""chosen: llama.cpp reserves the whole cache at once, and the 131,072 tokens of many models would be 16 GB of it."""

CACHE_TYPES: Mapping[str, tuple[int, float]] = {
    "f32": (0, 4), "f16": (1, 2), "bf16": (30, 2), "q8_0": (8, 34 / 32), "q5_1": (7, 24 / 32), "q5_0": (6, 22 / 32),
    "iq4_nl": (20, 18 / 32), "q4_1": (3, 20 / 32), "q4_0": (2, 18 / 32),
}  # fmt: skip
"""The number of each type of cached values, and its bytes a value. Source: enum ggml_type and ggml-common.h."""

_MOST_THREADS = 512
"""Source: GGML_MAX_N_THREADS in ggml/include/ggml.h."""

_LARGEST = 2**31 - 1
"""The largest number that llama.cpp's parameters hold."""

_FLASH = {"auto": -1, "off": 0, "on": 1}


@dataclass(frozen=True, slots=True)
class Chosen:
    """The options with every `auto` decided, for this model on this device.

    kinds: the types of the file's tensors. flash: auto only where llama.cpp is to choose.
    """

    kinds: frozenset[str]
    on_cpu: bool
    threads: int
    cache_k: str
    cache_v: str
    flash: str
    repack: bool
    max_rows: int
    min_rows: int
    ubatch: int
    gpu_layers: int

    def model_values(self) -> dict[str, int]:
        """Fields of llama_model_params."""
        return {"n_gpu_layers": self.gpu_layers, "use_extra_bufts": self.repack}

    def context_values(self, max_length: int) -> dict[str, int]:
        """Fields of llama_context_params. Both thread counts are one, so that a block is no other kind of forward."""
        ubatch = self.taken_at_once(max_length)
        return {
            # Padding of a block may stand behind the last token of the context.
            "n_ctx": max_length + MAX_ROWS,
            "n_batch": ubatch,
            "n_ubatch": ubatch,
            "n_seq_max": 1,
            "n_outputs_max": MAX_ROWS,
            # A hidden state for each token, also of a file that says they are to be summed up.
            "pooling_type": 0,
            "n_threads": self.threads,
            "n_threads_batch": self.threads,
            "flash_attn_type": _FLASH[self.flash],
            "type_k": CACHE_TYPES[self.cache_k][0],
            "type_v": CACHE_TYPES[self.cache_v][0],
            # A window's cache as long as the context: a shorter one forgets rows that a rejected draft brings back.
            "swa_full": 1,
            "kv_unified": 1,
            # On the CPU means all of it: else a large block may be sent to a graphics processor that is there.
            "offload_kqv": not self.on_cpu,
            "op_offload": not self.on_cpu,
            "no_perf": 1,
        }

    def taken_at_once(self, max_length: int) -> int:
        """Tokens of a prompt in one forward: no more than the cache has room for."""
        return min(self.ubatch, max_length + MAX_ROWS)


def choose(options: Options, kinds: frozenset[str], on_cpu: bool) -> Chosen:
    """Every `auto` decided, on a CPU for rows that do not depend on the rows beside them."""
    few = few_rows_only(kinds)
    return Chosen(
        kinds=kinds,
        on_cpu=on_cpu,
        threads=options.threads or physical_cores(),
        cache_k=options.cache_type_k,
        cache_v=("bf16" if on_cpu and options.flash_attn != "off" else "f16")
        if options.cache_type_v == "auto"
        else options.cache_type_v,
        flash="on" if options.flash_attn == "auto" and on_cpu else options.flash_attn,
        repack=not few if options.repack == "auto" else options.repack == "on",
        max_rows=options.max_rows or max(FEW_ROWS if few and on_cpu else MAX_ROWS, options.min_rows),
        min_rows=options.min_rows,
        ubatch=max(options.ubatch, MAX_ROWS),
        gpu_layers=options.gpu_layers,
    )


def check_options(options: Options) -> None:
    """Raises: ConfigError for a value that no model could take."""
    types = (("cache_type_k", options.cache_type_k, ()), ("cache_type_v", options.cache_type_v, ("auto",)))
    for name, kind, also in types:
        if kind not in (*CACHE_TYPES, *also):
            raise ConfigError(f"{name} must be one of {', '.join((*also, *CACHE_TYPES))}; got {kind!r}")
    for name, value in (("flash_attn", options.flash_attn), ("repack", options.repack)):
        if value not in _FLASH:
            raise ConfigError(f"{name} must be auto, on or off; got {value!r}")
    if options.cache_type_v not in ("auto", "f32", "f16", "bf16") and options.flash_attn == "off":
        raise ConfigError(f"cache_type_v {options.cache_type_v} needs flash attention: leave out flash_attn off")
    limits = (
        ("threads", options.threads, 1, _MOST_THREADS), ("ctx_size", options.ctx_size, 2, _LARGEST - MAX_ROWS),
        ("ubatch", options.ubatch, 1, _LARGEST), ("max_rows", options.max_rows, 2, MAX_ROWS),
        ("min_rows", options.min_rows, 1, MAX_ROWS), ("gpu_layers", options.gpu_layers, -1, _LARGEST),
    )  # fmt: skip
    for name, number, least, most in limits:
        if number is not None and not least <= number <= most:
            raise ConfigError(f"{name} must be at least {least} and at most {most}; got {number}")
    if options.max_rows is not None and options.max_rows < options.min_rows:
        raise ConfigError(f"max_rows is {options.max_rows} and min_rows {options.min_rows}: give max_rows more")


def physical_cores() -> int:
    """Cores that this process may use, each counted once however many threads it runs; all processors elsewhere."""
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
    shared = Path("/sys/devices/system/cpu")
    try:
        cores = {(shared / f"cpu{cpu}/topology/thread_siblings_list").read_text("ascii") for cpu in allowed}
    except OSError:
        return len(allowed)
    return len(cores)
