"""Rows of a block have the bits that they have alone, for every format and setting for which the target claims it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiny_gguf
from surefoot.core.types import as_ids
from surefoot.targets.llamacpp import Options, build
from surefoot.targets.llamacpp.exactness import FEW_ROWS, row_class, same_bits
from surefoot.targets.llamacpp.settings import choose
from surefoot.targets.llamacpp.target import LlamacppTarget

pytest.importorskip("xllamacpp", reason="the llamacpp extra is not installed")

KINDS = ["Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS"]
FLOATS = ["F32", "F16", "BF16"]
DEEP = 530
"""Tokens: more than the 512 behind which a single row may be split over the threads."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rows")


def target_of(folder: Path, kind: str, **options: Any) -> LlamacppTarget:
    file = folder / f"{kind}.gguf"
    if not file.exists():
        tiny_gguf.write(file, kind=kind, width=256, context=1024)
    return build(Options(**{"threads": 1, **options}), file)


def furthest(target: LlamacppTarget, depth: int, most: int = 48) -> float:
    """The largest difference of a logit between rows of blocks and the same rows alone, as a share of their spread."""
    most = min(most, target.caps.max_rows)
    ids = np.random.default_rng(depth).integers(3, 300, depth + most).astype(np.int32)
    session = target.open()
    session.prefill(ids[:depth])
    alone = []
    for token in ids[depth:]:
        alone.append(session.extend(as_ids([token])).logits(0).copy())
        session.commit(1)
    session.reset(depth)
    worst = 0.0
    for rows in range(1, most + 1):
        scores = session.extend(ids[depth : depth + rows])
        worst = max(worst, *(float(np.abs(scores.logits(row) - alone[row]).max()) for row in range(rows)))
        session.commit(0)
    session.close()
    return worst / float(np.ptp(alone[0]))


@pytest.mark.parametrize("kind", KINDS)
def test_quantised_rows_have_the_same_bits_by_default(kind: str, folder: Path) -> None:
    target = target_of(folder, kind)
    assert target.caps.row_class == claimed(target)
    assert target.caps.max_rows == (FEW_ROWS if "_K" in kind or kind == "IQ4_XS" else 48)
    assert furthest(target, 20) == furthest(target_of(folder, kind, threads=2), DEEP) == 0


@pytest.mark.parametrize("kind", FLOATS)
def test_rows_of_floats_have_the_same_bits_where_two_are_computed(kind: str, folder: Path) -> None:
    target = target_of(folder, kind, min_rows=2)
    assert target.caps.row_class == claimed(target)
    assert furthest(target, 20) == furthest(target_of(folder, kind, min_rows=2, threads=2), DEEP, 4) == 0
    assert target.open().prefill(as_ids([1])).width == 1
    assert target.open().extend(as_ids([1])).width == 2


@pytest.mark.parametrize(("kind", "most"), [("F32", 1e-4), ("F16", 1e-3)])
def test_rows_of_floats_differ_by_rounding_otherwise(kind: str, most: float, folder: Path) -> None:
    target = target_of(folder, kind)
    assert target.caps.row_class == "near-tie"
    assert 0 < max(furthest(target, 20), furthest(target, DEEP, 4)) < most


def claimed(target: LlamacppTarget) -> str:
    """Libraries built for other processors than x86 with AVX2 or AVX-512 were not looked at."""
    built = set(target.caps.settings["built_for"].split(","))
    return "identical" if "AVX2" in built and "AMX_INT8" not in built else "near-tie"


@pytest.mark.parametrize(
    ("kind", "options", "depth"),
    [
        ("Q4_1", {"cache_type_v": "f16", "threads": 2}, DEEP),
        ("Q4_1", {"cache_type_k": "f32", "cache_type_v": "f32", "threads": 2}, DEEP),
        ("Q6_K", {"max_rows": 17}, 20),
        ("Q4_K", {"repack": "on"}, 20),
    ],
    ids=str,
)
def test_the_settings_that_are_said_to_decide_do(kind: str, options: dict[str, Any], depth: int, folder: Path) -> None:
    """Else the claim would be vacuous: with each of these alone, bits differ, and the class is weaker."""
    target = target_of(folder, kind, **options)
    assert target.caps.row_class == "near-tie"
    if "AVX2" in target.caps.settings["built_for"]:
        assert furthest(target, depth, 17 if depth < DEEP else 4) > 0


def test_what_was_not_tried_is_a_near_tie() -> None:
    chosen = choose(Options(), frozenset({"f32", "q8_0"}), True)
    known = ("xllamacpp", "2026.10.11549")
    assert row_class(chosen, "llama", 0, {"AVX2"}, known) == "identical"
    assert row_class(chosen, "llama", 0, {"AVX2", "AVX512"}, ("llama-cpp-python", "0.3.36")) == "identical"
    for architecture, experts, features, binding in (
        ("mixtral", 0, {"AVX2"}, known),
        ("llama", 8, {"AVX2"}, known),
        ("llama", 0, {"NEON"}, known),
        ("llama", 0, {"AVX2", "AVX512", "AMX_INT8"}, known),
        ("llama", 0, {"AVX2"}, ("llama-cpp-py-sync", "0.11548")),
        ("llama", 0, {"AVX2"}, ("xllamacpp", "2026.11.11739")),
    ):
        assert row_class(chosen, architecture, experts, features, binding) == "near-tie"
    on_gpu = choose(Options(), frozenset({"f32", "q8_0"}), False)
    assert row_class(on_gpu, "llama", 0, {"AVX2"}, known) == "near-tie"
    for kinds in ({"q8_0", "mxfp4"}, {"q8_0", "f16"}, {"bf16", "f32"}, {"q4_0", "iq2_xxs"}):
        assert not same_bits(replace(chosen, kinds=frozenset(kinds)))
    assert same_bits(replace(chosen, kinds=frozenset({"q8_0", "f16"}), min_rows=2))
    assert not same_bits(replace(chosen, kinds=frozenset({"f32"})))
