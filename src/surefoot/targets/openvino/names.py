"""The files of an OpenVINO folder, and the runtime's errors in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

CacheKind = Literal["state", "caller"]
"""Who keeps keys and values: the model itself, as its state, or its caller, in arrays."""

MODEL_FILE = "openvino_model.xml"
RECORD_FILE = "surefoot_export.json"


def is_exported(path: Path) -> bool:
    """Whether the folder holds a whole OpenVINO language model, ours or another tool's."""
    return (path / MODEL_FILE).is_file() and (path / MODEL_FILE).with_suffix(".bin").is_file()


def reason(error: Exception) -> str:
    """The runtime's reason without its stack of checks and source lines."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
