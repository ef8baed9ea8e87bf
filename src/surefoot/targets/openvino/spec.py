"""What a Llama-family model is: its sizes, its rotary frequencies, and where its weights come from."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from surefoot.core.errors import NotEligible
from surefoot.core.types import Floats

FAMILIES = ("llama", "mistral", "qwen2", "qwen3")


@dataclass(frozen=True, slots=True)
class Rope:
    """Rotary embedding, half-split form. inv_freq (head_dim / 2,) float32; `scale` multiplies cosine and sine."""

    inv_freq: Floats
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """Sizes and variants of one model; names as in transformers' configurations."""

    family: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    eps: float
    rope: Rope
    max_length: int
    tied: bool


class Source(Protocol):
    """A model's weights under their transformers names, read from the file in pieces."""

    @property
    def spec(self) -> ModelSpec: ...

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that the weights come from."""
        ...

    @property
    def block(self) -> int:
        """Weights that share a scale in the file: the longest group worth having at 4 bits."""
        ...

    @property
    def documents(self) -> Mapping[str, bytes]:
        """Configuration and tokenizer files that belong beside the model, by file name."""
        ...

    def has(self, name: str) -> bool: ...

    def shape(self, name: str) -> tuple[int, ...]: ...

    def rows(self, name: str, start: int, stop: int) -> Floats:
        """Rows start to stop of a matrix, or that part of a vector, as float32 in memory of its own."""
        ...


CHUNK_BYTES = 16 << 20
"""chosen: float32 bytes in flight per tensor; large enough to be fast, small beside any model."""


def pieces(source: Source, name: str) -> Iterator[Floats]:
    """The tensor from its first row to its last, about CHUNK_BYTES at a time."""
    shape = source.shape(name)
    width = math.prod(shape[1:])
    step = max(1, CHUNK_BYTES // (4 * width))
    for start in range(0, shape[0], step):
        yield source.rows(name, start, min(start + step, shape[0]))


_LARGEST_HEAD = 65_536
"""chosen: more than a hundred times the largest head of a published model (512), and nothing to reserve."""


def plain_inv_freq(head_dim: int, theta: float) -> npt.NDArray[np.float64]:
    """theta^(-2i/d). Raises: ValueError for a size that no head has. Source: arXiv 2104.09864, section 3.2.2."""
    if not 0 < head_dim <= _LARGEST_HEAD:
        raise ValueError(f"heads of {head_dim} values")
    return np.float64(theta) ** -(np.arange(0, head_dim, 2, dtype=np.float64) / head_dim)


def rope_from_config(config: Mapping[str, Any], head_dim: int) -> Rope:
    """The rotary frequencies that a transformers configuration asks for.

    Raises: NotEligible for a variant other than default, linear, llama3 and yarn, or a partial rotation.
    """
    wanted = dict(config.get("rope_parameters") or config.get("rope_scaling") or {})
    kind = str(wanted.get("rope_type", wanted.get("type", "default")))
    theta = float(wanted.get("rope_theta", config.get("rope_theta", 10000.0)))
    if float(wanted.get("partial_rotary_factor", config.get("partial_rotary_factor", 1.0)) or 1.0) != 1.0:
        raise NotEligible("this model rotates only a part of each head, which the OpenVINO export does not write")
    freq = plain_inv_freq(head_dim, theta)
    if kind == "default":
        return Rope(freq.astype(np.float32))
    if kind == "linear":
        return Rope((freq / float(wanted["factor"])).astype(np.float32))
    if kind == "llama3":
        return Rope(_llama3(freq, wanted, config).astype(np.float32))
    if kind == "yarn":
        return yarn(freq, theta, wanted, int(config.get("max_position_embeddings", 0)))
    raise NotEligible(
        f"rotary embedding {kind!r} is not one of default, linear, llama3, yarn, which the OpenVINO export writes"
    )


def _llama3(
    freq: npt.NDArray[np.float64], wanted: Mapping[str, Any], config: Mapping[str, Any]
) -> npt.NDArray[np.float64]:
    """Long waves divided by `factor`, short ones kept, a ramp between. Source: Llama 3.1's reference code."""
    factor, low, high = (float(wanted[k]) for k in ("factor", "low_freq_factor", "high_freq_factor"))
    old = float(wanted.get("original_max_position_embeddings", config.get("max_position_embeddings", 8192)))
    waves = 2 * math.pi / freq
    smooth = (old / waves - low) / (high - low)
    mixed = (1 - smooth) * freq / factor + smooth * freq
    return np.where(waves < old / high, freq, np.where(waves > old / low, freq / factor, mixed))


def yarn(freq: npt.NDArray[np.float64], theta: float, wanted: Mapping[str, Any], max_position: int) -> Rope:
    """Interpolated low frequencies, kept high ones, a linear ramp between. Source: arXiv 2309.00071, section 3."""
    head_dim = 2 * len(freq)
    old = int(wanted.get("original_max_position_embeddings") or max_position)
    factor = float(wanted.get("factor") or max_position / old)
    fast, slow = float(wanted.get("beta_fast") or 32.0), float(wanted.get("beta_slow") or 1.0)

    def turn(rotations: float) -> float:
        return head_dim * math.log(old / (rotations * 2 * math.pi)) / (2 * math.log(theta))

    low, high = turn(fast), turn(slow)
    if wanted.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, head_dim - 1)
    ramp = np.clip((np.arange(head_dim // 2) - low) / max(high - low, 0.001), 0, 1)
    scale = wanted.get("attention_factor")
    if scale is None:
        m, m_all = wanted.get("mscale"), wanted.get("mscale_all_dim")
        scale = _mscale(factor, float(m)) / _mscale(factor, float(m_all)) if m and m_all else _mscale(factor, 1.0)
    return Rope((freq / factor * ramp + freq * (1 - ramp)).astype(np.float32), float(scale))


def _mscale(factor: float, weight: float) -> float:
    return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0
