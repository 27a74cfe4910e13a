"""Find faults that the schema cannot: overlapping keys, dangling names, figures without a status."""

from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import Final

from fairlead.catalog.device import CatalogDevice, PciKey
from fairlead.catalog.index import Catalog
from fairlead.catalog.parse import RATES

FIGURES: Final = (
    "peak",
    "memory",
    "bandwidth",
    "power",
    "clock",
    "link",
    *(f"peak.{rate}" for rate in RATES),
)


def lint(catalog: Catalog) -> list[str]:
    """Return a sentence for every fault; an empty list means a valid catalog."""
    devices = list(catalog.devices.values())
    return [
        *_names(devices),
        *_references(catalog),
        *_unmatchable(devices),
        *_figures(devices),
        *_overlaps(devices),
        *_range_overlaps(devices),
    ]


def _names(devices: list[CatalogDevice]) -> Iterator[str]:
    owners: dict[str, str] = {}
    for device in devices:
        for name in (device.id, *device.aliases):
            if owners.setdefault(name, device.id) != device.id:
                yield f"{device.id}: the name {name!r} already belongs to {owners[name]}"


def _references(catalog: Catalog) -> Iterator[str]:
    for device in catalog.devices.values():
        for other in device.match.shares:
            sibling = catalog.devices.get(other)
            if sibling is None:
                yield f"{device.id}: shares names {other!r}, which is not in the catalog"
            elif device.id not in sibling.match.shares:
                yield f"{device.id}: shares {other}, but {other} does not share {device.id}"


def _unmatchable(devices: list[CatalogDevice]) -> Iterator[str]:
    for device in devices:
        match = device.match
        keys = (match.pci, match.usb, match.module, match.board, match.soc, match.node, match.nvml)
        if not any(keys) and match.cpu is None:
            yield f"{device.id}: has no match key, so nothing can ever be this device"
        if match.needs_node and not match.node:
            yield f"{device.id}: needs a node, but names none"
        if device.kind != "cpu" and not device.drivers:
            yield f"{device.id}: names no driver, so it can never be more than present"


def _figures(devices: list[CatalogDevice]) -> Iterator[str]:
    for device in devices:
        for figure in device.unverified:
            if figure not in FIGURES:
                yield f"{device.id}: unverified names {figure!r}, which is not a figure"
        peak = device.peak or any(variant.peak for variant in device.variants)
        if not (peak or device.generic or device.kind == "cpu" or "peak" in device.unverified):
            yield f"{device.id}: has no peak and does not say so in unverified"


def _overlaps(devices: list[CatalogDevice]) -> Iterator[str]:
    owners: dict[str, list[CatalogDevice]] = {}
    for device in devices:
        for key in dict.fromkeys(_keys(device)):
            owners.setdefault(key, []).append(device)
    for key, group in owners.items():
        for one, other in combinations(group, 2):
            if other.id not in one.match.shares:
                yield f"{one.id} and {other.id} both claim {key}: declare shares on both, or narrow one"


def _range_overlaps(devices: list[CatalogDevice]) -> Iterator[str]:
    ranges = [(key, device) for device in devices for key in device.match.pci if not key.exact]
    for key, device in ranges:
        if not device.generic:
            yield f"{device.id}: only a generic row may claim the range {key}"
    for (one, first), (other, second) in combinations(ranges, 2):
        if first.id != second.id and _overlap(one, other):
            yield f"{first.id} and {second.id} claim overlapping ranges {one} and {other}"


def _overlap(one: PciKey, other: PciKey) -> bool:
    return one.vendor == other.vendor and one.first <= other.last and other.first <= one.last


def _keys(device: CatalogDevice) -> Iterable[str]:
    match = device.match
    yield from (
        f"PCI {key}" for key in (*match.pci, *(k for v in device.variants for k in v.pci)) if key.exact
    )
    yield from (f"USB {key}" for key in match.usb)
    yield from (f"module {key}" for key in (*match.module, *(m for v in device.variants for m in v.module)))
    yield from (f"board {key}" for key in match.board)
    yield from (f"SoC {key}" for key in match.soc)
    yield from (f"node {key}" for key in match.node)
    yield from (f"NVML name {key!r}" for key in match.nvml)
    yield from (f"CPU {key}" for key in (match.cpu,) if key is not None)
