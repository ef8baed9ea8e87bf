"""Causal language models of transformers on torch: safetensors folders and GGUF files.

Rolls back by truncating the cache. Nothing here imports torch before a model is built.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from surefoot.core.ports import Plugin

if TYPE_CHECKING:
    from surefoot.targets.hf.target import HfTarget


@dataclass(frozen=True, slots=True)
class Options:
    """How transformers runs the model."""

    device: str = field(
        default="auto", metadata={"help": "auto, cpu, cuda, cuda:N or mps; auto takes the first of cuda, mps, cpu"}
    )
    dtype: str = field(
        default="auto",
        metadata={
            "help": "auto, float32, bfloat16 or float16; auto is float32 on a CPU, where rows of a block then equal "
            "single rows, and the type of the weights elsewhere"
        },
    )
    threads: int | None = field(
        default=None,
        metadata={"help": "CPU threads of torch, for the whole process; torch's own choice when not given"},
    )
    ctx_size: int | None = field(
        default=None, metadata={"help": "longest context in tokens; the model's own by default"}
    )
    attn: str = field(
        default="auto",
        metadata={"help": "attention of transformers: auto, sdpa or eager; auto is its own choice"},
    )


def build(options: Options, model: Path) -> HfTarget:
    """The model in a folder (config.json and safetensors) or a .gguf file, loaded and checked.

    Raises: ConfigError for files or options that the user can fix; NotEligible for a model that cannot be
    rolled back exactly, or when torch or transformers is missing; TargetError when the runtime fails.
    """
    from surefoot.targets.hf.load import load

    return load(options, Path(model))


PLUGIN = Plugin("hf", "transformers on torch: CPU, CUDA and MPS; safetensors and GGUF", Options, build)
