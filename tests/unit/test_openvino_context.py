"""How long a context another tool's OpenVINO folder allows."""

from __future__ import annotations

from typing import Any

import pytest

from surefoot.targets.openvino.load import context_of


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"max_position_embeddings": 8192}, 8192),
        ({"max_position_embeddings": 8192, "rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, 8192),
        (
            {
                "max_position_embeddings": 131072,
                "original_max_position_embeddings": 4096,
                "rope_scaling": {"type": "longrope", "long_factor": [1.0], "short_factor": [1.0]},
            },
            4096,
        ),
        (
            {
                "max_position_embeddings": 131072,
                "rope_parameters": {"rope_type": "longrope", "original_max_position_embeddings": 4096},
            },
            4096,
        ),
        ({}, None),
    ],
)
def test_the_context_ends_where_cached_rows_would_change(config: dict[str, Any], expected: int | None) -> None:
    assert context_of(config) == expected
