"""Where the fields of llama.cpp's two parameter structs lie, which differ from build to build.

The other structs and all functions used here have been stable for years. A binding that brings the header says where
the fields lie; for one that brings the library alone, the headers of its builds are written down here.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Layout:
    """A C struct. Units: `size` in bytes; fields by name, each its first byte and its bytes."""

    size: int
    fields: Mapping[str, tuple[int, int]]

    def type(self) -> type[ctypes.Structure]:
        """A ctypes type that is passed by value as the struct is: on every platform, only its size matters for that."""
        words = -(-self.size // 8)
        return type("Params", (ctypes.Structure,), {"_fields_": [("words", ctypes.c_uint64 * words)]})


@dataclass(frozen=True, slots=True)
class Asked:
    """What a struct must have to be used: fields that are set, by name, and what llama.cpp itself puts into fields.

    A layout under which the defaults read otherwise is wrong.
    """

    fields: Sequence[str]
    defaults: Mapping[str, int]


def put(params: ctypes.Structure, layout: Layout, values: Mapping[str, int]) -> None:
    """Set whole numbers and booleans."""
    view = _bytes(params)
    for name, value in values.items():
        first, width = layout.fields[name]
        view[first : first + width] = list(int(value).to_bytes(width, "little", signed=value < 0))


def get(params: ctypes.Structure, layout: Layout, name: str) -> int:
    """A whole number or a boolean."""
    first, width = layout.fields[name]
    return int.from_bytes(bytes(_bytes(params)[first : first + width]), "little", signed=width > 1)


def _bytes(params: ctypes.Structure) -> Any:
    return (ctypes.c_ubyte * ctypes.sizeof(params)).from_buffer(params)


def of_ctypes(struct: Any) -> Layout:
    """The layout of a ctypes structure."""
    names = [item[0] for item in struct._fields_]
    return Layout(
        ctypes.sizeof(struct), {name: (getattr(struct, name).offset, getattr(struct, name).size) for name in names}
    )


def of_cffi(ffi: Any, name: str) -> Layout:
    """The layout of a struct that cffi knows from the header."""
    struct = ffi.typeof(name)
    return Layout(ffi.sizeof(struct), {field: (item.offset, ffi.sizeof(item.type)) for field, item in struct.fields})


def _laid_out(*fields: str) -> Layout:
    """The layout of fields written as "name:bytes", each aligned to its size."""
    places: dict[str, tuple[int, int]] = {}
    end = 0
    for item in fields:
        name, _, width_text = item.partition(":")
        width = int(width_text)
        end += -end % width
        places[name] = (end, width)
        end += width
    return Layout(end + -end % 8, places)


def _each(width: int, names: str) -> Sequence[str]:
    return [f"{name}:{width}" for name in names.split()]


# Source: include/llama.h of llama.cpp at builds 11067, 11413, 11548 and 11739. Those between two that are equal are
# taken on trust, and their defaults are read.
_MODEL = _laid_out(
    *_each(8, "devices tensor_buft_overrides"),
    *_each(4, "n_gpu_layers split_mode load_mode lazy_mode main_gpu"),
    *_each(8, "tensor_split progress_callback progress_callback_user_data kv_overrides"),
    *_each(1, "vocab_only check_tensors use_extra_bufts no_host no_alloc load_mtp"),
)


def _context(*new: str) -> Layout:
    return _laid_out(
        *_each(4, "n_ctx n_batch n_ubatch n_seq_max n_rs_seq n_outputs_max n_outputs_max_per_seq"),
        *_each(4, "n_threads n_threads_batch ctx_type rope_scaling_type pooling_type attention_type flash_attn_type"),
        *_each(4, "rope_freq_base rope_freq_scale yarn_ext_factor yarn_attn_factor yarn_beta_fast yarn_beta_slow"),
        *_each(4, "yarn_orig_ctx defrag_thold"),
        *_each(8, "cb_eval cb_eval_user_data"),
        *_each(4, "type_k type_v"),
        *new,
        *_each(8, "abort_callback abort_callback_data"),
        *_each(1, "embeddings offload_kqv no_perf op_offload swa_full kv_unified"),
        *_each(8, "samplers n_samplers ctx_other"),
    )


_BUILDS = (((11067, 11413), _context()), ((11548, 11739), _context("moe_cache_size:8")))

MODEL = Asked(
    ("n_gpu_layers", "progress_callback", "vocab_only", "use_extra_bufts"),
    {
        "devices": 0, "tensor_buft_overrides": 0, "n_gpu_layers": -1, "split_mode": 1, "main_gpu": 0, "tensor_split": 0,
        "progress_callback": 0, "progress_callback_user_data": 0, "kv_overrides": 0, "vocab_only": 0,
        "check_tensors": 0, "use_extra_bufts": 1, "no_host": 0, "no_alloc": 0,
    },
)  # fmt: skip
"""Source: llama_model_default_params in src/llama-model.cpp, read from build 11549."""

CONTEXT = Asked(
    (
        "n_ctx", "n_batch", "n_ubatch", "n_seq_max", "n_outputs_max", "pooling_type", "n_threads", "n_threads_batch",
        "flash_attn_type", "type_k", "type_v", "swa_full", "kv_unified", "offload_kqv", "op_offload", "no_perf",
    ),
    {
        "n_ctx": 512, "n_batch": 2048, "n_ubatch": 512, "n_seq_max": 1, "rope_scaling_type": -1, "pooling_type": -1,
        "attention_type": -1, "flash_attn_type": -1, "type_k": 1, "type_v": 1, "embeddings": 0, "offload_kqv": 1,
        "no_perf": 1, "op_offload": 1, "swa_full": 1, "kv_unified": 0,
    },
)  # fmt: skip
"""Source: llama_context_default_params in src/llama-context.cpp."""


def of_build(build: int) -> tuple[Layout, Layout] | None:
    """The layouts of model and context parameters at this build; None where its header was not looked at."""
    found = next((layout for (first, last), layout in _BUILDS if first <= build <= last), None)
    return None if found is None else (_MODEL, found)


def lacking(layout: Layout, asked: Asked) -> list[str]:
    """Fields that are set here and that this build does not have."""
    return [name for name in asked.fields if name not in layout.fields]


def reads_defaults(params: ctypes.Structure, layout: Layout, asked: Asked) -> bool:
    """Whether freshly made parameters hold, under this layout, what llama.cpp puts into them."""
    return all(get(params, layout, name) == value for name, value in asked.defaults.items() if name in layout.fields)
