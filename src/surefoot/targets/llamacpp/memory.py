"""Whether cache and copied weights fit: llama.cpp takes them at once, and Linux kills a process that takes too much."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from surefoot.core.errors import TargetError
from surefoot.targets.llamacpp.runtime import Weights
from surefoot.targets.llamacpp.settings import CACHE_TYPES, Chosen


def check_memory(weights: Weights, tokens: int, chosen: Chosen) -> None:
    """Raises: TargetError when one cache needs more memory than there is; nothing where the system does not say."""
    needed, free = cache_bytes(weights, tokens, chosen), available_bytes()
    if free is not None and needed > free:
        raise TargetError(
            f"a cache of {tokens} tokens needs {_told(needed)} and {_told(free)} are free: give a smaller ctx_size",
            backend="llamacpp",
            operation="open",
        )


def shortage(said: Iterable[str]) -> str:
    """What rearranged weights need and what is free; nothing where they fit, or the system does not say.

    `said`: by llama.cpp, once it has taken its buffers and before it fills them.
    """
    needed, free = rearranged_bytes(said), available_bytes()
    return "" if free is None or needed <= free else f"they need {_told(needed)} and {_told(free)} are free"


def rearranged_bytes(said: Iterable[str]) -> int:
    """Bytes of the weights that llama.cpp copies in another order, by its own words: those it does not map."""
    found = (re.search(r"\b(?:CPU_(?!Mapped)\w+|AMX) model buffer size = +([\d.]+) MiB", text) for text in said)
    return int(sum(float(match[1]) for match in found if match) * 2**20)


def cache_bytes(weights: Weights, tokens: int, chosen: Chosen) -> int:
    """Bytes of keys and values of `tokens` tokens, reckoned as if every layer were as wide as the first."""
    width = weights.number("n_embd") // max(1, weights.number("n_head"))
    key, value = (int(weights.metadata(f"{{arch}}.attention.{side}_length") or width) for side in ("key", "value"))
    a_head = key * CACHE_TYPES[chosen.cache_k][1] + value * CACHE_TYPES[chosen.cache_v][1]
    return int(tokens * weights.number("n_layer") * weights.number("n_head_kv") * a_head)


def available_bytes(meminfo: Path = Path("/proc/meminfo")) -> int | None:
    """Memory that can be taken without swapping; None where the system does not say."""
    try:
        lines = meminfo.read_text("ascii").splitlines()
    except OSError:
        return None
    found = [line.split() for line in lines if line.startswith("MemAvailable:")]
    return int(found[0][1]) * 1024 if found else None


def _told(n_bytes: int) -> str:
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 10**8 else f"{n_bytes / 1e6:.1f} MB"
