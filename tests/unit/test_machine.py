"""The machine description that stands beside every figure."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from surefoot.lab.machine import describe, look


def test_it_names_this_process_and_goes_into_a_record() -> None:
    machine = describe(["numpy", "no-such-package"])
    assert json.loads(json.dumps(machine)) == machine
    assert machine["python"] == platform.python_version()
    assert machine["numpy"] == np.__version__ == machine["packages"]["numpy"]
    assert machine["packages"]["no-such-package"] is None
    assert 1 <= machine["cores"] <= (os.cpu_count() or 1)
    assert machine["cpu"]
    assert machine["os"]


def test_it_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        look().cores = 9000  # type: ignore[misc]


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system cannot pin a process to cores")
def test_cores_are_those_this_process_may_use() -> None:
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        assert look().cores == 1
    finally:
        os.sched_setaffinity(0, allowed)
