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
from surefoot.targets.llamacpp.api import open_api
from surefoot.targets.llamacpp.exactness import COMPARED, FEW_ROWS, row_class, same_bits
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


def target_of(folder: Path, kind: str, family: str = "llama", **options: Any) -> LlamacppTarget:
    file = folder / f"{family}-{kind}.gguf"
    if not file.exists():
        tiny_gguf.write(file, family, kind=kind, width=256, context=1024)
    return build(Options(**{"threads": 1, **options}), file)


def furthest(target: LlamacppTarget, depth: int, most: int = 48) -> float:
    """The largest difference of a logit between rows of blocks and the same rows alone, as a share of their spread."""
    most = min(most, target.caps.max_rows)
    ids = np.random.default_rng(depth).integers(3, min(300, target.caps.vocab_size), depth + most).astype(np.int32)
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


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_K"])
@pytest.mark.parametrize("family", [family for family in tiny_gguf.FAMILIES if family != "llama"])
def test_so_have_those_of_every_family(family: str, kind: str, folder: Path) -> None:
    """Behind 250 tokens blocks reach over the 256th, where llama.cpp shows its kernels a longer piece of the cache."""
    target = target_of(folder, kind, family)
    assert target.caps.row_class == claimed(target)
    assert furthest(target, 20, 20) == furthest(target, 250, 20) == 0
    assert furthest(target_of(folder, kind, family, threads=2), DEEP, 8) == 0


def test_k_quants_computed_in_more_rows_are_a_near_tie(folder: Path) -> None:
    target = target_of(folder, "Q4_K", min_rows=16)
    assert (target.caps.row_class, target.caps.max_rows) == ("near-tie", 16)


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
    compared = any(target.caps.settings.get(name) == version for name, version in COMPARED)
    return "identical" if compared and "AVX2" in built and "AMX_INT8" not in built else "near-tie"


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
    assert row_class(chosen, "llama", 0, {"AVX2"}, known, True) == "identical"
    assert row_class(chosen, "llama", 0, {"AVX2", "AVX512"}, ("llama-cpp-python", "0.3.36"), True) == "identical"
    for architecture, experts, features, binding, alone in (
        ("mixtral", 0, {"AVX2"}, known, True),
        ("llama", 8, {"AVX2"}, known, True),
        ("llama", 0, {"NEON"}, known, True),
        ("llama", 0, {"AVX2", "AVX512", "AMX_INT8"}, known, True),
        ("llama", 0, {"AVX2"}, ("llama-cpp-py-sync", "0.11548"), True),
        ("llama", 0, {"AVX2"}, ("xllamacpp", "2026.11.11739"), True),
        ("llama", 0, {"AVX2"}, known, False),
    ):
        assert row_class(chosen, architecture, experts, features, binding, alone) == "near-tie"
    on_gpu = choose(Options(), frozenset({"f32", "q8_0"}), False)
    assert row_class(on_gpu, "llama", 0, {"AVX2"}, known, True) == "near-tie"
    assert not same_bits(replace(chosen, kinds=frozenset()))
    for kinds in ({"q8_0", "mxfp4"}, {"q8_0", "f16"}, {"bf16", "f32"}, {"q4_0", "iq2_xxs"}):
        assert not same_bits(replace(chosen, kinds=frozenset(kinds)))
    assert same_bits(replace(chosen, kinds=frozenset({"q8_0", "f16"}), min_rows=2))
    assert not same_bits(replace(chosen, kinds=frozenset({"f32"})))


@pytest.mark.parametrize("offered", [2, None])
def test_a_library_with_other_ways_to_compute_is_a_near_tie(
    offered: int | None, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A BLAS, or a graphics processor, whether or not it is used; None where the library does not say."""
    library = open_api("auto")
    assert target_of(folder, "Q8_0").caps.row_class == claimed(target_of(folder, "Q8_0"))
    monkeypatch.setattr(library.fn, "ggml_backend_reg_count", (lambda: offered) if offered else None)
    assert target_of(folder, "Q8_0").caps.row_class == "near-tie"
