"""Weights as constants of a graph: half precision, or compressed in the pattern that runtimes keep compressed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from surefoot.core.errors import NotEligible
from surefoot.core.types import Floats
from surefoot.targets.openvino.spec import Source, pieces

WeightFormat = Literal["fp16", "int8", "int4"]

GROUPS = (128, 64, 32)
"""chosen: the largest that divides the input width, as the field's 4-bit exports do; no divisor means 8 bits."""

_ALIGNED = 64
"""chosen: the size of a cache line, and no less than any type's own alignment."""

_SMALLEST_SCALE = float(np.finfo(np.float16).tiny)


class Scratch:
    """Arrays laid down in one file and mapped back, so that a model is never held in memory. Holds a growing file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("wb")

    def put(self, chunks: Iterable[npt.NDArray[Any]], dtype: Any, shape: tuple[int, ...]) -> npt.NDArray[Any]:
        """The chunks, one after the other, as one mapped array of this type and shape."""
        start = -self._file.tell() % _ALIGNED + self._file.tell()
        self._file.write(b"\0" * (start - self._file.tell()))
        for chunk in chunks:
            self._file.write(np.ascontiguousarray(chunk, dtype).data)
        self._file.flush()
        # Copy-on-write, because the runtime takes writable arrays only; nobody writes, so nothing is copied.
        return np.memmap(self._path, dtype, "c", offset=start, shape=shape)

    def close(self) -> None:
        self._file.close()


def quantise(
    matrix: Floats, levels: int
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float16], npt.NDArray[np.uint8]]:
    """Codes, scale and zero point of each run along the last axis: value = (code - zero) * scale.

    Shapes: matrix (..., G) -> codes (..., G) uint8, scale (..., 1) float16, zero (..., 1) uint8.
    Source: round to nearest on the range that holds 0, the default of NNCF's weight compression.
    """
    low = np.minimum(matrix.min(-1, keepdims=True), 0)
    high = np.maximum(matrix.max(-1, keepdims=True), 0)
    scale = np.maximum((high - low) / (levels - 1), _SMALLEST_SCALE).astype(np.float16)
    step = scale.astype(np.float32)
    zero = np.clip(np.rint(-low / step), 0, levels - 1)
    codes = np.clip(np.rint(matrix / step) + zero, 0, levels - 1)
    return codes.astype(np.uint8), scale, zero.astype(np.uint8)


def pack_nibbles(codes: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Two 4-bit codes a byte, the earlier one in the low half, over the flat array; an odd end is padded with 0."""
    flat = codes.reshape(-1)
    pairs = (flat if flat.size % 2 == 0 else np.append(flat, np.uint8(0))).reshape(-1, 2)
    packed: npt.NDArray[np.uint8] = pairs[:, 0] | np.left_shift(pairs[:, 1], 4, dtype=np.uint8)
    return packed


def group_of(width: int, longest: int) -> int:
    """The group length for 4 bits, at most `longest`; 0 where none divides the width."""
    return next((g for g in GROUPS if g <= longest and width % g == 0), 0)


