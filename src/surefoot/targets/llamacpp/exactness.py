"""When a row of a block has the bits that it has alone, and what is known of rows otherwise.

llama.cpp takes another kernel where there are more rows, and adds in another order there. Quantised weights make much
of that: the activations are rounded to eight bits before each product, so that a last bit now and then becomes a step
of a logit. So their rows are the same only where every kernel computes each row by itself:

attention   with flash attention, unless keys and values are both floats of 16 or 32 bits with values other than bf16:
            then a single row behind 512 cached ones is split over the threads, and a block is not
products    q8_0, q4_0, q4_1, q5_0 and q5_1 at every row count; K-quants and iq4_xs up to seven rows and as they are
            stored: from eight on they are multiplied in tiles, and rearranged ones from four on
            F32, F16 and BF16 from two rows on: a single row takes a kernel of its own, which differs by rounding. That
            is enough to change a text: of 24 on SmolLM2 in F16, 3 parted where the two likeliest nearly tied

Source: measured 2026-11-30 and 2026-12-01 on two x86 cores, xllamacpp 2026.10.11549 (built for AVX2) and
llama-cpp-python 0.3.36 (built for AVX2 and for AVX-512), studies/llamacpp-rows.md. Another build may have other
kernels, and counts as near-tie until its rows were compared. So does one with further ways to
compute: a BLAS takes blocks of 32 rows from ggml, a graphics processor large ones, and nothing in their features tells.
"""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING

from surefoot.core.types import RowClass

if TYPE_CHECKING:
    from surefoot.targets.llamacpp.settings import Chosen

FEW_ROWS = 7
"""Rows from which K-quants are not yet multiplied in tiles."""

_ANY_COUNT = frozenset({"q8_0", "q4_0", "q4_1", "q5_0", "q5_1"})
_FEW = frozenset({"q2_K", "q3_K", "q4_K", "q5_K", "q6_K", "iq4_xs"})
_FLOATS = frozenset({"f32", "f16", "bf16"})

TRIED = frozenset({"llama", "qwen2", "qwen3", "gemma", "gemma2", "gemma3", "phi3"})
"""Architectures whose products are those above and no others. Experts are left out: they are multiplied otherwise."""


COMPARED = frozenset({("xllamacpp", "2026.10.11549"), ("llama-cpp-python", "0.3.36")})
"""Bindings by name and version whose rows were compared, format by format, with tests/runtime/test_llamacpp_rows.py."""


def few_rows_only(kinds: Set[str]) -> bool:
    """Whether weights of these types are the same in few rows only."""
    return bool(kinds & _FEW)


def row_class(
    chosen: Chosen, architecture: str, experts: int, features: Set[str], binding: tuple[str, str], alone: bool
) -> RowClass:
    """What is known of these settings.

    features: what the library was built for. binding: its name and version. alone: whether the library has no way to
    compute but ggml's own on the CPU.
    """
    tried = chosen.on_cpu and alone and architecture in TRIED and not experts and binding in COMPARED
    if not tried or "AVX2" not in features or "AMX_INT8" in features:
        return "near-tie"
    return "identical" if same_bits(chosen) else "near-tie"


def same_bits(chosen: Chosen) -> bool:
    """Whether every kernel in use computes each row by itself."""
    if not chosen.kinds:  # the library did not say
        return False
    if chosen.flash != "on" or not _rows_apart(chosen.cache_k, chosen.cache_v):
        return False
    # Vectors are f32 in every file; a matrix of floats takes another kernel in a single row.
    matrices = chosen.kinds - {"f32"} or chosen.kinds
    if matrices & _FLOATS and chosen.min_rows < 2:
        return False
    if matrices & _FEW and (chosen.max_rows > FEW_ROWS or chosen.repack):
        return False
    return matrices <= _ANY_COUNT | _FEW | _FLOATS


def _rows_apart(cache_k: str, cache_v: str) -> bool:
    """Whether flash attention treats a single row as it treats the rows of a block."""
    return (cache_k, cache_v) in {("f16", "bf16"), ("f32", "bf16"), ("bf16", "bf16"), ("q8_0", "q8_0")}
