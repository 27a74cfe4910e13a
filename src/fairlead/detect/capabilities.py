"""The figures of one sighting: the SKU, its memory, its peak, and the effective peak under cap and link."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from fairlead.catalog import CatalogDevice
from fairlead.catalog.device import Variant
from fairlead.detect.sighting import Sighting
from fairlead.host import Host
from fairlead.inventory import Evidence
from fairlead.units import Bytes, Hertz, Ops, Watts, format_bitrate

NVPMODEL_STATUS: Final = "/var/lib/nvpmodel/status"
NVPMODEL_CONF: Final = "/etc/nvpmodel.conf"
_LEAST_REPORTED: Final = 0.78
"""The least share of a board's nominal memory that the kernel still reports as MemTotal."""

_ROUNDED: Final = 0.99
"""Data sheets round clocks: 624.75 MHz is printed as 625, and is no cap."""


@dataclass(frozen=True, slots=True)
class DeviceCapabilities:
    """What a device can do on this machine."""

    variant: Variant | None
    memory: Bytes | None
    peak: Mapping[str, Ops]
    effective: Mapping[str, Ops]
    power: Watts | None
    evidence: tuple[Evidence, ...]


def fits_memory(nominal: Bytes, total: Bytes) -> bool:
    """Return whether a board of `nominal` memory would report `total`."""
    return nominal * _LEAST_REPORTED <= total <= nominal * 1.01


def could_have(device: CatalogDevice, total: Bytes) -> bool:
    """Return whether some SKU of a device would report this much memory; one of unknown size would."""
    sizes = [size for size in (device.memory, *(variant.memory for variant in device.variants)) if size]
    return not sizes or any(fits_memory(size, total) for size in sizes)


def pick_variant(
    device: CatalogDevice, sighting: Sighting, total: Bytes | None
) -> tuple[Variant | None, tuple[Evidence, ...]]:
    """Return the SKU that the evidence names best; memory distinguishes SKUs of one name, as evidence."""
    ranks = {variant.name: _rank(variant, sighting) for variant in device.variants}
    best = max(ranks.values(), default=0)
    named = [variant for variant in device.variants if best and ranks[variant.name] == best]
    if len(named) == 1:
        return named[0], ()
    known = sighting.gpu.memory if sighting.gpu else total if device.unified else None
    # Memory alone never selects a SKU of unknown memory, nor a power mode of one.
    options = named or [variant for variant in device.variants if not variant.mode]
    fits = [v for v in options if known and v.memory and fits_memory(v.memory, known)]
    if len(fits) != 1 or known is None:
        return None, ()
    source, path = ("nvml", "memory") if sighting.gpu else ("proc", "/proc/meminfo")
    return fits[0], (Evidence(source, path, f"{known >> 20} MiB of memory make it {fits[0].name}"),)


def _rank(variant: Variant, sighting: Sighting) -> int:
    """Return how strongly the evidence names a SKU; 0 if it does not."""
    if set(variant.board) & set(sighting.boards):
        return 8
    if set(variant.module) & set(sighting.modules):
        return 7
    if sighting.product and sighting.product in variant.nvml:
        return 6
    pci = sighting.pci
    return 0 if pci is None else max((1 + key.rank for key in variant.pci if pci.fits(key)), default=0)


def measure(host: Host, sighting: Sighting, total: Bytes | None) -> DeviceCapabilities:
    """Return the figures of a sighting; if candidates differ, the least of them."""
    rows = (sighting.device,) if sighting.device else sighting.devices
    candidates = [_of(device, host, sighting, total) for device in rows]
    figures = candidates[0] if len(candidates) == 1 else _least(candidates)
    if sighting.gpu and sighting.gpu.memory:
        return replace(figures, memory=sighting.gpu.memory)
    if rows[0].unified:
        return replace(figures, memory=total or figures.memory)
    return replace(figures, memory=_vram(host, sighting) or figures.memory)


