"""What the files of a model claim about it, held against each other before anything is built from them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from surefoot.core.errors import DamagedModel
from surefoot.targets.openvino.spec import ModelSpec, Source

Shape = tuple[int, ...]


@contextmanager
def reading(model: Path) -> Iterator[None]:
    """Raises: DamagedModel where a setting is missing, or of a type or size that means nothing."""
    try:
        with np.errstate(all="ignore"):
            yield
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        told = f"{error.args[0]} is missing" if isinstance(error, KeyError) and error.args else str(error)
        raise _unreadable(model, told or type(error).__name__) from error


def check_spec(spec: ModelSpec, model: Path) -> ModelSpec:
    """The spec itself. Raises: DamagedModel where no model can have these sizes."""
    sizes = ("layers", "hidden", "heads", "kv_heads", "head_dim", "vocab")
    wrong = [f"{name} {getattr(spec, name)}" for name in sizes if getattr(spec, name) < 1]
    if spec.max_length < 2:
        wrong.append(f"a context of {spec.max_length}")
    if spec.head_dim % 2:
        wrong.append(f"an odd head_dim of {spec.head_dim}")
    if not wrong and spec.heads % spec.kv_heads:
        wrong.append(f"{spec.heads} heads in {spec.kv_heads} groups")
    if not (math.isfinite(spec.eps) and spec.eps >= 0):
        wrong.append(f"a norm's epsilon of {spec.eps}")
    if not np.isfinite(spec.rope.inv_freq).all():
        wrong.append("rotary frequencies that are not finite")
    if wrong:
        raise _unreadable(model, ", ".join(wrong))
    return spec


def _unreadable(model: Path, told: str) -> DamagedModel:
    short = told if len(told) <= 160 else f"{told[:160]}..."
    return DamagedModel(
        f"{model} has settings that the runtime openvino cannot read ({short}): it is damaged or of a kind that is not"
        " supported"
    )


def count_weights(source: Source) -> int:
    """The weights in all matrices of the graph.

    Raises: DamagedModel for a tensor that is missing or has not the shape that the settings claim.
    """
    total = 0
    for name, shape, required in _tensors(source):
        if not source.has(name):
            if required:
                raise DamagedModel(f"{source.files[0]} lacks the tensor {name}; it is incomplete or of another kind")
        elif source.shape(name) != shape:
            raise DamagedModel(
                f"{source.files[0]} holds {name} of shape {list(source.shape(name))}, and its settings claim"
                f" {list(shape)}; it is damaged or of a kind that is not supported"
            )
        elif len(shape) == 2:
            total += math.prod(shape)
    return total


def _tensors(source: Source) -> Iterator[tuple[str, Shape, bool]]:
    """Every tensor that the graph may ask for, the shape that it must have, and whether it must be there.

    One after the other, so that a claim of more layers than there are costs nothing.
    """
    spec = source.spec
    query, key = spec.heads * spec.head_dim, spec.kv_heads * spec.head_dim
    yield "model.embed_tokens.weight", (spec.vocab, spec.hidden), True
    yield "model.norm.weight", (spec.hidden,), True
    if not spec.tied:
        yield "lm_head.weight", (spec.vocab, spec.hidden), True
    for layer in range(spec.layers):
        prefix = f"model.layers.{layer}"
        gate = f"{prefix}.mlp.gate_proj.weight"
        inner = source.shape(gate)[0] if source.has(gate) else 0
        for name in ("input_layernorm", "post_attention_layernorm"):
            yield f"{prefix}.{name}.weight", (spec.hidden,), True
        for part, rows, columns in (
            ("self_attn.q_proj", query, spec.hidden), ("self_attn.k_proj", key, spec.hidden),
            ("self_attn.v_proj", key, spec.hidden), ("self_attn.o_proj", spec.hidden, query),
            ("mlp.gate_proj", inner, spec.hidden), ("mlp.up_proj", inner, spec.hidden),
            ("mlp.down_proj", spec.hidden, inner),
        ):  # fmt: skip
            yield f"{prefix}.{part}.weight", (rows, columns), True
            yield f"{prefix}.{part}.bias", (rows,), False
        for part in ("q_norm", "k_norm"):
            yield f"{prefix}.self_attn.{part}.weight", (spec.head_dim,), False
