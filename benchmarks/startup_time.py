"""Wall time of starting Surefoot beside that of starting Python and numpy.

    python benchmarks/startup_time.py [--rounds N]

Every round starts each program once, the order turned by one from round to round, so that a slow moment of the
machine meets all of them. Raw samples, medians and their intervals go to benchmarks/records/startup_time.json.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from common import RECORDS, cell, summary, timed, write_record

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


def start(arguments: list[str]) -> None:
    """Start a Python and wait until it has ended well."""
    subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True)


def measure(rounds: int) -> dict[str, list[float]]:
    """Seconds per program and round, the first, cold round left out."""
    names = list(PROGRAMS)
    samples: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds + 1):
        shift = turn % len(names)
        for name in names[shift:] + names[:shift]:
            seconds, _ = timed(lambda name=name: start(PROGRAMS[name]))  # type: ignore[misc]
            if turn:
                samples[name].append(seconds)
    return samples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40, help="starts of each program")
    parser.add_argument("--out", type=Path, default=RECORDS / "startup_time.json", help="where the record goes")
    arguments = parser.parse_args()
    rows = [{"program": name, **summary(samples)} for name, samples in measure(arguments.rounds).items()]
    print(f"{'program':<26} ms, median [95 % interval], {arguments.rounds} starts")
    for row in rows:
        print(f"{row['program']:<26} {cell(row, 1e-3)}")
    write_record(arguments.out, "wall seconds from starting a program until it has ended", rows, ("surefoot",))


if __name__ == "__main__":
    main()
