"""What sharing one llama.cpp context would do to bits, and what a tree in it would cost.

    python benchmarks/llamacpp_sequences.py [FILE.gguf...] [--depth 200] [--tokens 40]

The llamacpp target gives each session a context of its own and scores chains. This tries the other way, on the same
library and settings: two sequences side by side in one context, and a tree whose branches are sequences. Both are
compared, row by row and bit by bit, with the same tokens alone in a context.
"""

from __future__ import annotations

import argparse
import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from common import RECORDS, median, shipped_gguf, summary, timed, write_record

from surefoot.targets.llamacpp import Options, build
from surefoot.targets.llamacpp.api import Batch

REPEATS = 30
"""chosen: enough for an interval of the median."""

Row = tuple[int, int, tuple[int, ...]]
"""A token, its position, and the sequences that it belongs to."""


class Shared:
    """A context of two sequences over a target's weights. Holds changing state: its cache."""

    def __init__(self, target: Any) -> None:
        self._weights, self._fn = target.weights, target.weights.api.fn
        settings = {**target._settings, "n_seq_max": 2}
        self.address = target.weights.api.new_context(target.weights.address, settings)
        self.memory = self._fn.llama_get_memory(self.address)
        self.copy = self._fn.llama_memory_seq_cp
        self.copy.restype = None
        self.copy.argtypes = (ctypes.c_void_p, *[ctypes.c_int32] * 4)

    def forward(self, rows: Sequence[Row], scored: int) -> np.ndarray:
        """(scored, V) logits of the last rows, copied."""
        n, kept = len(rows), [np.array(of, np.int32) for _, _, of in rows]
        token, place = (np.array([row[at] for row in rows], np.int32) for at in (0, 1))
        n_of = np.array([len(of) for of in kept], np.int32)
        of = (ctypes.c_void_p * n)(*[each.ctypes.data for each in kept])
        wanted = np.array([i >= n - scored for i in range(n)], np.int8)
        batch = Batch(
            n, token.ctypes.data, None, place.ctypes.data, n_of.ctypes.data, ctypes.addressof(of), wanted.ctypes.data
        )
        code = self._fn.llama_decode(self.address, batch)
        assert code == 0, f"llama_decode gave {code}"
        found = (ctypes.c_float * (scored * self._weights.vocab_size)).from_address(
            self._fn.llama_get_logits(self.address)
        )
        return np.array(found, np.float32).reshape(scored, -1)

    def cut(self, sequence: int, start: int) -> None:
        self._fn.llama_memory_seq_rm(self.memory, sequence, start, -1)

    def close(self) -> None:
        self._fn.llama_free(self.address)


def chain(ids: Sequence[int], start: int, *of: int) -> list[Row]:
    return [(int(token), start + at, of) for at, token in enumerate(ids)]


def compared(one: np.ndarray, other: np.ndarray) -> dict[str, Any]:
    """How many rows have the same bits, and by how much the others differ, as a share of their spread."""
    same = int(sum(np.array_equal(a, b) for a, b in zip(one, other, strict=True)))
    spread = float(np.ptp(one, axis=-1).mean())
    return {"rows": len(one), "same_bits": same, "largest": float(np.abs(one - other).max()) / spread}


