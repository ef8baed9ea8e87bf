"""One inference request: what a forward is fed, what it gives out, and the state behind it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from surefoot.core.errors import NotEligible
from surefoot.core.types import Floats
from surefoot.targets.openvino.layout import ROWS_INPUT, Layout, tap_output
from surefoot.targets.openvino.rules import ALL_ROWS


class Runner:
    """A request of a compiled model. Holds its cache, its input buffers and the result of the last forward."""

    def __init__(self, compiled: Any, layout: Layout, taps: tuple[str, ...]) -> None:
        import openvino as ov

        self._tensor = ov.Tensor
        self._compiled = compiled
        self._layout = layout
        self._places = {name: i for i, port in enumerate(compiled.inputs) for name in port.get_names()}
        self._outputs = {name: i for i, port in enumerate(compiled.outputs) for name in port.get_names()}
        self._logits_place = self._outputs.get("logits", 0)
        self._mask_place = self._places[layout.mask_input]
        self._taps = taps
        self._ids = np.zeros((1, 1), np.int64)
        self._positions = np.zeros((1, 1), np.int64)
        self._rows, self._held_rows = np.ones(1, np.int64), 1
        self._logits: npt.NDArray[Any] | None = None
        self.slices = ROWS_INPUT in self._places
        self.renew()

    def renew(self) -> None:
        """Start anew with an empty cache, whatever state the old one was left in.

        OpenVINO 2026.4 looks at the room behind the keys only: where values were set and their keys were not, even a
        cleared request writes past the end of its values. This can go when a release checks both.
        """
        self._request = self._compiled.create_infer_request()
        # What the request holds, so that it is told only what is new to it: each call costs microseconds of a round.
        # A tensor of ours stays with it and changes its shape, which it looks at in every forward.
        self._held_ids, self._held_logits = 0, 0
        self._id_tensors: tuple[Any, ...] | None = None
        self._logit_tensor: Any = None
        self._held_line: npt.NDArray[Any] | None = None
        self._line_tensor: Any = None
        self._running = False
        if self.slices:
            self._request.set_input_tensor(self._places[ROWS_INPUT], self._tensor(self._rows, shared_memory=True))
        if self._layout.has_beam:
            self._request.set_input_tensor(self._places["beam_idx"], self._tensor(np.zeros(1, np.int32)))

    def forward(self, ids: Any, positions: Any, mask: npt.NDArray[Any], rows: int, used: int | None = None) -> Floats:
        """(rows, V) float32 of the last `rows` ids, a view that the next forward overwrites.

        Shapes: ids and positions (n,); mask as the graph reads it: (1, past + n) int64, or bool (1, 1, n, past + n),
        or (n, staged + n) where the caller keeps the cache. With `used` it is a longer line (1, capacity) int64, of
        which the first `used` = past + n count; it is read where it lies, so that showing it again costs little.
        """
        self._wait()
        n = len(ids)
        request = self._request
        if n != self._held_ids:
            self._hold(n)
        if n == 1:
            self._ids[0, 0], self._positions[0, 0] = ids[0], positions[0]
        else:
            self._ids[0, :n] = ids
            self._positions[0, :n] = positions
        if rows != self._held_rows:
            self._rows[0] = self._held_rows = rows
        if used is None:
            self._held_line = None
            request.set_input_tensor(self._mask_place, self._tensor(mask, shared_memory=True))
        else:
            self._show(mask, used)
        lent = self._lend(rows) if self._logits is not None else None
        # A forward on a thread of the runtime's own is faster than on the caller's: studies/openvino-baseline.md.
        self._running = True
        request.start_async()
        self._wait()
        if lent is not None:
            return lent
        logits: Floats = request.get_output_tensor(self._logits_place).data[0]
        if len(logits) not in (n, rows) or len(logits) < rows:
            raise NotEligible(
                f"the model gives {len(logits)} rows of logits for {n} tokens, so drafts cannot be checked{ALL_ROWS}"
            )
        if self.slices:
            self._logits = np.empty((rows, logits.shape[1]), logits.dtype)
        return logits[len(logits) - rows :]

    def _wait(self) -> None:
        """Until the forward is over: this one, or one that an interrupt left behind between its start and its end."""
        if self._running:
            self._request.wait()
            self._running = False

    def _show(self, line: npt.NDArray[Any], used: int) -> None:
        """Let the runtime read the first `used` places of this line."""
        if self._held_line is not line:
            self._held_line, self._line_tensor = None, self._tensor(line, shared_memory=True)
            self._request.set_input_tensor(self._mask_place, self._line_tensor)
            self._held_line = line
        self._line_tensor.shape = (1, used)

    def _lend(self, rows: int) -> Floats:
        """(rows, V) memory of ours that the runtime writes its logits to, which saves asking where they are."""
        assert self._logits is not None
        if rows != self._held_logits:
            self._held_logits = 0
            if rows > len(self._logits):
                self._logits, self._logit_tensor = np.empty((2 * rows, self._logits.shape[1]), self._logits.dtype), None
            if self._logit_tensor is None:
                tensor = self._tensor(self._logits[None], shared_memory=True)
                self._request.set_output_tensor(self._logits_place, tensor)
                self._logit_tensor = tensor
            self._logit_tensor.shape = (1, rows, self._logits.shape[1])
            self._held_logits = rows
        return self._logits[:rows]

    def taps(self, rows: int | None = None) -> dict[str, npt.NDArray[Any]]:
        """(rows, D) of every tap in the last forward, or of all its rows; views that the next one overwrites."""
        found: dict[str, npt.NDArray[Any]] = {}
        for name in self._taps:
            found[name] = self._request.get_output_tensor(self._outputs[tap_output(name)]).data[0, :rows]
        return found

    def bind(self, name: str, array: npt.NDArray[Any]) -> None:
        """Let this input be the caller's array, read anew in every forward; the caller keeps it alive."""
        self._wait()
        self._request.set_input_tensor(self._places[name], self._tensor(array, shared_memory=True))

    def output(self, name: str) -> npt.NDArray[Any]:
        """What the last forward gave out, a view that the next one overwrites."""
        self._wait()
        view: npt.NDArray[Any] = self._request.get_output_tensor(self._outputs[name]).data
        return view

    def clear(self) -> None:
        """Forget every cached row."""
        self._wait()
        self._request.reset_state()

    def keep_slots(self, slots: npt.NDArray[np.intp]) -> None:
        """Keep only these rows of the cache, in this order. The copies pass through the host."""
        self._wait()
        axis = self._layout.slot_axis
        for state in self._request.query_state():
            kept = np.ascontiguousarray(np.take(state.state.data, slots, axis))
            state.state = self._tensor(kept)

    def _hold(self, n: int) -> None:
        """Let the runtime read the first n places of the buffers, which grow to the longest block so far."""
        self._held_ids = 0  # here and below: an interrupt in between leaves nothing that is taken for held
        if n > self._ids.shape[1]:
            self._ids, self._positions = np.zeros((1, 2 * n), np.int64), np.zeros((1, 2 * n), np.int64)
            self._id_tensors = None
        if self._id_tensors is None:
            tensors = tuple(self._tensor(buffer, shared_memory=True) for buffer in (self._ids, self._positions))
            for name, tensor in zip(("input_ids", "position_ids"), tensors, strict=True):
                self._request.set_input_tensor(self._places[name], tensor)
            self._id_tensors = tensors
        for tensor in self._id_tensors:
            tensor.shape = (1, n)
        self._held_ids = n
