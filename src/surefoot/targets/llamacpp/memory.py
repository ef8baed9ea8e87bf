"""Whether cache and copied weights fit: llama.cpp takes them at once, and Linux kills a process that takes too much."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Set
from pathlib import Path

from surefoot.core.errors import TargetError
from surefoot.targets.llamacpp.runtime import Weights
from surefoot.targets.llamacpp.settings import CACHE_TYPES, Chosen

_GROUPS = {
    "": ("sys/fs/cgroup", "memory.max", "memory.current", ""),
    "memory": ("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
}
"""By what /proc/self/cgroup calls a tree of control groups, nothing in version 2: where it lies, the names of its limit
and of what is taken, and what stands before the totals of memory.stat.
Source: Linux, Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst."""


def check_memory(needed: int, tokens: int) -> None:
    """Raises: TargetError when a cache of `needed` bytes is more than there is; nothing where no system says that."""
    free = available_bytes()
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


def available_bytes(system: Path = Path("/")) -> int | None:
    """Memory that can be taken without swapping and without passing a container's limit; None where nothing says it."""
    return min((*_free_in_machine(system), *_free_in_groups(system)), default=None)


def _free_in_machine(system: Path) -> Iterator[int]:
    yield from _numbers(system / "proc/meminfo", {"MemAvailable:"}, 1024)


def _free_in_groups(system: Path) -> Iterator[int]:
    """What each control group of this process has left, and each that it lies in, up to the topmost that is seen.

    In a container the topmost is often its own, though the group's name is that outside.
    """
    for line in _lines(system / "proc/self/cgroup"):
        _, controllers, group = line.split(":", 2)
        for controller in controllers.split(","):
            if controller in _GROUPS:
                root, *names = _GROUPS[controller]
                steps = [step for step in group.split("/") if step]
                for depth in range(len(steps) + 1):
                    yield from _free_in_group(system.joinpath(root, *steps[:depth]), *names)


def _free_in_group(folder: Path, limit: str, taken: str, total: str) -> Iterator[int]:
    """Nothing for a group without a limit. Files that the system keeps in memory count as free: it drops them first."""
    said = [_lines(folder / name) for name in (limit, taken)]
    if all(lines and lines[0].isdecimal() for lines in said):
        most, now = (int(lines[0]) for lines in said)
        kept = sum(_numbers(folder / "memory.stat", {f"{total}active_file", f"{total}inactive_file"}, 1))
        yield max(0, most - now + kept)


def _numbers(path: Path, names: Set[str], unit_bytes: int) -> Iterator[int]:
    """The numbers of lines that begin with one of these names, in bytes."""
    for words in map(str.split, _lines(path)):
        if words[0] in names:
            yield int(words[1]) * unit_bytes


def _lines(path: Path) -> list[str]:
    """The lines that are not blank; none where there is no such file."""
    try:
        lines = path.read_text("utf-8", "replace").splitlines()
    except OSError:
        return []
    return [line.strip() for line in lines if line.strip()]


def _told(n_bytes: int) -> str:
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 10**8 else f"{n_bytes / 1e6:.1f} MB"
