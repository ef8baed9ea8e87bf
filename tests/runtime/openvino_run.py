"""Bare loops over an OpenVINO folder: what the runtime itself says, without the target under test."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import openvino as ov

from surefoot.targets.openvino.core import compiling

SETTINGS = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0}


def ov_logits(folder: Path, blocks: list[list[int]], hidden: tuple[int, ...] = ()) -> np.ndarray:
    """Logits of the blocks, one forward each; `hidden` blocks are shown to no later one and take no position."""
    record = json.loads((folder / "surefoot_export.json").read_text())
    return (_caller_logits if record["cache"] == "caller" else _state_logits)(folder, blocks, hidden)


def _request(folder: Path) -> ov.InferRequest:
    return compiling(mmap=True).compile_model(folder / "openvino_model.xml", "CPU", SETTINGS).create_infer_request()


def _caller_logits(folder: Path, blocks: list[list[int]], hidden: tuple[int, ...]) -> np.ndarray:
    """Every other block is followed by one that finds its rows still staged; the history is two pages, mostly empty."""
    request, held, found = _request(folder), 0, []
    names = [name for port in request.model_inputs if (name := port.get_any_name()).startswith("history.")]
    history = {}
    for name in names:
        port = next(p for p in request.model_inputs if p.get_any_name() == name)
        history[name] = np.zeros([2, *(size.get_length() for size in list(port.get_partial_shape())[1:])], np.float32)
    none = {}
    for name, array in history.items():
        heads, dim = array.shape[1], array.shape[2 if name.endswith("key") else 3]
        none[name.replace("history", "staged")] = np.zeros((1, heads, 0, dim), np.float32)
    staged, tail = none, 0
    for i, block in enumerate(blocks):
        n = len(block)
        seen = np.concatenate([np.ones((n, tail), bool), np.tri(n, dtype=bool)], 1)
        positions = np.arange(held + tail, held + tail + n)[None]
        feeds = {"input_ids": np.array([block]), "position_ids": positions, "block_mask": seen}
        request.infer({**feeds, **history, **staged, "history_rows": np.array([held])})
        if i in hidden:
            continue
        found.append(request.get_tensor("logits").data[0].copy())
        tail += n
        rows = {name: request.get_tensor(name.replace("history", "rows")).data.copy() for name in names}
        staged = {name.replace("history", "staged"): array for name, array in rows.items()}
        if i % 2 == 1:
            for name, array in rows.items():
                for row in range(tail):
                    place = (0, slice(None), slice(None), held + row)
                    history[name][place if name.endswith("key") else (0, slice(None), held + row)] = array[0, :, row]
            held, staged, tail = held + tail, none, 0
    return np.concatenate(found)


def _state_logits(folder: Path, blocks: list[list[int]], hidden: tuple[int, ...]) -> np.ndarray:
    request = _request(folder)
    seen, place, found = [], 0, []
    for i, block in enumerate(blocks):
        n = len(block)
        positions = np.arange(place, place + n)[None]
        mask = np.array([seen + [1] * n])
        feeds = {"input_ids": np.array([block]), "attention_mask": mask, "position_ids": positions}
        request.infer({**feeds, "beam_idx": np.zeros(1, np.int32)})
        if i in hidden:
            seen += [0] * n
            continue
        found.append(request.get_tensor("logits").data[0].copy())
        seen, place = seen + [1] * n, place + n
    return np.concatenate(found)