def neighbours(target: Any, ids: np.ndarray, depth: int, n: int) -> dict[str, Any]:
    """A sequence token by token: alone, behind another one in the cache, and taking turns with it."""
    found = {}
    for name in ("alone", "behind another", "taking turns"):
        shared = Shared(target)
        if name != "alone":
            shared.forward(chain(ids[::-1][: depth // 2], 0, 1), 1)
        shared.forward(chain(ids[:depth], 0, 0), 1)
        rows = []
        for at in range(n):
            rows.append(shared.forward(chain(ids[depth + at :][:1], depth + at, 0), 1)[0])
            if name == "taking turns":
                shared.forward(chain(ids[at : at + 1], depth // 2 + at, 1), 1)
        found[name] = np.array(rows)
        shared.close()
    return {name: compared(found["alone"], found[name]) for name in ("behind another", "taking turns")}


def tree(target: Any, ids: np.ndarray, depth: int, n: int) -> dict[str, Any]:
    """A root and two branches of two tokens in a block; the second is kept, and the text goes on behind it."""
    root, first, second = ids[depth : depth + 1], ids[depth + 1 : depth + 3], ids[depth + 3 : depth + 5]
    onward = ids[depth + 5 : depth + 5 + n]
    alone = Shared(target)
    alone.forward(chain(ids[:depth], 0, 0), 1)
    kept = np.array([alone.forward([row], 1)[0] for row in chain([*root, *second, *onward], depth, 0)])
    alone.close()

    shared = Shared(target)
    shared.forward(chain(ids[:depth], 0, 0), 1)
    branches = [*chain(root, depth, 0, 1), *chain(first, depth + 1, 0), *chain(second, depth + 1, 1)]

    def begin() -> None:
        shared.copy(shared.memory, 0, 1, 0, -1)

    def keep_second() -> None:
        shared.cut(0, depth + 1)
        shared.copy(shared.memory, 1, 0, depth + 1, -1)
        shared.cut(1, 0)

    begin()
    block = shared.forward(branches, 5)
    keep_second()
    rows = [shared.forward([row], 1)[0] for row in chain(onward, depth + 3, 0)]
    told = {
        "rows of the branch": compared(kept[:3], np.concatenate([block[:1], block[3:]])),
        "rows behind it": compared(kept[3:], np.array(rows)),
    }
    shared.cut(0, depth)

    def forward(block_rows: Sequence[Row], is_tree: bool) -> None:
        if is_tree:
            begin()
        shared.forward(block_rows, len(block_rows))
        if is_tree:
            keep_second()
        shared.cut(0, depth)

    kinds = {
        "one row": (chain(root, depth, 0), False),
        "chain of three": (chain([*root, *second], depth, 0), False),
        "chain of five": (chain([*root, *first, *second], depth, 0), False),
        "tree of five": (branches, True),
    }
    seconds: dict[str, list[float]] = {name: [] for name in kinds}
    for repeat in range(REPEATS + 2):
        for name, (block_rows, is_tree) in kinds.items():
            taken, _ = timed(lambda block_rows=block_rows, is_tree=is_tree: forward(block_rows, is_tree))
            if repeat > 1:  # the first two warm up
                seconds[name].append(taken)
    shared.close()
    base = median(seconds["one row"])
    print({name: round(median(taken) / base, 2) for name, taken in seconds.items()})
    return {**told, "seconds": {name: summary(taken) for name, taken in seconds.items()}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, help="GGUF files; else SmolLM2 as it is shipped")
    parser.add_argument("--depth", type=int, default=200)
    parser.add_argument("--tokens", type=int, default=40)
    parser.add_argument("--out", type=Path, default=RECORDS / "llamacpp_sequences.json")
    asked = parser.parse_args()
    rows = []
    for file in asked.files or shipped_gguf().weights:
        target = build(Options(ctx_size=2048), file)
        ids = np.random.default_rng(0).integers(100, target.caps.vocab_size - 100, asked.depth + asked.tokens + 8)
        for name, what in (("two sequences", neighbours), ("a tree", tree)):
            found = what(target, ids.astype(np.int32), asked.depth, asked.tokens)
            rows.append({"file": file.name, "what": name, **found, "settings": dict(target.caps.settings)})
            print(file.name, name, {key: value for key, value in found.items() if key != "seconds"})
    packages = ("xllamacpp", "llama-cpp-python", "llama-cpp-py-sync", "numpy")
    write_record(asked.out, "two sequences and a tree in one context of llama.cpp", rows, packages)


if __name__ == "__main__":
    main()