def _of(device: CatalogDevice, host: Host, sighting: Sighting, total: Bytes | None) -> DeviceCapabilities:
    """Return one candidate's figures."""
    variant, evidence = pick_variant(device, sighting, total)
    peak = dict(variant.peak if variant and variant.peak else device.peak)
    clock = variant.clock if variant and variant.clock else device.clock
    watts = variant.power if variant and variant.power else device.power
    cap, mode_watts, more = _caps(host, sighting, clock)
    link = _link_share(device, sighting)
    if link < 1 and sighting.link:
        rate = format_bitrate(sighting.link.rate)
        says = f"the link gives {rate}: {link:.0%} of what the peak of {device.name} needs"
        more = (*more, Evidence(sighting.bus, sighting.path, says))
    if sighting.gpu and sighting.gpu.power_limit:
        watts = sighting.gpu.power_limit
    return DeviceCapabilities(
        variant=variant,
        memory=variant.memory if variant and variant.memory else device.memory,
        peak=peak,
        effective={precision: Ops(rate * min(cap, link)) for precision, rate in peak.items()},
        power=mode_watts or watts,
        evidence=(*evidence, *more),
    )


def _least(candidates: list[DeviceCapabilities]) -> DeviceCapabilities:
    """Return figures valid for every candidate: the least rates, the most power, the memory if all agree."""
    memories = {item.memory for item in candidates}
    return DeviceCapabilities(
        variant=None,
        memory=memories.pop() if len(memories) == 1 else None,
        peak=_least_rates([item.peak for item in candidates]),
        effective=_least_rates([item.effective for item in candidates]),
        power=max((item.power for item in candidates if item.power), default=None),
        evidence=tuple(dict.fromkeys(says for item in candidates for says in item.evidence)),
    )


def _least_rates(tables: list[Mapping[str, Ops]]) -> dict[str, Ops]:
    shared = set.intersection(*(set(table) for table in tables))
    return {key: min(table[key] for table in tables) for key in tables[0] if key in shared}


def _link_share(device: CatalogDevice, sighting: Sighting) -> float:
    if device.link is None or sighting.link is None:
        return 1.0
    return min(1.0, sighting.link.rate / device.link.full)


def _caps(
    host: Host, sighting: Sighting, clock: Hertz | None
) -> tuple[float, Watts | None, tuple[Evidence, ...]]:
    """Return the share of the clock under the cap, the power mode's watts, and the evidence for both."""
    mode = _power_mode(host) if _is_jetson(sighting) else None
    watts = mode[1] if mode else None
    evidence = [Evidence("proc", NVPMODEL_STATUS, f"power mode {mode[0]}")] if mode else []
    top, where = _devfreq_cap(host, sighting)
    if top is None and mode and mode[2]:
        top, where = mode[2], NVPMODEL_CONF
    if top is None or clock is None or top >= clock * _ROUNDED:
        return 1.0, watts, tuple(evidence)
    says = f"clock capped at {top / 1e6:.0f} of {clock / 1e6:.0f} MHz"
    return top / clock, watts, (*evidence, Evidence("class", where, says))


def _is_jetson(sighting: Sighting) -> bool:
    return bool(sighting.boards) and any(device.vendor == "NVIDIA" for device in sighting.devices)


def _devfreq_cap(host: Host, sighting: Sighting) -> tuple[Hertz | None, str]:
    for name in host.names(f"{sighting.path}/devfreq") if sighting.path else []:
        path = f"{sighting.path}/devfreq/{name}/max_freq"
        top = host.number(path)
        if top and top > 0:
            return Hertz(top), path
    return None, ""


def _power_mode(host: Host) -> tuple[str, Watts | None, Hertz | None] | None:
    """Return the name, watts and GPU clock cap of the Jetson's active power mode."""
    status = re.match(r"pmode:([0-9]{1,4})", host.text(NVPMODEL_STATUS) or "")
    data = host.read(NVPMODEL_CONF)
    if status is None or not data:
        return None
    sections = re.split(r"<\s*POWER_MODEL\s+", data.decode("utf-8", "replace"))
    for section in sections[1:]:
        head = re.match(r"ID=([0-9]{1,9})\s+NAME=([\w.-]{1,64})\s*>", section)
        if head and int(head[1]) == int(status[1]):
            watts = re.search(r"([0-9]{1,4}(?:\.[0-9]{1,3})?)W", head[2])
            clock = re.search(r"^GPU MAX_FREQ ([0-9]{4,13})\s*$", section, re.MULTILINE)
            return (
                head[2],
                Watts(float(watts[1])) if watts else None,
                Hertz(float(clock[1])) if clock else None,
            )
    return None


def _vram(host: Host, sighting: Sighting) -> Bytes | None:
    """Return the memory that amdgpu reports."""
    amount = host.number(f"{sighting.path}/mem_info_vram_total") if sighting.path else None
    return Bytes(amount) if amount and amount > 0 else None
