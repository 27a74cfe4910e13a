"""Witness: the PCI bus."""

import re
from typing import Final

from fairlead.catalog import Catalog, CatalogDevice
from fairlead.catalog.device import UnlistedShape
from fairlead.catalog.index import PciId
from fairlead.detect.sighting import Sighting
from fairlead.host import Host, printable
from fairlead.inventory import Evidence, Link, Unknown
from fairlead.units import BitsPerSecond

DEVICES: Final = "/sys/bus/pci/devices"
_SPEED: Final = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,6})?) GT/s")
_EXACT, _GENERIC, _SHARED = 0.98, 0.9, 0.5


def find_sightings(host: Host, catalog: Catalog) -> tuple[list[Sighting], list[Unknown]]:
    """Return the accelerators on the bus, and devices that only look like one."""
    sightings: list[Sighting] = []
    unknown: list[Unknown] = []
    for address in host.names(DEVICES):
        path = f"{DEVICES}/{address}"
        vendor, device = host.hexadecimal(f"{path}/vendor"), host.hexadecimal(f"{path}/device")
        if vendor is None or device is None:
            continue
        pci = PciId(vendor, device, _class(host, path))
        rows: list[CatalogDevice] = []
        if catalog.knows_pci(vendor, device):
            pci = _details(host, path, pci)
            rows = sorted(catalog.by_pci(pci), key=lambda row: row.generic)
        if rows:
            sightings.append(_sighting(host, path, printable(address), pci, rows))
        elif shape := _shape(host, path, catalog, pci):
            unknown.append(
                Unknown(f"pci:{printable(address)}", str(pci), host.link(f"{path}/driver"), shape.says)
            )
    return sightings, unknown


def _sighting(host: Host, path: str, address: str, pci: PciId, rows: list[CatalogDevice]) -> Sighting:
    unsure = len(rows) > 1
    confidence = _SHARED if unsure else _GENERIC if rows[0].generic else _EXACT
    names = " or ".join(row.name for row in rows)
    return Sighting(
        bus="pci",
        address=address,
        devices=tuple(rows),
        confidence=confidence,
        evidence=(Evidence("pci", path, f"id {_describe(pci)} is {names}"),),
        path=path,
        driver=host.link(f"{path}/driver"),
        link=_link(host, path),
        pci=pci,
    )


def _class(host: Host, path: str) -> str | None:
    code = host.hexadecimal(f"{path}/class")
    return None if code is None else f"{code >> 8 & 0xFFFF:04x}"


def _details(host: Host, path: str, pci: PciId) -> PciId:
    vendor = host.hexadecimal(f"{path}/subsystem_vendor")
    device = host.hexadecimal(f"{path}/subsystem_device")
    subsystem = None if vendor is None or device is None else (vendor, device)
    return PciId(pci.vendor, pci.device, pci.pci_class, host.hexadecimal(f"{path}/revision"), subsystem)


def _describe(pci: PciId) -> str:
    text = str(pci)
    text += f" class {pci.pci_class}" if pci.pci_class else ""
    text += f" rev {pci.revision:02x}" if pci.revision is not None else ""
    return text + (f" sub {pci.subsystem[0]:04x}:{pci.subsystem[1]:04x}" if pci.subsystem else "")


def _link(host: Host, path: str) -> Link | None:
    now = _rate(host, path, "current")
    best = _rate(host, path, "max")
    return None if now is None else Link(now, max(now, best or now))


def _rate(host: Host, path: str, which: str) -> BitsPerSecond | None:
    speed = _SPEED.match(host.text(f"{path}/{which}_link_speed") or "")
    width = host.number(f"{path}/{which}_link_width")
    if speed is None or not width or not 0 < width <= 32:
        return None
    return BitsPerSecond(float(speed[1]) * 1e9 * width) or None


def _shape(host: Host, path: str, catalog: Catalog, pci: PciId) -> UnlistedShape | None:
    """Return the rule by which an unlisted device looks like an accelerator."""
    for shape in catalog.shapes:
        if shape.usb is None and not shape.node and _has_shape(host, path, shape, pci):
            return None if shape.decoy else shape
    return None


def _has_shape(host: Host, path: str, shape: UnlistedShape, pci: PciId) -> bool:
    if shape.pci is not None and not pci.fits(shape.pci):
        return False
    if shape.classes and pci.pci_class not in shape.classes:
        return False
    return not shape.drivers or host.link(f"{path}/driver") in shape.drivers
