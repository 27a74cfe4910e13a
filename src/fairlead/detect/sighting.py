"""A physical device as one or more witnesses saw it, before it is identified."""

from dataclasses import dataclass, replace

from fairlead.catalog import CatalogDevice
from fairlead.catalog.index import PciId
from fairlead.inventory import Evidence, Link
from fairlead.nvml import Gpu


@dataclass(frozen=True, slots=True)
class TreeNode:
    """A node of the device tree."""

    path: str
    name: str
    """The node's name without its address."""
    address: str
    compatible: tuple[str, ...]
    enabled: bool


@dataclass(frozen=True, slots=True)
class Sighting:
    """One physical device: its address, the catalog rows that it may be, and the evidence."""

    bus: str
    address: str
    devices: tuple[CatalogDevice, ...]
    """Every catalog row that matches, likeliest first."""
    confidence: float
    evidence: tuple[Evidence, ...]
    path: str = ""
    driver: str | None = None
    link: Link | None = None
    pci: PciId | None = None
    modules: tuple[str, ...] = ()
    boards: tuple[str, ...] = ()
    nodes: tuple[TreeNode, ...] = ()
    usb_node: str | None = None
    gpu: Gpu | None = None
    minor: int | None = None
    product: str | None = None
    """The product name that the driver reports."""
    uuid: str | None = None

    @property
    def device(self) -> CatalogDevice | None:
        """The one row that matches, or the SoC-level row among several; None while undecided."""
        if len(self.devices) == 1:
            return self.devices[0]
        generic = [device for device in self.devices if device.generic]
        return generic[0] if len(generic) == 1 else None

    def with_evidence(self, *more: Evidence) -> "Sighting":
        """Return the same sighting with more evidence."""
        return replace(self, evidence=(*self.evidence, *more))

    def narrow_to(self, devices: tuple[CatalogDevice, ...], confidence: float, says: Evidence) -> "Sighting":
        """Return the sighting with fewer candidates, after the evidence of another witness."""
        return replace(self, devices=devices, confidence=confidence, evidence=(*self.evidence, says))
