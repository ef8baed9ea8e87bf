"""What a target must say, computed the slow and obvious way: a fresh session and one prefill."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from surefoot.core.ports import Target
from surefoot.core.types import Floats, as_ids


def fresh_logits(target: Target, ids: Sequence[int]) -> Floats:
    """(V,) what follows `ids`, from a session that never saw anything else."""
    session = target.open()
    try:
        return np.array(session.prefill(as_ids(ids)).logits(0))
    finally:
        session.close()


def fresh_taps(target: Target, ids: Sequence[int], taps: Sequence[str]) -> dict[str, Any]:
    """Each tap (m, ...) on the host, from one prefill of `ids`."""
    session = target.open(taps)
    try:
        scores = session.prefill(as_ids(ids))
        return {name: on_host(scores.tap(name)) for name in taps}
    finally:
        session.close()


def on_host(values: Any) -> Any:
    """A copy of a device-native array as numpy; torch tensors are recognised by their `detach`."""
    if hasattr(values, "detach"):
        values = values.detach().float().cpu().numpy()
    return np.array(values)
