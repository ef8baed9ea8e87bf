"""Hidden states by name: where they come out of a model, and how a forward records them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Stack:
    """The decoder of a model and its layers, in order."""

    decoder: Any
    layers: tuple[Any, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """embed: what enters layer 0; layer.N: what leaves it; final: the decoder's output, after its norm."""
        return ("embed", *(f"layer.{n}" for n in range(len(self.layers))), "final")


def find_stack(model: Any, n_layers: int) -> Stack | None:
    """The module that owns the list of `n_layers` decoder layers, or None where there is no such list."""
    from torch.nn import ModuleList

    for module in model.modules():
        for child in module.children():
            if isinstance(child, ModuleList) and len(child) == n_layers:
                return Stack(module, tuple(child))
    return None


@contextmanager
def recorded(stack: Stack | None, names: tuple[str, ...], into: dict[str, Any]) -> Iterator[None]:
    """Fills `into` with (rows, D) device tensors during one forward.

    The hooks live only that long, because the modules are shared by all sessions of a target; they look at the
    thread, because another session may run in another one.
    """
    handles: list[Any] = []
    here = threading.get_ident()
    try:
        if stack is not None:
            handles.extend(_hook(stack, name, into, here) for name in names)
        yield
    finally:
        for handle in handles:
            handle.remove()


def _hook(stack: Stack, name: str, into: dict[str, Any], here: int) -> Any:
    def keep(hidden: Any) -> None:
        if threading.get_ident() == here:
            into[name] = hidden[0]

    if name == "embed":
        return stack.layers[0].register_forward_pre_hook(_entering(keep), with_kwargs=True)
    module = stack.decoder if name == "final" else stack.layers[int(name.removeprefix("layer."))]
    return module.register_forward_hook(_leaving(keep))


def _entering(keep: Callable[[Any], None]) -> Callable[..., None]:
    def hook(module: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        keep(args[0] if args else kwargs["hidden_states"])

    return hook


def _leaving(keep: Callable[[Any], None]) -> Callable[..., None]:
    def hook(module: Any, args: Any, output: Any) -> None:
        hidden = getattr(output, "last_hidden_state", None)
        if hidden is None:
            hidden = output[0] if isinstance(output, tuple) else output
        keep(hidden)

    return hook
