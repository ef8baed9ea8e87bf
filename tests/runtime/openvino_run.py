"""A bare loop over an OpenVINO folder: what the runtime itself says, without the target under test."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import openvino as ov


def ov_logits(folder: Path, blocks: list[list[int]], hidden: tuple[int, ...] = ()) -> np.ndarray:
    """Logits of the blocks, one forward each; `hidden` blocks are shown to no later one and take no position."""
    settings = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0}
    request = ov.Core().compile_model(folder / "openvino_model.xml", "CPU", settings).create_infer_request()
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
