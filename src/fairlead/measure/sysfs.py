"""The kernel's common interfaces: hwmon, thermal zones, devfreq clocks, class entries, /proc/meminfo."""

import re
from collections.abc import Iterator
from typing import Final

from fairlead.measure.view import ReaderView
from fairlead.telemetry import Metric, Sample

THERMAL: Final = "/sys/class/thermal"
MEMINFO: Final = "/proc/meminfo"
_OFFLINE: Final = -200_000
"""Millidegrees below which a sensor is switched off: Tegra's sensors then read -256 degrees."""
_DEVFREQ: Final = (
    ("cur_freq", Metric.CLOCK, 1.0),
    ("min_freq", Metric.CLOCK_MIN, 1.0),
    ("max_freq", Metric.CLOCK_MAX, 1.0),
)
_CLOCKS: Final = {"sclk": "core", "mclk": "memory"}
"""amdgpu's names of its clocks; a chip with one clock need not name it."""
_POWER: Final = (("power1_average", Metric.POWER, 1e-6), ("power1_input", Metric.POWER, 1e-6))
_ENERGY: Final = (("energy1_input", Metric.ENERGY, 1e-6),)


def is_suspended(view: ReaderView) -> bool:
    """Return whether the device is suspended: reading its sensors would wake it up."""
    return view.host.text(f"{view.acc.path}/power/runtime_status") == "suspended"


def hwmon(view: ReaderView) -> Iterator[Sample]:
    """Read the monitoring chips that a driver registers below its device."""
    base = f"{view.acc.path}/hwmon"
    chips = view.host.names(base) if view.acc.path else []
    for name in chips if chips and not is_suspended(view) else []:
        yield from _chip(view, f"{base}/{name}")


def _chip(view: ReaderView, folder: str) -> Iterator[Sample]:
    """Read one chip: all temperatures and clocks, and the first power and energy: the whole device's."""
    names = view.host.names(folder)
    for name in names:
        match = re.fullmatch(r"(temp|freq)[0-9]{1,3}_input", name)
        if match is None:
            continue
        value = view.host.number(f"{folder}/{name}")
        label = view.host.text(f"{folder}/{name.replace('_input', '_label')}")
        if match[1] == "temp":
            yield from view.sample(Metric.TEMPERATURE, degrees(value), label or name.partition("_")[0])
        else:
            yield from view.sample(Metric.CLOCK, value, _CLOCKS.get(label or "sclk", label or ""))
    power = [row for row in _POWER if row[0] in names]
    energy = [row for row in _ENERGY if row[0] in names]
    yield from view.files(folder, (*power[:1], *energy))


def zones(view: ReaderView, prefix: str) -> Iterator[Sample]:
    """Read the thermal zones whose type has a prefix; their numbers are not stable, their types are."""
    for name in view.host.names(THERMAL):
        if not name.startswith("thermal_zone"):
            continue
        kind = view.host.text(f"{THERMAL}/{name}/type") or ""
        if kind.lower().startswith(prefix):
            heat = view.host.number(f"{THERMAL}/{name}/temp")
            yield from view.sample(Metric.TEMPERATURE, degrees(heat), kind)


def degrees(millidegrees: int | None) -> float | None:
    """Return a temperature in degrees; None for a sensor that is switched off."""
    return None if millidegrees is None or millidegrees <= _OFFLINE else millidegrees / 1000


def devfreq(view: ReaderView, folder: str) -> Iterator[Sample]:
    """Read the clock of a devfreq device and its bounds."""
    yield from view.files(folder, _DEVFREQ, "core")


def devfreq_folders(view: ReaderView) -> list[str]:
    """Return the devfreq folders below the device itself."""
    base = f"{view.acc.path}/devfreq"
    return [f"{base}/{name}" for name in view.host.names(base)] if view.acc.path else []


def class_folders(view: ReaderView, kind: str) -> list[str]:
    """Return the entries of a class that belong to the device: below it, else linked to it."""
    below = f"{view.acc.path}/{kind}"
    if not view.acc.path:
        return []
    if names := view.host.names(below):
        return [f"{below}/{name}" for name in names]
    own = view.host.resolve(view.acc.path)
    entries = [f"/sys/class/{kind}/{name}" for name in view.host.names(f"/sys/class/{kind}")]
    return [entry for entry in entries if own and view.host.resolve(f"{entry}/device") == own]


def memory(view: ReaderView) -> Iterator[Sample]:
    """Read the host's RAM, which an accelerator with unified memory shares."""
    fields = dict(re.findall(rb"(?m)^(MemTotal|MemAvailable):\s+([0-9]{1,15}) kB", _meminfo(view)))
    if len(fields) < 2:
        return
    total, free = int(fields[b"MemTotal"]) * 1024, int(fields[b"MemAvailable"]) * 1024
    yield from view.sample(Metric.MEMORY_TOTAL, total)
    yield from view.sample(Metric.MEMORY_FREE, free)
    yield from view.sample(Metric.MEMORY_USED, max(0, total - free))


def _meminfo(view: ReaderView) -> bytes:
    return view.host.read(MEMINFO, 4096) or b""
