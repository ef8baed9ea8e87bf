"""A loaded OpenVINO model and its compiled forms."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from surefoot.core.errors import NotEligible, TargetError
from surefoot.core.types import Caps
from surefoot.targets import large_pages
from surefoot.targets.openvino.core import compiling
from surefoot.targets.openvino.layout import Layout, prepare
from surefoot.targets.openvino.names import reason
from surefoot.targets.openvino.runner import Runner
from surefoot.targets.openvino.session import OpenvinoSession
from surefoot.targets.openvino.staged import StagedSession


class OpenvinoTarget:
    """A loaded model. Its sessions share the weights. Holds one compiled form for each set of taps opened so far.

    One runner of a closed session is kept for the next: the first forward of a new one takes a third longer.
    """

    def __init__(
        self,
        graph: Any,
        layout: Layout,
        device: str,
        settings: Mapping[str, Any],
        describe: Callable[[Any], Caps],
        window: int | None,
        on_large_pages: bool,
    ) -> None:
        self._large_pages = on_large_pages
        self._graph, self._layout, self._device, self._settings = graph, layout, device, settings
        self._window = window
        self._lock = threading.Lock()
        self._compiled: dict[tuple[str, ...], Any] = {}
        self._spare: dict[tuple[str, ...], Runner] = {}
        self._caps = describe(self._form(()))
        self._try_out()

    @property
    def caps(self) -> Caps:
        return self._caps

    def open(self, taps: Sequence[str] = ()) -> OpenvinoSession | StagedSession:
        """A new empty session. The first one with a new set of taps compiles the model once more, weights included."""
        unknown = [name for name in taps if name not in self._caps.tap_names]
        if unknown:
            known = ", ".join(self._caps.tap_names) or "none"
            raise NotEligible(f"this model has no tap {unknown[0]!r}; it has {known}")
        wanted = tuple(dict.fromkeys(taps))
        if self._layout.pages is not None:
            return StagedSession(Runner(self._form(wanted), self._layout, wanted), self._caps, self._layout.pages)
        runner = self._spare.pop(wanted, None) or Runner(self._form(wanted), self._layout, wanted)

        def keep(spare: Runner) -> None:
            self._spare[wanted] = spare

        return OpenvinoSession(runner, self._caps, self._window, keep)

    def _form(self, taps: tuple[str, ...]) -> Any:
        """The model compiled with these taps as outputs."""
        with self._lock:
            if taps not in self._compiled:
                core = compiling(mmap=not self._large_pages)  # what lies in a file on the disk cannot move
                self._check_device(core)
                try:
                    graph = prepare(self._graph, self._layout, taps)
                    with large_pages.for_new_memory() if self._large_pages else nullcontext():
                        self._compiled[taps] = core.compile_model(graph, self._device, dict(self._settings))
                except RuntimeError as error:
                    raise TargetError(
                        f"OpenVINO cannot compile the model for {self._device} with {dict(self._settings)}:"
                        f" {reason(error)}",
                        backend="openvino",
                        operation="compile",
                    ) from error
            return self._compiled[taps]

    def _check_device(self, core: Any) -> None:
        known = [str(name) for name in core.available_devices]
        virtual = ("AUTO", "HETERO", "MULTI")
        family = self._device.split(":")[0].split(".")[0]
        if family not in virtual and not any(name.split(".")[0] == family for name in known):
            raise NotEligible(f"OpenVINO finds no device {self._device} here; it finds {', '.join(known)}.")

    def _try_out(self) -> None:
        """Raises: NotEligible where two rows do not give two rows of logits."""
        session = self.open()
        try:
            session.extend(np.zeros(2, np.int32))
        finally:
            session.close()
