"""Whether a run of the bench says so when another program takes the machine in its middle.

    python benchmarks/competing_load.py [--runtime openvino] [--processes N] [MORE OPTIONS OF surefoot bench]

Runs `surefoot bench smollm2-135m` and, once a third of its pairs are on the disk, starts processes that compute without
end; once two thirds are, it ends them. The run must name the contention, leave out every pair that lay wholly inside
it, and say so at once on stderr. What it said of each pair goes to benchmarks/records/competing_load.json, the record
of the run itself beside it. Exit code 1 where the run did not notice, or where others used the machine all the time.
Texts are short, so that it takes a few minutes on two cores.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from common import RECORDS, write_record

from surefoot.lab.analysis import Analysis, analyse
from surefoot.lab.store import load

SPIN = "import os; mine = os.getppid()\nwhile os.getppid() == mine: pass"
"""Ends with this process, however that ends."""
POLL_S = 0.2
WANTED = ("--quick", "--tokens", "32", "--workloads", "chat,code", "--pairs", "6", "--arm", "ngram/additive")
N_PAIRS = 2 * 6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runtime", default="openvino")
    parser.add_argument("--processes", type=int, default=1, help="that compute beside the run")
    parser.add_argument("--out", type=Path, default=RECORDS / "competing_load.json", help="where the record goes")
    arguments, more = parser.parse_known_args()
    record = arguments.out.with_suffix(".jsonl")
    record.unlink(missing_ok=True)
    command = ["bench", "smollm2-135m", "--runtime", arguments.runtime, *WANTED, *more, "--out", str(record)]
    inside, told = measure(command, record, arguments.processes)
    found = analyse(load(record))
    missed = [pair.number for pair in found.pairs if pair.number in inside and not contended(pair.reasons)]
    said = [line for line in told if "left out, and the run goes on" in line]
    show(found, inside, missed, said)
    rows = [
        {"pair": pair.number, "at_s": pair.at_s, "inside": pair.number in inside, "left_out": list(pair.reasons)}
        for pair in found.pairs
    ]
    write_record(
        arguments.out, "what a run of the bench says of a competing process in its middle", rows,
        ("openvino", "torch"), command=command, processes=arguments.processes, said=said, missed=missed,
        findings=[{"name": each.name, "text": each.text} for each in found.findings], samples=record.name,
    )  # fmt: skip
    if not inside or missed or not said or not any(each.name == "contention" for each in found.findings):
        raise SystemExit("the run did not notice the competing process")
    if all(contended(pair.reasons) for pair in found.pairs):
        raise SystemExit("others used the machine throughout, so this says nothing: close them and run it again")


def measure(command: Sequence[str], record: Path, processes: int) -> tuple[range, list[str]]:
    """The numbers of the pairs that ran wholly beside the load, and what the run said on stderr."""
    with tempfile.TemporaryFile("w+") as said:
        with subprocess.Popen([sys.executable, "-m", "surefoot", *command], stderr=said) as run:
            try:
                wait_for(N_PAIRS // 3, record, run)
                with load_beside(processes):
                    # The pair in progress has run alone for a while, and so will the last one when the load is over.
                    first = n_pairs(record) + 1
                    wait_for(2 * N_PAIRS // 3, record, run)
                    inside = range(first, n_pairs(record))
                run.wait()
            except BaseException:
                run.terminate()
                raise
        said.seek(0)
        told = said.read().splitlines()
    if run.returncode not in (0, 1):
        raise SystemExit(f"surefoot bench ended with {run.returncode}: {' '.join(told[-3:])}")
    return inside, told


def wait_for(count: int, record: Path, run: subprocess.Popen[bytes]) -> None:
    """Until so many pairs are on the disk."""
    while n_pairs(record) < count:
        if run.poll() is not None:
            raise SystemExit(f"surefoot bench ended after {n_pairs(record)} pairs, with {run.returncode}")
        time.sleep(POLL_S)


def n_pairs(record: Path) -> int:
    """Pairs that are whole in the record; cheap, because it is asked while something is measured."""
    return record.read_bytes().count(b'\n{"kind":"pair"') if record.exists() else 0


@contextmanager
def load_beside(processes: int) -> Iterator[None]:
    """Processes that compute while the block runs."""
    running = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(processes)]
    try:
        yield
    finally:
        for each in running:
            each.kill()
            each.wait()


def contended(reasons: Sequence[str]) -> bool:
    return any(reason.startswith("contention") for reason in reasons)


def show(found: Analysis, inside: range, missed: Sequence[int], said: Sequence[str]) -> None:
    print(f"pairs {inside.start} to {inside.stop - 1} of {len(found.pairs)} ran wholly beside the load")
    print(f"missed: {list(missed) or 'none'}; said at once: {said[0] if said else 'nothing'}")
    beside = [pair.number for pair in found.pairs if pair.number not in inside and contended(pair.reasons)]
    print(f"also left out for contention, outside of it: {beside or 'none'}")
    for each in found.findings:
        print(f"{each.name}: {each.text}")


if __name__ == "__main__":
    main()
