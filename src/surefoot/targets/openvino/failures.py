"""How a session says that its runtime failed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from surefoot.core.errors import SurefootError, TargetError
from surefoot.targets.openvino.names import reason


@contextmanager
def in_runtime(operation: str, close: Callable[[], None], **shapes: tuple[int, ...]) -> Iterator[None]:
    """Closes the session when the block fails, as a TargetError with its shapes; an interrupt passes through."""
    try:
        yield
    except SurefootError:
        close()
        raise
    except Exception as error:
        close()
        raise TargetError(
            f"OpenVINO failed in {operation} with {shapes}: {reason(error)}",
            backend="openvino",
            operation=operation,
            shapes=shapes,
        ) from error


def closed(operation: str) -> TargetError:
    """The error of a verb on a closed session."""
    return TargetError(f"{operation} on a closed session", backend="openvino", operation=operation)
