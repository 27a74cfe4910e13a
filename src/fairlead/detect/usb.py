"""Witness: the USB bus."""

import re
from typing import Final

from fairlead.catalog import Catalog, CatalogDevice
from fairlead.detect.sighting import Sighting
from fairlead.host import Host, printable
from fairlead.inventory import Evidence, Link, Unknown
from fairlead.units import BitsPerSecond, format_bitrate

DEVICES: Final = "/sys/bus/usb/devices"
_SPEED: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")
_EXACT, _SHARED = 0.98, 0.5


def find_sightings(host: Host, catalog: Catalog) -> tuple[list[Sighting], list[Unknown]]:
    """Return the accelerators on the bus, and devices that only look like one."""
    sightings: list[Sighting] = []
    unknown: list[Unknown] = []
    for port in host.names(DEVICES):
        if ":" in port:  # an interface of a device that has its own entry
            continue
        path = f"{DEVICES}/{port}"
        vendor, product = host.hexadecimal(f"{path}/idVendor"), host.hexadecimal(f"{path}/idProduct")
        if vendor is None or product is None:
            continue
        ids = f"{vendor:04x}:{product:04x}"
        if rows := catalog.by_usb(ids):
            sightings.append(_sighting(host, path, printable(port), ids, rows))
        elif says := _shape(catalog, vendor):
            unknown.append(Unknown(f"usb:{printable(port)}", ids, None, says))
    return sightings, unknown


def _sighting(host: Host, path: str, port: str, ids: str, rows: list[CatalogDevice]) -> Sighting:
    link = _link(host, path, rows[0])
    speed = f", over a link of {format_bitrate(link.rate)}" if link else ""
    names = " or ".join(row.name for row in rows)
    return Sighting(
        bus="usb",
        address=port,
        devices=tuple(rows),
        confidence=_EXACT if len(rows) == 1 else _SHARED,
        evidence=(Evidence("usb", path, f"id {ids} is {names}{_firmware_state(ids, rows[0])}{speed}"),),
        path=path,
        driver=host.link(f"{path}:1.0/driver"),
        link=link,
        usb_node=_node(host, path),
    )


def _firmware_state(ids: str, row: CatalogDevice) -> str:
    """Return whether a device that re-enumerates has its firmware, by its present USB id."""
    known = row.match.usb
    if len(known) < 2 or ids not in known:
        return ""
    return ", firmware loaded" if known.index(ids) else ", waiting for its firmware until first use"


def _link(host: Host, path: str, row: CatalogDevice) -> Link | None:
    speed = host.text(f"{path}/speed") or ""
    rate = BitsPerSecond(float(speed) * 1e6 if _SPEED.fullmatch(speed) else 0)
    return None if not rate else Link(rate, max(rate, row.link.full if row.link else rate))


def _node(host: Host, path: str) -> str | None:
    bus, number = host.number(f"{path}/busnum"), host.number(f"{path}/devnum")
    return None if bus is None or number is None else f"/dev/bus/usb/{bus:03d}/{number:03d}"


def _shape(catalog: Catalog, vendor: int) -> str | None:
    return next((shape.says for shape in catalog.shapes if shape.usb == f"{vendor:04x}"), None)
