"""How a fault is planted: one function of a module, or one method of a class, is another while a context is open."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

Plant = Callable[[], AbstractContextManager[None]]


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """`owner.name` is `value` while the context is open."""
    good = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, good)


@contextmanager
def all_of(*contexts: AbstractContextManager[None]) -> Iterator[None]:
    """All the contexts are open while this one is."""
    with ExitStack() as stack:
        for context in contexts:
            stack.enter_context(context)
        yield
