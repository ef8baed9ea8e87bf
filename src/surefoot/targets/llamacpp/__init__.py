"""GGUF models on llama.cpp, as they are: the file is mapped, and rejected rows are removed from the cache by position.

llama.cpp comes from a binding that brings a built library (doors.py). Nothing of it is loaded before a model is built.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from surefoot.core.ports import Plugin

if TYPE_CHECKING:
    from surefoot.targets.llamacpp.target import LlamacppTarget


@dataclass(frozen=True, slots=True)
class Options:
    """How llama.cpp runs the model. The defaults are those whose blocks of rows equal single rows."""

    binding: str = field(
        default="auto",
        metadata={"help": "auto, xllamacpp, llama-cpp-py-sync or llama-cpp-python: whose llama.cpp is used"},
    )
    threads: int | None = field(default=None, metadata={"help": "CPU threads; one for each physical core by default"})
    ctx_size: int | None = field(
        default=None, metadata={"help": "longest context in tokens; the model's own, 8,192 at most, by default"}
    )
    cache_type_k: str = field(
        default="f16", metadata={"help": "keys in the cache: f32, f16, bf16, q8_0, q5_1, q5_0, iq4_nl, q4_1 or q4_0"}
    )
    cache_type_v: str = field(
        default="auto",
        metadata={
            "help": "values in the cache, as the keys, or auto: bf16 on a CPU, where f16 sends a single row through "
            "a kernel of its own, else f16; a quantised one needs flash_attn on"
        },
    )
    flash_attn: str = field(
        default="auto",
        metadata={
            "help": "auto, on or off; auto is on on a CPU, where it computes each row of a block by itself, and "
            "llama.cpp's choice elsewhere"
        },
    )
    max_rows: int | None = field(
        default=None,
        metadata={"help": "most rows of a block, 48 at most; by default 7 where more take another kernel (K-quants)"},
    )
    min_rows: int = field(
        default=1,
        metadata={"help": "rows that are computed at least; 2 makes rows of F16, BF16 and F32 weights the same bits"},
    )
    ubatch: int = field(default=512, metadata={"help": "tokens of a prompt in one forward, 48 at least"})
    gpu_layers: int = field(
        default=-1, metadata={"help": "layers on the graphics processor where the library was built for one; -1 is all"}
    )
    repack: str = field(
        default="auto",
        metadata={
            "help": "auto, on or off: whether llama.cpp may rearrange weights for its faster kernels, which copies "
            "them into memory; auto is off where they do not fit, and for formats whose rows that would change "
            "(K-quants)"
        },
    )


def build(options: Options, model: Path) -> LlamacppTarget:
    """The model in a GGUF file (the first of its shards), loaded and tried out.

    Raises: ConfigError for a file or option that the user can fix; NotEligible for a model that cannot be rolled back
    or scored, or when no binding is installed; TargetError when llama.cpp fails.
    """
    from surefoot.targets.llamacpp.load import load

    return load(options, Path(model))


PLUGIN = Plugin("llamacpp", "llama.cpp, GGUF files as they are", Options, build)
