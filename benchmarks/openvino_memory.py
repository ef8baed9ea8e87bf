"""Resident memory of SmolLM2 on OpenVINO over a hundred generations, drafts on.

    python benchmarks/openvino_memory.py [--generations N] [--tokens N]

Every generation opens a session of its own and closes it. Recorded is the resident size of the process after each.
"""

from __future__ import annotations

import argparse
import gc
import json
from pathlib import Path

from common import RECORDS, median, write_record

import surefoot

PROMPTS = Path(__file__).resolve().parent.parent / "tests" / "data" / "prompts.json"


def resident_bytes() -> int:
    """Resident size of this process. Source: proc(5), VmRSS in kB."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return 1024 * int(line.split()[1])
    raise SystemExit("this system does not tell the resident size in /proc/self/status")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--generations", type=int, default=100, help="texts, one session each")
    parser.add_argument("--tokens", type=int, default=32, help="output tokens per text")
    parser.add_argument("--out", type=Path, default=RECORDS / "openvino_memory.json", help="where the record goes")
    arguments = parser.parse_args()
    model = surefoot.load("smollm2-135m", runtime="openvino", max_tokens=arguments.tokens)
    prompts = [entry["prompt"] for entry in json.loads(PROMPTS.read_text(encoding="utf-8"))]
    sizes = []
    for number in range(arguments.generations):
        with model.generate(prompts[number % len(prompts)]) as generation:
            for _ in generation:
                pass
        gc.collect()
        sizes.append(resident_bytes())
    tenth = max(1, len(sizes) // 10)
    first, last = median(sizes[tenth : 3 * tenth]), median(sizes[-2 * tenth :])
    print(
        f"{arguments.generations} generations: {sizes[0] / 1e6:.0f} MB after the first, {first / 1e6:.0f} MB in the "
        f"second and third tenth, {last / 1e6:.0f} MB in the last two; {(last - first) / 1e6:+.1f} MB"
    )
    write_record(
        arguments.out, "resident bytes after each generation", sizes, ("openvino",), settings=model.describe(),
        tokens=arguments.tokens,
    )  # fmt: skip


if __name__ == "__main__":
    main()
