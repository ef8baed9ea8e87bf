"""What a figure was measured on, and what else the machine was doing meanwhile: both belong beside every figure."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from types import TracebackType
from typing import Any, Protocol

from surefoot.engine import hardware
from surefoot.engine.hardware import Hardware
from surefoot.lab.records import Conditions

CPU_SENSORS = ("coretemp", "k10temp", "zenpower", "cpu_thermal", "cpu-thermal", "soc_thermal")
"""Source: the names that Linux drivers give to the sensors of a processor (Documentation/hwmon); others belong to
disks, batteries and boards."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The processor, the system and the versions. `cores` are those that this process may use.

    virtual: whether a hypervisor runs below the system. governor: what decides the clock rate. None where the system
    does not tell; absent: the names of what it does not tell, readings of `Watch` among them.
    """

    cpu: str
    cores: int
    os: str
    python: str
    numpy: str
    packages: dict[str, str | None]
    memory_bytes: int | None
    virtual: bool | None
    governor: str | None
    absent: list[str]


def look(packages: Sequence[str] = ()) -> Machine:
    """This machine, and the versions of the named packages; None for one that is not installed."""
    here = hardware.look()
    told: dict[str, Any] = {"memory_bytes": here.memory_bytes, "virtual": here.virtual, "governor": _governor()}
    readings = asdict(SystemProbe().read())
    return Machine(
        cpu=here.cpu,
        cores=here.cores,
        os=platform.platform(),
        python=platform.python_version(),
        numpy=metadata.version("numpy"),
        packages={name: _version(name) for name in packages},
        **told,
        absent=sorted(name for name, value in {**told, **readings}.items() if value is None),
    )


def describe(packages: Sequence[str] = ()) -> dict[str, Any]:
    """The same as a plain dictionary, for a record, with its `fingerprint`."""
    machine = look(packages)
    return {**asdict(machine), "fingerprint": fingerprint(machine)}


def fingerprint(machine: Machine) -> str:
    """As `hardware.fingerprint`. Versions are no part of it: they change on one machine, and a record names them."""
    return hardware.fingerprint(Hardware(machine.cpu, machine.cores, machine.memory_bytes, machine.virtual))


@dataclass(frozen=True, slots=True)
class Reading:
    """The machine at one moment. None where the system does not tell, or psutil is not installed.

    Units: seconds of processor time since the system started, over all cores. total_s: idle time included; busy_s:
    neither idle nor stolen; steal_s: taken by the hypervisor; own_s: of this process and all that it started.
    """

    total_s: float | None = None
    busy_s: float | None = None
    steal_s: float | None = None
    own_s: float | None = None
    load_1min: float | None = None
    frequency_mhz: float | None = None
    temperature_c: float | None = None


class Probe(Protocol):
    """Reads a machine."""

    def read(self) -> Reading:
        """The machine now."""
        ...


class SystemProbe:
    """This machine, as psutil tells it."""

    def read(self) -> Reading:
        """The machine now."""
        load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
        try:
            import psutil
        except ImportError:
            return Reading(load_1min=load)
        times = psutil.cpu_times()._asdict()
        # Linux counts the time of guests in user and nice, too.
        parts = {name: value for name, value in times.items() if name not in ("guest", "guest_nice")}
        idle = parts.get("idle", 0.0) + parts.get("iowait", 0.0)
        steal = parts.get("steal")
        total = sum(parts.values())
        return Reading(
            total_s=total,
            busy_s=total - idle - (steal or 0.0),
            steal_s=steal,
            own_s=_own_s(psutil),
            load_1min=load,
            frequency_mhz=_frequency_mhz(psutil),
            temperature_c=_temperature_c(psutil),
        )


class Watch:
    """The machine's conditions while something runs; keeps the readings between its start and its end.

    It reads at the start, at the end and when `sample` is called: a thread that looks in between would itself be the
    load that it looks for.
    """

    def __init__(self, probe: Probe | None = None) -> None:
        self._probe = probe or SystemProbe()
        self._readings: list[Reading] = []

    def start(self) -> None:
        """Nothing; a new interval begins."""
        self._readings = [self._probe.read()]

    def sample(self) -> None:
        """Nothing; frequency and temperature are looked at once more."""
        self._readings.append(self._probe.read())

    def stop(self) -> Conditions:
        """The conditions since `start`."""
        self.sample()
        return self.conditions

    @property
    def conditions(self) -> Conditions:
        """From the first to the last reading."""
        first, last = self._readings[0], self._readings[-1]
        total, busy = _since(first.total_s, last.total_s), _since(first.busy_s, last.busy_s)
        own, steal = _since(first.own_s, last.own_s), _since(first.steal_s, last.steal_s)
        return Conditions(
            others_cpu=None if busy is None or own is None else _share(busy - own, total),
            steal_cpu=_share(steal, total),
            load_1min=last.load_1min,
            frequency_mhz=_highest([reading.frequency_mhz for reading in self._readings]),
            temperature_c=_highest([reading.temperature_c for reading in self._readings]),
        )

    def __enter__(self) -> Watch:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.sample()


def _since(first: float | None, last: float | None) -> float | None:
    return None if first is None or last is None else last - first


def _share(part: float | None, total: float | None) -> float | None:
    """Of all cores' time, within 0 and 1: a tick that is counted to one side of the interval can carry it outside."""
    if part is None or total is None or total <= 0:
        return None
    return min(max(part / total, 0.0), 1.0)


def _highest(values: Sequence[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _own_s(psutil: Any) -> float | None:
    """Processor time of this process, of its children that ended, and of all below it that live."""
    me = psutil.Process()
    spent = 0.0
    try:
        family = [me, *me.children(recursive=True)]
    except psutil.Error:
        return None
    for process in family:
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue  # it ended meanwhile, and its parent has its time
        spent += times.user + times.system
        spent += getattr(times, "children_user", 0.0) + getattr(times, "children_system", 0.0)
    return spent


def _frequency_mhz(psutil: Any) -> float | None:
    """What psutil says, where it says anything: many virtual machines, and some systems, raise or give 0."""
    try:
        told = psutil.cpu_freq()
    except (AttributeError, NotImplementedError, OSError, RuntimeError):
        return None
    return float(told.current) if told and told.current else None


def _temperature_c(psutil: Any) -> float | None:
    try:
        sensors = psutil.sensors_temperatures()
    except (AttributeError, OSError):
        return None
    return _highest([entry.current for name in CPU_SENSORS for entry in sensors.get(name, ())])


def _governor() -> str | None:
    return hardware.read_text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").strip() or None


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
