"""What memory is free, by what Linux says of the machine and of the control groups that a process lies in."""

from __future__ import annotations

from pathlib import Path

import pytest

from surefoot.targets.llamacpp.memory import available_bytes

MACHINE = {"proc/meminfo": "MemTotal: 9 kB\nMemAvailable:   2048 kB\n"}
FREE = 2 * 2**20
V2, V1 = "sys/fs/cgroup", "sys/fs/cgroup/memory"


def group(folder: str, limit: object, taken: int, stat: str = "") -> dict[str, str]:
    return {
        f"{folder}/memory.max": f"{limit}\n",
        f"{folder}/memory.current": f"{taken}\n",
        f"{folder}/memory.stat": stat,
    }


def group_v1(folder: str, limit: int, taken: int, stat: str = "") -> dict[str, str]:
    return {
        f"{folder}/memory.limit_in_bytes": f"{limit}\n",
        f"{folder}/memory.usage_in_bytes": f"{taken}\n",
        f"{folder}/memory.stat": stat,
    }


@pytest.mark.parametrize(
    ("files", "due"),
    [
        ({}, FREE),
        ({"proc/self/cgroup": "0::/\n"}, FREE),
        ({"proc/self/cgroup": "0::/a\n", **group(f"{V2}/a", "max", 5)}, FREE),
        ({"proc/self/cgroup": "0::/a\n", **group(f"{V2}/a", 3000, 2000)}, 1000),
        ({"proc/self/cgroup": "0::/a b\n", **group(f"{V2}/a b", 3000, 2000)}, 1000),
        ({"proc/self/cgroup": "0::/a/b\n", **group(f"{V2}/a", 3000, 2000), **group(f"{V2}/a/b", "max", 9)}, 1000),
        ({"proc/self/cgroup": "0::/a\n", **group(V2, 3000, 2000)}, 1000),
        ({"proc/self/cgroup": "0::/a\n", **group(f"{V2}/a", 3000, 4000)}, 0),
        ({"proc/self/cgroup": "0::/a\n", **group(f"{V2}/a", 2**62, 4000)}, FREE),
        (
            {
                "proc/self/cgroup": "0::/a\n",
                **group(f"{V2}/a", 3000, 2000, "file 900\nactive_file 100\ninactive_file 500\nshmem 300\n"),
            },
            1600,
        ),
        ({"proc/self/cgroup": "7:cpu:/c\n4:cpuset,memory:/docker/x\n0::/\n", **group_v1(V1, 3000, 2000)}, 1000),
        (
            {
                "proc/self/cgroup": "4:memory:/docker/x\n",
                **group_v1(f"{V1}/docker/x", 3000, 2500, "active_file 9\ntotal_active_file 99\ntotal_inactive_file 8"),
                **group_v1(V1, 2**63 - 4096, 10**9),
            },
            607,
        ),
    ],
    ids=[
        "no groups", "the topmost", "no limit", "a limit", "a name with a space", "an outer limit",
        "named from outside", "more taken than allowed", "more allowed than there is", "files are dropped first",
        "version 1", "version 1, totals",
    ],
)  # fmt: skip
def test_free_memory_is_the_least_that_anything_says(files: dict[str, str], due: int, tmp_path: Path) -> None:
    for name, text in {**MACHINE, **files}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="ascii")
    assert available_bytes(tmp_path) == due


def test_nothing_is_said_elsewhere(tmp_path: Path) -> None:
    assert available_bytes(tmp_path) is None
