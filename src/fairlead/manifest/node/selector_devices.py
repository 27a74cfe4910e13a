"""The input of device selectors: devices as ResourceSlices list them, or as our own slices would."""

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from fairlead import placement
from fairlead.annotations import MIG
from fairlead.catalog import CatalogDevice as Row
from fairlead.cluster.http.codec import encode_plain
from fairlead.manifest.types.dra import Device
from fairlead.units import Bytes

PER_DEVICE_ATTRIBUTES: Final = frozenset(
    (
        "uuid",
        "parentUUID",
        "bus",
        "busId",
        "busID",
        "pciBusID",
        "pciAddress",
        "index",
        "minor",
        "serial",
        "serialNumber",
    )
)
"""Attributes that differ from device to device. The scheduler decides by kind of device: it leaves them out,
and rejects selectors that name them."""
_NAMED: Final = re.compile(
    rf"""(?:\.\??|\[\??\s*["'])({"|".join(sorted(PER_DEVICE_ATTRIBUTES))})\b(?!\s*\()"""
)
"""Such an attribute as a field or a key; `minor` of a version is a function."""


def per_device_attribute(expression: str) -> str:
    """Return the per-device attribute that an expression names; empty where it names none."""
    match = _NAMED.search(expression)
    return match[1] if match else ""


def encode_slice_device(driver: str, device: Device, total: int = 0) -> str:
    """Return a device of a slice as JSON; `total`: its whole memory, where the slice has the free part."""
    attributes = {
        name: value
        for name, value in device.attributes.items()
        if name.rpartition("/")[2] not in PER_DEVICE_ATTRIBUTES
    }
    capacity = {name: {"value": _value(entry_value)} for name, entry_value in device.capacity.items()}
    if total and "memory" in capacity:
        capacity["memory"] = {"value": str(total)}
    entry = {
        "attributes": attributes,
        "capacity": capacity,
        "allowMultipleAllocations": device.allow_multiple_allocations,
    }
    try:
        return _text(driver, encode_plain(entry))  # cached: a cluster has many devices of few kinds
    except TypeError:  # a key that only YAML knows
        return json.dumps({"driver": driver, "device": entry}, sort_keys=True, default=str)


@lru_cache(maxsize=4096)
def _text(driver: str, entry: bytes) -> str:
    return json.dumps({"driver": driver, "device": json.loads(entry)}, sort_keys=True)


def _value(entry: Mapping[str, Any]) -> Any:
    return entry.get("value", "0")


def encode_catalog_device(row: Row | None, model: str, vendor: str, memory: Bytes) -> str:
    """Return an accelerator that no slice lists as JSON, with the catalog's figures of a whole one."""
    rates = (
        {}
        if row is None or MIG in model
        else {f"{_camel(name)}Gops": {"int": round(peak / 1e9)} for name, peak in _peak(row)}
    )
    return placement.offered_device(model, vendor, row.kind if row else "", memory, rates)


def _peak(row: Row) -> list[tuple[str, float]]:
    peaks = row.peak or next((variant.peak for variant in row.variants if variant.peak), {})
    return sorted((name, float(peak)) for name, peak in peaks.items())


def _camel(precision: str) -> str:
    first, *more = precision.split("-")
    return first + "".join(word.capitalize() for word in more)
