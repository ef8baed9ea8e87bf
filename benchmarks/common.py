"""What every benchmark here shares: the clock, the median with its interval, and the record with its machine."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

from surefoot.app import environment
from surefoot.engine import models
from surefoot.lab.machine import describe
from surefoot.lab.stats import median_interval

SCHEMA = 1
RECORDS = Path(__file__).resolve().parent / "records"
Result = TypeVar("Result")


def shipped_gguf() -> models.ModelFiles:
    """SmolLM2 as GGUF, fetched once and kept."""
    return models.resolve("smollm2-135m", environment.read(os.environ).cache_dir(), formats=("gguf",))


def timed(action: Callable[[], Result]) -> tuple[float, Result]:
    """Seconds the call took, and what it gave back."""
    start = time.perf_counter()
    result = action()
    return time.perf_counter() - start, result


def interval(samples: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of the median from the ordered samples alone; of fewer than 6, their range."""
    found = median_interval(samples)
    return (found.low, found.high) if found else (min(samples), max(samples))


def summary(samples: Sequence[float]) -> dict[str, Any]:
    """Median, its 95 % interval, the largest, the count, and the samples themselves, in seconds."""
    low, high = interval(samples)
    return {
        "median_s": median(samples),
        "low_s": low,
        "high_s": high,
        "max_s": max(samples),
        "count": len(samples),
        "samples_s": [round(sample, 9) for sample in samples],
    }


def cell(part: Mapping[str, Any], unit: float) -> str:
    """`median [low, high]` in units of `unit` seconds."""
    return f"{part['median_s'] / unit:.2f} [{part['low_s'] / unit:.2f}, {part['high_s'] / unit:.2f}]"


def write_record(path: Path, what: str, rows: Any, packages: Sequence[str] = (), **more: Any) -> None:
    """One JSON document: what was measured, when, on what, and every sample."""
    record = {
        "schema": SCHEMA,
        "what": what,
        "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": describe(packages),
        "load_1min_after": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        **more,
        "rows": rows,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record) + "\n", encoding="utf-8")
    print(f"samples in {path}")
