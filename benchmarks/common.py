"""What every benchmark here shares: the clock, the median with its interval, and the record with its machine."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from surefoot.lab.machine import describe

SCHEMA = 1
RECORDS = Path(__file__).resolve().parent / "records"
Result = TypeVar("Result")


def timed(action: Callable[[], Result]) -> tuple[float, Result]:
    """Seconds the call took, and what it gave back."""
    start = time.perf_counter()
    result = action()
    return time.perf_counter() - start, result


def median(samples: Sequence[float]) -> float:
    """The middle sample, or the mean of the two in the middle."""
    ordered, half = sorted(samples), len(samples) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def interval(samples: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """An interval that holds the median with at least that confidence, from the ordered samples alone.

    Source: the binomial law of how many samples lie below the median; the narrowest symmetric pair of order statistics.
    """
    ordered, n = sorted(samples), len(samples)
    below, rank = 0.0, 0
    while rank < n // 2 and below + math.comb(n, rank) / 2**n <= (1 - confidence) / 2:
        below += math.comb(n, rank) / 2**n
        rank += 1
    return ordered[max(rank - 1, 0)], ordered[n - max(rank, 1)]


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
