"""An export to OpenVINO holds no model: its own memory, which no mapped file explains, stays below a layer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from own_memory import needs_smaps

import tiny_gguf

pytest.importorskip("openvino", reason="the openvino extra is not installed")

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "openvino_export_memory.py"
LAYERS, WIDTH, INNER, N_VOCAB = 8, 2048, 8192, 32_000
MATRICES = 3 * WIDTH * WIDTH + 3 * WIDTH * INNER
"""Weights of a layer: the keys and values of half the heads, queries and output, and three of the inner width."""
EMBEDDING = N_VOCAB * WIDTH


@needs_smaps
def test_an_export_to_4_bits_holds_less_than_a_layer_in_32(tmp_path: Path) -> None:
    file = tiny_gguf.write_zeros(tmp_path / "zeros.gguf", layers=LAYERS, width=WIDTH, inner=INNER, n_vocab=N_VOCAB)
    size = file.stat().st_size
    assert size > 10**9
    if file.stat().st_blocks * 512 > size / 2:
        pytest.skip("this file system keeps no holes, and would need the whole file")
    record = tmp_path / "record.json"
    command = [sys.executable, str(SCRIPT), str(file), "--weights", "int4", "--runs", "1", "--out", str(record)]
    done = subprocess.run(command, env={**os.environ, "TMPDIR": str(tmp_path)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(record.read_text("utf-8"))["rows"]
    assert row["parameters"] == LAYERS * MATRICES + EMBEDDING
    assert len(row["own_peaks"]) == 1 + 1 + 7 * LAYERS
    taken, largest = row["own_peak"] - row["own_before"], 4 * max(MATRICES, EMBEDDING)
    assert taken < largest < 4 * row["parameters"] / LAYERS
