"""From sightings to accelerators: one physical device each, with the best name the evidence allows."""

import re
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import count

from fairlead.catalog import CatalogDevice
from fairlead.detect.capabilities import could_have, measure
from fairlead.detect.cpu import CPUINFO, Processor
from fairlead.detect.sighting import Sighting
from fairlead.detect.state import StateAssessment, assess_state
from fairlead.host import Host
from fairlead.inventory import Accelerator, Engine, Evidence, State
from fairlead.units import Bytes

_DISAGREEMENT = 0.15
_BY_PROCESSOR = 0.95


def join_bus_sightings(sightings: list[Sighting]) -> list[Sighting]:
    """Join a SoC's device with its sighting on a bus (the Coral Dev Board's TPU, Thor's GPU)."""
    joined = list(sightings)
    for tree in [seen for seen in sightings if seen.bus == "platform"]:
        on_bus = next((seen for seen in joined if seen.bus != "platform" and _is_same(tree, seen)), None)
        if on_bus is not None:
            joined.remove(on_bus)
            joined[joined.index(tree)] = replace(
                on_bus,
                devices=tree.devices,
                confidence=max(tree.confidence, 0.98) if len(tree.devices) == 1 else tree.confidence,
                evidence=(*tree.evidence, *on_bus.evidence),
                modules=tree.modules,
                boards=tree.boards,
            )
    return joined


def _is_same(tree: Sighting, seen: Sighting) -> bool:
    """Return whether a bus shows the device that the tree names: the same row, or one with its match keys."""
    inside = {name for device in tree.devices for name in (device.id, *device.match.shares)}
    return any(device.id in inside for device in seen.devices)


def weigh_memory(sighting: Sighting, total: Bytes | None) -> Sighting:
    """Exclude candidates none of whose SKUs has the machine's amount of memory."""
    if total is None or len(sighting.devices) < 2 or not all(device.unified for device in sighting.devices):
        return sighting
    kept = tuple(device for device in sighting.devices if could_have(device, total))
    if not kept or len(kept) == len(sighting.devices):
        return sighting
    says = Evidence("proc", "/proc/meminfo", f"{total >> 20} MiB of memory rules out other candidates")
    confidence = 0.9 if len(kept) == 1 and not kept[0].generic else sighting.confidence
    return sighting.narrow_to(kept, confidence, says)


def weigh_processor(sighting: Sighting, processor: Processor | None) -> Sighting:
    """Decide between devices of several processors that share an id, if the processor's name allows it."""
    if processor is None or len(sighting.devices) < 2:
        return sighting
    marks = [mark for mark in (processor.name, processor.signature) if mark]
    kept = tuple(device for device in sighting.devices if _is_inside(device, marks))
    if len(kept) != 1:
        return sighting
    says = Evidence("proc", CPUINFO, f"the processor {marks[0]} contains {kept[0].name}")
    return sighting.narrow_to(kept, _BY_PROCESSOR, says)


def _is_inside(device: CatalogDevice, marks: list[str]) -> bool:
    return any(fnmatchcase(mark, glob) for mark in marks for glob in device.match.processor)


def weigh_text(sighting: Sighting, board: str | None, root: str, rivals: list[CatalogDevice]) -> Sighting:
    """Weigh the board's own name: it orders candidates and can disagree, but never decides."""
    if not board or sighting.bus != "platform":
        return sighting
    claimed = _mentioned(board, rivals)
    if not claimed:
        return sighting
    ids = {device.id for device in claimed}
    ours = [device for device in sighting.devices if device.id in ids]
    if ours and len(sighting.devices) > 1:
        rest = [device for device in sighting.devices if device.id not in ids]
        return replace(sighting, devices=(*ours, *rest)).with_evidence(
            Evidence("dt", f"{root}/model", f"the board calls itself {board!r}")
        )
    if ours or any(device.generic for device in sighting.devices):
        return sighting
    says = f"the board calls itself {board!r}, which would be {claimed[0].name}: they disagree"
    return replace(sighting, confidence=sighting.confidence - _DISAGREEMENT).with_evidence(
        Evidence("dt", f"{root}/model", says)
    )


