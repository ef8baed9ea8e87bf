"""How a session says that its runtime failed."""

from __future__ import annotations

from surefoot.core.errors import TargetError
from surefoot.targets.openvino.names import reason


def failed(operation: str, error: Exception, **shapes: tuple[int, ...]) -> TargetError:
    """The error of a runtime that failed in `operation` over arrays of these shapes."""
    return TargetError(
        f"OpenVINO failed in {operation} with {shapes}: {reason(error)}",
        backend="openvino",
        operation=operation,
        shapes=shapes,
    )
