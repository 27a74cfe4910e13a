"""Reader: the GPU of a Jetson, a part of the SoC whose load, clock, rails and zones are spread over sysfs."""

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Final

from fairlead.measure.sysfs import devfreq, devfreq_folders, memory, zones
from fairlead.measure.view import ReaderView
from fairlead.telemetry import Metric, Sample

DEVFREQ: Final = "/sys/class/devfreq"
_NODES: Final = frozenset({"gpu", "gp10b", "gv11b", "ga10b", "gb10b"})
"""The GPU's names in the device tree, from TX2 to Thor."""
_THOR: Final = "gpu-gpc-*"
"""Thor's graphics clock, which has no device-tree node of its own."""
_ALIASES: Final = ("/sys/devices/gpu.0", "/sys/devices/platform/gpu.0")
_HWMON_CHIPS: Final = "/sys/bus/i2c/drivers/ina3221"
_IIO_CHIPS: Final = "/sys/bus/i2c/drivers/ina3221x"


def read(view: ReaderView) -> Iterator[Sample]:
    """Read the GPU's load, clock, rails and temperature, and the shared RAM."""
    folders = devfreq_folders(view) or _by_class(view)
    yield from view.sample(Metric.BUSY, _load(view, folders))
    for folder in folders[:1]:
        yield from devfreq(view, folder)
    rails = list(_rails(view))
    yield from rails
    feeding = [rail.value for rail in rails if "GPU" in _words(rail.detail)]
    if feeding:
        yield from view.sample(Metric.POWER, sum(feeding))
    yield from zones(view, "gpu")
    yield from memory(view)


def _by_class(view: ReaderView) -> list[str]:
    """Find the GPU among all devfreq devices by the name of its device-tree node."""
    names = view.host.names(DEVFREQ)
    gpus = [
        name for name in names if set(view.host.strings(f"{DEVFREQ}/{name}/device/of_node/name")) & _NODES
    ]
    return [f"{DEVFREQ}/{name}" for name in [*gpus, *(n for n in names if fnmatchcase(n, _THOR))]]


def _load(view: ReaderView, folders: list[str]) -> float | None:
    """Return the load, which nvgpu gives in thousandths below the device."""
    own = [view.acc.path] if view.acc.path else []
    for base in (*own, *(f"{folder}/device" for folder in folders), *_ALIASES):
        load = view.host.number(f"{base}/load")
        if load is not None:
            return load / 1000
    return None


def _rails(view: ReaderView) -> Iterator[Sample]:
    for chip in view.host.names(_HWMON_CHIPS):
        base = f"{_HWMON_CHIPS}/{chip}/hwmon"
        for name in view.host.names(base):
            yield from _hwmon_rails(view, f"{base}/{name}")
    for chip in view.host.names(_IIO_CHIPS):
        for name in view.host.names(f"{_IIO_CHIPS}/{chip}"):
            if name.startswith("iio"):
                yield from _iio_rails(view, f"{_IIO_CHIPS}/{chip}/{name}")


def _hwmon_rails(view: ReaderView, folder: str) -> Iterator[Sample]:
    """Read a chip as JetPack 5 and later show it: millivolts and milliamperes."""
    for name in view.host.names(folder):
        match = re.fullmatch(r"in([0-9]{1,2})_label", name)
        rail = view.host.text(f"{folder}/{name}") if match else None
        if match is None or not _is_rail(rail):
            continue
        volts = view.host.number(f"{folder}/in{match[1]}_input")
        amperes = view.host.number(f"{folder}/curr{match[1]}_input")
        if volts is not None and amperes is not None:
            yield from view.sample(Metric.RAIL_POWER, volts * amperes / 1e6, rail or "")


def _iio_rails(view: ReaderView, folder: str) -> Iterator[Sample]:
    """Read a chip as JetPack 4 shows it: milliwatts."""
    for name in view.host.names(folder):
        match = re.fullmatch(r"rail_name_([0-9]{1,2})", name)
        rail = view.host.text(f"{folder}/{name}") if match else None
        if match and _is_rail(rail):
            row = (f"in_power{match[1]}_input", Metric.RAIL_POWER, 1e-3)
            yield from view.files(folder, (row,), rail or "")


def _is_rail(name: str | None) -> bool:
    """Return whether a channel is a rail: it is connected, and not the sum of the others."""
    return bool(name) and "NC" not in _words(name or "") and "SHUNT" not in _words(name or "")


def _words(name: str) -> list[str]:
    return re.findall(r"[A-Z0-9]+", name.upper())