def _mentioned(board: str, rivals: list[CatalogDevice]) -> list[CatalogDevice]:
    """Return the rivals whose whole name the text contains, the longest names only."""
    words = set(_words(board))
    hits = [(len(name), device) for device in rivals if (name := _words(device.name)) and set(name) <= words]
    longest = max((length for length, _ in hits), default=0)
    return [device for length, device in hits if length == longest]


def _words(text: str) -> list[str]:
    noise = {"nvidia", "jetson", "developer", "development", "kit", "module", "series"}
    return [word for word in re.findall(r"[a-z]+[0-9]*|[0-9]+", text.lower()) if word not in noise]


def describe(host: Host, sighting: Sighting, total: Bytes | None) -> Accelerator:
    """Return the accelerator that a sighting describes."""
    assessment = assess_state(host, sighting)
    figures = measure(host, sighting, total)
    device = sighting.device
    first = sighting.devices[0]
    if figures.variant:
        name = figures.variant.name
    elif device is not None and device.generic and sighting.product:
        name = sighting.product
    else:
        name = device.name if device else " or ".join(item.name for item in sighting.devices)
    return Accelerator(
        id=_identity(sighting),
        model=device.id if device else None,
        name=name,
        vendor=first.vendor,
        kind=first.kind,
        state=assessment.state,
        reason=assessment.reason,
        confidence=max(0.05, min(0.99, sighting.confidence)),
        candidates=tuple(item.id for item in sighting.devices),
        bus=f"{sighting.bus}:{sighting.address}",
        memory=figures.memory,
        unified_memory=first.unified,
        peak=figures.peak,
        effective=figures.effective,
        power=figures.power,
        driver=assessment.driver,
        driver_version=_driver_version(host, sighting, assessment),
        product=sighting.product,
        uuid=sighting.uuid,
        link=sighting.link,
        engines=_engines(host, sighting, device, figures.variant.engines if figures.variant else None),
        shareable=all(item.shareable for item in sighting.devices),
        path=sighting.path,
        node=assessment.node if assessment.node and assessment.node.startswith("/dev/") else None,
        evidence=(*sighting.evidence, *assessment.evidence, *figures.evidence),
    )


def _identity(sighting: Sighting) -> str:
    """Return an id from the address, and on USB the family, so that a re-enumerating device keeps it."""
    family = f"-{sighting.devices[0].family}" if sighting.bus == "usb" else ""
    label = re.sub(r"[^a-z0-9]+", "-", f"{sighting.bus}-{sighting.address}{family}".lower())
    return label.strip("-")[:63].rstrip("-")


def make_ids_unique(accelerators: list[Accelerator]) -> list[Accelerator]:
    """Append numbers to ids that accelerators would share."""
    taken = {acc.id for acc in accelerators}
    result: dict[str, Accelerator] = {}
    for acc in accelerators:
        name = acc.id
        if name in result:
            name = next(n for i in count(2) if (n := f"{acc.id[:58]}-{i}") not in taken and n not in result)
        result[name] = replace(acc, id=name)
    return list(result.values())


def _driver_version(host: Host, sighting: Sighting, assessment: StateAssessment) -> str | None:
    if sighting.gpu and sighting.gpu.driver_version:
        return sighting.gpu.driver_version
    if not assessment.driver or sighting.bus == "usb" or not re.fullmatch(r"[\w-]{1,64}", assessment.driver):
        return None
    module = host.link(f"/sys/bus/{sighting.bus}/drivers/{assessment.driver}/module")
    module = module or assessment.driver.replace("-", "_")
    return host.text(f"/sys/module/{module}/version") or None


def _engines(
    host: Host, sighting: Sighting, device: CatalogDevice | None, count: int | None
) -> tuple[Engine, ...]:
    """List sub-engines by the SKU's count; a tree that shows more of them claims too many."""
    if device is None:
        return ()
    engines = []
    for engine in device.engines:
        for index in range(engine.count if count is None else min(count, engine.count)):
            engines.append(
                Engine(f"{engine.name}{index}", engine.kind, _engine_state(host, engine.name, index))
            )
    return tuple(engines)


def _engine_state(host: Host, name: str, index: int) -> State:
    """Return usable only with a second witness: the tree alone may claim an engine that the module lacks."""
    for node in (f"/dev/nvhost-ctrl-nv{name}{index}", f"/dev/nvhost-nv{name}{index}"):
        if host.exists(node):
            return State.USABLE
    return State.PRESENT
