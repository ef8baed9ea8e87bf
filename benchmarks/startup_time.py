"""Wall time of starting Surefoot beside that of starting Python and numpy.

    python benchmarks/startup_time.py [ROUNDS]      40 unless told otherwise

Every round starts each program once, the order turned by one from round to round, so that a slow moment of the
machine meets all of them. Raw samples, medians and their intervals go to benchmarks/records/startup_time.json.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from surefoot.lab.machine import describe

RECORD = Path(__file__).resolve().parent / "records" / "startup_time.json"
LIMIT_S = 0.3  # Source: the promise that --help answers within 300 ms
PROGRAMS = {
    "python -c pass": ["-c", "pass"],
    "import numpy": ["-c", "import numpy"],
    "import surefoot": ["-c", "import surefoot"],
    "surefoot --help": ["-c", "from surefoot.app.cli.main import main; raise SystemExit(main(['--help']))"],
    "surefoot generate --help": [
        "-c",
        "from surefoot.app.cli.main import main; raise SystemExit(main(['generate', '--help']))",
    ],
}


def start_s(arguments: list[str]) -> float:
    """Seconds from starting a Python until it has ended well."""
    begin = time.perf_counter()
    subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begin


def median(samples: Sequence[float]) -> float:
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


def measure(rounds: int) -> dict[str, list[float]]:
    """Seconds per program and round, the first, cold round left out."""
    names = list(PROGRAMS)
    samples: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds + 1):
        shift = turn % len(names)
        for name in names[shift:] + names[:shift]:
            seconds = start_s(PROGRAMS[name])
            if turn:
                samples[name].append(seconds)
    return samples


def record(samples: dict[str, list[float]]) -> dict[str, Any]:
    rows = {
        name: {"median_s": median(values), "interval95_s": interval(values), "samples_s": values}
        for name, values in samples.items()
    }
    return {
        "schema": 1,
        "benchmark": "startup_time",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": describe(("surefoot", "numpy")),
        "limit_s": LIMIT_S,
        "programs": rows,
    }


def main(arguments: list[str]) -> int:
    rounds = int(arguments[0]) if arguments else 40
    found = record(measure(rounds))
    RECORD.parent.mkdir(exist_ok=True)
    RECORD.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(f"{'program':26} {'median ms':>9} {'95 % interval ms':>18}   n = {rounds}")
    for name, row in found["programs"].items():
        low, high = row["interval95_s"]
        print(f"{name:26} {1e3 * row['median_s']:9.0f} {1e3 * low:9.0f} .. {1e3 * high:5.0f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
