"""Witness: the platform bus, on which a SoC's own engines have their drivers."""

from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Final

from fairlead.detect.sighting import Sighting
from fairlead.host import Host
from fairlead.inventory import Evidence

DEVICES: Final = "/sys/bus/platform/devices"


def add_drivers(host: Host, sightings: list[Sighting]) -> list[Sighting]:
    """Find each SoC device on the platform bus, and with it the driver."""
    if not any(sighting.bus == "platform" for sighting in sightings):
        return sightings
    names = host.names(DEVICES)
    return [_find(host, names, seen) if seen.bus == "platform" else seen for seen in sightings]


def _find(host: Host, names: list[str], sighting: Sighting) -> Sighting:
    addresses = tuple(f"{node.address}." for node in sighting.nodes if node.enabled and node.address)
    globs = [glob for device in sighting.devices for glob in device.match.platform]
    matches = [name for name in names if addresses and name.startswith(addresses)]
    matches += [name for name in names if any(fnmatchcase(name, glob) for glob in globs)]
    if not matches:
        return sighting
    driven = next((name for name in matches if host.link(f"{DEVICES}/{name}/driver")), matches[0])
    path = f"{DEVICES}/{driven}"
    driver = host.link(f"{path}/driver")
    says = Evidence("driver", f"{path}/driver", f"bound to {driver}") if driver else None
    seen = replace(sighting, path=path, driver=driver, address=driven)
    return seen.with_evidence(says) if says else seen
