"""The machine description that stands beside every figure, and the conditions while something runs."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import types
from collections import namedtuple
from dataclasses import FrozenInstanceError, fields, replace

import numpy as np
import pytest

from surefoot.lab.machine import Reading, SystemProbe, Watch, describe, fingerprint, look
from surefoot.lab.records import Conditions


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


def test_what_the_system_does_not_tell_is_named() -> None:
    machine = look()
    told = {"memory_bytes": machine.memory_bytes, "virtual": machine.virtual, "governor": machine.governor}
    for name, value in told.items():
        assert (value is None) == (name in machine.absent), name
    assert set(machine.absent) <= {*told, *(f.name for f in fields(Reading))}


def test_the_fingerprint_follows_what_timings_depend_on() -> None:
    machine = look()
    same = replace(machine, python="3.99", packages={"torch": "9"}, absent=["governor"])
    assert fingerprint(machine) == fingerprint(same) == describe()["fingerprint"]
    less = None if machine.memory_bytes is None else machine.memory_bytes - 2**20
    assert fingerprint(replace(machine, memory_bytes=less)) == fingerprint(machine) or less is None
    for other in (
        replace(machine, cpu="another"),
        replace(machine, cores=machine.cores + 1),
        replace(machine, memory_bytes=(machine.memory_bytes or 0) + 2**33),
        replace(machine, virtual=not machine.virtual),
    ):
        assert fingerprint(other) != fingerprint(machine)


class Played:
    """A machine whose readings are given. Holds which comes next."""

    def __init__(self, *readings: Reading) -> None:
        self.readings = list(readings)

    def read(self) -> Reading:
        return self.readings.pop(0)


def test_others_are_what_is_busy_and_neither_ours_nor_stolen() -> None:
    # 10 s on two cores: 20 s in all, 15 s busy, 9 s of them ours, 2 s stolen.
    before = Reading(total_s=1000.0, busy_s=400.0, steal_s=5.0, own_s=30.0, load_1min=0.5)
    after = Reading(total_s=1020.0, busy_s=415.0, steal_s=7.0, own_s=39.0, load_1min=1.5)
    watch = Watch(Played(before, after))
    watch.start()
    found = watch.stop()
    assert found == Conditions(others_cpu=6 / 20, steal_cpu=2 / 20, load_1min=1.5)


def test_the_highest_of_all_readings_counts() -> None:
    heat = [Reading(frequency_mhz=mhz, temperature_c=heat) for mhz, heat in ((2600, 50.0), (3100, 71.5), (2100, 70.0))]
    with Watch(Played(*heat)) as watch:
        watch.sample()
    assert (watch.conditions.frequency_mhz, watch.conditions.temperature_c) == (3100, 71.5)


def test_a_silent_system_gives_none_and_a_stray_tick_no_negative_share() -> None:
    with Watch(Played(Reading(), Reading())) as silent:
        pass
    assert silent.conditions == Conditions()
    early = Reading(total_s=0.0, busy_s=0.0, steal_s=0.0, own_s=0.0)
    with Watch(Played(early, Reading(total_s=2.0, busy_s=1.0, steal_s=0.0, own_s=1.01))) as ticks:
        pass
    assert ticks.conditions.others_cpu == 0.0
    with Watch(Played(early, early)) as instant:
        pass
    assert instant.conditions.others_cpu is None


def fake_psutil(steal: float | None = 7.0) -> types.ModuleType:
    """psutil of a machine where a hypervisor takes its part, a child runs, and one has just ended."""
    fake = types.ModuleType("psutil")

    class Gone(Exception):
        pass

    def process(user: float, children: float, *below: object) -> object:
        times = types.SimpleNamespace(user=user, system=1.0, children_user=children, children_system=0.0)
        return types.SimpleNamespace(cpu_times=lambda: times, children=lambda recursive: list(below))

    def gone() -> object:
        raise Gone

    def times() -> object:
        kinds = {"user": 100.0, "nice": 1.0, "system": 20.0, "idle": 800.0, "iowait": 60.0, "guest": 50.0}
        return _times(**kinds) if steal is None else _times_of_a_guest(**kinds, steal=steal)

    child, ended = process(4.0, 2.0), types.SimpleNamespace(cpu_times=gone)
    values: dict[str, object] = {
        "Error": Gone,
        "cpu_times": times,
        "Process": lambda: process(10.0, 3.0, child, ended),
        "cpu_freq": lambda: types.SimpleNamespace(current=0.0),
        "sensors_temperatures": lambda: {
            "nvme": [types.SimpleNamespace(current=90.0)],
            "coretemp": [types.SimpleNamespace(current=61.0), types.SimpleNamespace(current=64.5)],
        },
    }
    for name, value in values.items():
        setattr(fake, name, value)
    return fake


_times = namedtuple("_times", "user nice system idle iowait guest")
_times_of_a_guest = namedtuple("_times_of_a_guest", "user nice system idle iowait guest steal")


def test_what_is_busy_ours_stolen_and_hot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psutil", fake_psutil())
    found = SystemProbe().read()
    assert (found.total_s, found.busy_s, found.steal_s) == (988.0, 121.0, 7.0)  # guests are in user already
    assert found.own_s == (10 + 1 + 3) + (4 + 1 + 2)
    assert found.frequency_mhz is None  # 0 MHz is what some virtual machines say
    assert found.temperature_c == 64.5  # of the processor, not of the disk
    monkeypatch.setitem(sys.modules, "psutil", fake_psutil(None))
    assert (SystemProbe().read().busy_s, SystemProbe().read().steal_s) == (121.0, None)


def test_sensors_that_fail_are_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = fake_psutil()
    del fake.sensors_temperatures  # macOS and Windows have none

    def none() -> object:
        raise NotImplementedError("no file for this")

    monkeypatch.setattr(fake, "cpu_freq", none)
    monkeypatch.setitem(sys.modules, "psutil", fake)
    found = SystemProbe().read()
    assert (found.frequency_mhz, found.temperature_c) == (None, None)
    assert {"frequency_mhz", "temperature_c"} <= set(look().absent)


def test_without_psutil_the_load_alone_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psutil", None)
    assert SystemProbe().read() == replace(Reading(), load_1min=SystemProbe().read().load_1min)
    assert {"total_s", "busy_s", "own_s"} <= set(look().absent)


@pytest.mark.skipif(sys.platform == "win32", reason="burns time in a forked shell")
def test_this_machine_tells_our_own_work_from_that_of_others() -> None:
    """No share is asserted, because others may run here: only that work of ours and of our child is counted as ours."""
    pytest.importorskip("psutil")
    before = SystemProbe().read()
    code = "import time\nwhile time.process_time() < 0.3: pass"
    subprocess.run([sys.executable, "-c", code], check=True)
    ended = SystemProbe().read()
    assert before.own_s is not None
    assert ended.own_s is not None
    assert ended.own_s - before.own_s >= 0.25
    living = subprocess.Popen([sys.executable, "-c", code + "\nprint(flush=True)\ninput()"], stdin=-1, stdout=-1)
    assert living.stdout is not None
    living.stdout.readline()
    now = SystemProbe().read().own_s
    living.communicate(b"\n")
    assert now is not None
    assert now - ended.own_s >= 0.25
