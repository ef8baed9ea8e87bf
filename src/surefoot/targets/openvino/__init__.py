"""OpenVINO models with their cache inside: what Surefoot, Optimum Intel and OpenVINO GenAI export.

Rejected rows stay in the cache, hidden by the mask, and are removed now and then. Nothing here imports openvino before
a model is built.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from surefoot.core.ports import Plugin

if TYPE_CHECKING:
    from surefoot.targets.openvino.target import OpenvinoTarget


@dataclass(frozen=True, slots=True)
class Options:
    """How OpenVINO runs the model. The defaults are those whose blocks of rows equal single rows."""

    device: str = field(
        default="CPU", metadata={"help": "CPU, GPU, GPU.0, NPU or AUTO, as OpenVINO names them, in any case"}
    )
    threads: int | None = field(default=None, metadata={"help": "CPU threads; OpenVINO's own choice when not given"})
    ctx_size: int | None = field(
        default=None, metadata={"help": "longest context in tokens; the model's own by default"}
    )
    cache_precision: str = field(
        default="auto",
        metadata={
            "help": "auto, f32, f16, bf16 or u8 keys and values; auto is f32, whose rows of a block equal single rows"
        },
    )
    precision: str = field(
        default="auto",
        metadata={"help": "auto, f32, bf16 or f16 arithmetic; auto is f32 on a CPU, the device's own choice elsewhere"},
    )
    activation_group: int = field(
        default=0,
        metadata={"help": "values that share a scale where 8-bit activations are wanted; 0 quantises none"},
    )
    large_pages: bool = field(
        default=True, metadata={"help": "put the weights on large pages, where the system (Linux) has them to give"}
    )
    cache_dir: str | None = field(
        default=None, metadata={"help": "folder for compiled models, which then load faster; none by default"}
    )


def build(options: Options, model: Path) -> OpenvinoTarget:
    """The model in an OpenVINO folder, compiled and checked.

    Raises: ConfigError for files or options that the user can fix; NotEligible for a graph that cannot be rolled back
    or scores one row only, or when openvino is missing; TargetError when the runtime fails.
    """
    from surefoot.targets.openvino.load import load

    return load(options, Path(model))


PLUGIN = Plugin("openvino", "OpenVINO, its own models and exports of GGUF and safetensors", Options, build)
