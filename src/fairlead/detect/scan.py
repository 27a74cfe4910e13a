"""One scan of a machine: read every witness, merge their evidence, return the inventory."""

import re
from collections.abc import Sequence
from dataclasses import replace

from fairlead.catalog import Catalog
from fairlead.detect import cpu, devicetree, mig, nvidia, pci, platform, usb
from fairlead.detect.merge import (
    describe,
    join_bus_sightings,
    make_ids_unique,
    weigh_memory,
    weigh_processor,
    weigh_text,
)
from fairlead.detect.sighting import Sighting
from fairlead.host import Host
from fairlead.inventory import Accelerator, Evidence, Inventory, Machine, State, Unknown
from fairlead.nvml import Gpu
from fairlead.units import Bytes, Ops, pluralize

TEGRA_RELEASE = "/etc/nv_tegra_release"
_MOST = 256
"""Accelerators of one machine; a root that shows more is hostile."""
_RELEASE = re.compile(r"R([0-9]+)\s+\(release\),\s+REVISION:\s*([0-9.]+)")


def detect(host: Host, catalog: Catalog, gpus: Sequence[Gpu] = ()) -> Inventory:
    """Return every accelerator of a machine; `gpus` are NVML's, if NVML was read."""
    processor = cpu.read(host)
    total = cpu.memory(host)
    tree = devicetree.read(host, catalog)
    sightings, unknown = _sightings(host, catalog, tree, gpus)
    if len(sightings) > _MOST:
        host.add_problem(pci.DEVICES, f"more than {_MOST} accelerators: the rest is left out")
        sightings = sightings[:_MOST]
    if tree is not None:
        rivals = [device for device in catalog.devices.values() if device.match.soc]
        sightings = [weigh_text(seen, tree.model, tree.root, rivals) for seen in sightings]
    sightings = [weigh_processor(seen, processor) for seen in sightings]
    accelerators = [
        acc for seen in sightings for acc in _accelerators(host, weigh_memory(seen, total), total)
    ]
    if processor is not None and (own := _processor(catalog, processor, total)):
        accelerators.append(own)
    machine = Machine(
        arch=processor.arch if processor else None,
        board=tree.model if tree else None,
        compatible=tree.compatible if tree else (),
        cpus=processor.threads if processor else 0,
        memory=total,
        release=_release(host),
        problems=host.problems,
    )
    return Inventory(machine, tuple(make_ids_unique(accelerators)), tuple(unknown))


def _accelerators(host: Host, sighting: Sighting, total: Bytes | None) -> list[Accelerator]:
    """Return the accelerator that a sighting describes, and the MIG instances of a GPU that is split."""
    return mig.split(host, sighting, describe(host, sighting, total))


def _sightings(
    host: Host, catalog: Catalog, tree: devicetree.DeviceTree | None, gpus: Sequence[Gpu]
) -> tuple[list[Sighting], list[Unknown]]:
    on_tree, unknown_nodes = devicetree.find_sightings(tree, catalog) if tree else ([], [])
    on_pci, unknown_pci = pci.find_sightings(host, catalog)
    on_usb, unknown_usb = usb.find_sightings(host, catalog)
    on_pci = [nvidia.add_proc_evidence(host, seen, catalog) for seen in on_pci]
    sightings = join_bus_sightings([*platform.add_drivers(host, on_tree), *on_pci, *on_usb])
    sightings, unknown_gpus = nvidia.add_nvml_evidence(sightings, gpus, catalog)
    known = {seen.address for seen in sightings if seen.bus == "pci"}
    unknown_pci = [device for device in unknown_pci if device.bus.removeprefix("pci:") not in known]
    named = {device.bus: device.reason for device in unknown_gpus}
    unknown_pci = [replace(device, reason=named.pop(device.bus, device.reason)) for device in unknown_pci]
    unknown_gpus = [device for device in unknown_gpus if device.bus in named]
    return sightings, [*unknown_nodes, *unknown_pci, *unknown_usb, *unknown_gpus]


def _processor(catalog: Catalog, processor: cpu.Processor, total: Bytes | None) -> Accelerator | None:
    row = catalog.by_cpu(processor.arch, processor.flags) if processor.arch else None
    if row is None:
        return None
    clock = processor.core_hertz or 0.0
    peak = {precision: Ops(rate * clock) for precision, rate in row.per_core_cycle.items() if clock}
    wanted = ", ".join(sorted(row.match.cpu.flags)) if row.match.cpu else ""
    says = f"{pluralize(processor.cores, 'core')}, {processor.arch}{' with ' + wanted if wanted else ''}"
    return Accelerator(
        id="cpu-0",
        model=row.id,
        name=processor.name or row.name,
        vendor=row.vendor or processor.vendor,
        kind="cpu",
        state=State.HEALTHY,
        reason="",
        confidence=0.99,
        candidates=(row.id,),
        bus="cpu:0",
        memory=total,
        unified_memory=True,
        peak=peak,
        effective=peak,
        shareable=True,
        evidence=(Evidence("proc", cpu.CPUINFO, says),),
    )


def _release(host: Host) -> str | None:
    match = _RELEASE.search(host.text(TEGRA_RELEASE) or "")
    return f"R{match[1]}.{match[2]}" if match else None
