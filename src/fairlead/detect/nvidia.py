"""Witness: the NVIDIA driver, through /proc and, if it is available, NVML."""

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from fairlead.catalog import Catalog, CatalogDevice
from fairlead.detect.sighting import Sighting
from fairlead.host import Host, printable
from fairlead.inventory import Evidence, Unknown
from fairlead.nvml import DRIVER_SIGNS, Gpu

GPUS: Final = "/proc/driver/nvidia/gpus"
_AGREED, _CONTRADICTED, _ALONE = 0.99, 0.8, 0.95


def is_driver_loaded(host: Host) -> bool:
    """Return whether the NVIDIA driver is loaded: NVML would load it otherwise."""
    return any(host.exists(sign) for sign in DRIVER_SIGNS)


def add_proc_evidence(host: Host, sighting: Sighting, catalog: Catalog) -> Sighting:
    """Add the product name, the device node and the UUID that /proc/driver/nvidia gives for a GPU."""
    path = f"{GPUS}/{sighting.address}/information"
    data = host.read(path, 4096) if sighting.driver == "nvidia" else None
    if not data:
        return sighting
    lines = (line.partition(":") for line in data.decode("utf-8", "replace").splitlines())
    facts = {key.strip(): printable(value.strip()) for key, _, value in lines}
    minor = facts.get("Device Minor", "")
    uuid = facts.get("GPU UUID", "")
    seen = replace(
        sighting,
        minor=int(minor) if minor.isdecimal() and len(minor) < 6 else None,
        uuid=uuid if re.fullmatch(r"GPU-[0-9a-f-]{36}", uuid) else None,
    )
    return _named(seen, facts.get("Model", ""), "proc", path, catalog)


def add_nvml_evidence(
    sightings: Iterable[Sighting], gpus: Iterable[Gpu], catalog: Catalog
) -> tuple[list[Sighting], list[Unknown]]:
    """Join NVML's GPUs with the sightings on the bus; a GPU that only NVML sees becomes a sighting."""
    left = {gpu.address: gpu for gpu in gpus}
    joined = []
    for sighting in sightings:
        gpu = left.pop(sighting.address, None) if sighting.bus == "pci" else None
        if gpu is None:
            gpu = left.pop("", None) if _integrated(sighting) else None
        joined.append(sighting if gpu is None else _with_gpu(sighting, gpu, catalog))
    unknown = []
    for gpu in left.values():
        rows = catalog.by_nvml(gpu.name)
        if rows:
            joined.append(_from_gpu(gpu, rows))
        else:
            says = f"NVML names it {printable(gpu.name)!r}, which is not in the catalog"
            unknown.append(Unknown(f"pci:{printable(gpu.address)}", "10de", "nvidia", says))
    return joined, unknown


def _with_gpu(sighting: Sighting, gpu: Gpu, catalog: Catalog) -> Sighting:
    seen = replace(sighting, gpu=gpu, uuid=gpu.uuid or sighting.uuid, driver=sighting.driver or "nvidia")
    return _named(seen, gpu.name, "nvml", f"GPU {gpu.index}", catalog)


def _named(sighting: Sighting, product: str, source: str, path: str, catalog: Catalog) -> Sighting:
    """Let a product name from the driver choose among the candidates, or contradict them."""
    if not product:
        return sighting
    seen = replace(sighting, product=printable(product))
    rows = tuple(catalog.by_nvml(product))
    agreed = tuple(row for row in rows if row in sighting.devices)
    if not rows or (not agreed and all(row.generic for row in sighting.devices)):
        better = rows or sighting.devices
        confidence = _AGREED if rows else sighting.confidence
        return seen.narrow_to(better, confidence, Evidence(source, path, f"product name {product!r}"))
    if not agreed:
        says = f"product name {product!r}, but the PCI id is {sighting.devices[0].name}: they disagree"
        return seen.narrow_to(rows, _CONTRADICTED, Evidence(source, path, says))
    confidence = _AGREED if len(agreed) == 1 else sighting.confidence
    return seen.narrow_to(agreed, confidence, Evidence(source, path, f"product name {product!r}"))


def _from_gpu(gpu: Gpu, rows: list[CatalogDevice]) -> Sighting:
    return Sighting(
        bus="pci",
        address=gpu.address,
        devices=tuple(rows),
        confidence=_ALONE,
        evidence=(
            Evidence("nvml", f"GPU {gpu.index}", f"product name {gpu.name!r}; not visible on the bus"),
        ),
        driver="nvidia",
        gpu=gpu,
        product=gpu.name,
        uuid=gpu.uuid or None,
    )


def _integrated(sighting: Sighting) -> bool:
    return sighting.bus == "platform" and any(device.vendor == "NVIDIA" for device in sighting.devices)