class Weights:
    """Graph nodes for a source's tensors, read piece by piece. Holds the nodes made so far.

    It must outlive the graph: 4-bit constants of OpenVINO 2026.4 do not keep their memory alive themselves.
    """

    def __init__(
        self, source: Source, scratch: Scratch, weights: WeightFormat, progress: Callable[[int], None]
    ) -> None:
        self._source, self._scratch, self._format, self._progress = source, scratch, weights, progress
        self._made: dict[str, Any] = {}
        self._kept: list[npt.NDArray[Any]] = []

    def matrix(self, name: str) -> Any:
        """A (out, in) float32 node whose constant stays compressed; the same node when asked twice."""
        if name not in self._made:
            wide = name in ("model.embed_tokens.weight", "lm_head.weight")
            out, width = self._source.shape(name)
            if self._format == "fp16":
                node = self._half(name, out, width)
            elif self._format == "int4" and not wide and (group := group_of(width, self._source.block)):
                node = self._four_bits(name, out, width, group)
            else:
                node = self._eight_bits(name, out, width)
            self._made[name] = node
            self._progress(out * width)
        return self._made[name]

    def vector(self, name: str, shape: tuple[int, ...]) -> Any:
        """A float32 constant of this shape."""
        from openvino import op

        whole = self._source.rows(name, 0, self._source.shape(name)[0])
        return op.Constant(np.ascontiguousarray(whole.reshape(shape)))

    def _half(self, name: str, out: int, width: int) -> Any:
        from openvino import op
        from openvino import opset13 as ops

        halves = (_to_half(piece, name) for piece in pieces(self._source, name))
        data = self._scratch.put(halves, np.float16, (out, width))
        return ops.convert(op.Constant(data, shared_memory=True), "f32")

    def _eight_bits(self, name: str, out: int, width: int) -> Any:
        from openvino import op

        codes, scale, zero = self._compress(name, 256, (out, width), (out, 1), lambda codes: codes)
        return _decompress(op.Constant(codes, shared_memory=True), op.Constant(zero, shared_memory=True), scale, None)

    def _four_bits(self, name: str, out: int, width: int, group: int) -> Any:
        import openvino as ov
        from openvino import op

        shape, scales = (out, width // group, group), (out, width // group, 1)
        codes, scale, zero = self._compress(name, 16, shape, scales, pack_nibbles)
        tensors = (ov.Tensor(codes, ov.Shape(shape), ov.Type.u4), ov.Tensor(zero, ov.Shape(scales), ov.Type.u4))
        constants = [op.Constant(tensor, shared_memory=True) for tensor in tensors]
        return _decompress(constants[0], constants[1], scale, [out, width])

    def _compress(
        self,
        name: str,
        levels: int,
        shape: tuple[int, ...],
        scales: tuple[int, ...],
        pack: Callable[[npt.NDArray[np.uint8]], npt.NDArray[np.uint8]],
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float16], npt.NDArray[np.uint8]]:
        """Packed codes, scale and packed zero points of a matrix seen in `shape`, all mapped."""
        parts: list[tuple[npt.NDArray[np.float16], npt.NDArray[np.uint8]]] = []

        def codes() -> Iterable[npt.NDArray[np.uint8]]:
            for piece in pieces(self._source, name):
                code, scale, zero = quantise(piece.reshape(-1, *shape[1:]), levels)
                parts.append((scale, zero))
                yield pack(code)

        size = math.prod(shape) if levels == 256 else math.prod(shape) // 2
        flat = self._scratch.put(codes(), np.uint8, (size,))
        scale = self._scratch.put((part[0] for part in parts), np.float16, scales)
        zeros = pack(np.concatenate([part[1].reshape(-1) for part in parts]))
        zero = self._scratch.put([zeros], np.uint8, (zeros.size,))
        self._kept += [flat, zero]
        return (flat.reshape(shape), scale, zero.reshape(scales)) if levels == 256 else (flat, scale, zero)


def _to_half(piece: Floats, name: str) -> npt.NDArray[np.float16]:
    with np.errstate(over="ignore"):
        half = piece.astype(np.float16)
    if not np.isfinite(half).all():
        raise NotEligible(f"{name} holds values that 16-bit floats cannot; export with int8 or int4 weights")
    return half


def _decompress(codes: Any, zeros: Any, scale: npt.NDArray[np.float16], shape: list[int] | None) -> Any:
    """(codes - zeros) * scale in the form that runtimes recognise as compressed weights."""
    from openvino import op
    from openvino import opset13 as ops

    centred = ops.subtract(ops.convert(codes, "f16"), ops.convert(zeros, "f16"))
    scaled = ops.multiply(centred, op.Constant(scale, shared_memory=True))
    if shape is not None:
        scaled = ops.reshape(scaled, np.array(shape, np.int64), special_zero=False)
    return ops.convert(scaled, "f32")
