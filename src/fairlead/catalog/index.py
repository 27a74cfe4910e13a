"""Look devices up by the ids and names that a machine shows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from fairlead.catalog import lookup
from fairlead.catalog.device import CatalogDevice, CpuKey, NodeKey, PciKey, UnlistedShape
from fairlead.errors import CatalogError

DISPLAY_CLASSES = ("0300", "0302", "0380", "1200")
"""PCI classes that a GPU may carry; its audio and USB functions carry others."""


@dataclass(frozen=True, slots=True)
class PciId:
    """The ids of a PCI device; None for an id that could not be read."""

    vendor: int
    device: int
    pci_class: str | None = None
    """Class and subclass: four hexadecimal digits."""
    revision: int | None = None
    subsystem: tuple[int, int] | None = None

    def fits(self, key: PciKey) -> bool:
        """Return whether a key of the catalog matches this device."""
        return (
            key.vendor == self.vendor
            and key.first <= self.device <= key.last
            and key.revision in (None, self.revision)
            and key.subsystem in (None, self.subsystem)
        )

    def __str__(self) -> str:
        return f"{self.vendor:04x}:{self.device:04x}"


@dataclass(frozen=True, slots=True, repr=False)
class Catalog:
    """All known devices, indexed by their match keys."""

    devices: dict[str, CatalogDevice]
    shapes: tuple[UnlistedShape, ...] = ()
    _aliases: dict[str, str] = field(default_factory=dict)
    _pci: dict[tuple[int, int], list[tuple[PciKey, CatalogDevice]]] = field(default_factory=dict)
    _pci_ranges: dict[int, list[tuple[PciKey, CatalogDevice]]] = field(default_factory=dict)
    _usb: dict[str, list[CatalogDevice]] = field(default_factory=dict)
    _modules: dict[str, list[CatalogDevice]] = field(default_factory=dict)
    _boards: dict[str, list[CatalogDevice]] = field(default_factory=dict)
    _socs: dict[str, list[CatalogDevice]] = field(default_factory=dict)
    _nodes: dict[str, list[tuple[NodeKey, CatalogDevice]]] = field(default_factory=dict)
    _engine_nodes: set[str] = field(default_factory=set)
    _cpus: list[tuple[CpuKey, CatalogDevice]] = field(default_factory=list)
    _nvml: dict[str, list[CatalogDevice]] = field(default_factory=dict)

    @classmethod
    def of(cls, devices: Iterable[CatalogDevice], shapes: Iterable[UnlistedShape] = ()) -> "Catalog":
        """Index the devices; a later row replaces an earlier one of the same id."""
        decoys_first = tuple(sorted(shapes, key=lambda shape: not shape.decoy))
        catalog = cls({device.id: device for device in devices}, decoys_first)
        for device in catalog.devices.values():
            catalog._add(device)
        return catalog

    def __repr__(self) -> str:
        return f"<Catalog of {len(self.devices)} devices>"

    def get(self, name: str, *, groups: bool = False) -> CatalogDevice:
        """Return the device of that id, alias or product name, in any case; the error lists similar names.

        `groups`: the caller accepts families, vendors and kinds as well, so the error lists those too.
        """
        device = self.devices.get(self._aliases.get(name, name))
        if device is not None:
            return device
        rows = lookup.find_by_name(self.devices.values(), name)
        if not rows:
            raise lookup.unknown_name_error(self.devices.values(), name, groups=groups)
        if len(rows) > 1:
            hint = f"name one: {', '.join(row.id for row in rows)}"
            raise CatalogError(f"{name!r} is the name of {len(rows)} devices of the catalog", hint)
        return rows[0]

    def group(self, name: str) -> list[CatalogDevice]:
        """Return the devices of a family, vendor or kind; none if the name is that of one device.

        A row for a whole family (`tegra-orin`) that has products does not count as a device here.
        """
        rows = lookup.find_group(self.devices.values(), name)
        of_family = lookup.normalize_name(name) in {lookup.normalize_name(row.family) for row in rows}
        products = any(not row.generic for row in rows)
        for row in lookup.find_by_name(self.devices.values(), name):
            if not (row.generic and of_family and products):
                return []
        return rows

    def by_pci(self, pci: PciId) -> list[CatalogDevice]:
        """Return the devices that match a PCI id with the most specific key."""
        keys = self._pci.get((pci.vendor, pci.device), [])
        keys = [*keys, *self._pci_ranges.get(pci.vendor, [])]
        fits = [(key, device) for key, device in keys if _matches(key, device, pci)]
        best = max((key.rank for key, _ in fits), default=0)
        return _unique(device for key, device in fits if key.rank == best)

    def knows_pci(self, vendor: int, device: int) -> bool:
        """Return whether any key could match, before anything else is read."""
        return (vendor, device) in self._pci or vendor in self._pci_ranges

    def by_usb(self, ids: str) -> list[CatalogDevice]:
        """Return the devices that have this USB id, before or after they load their firmware."""
        return self._usb.get(ids, [])

    def by_module(self, module: str) -> list[CatalogDevice]:
        """Return the devices built on this NVIDIA module."""
        return self._modules.get(module, [])

    def by_board(self, compatible: str) -> list[CatalogDevice]:
        """Return the devices on the board of this root `compatible` entry."""
        return self._boards.get(compatible, [])

    def by_soc(self, compatible: str) -> list[CatalogDevice]:
        """Return the devices inside the SoC of this root `compatible` entry."""
        return self._socs.get(compatible, [])

    def by_node(self, compatible: Sequence[str], name: str) -> list[CatalogDevice]:
        """Return the devices that a device-tree node of this `compatible` and name describes."""
        for entry in compatible:
            devices = [d for key, d in self._nodes.get(entry, []) if key.name in (None, name)]
            if devices:
                return _unique(devices)
        return []

    def is_engine(self, compatible: Sequence[str]) -> bool:
        """Return whether a device-tree node is a unit inside a device rather than a device."""
        return not self._engine_nodes.isdisjoint(compatible)

    def by_cpu(self, arch: str, flags: frozenset[str]) -> CatalogDevice | None:
        """Return the matching CPU row that requires the most flags."""
        fits = [(key, device) for key, device in self._cpus if key.arch == arch and key.flags <= flags]
        return max(fits, key=lambda fit: len(fit[0].flags))[1] if fits else None

    def by_nvml(self, product: str) -> list[CatalogDevice]:
        """Return the devices of this product name."""
        return self._nvml.get(product, [])

    def node_names(self) -> frozenset[str]:
        """Return the node names that some key requires."""
        return frozenset(key.name for keys in self._nodes.values() for key, _ in keys if key.name)

    def _add(self, device: CatalogDevice) -> None:
        match, variants = device.match, device.variants
        for alias in device.aliases:
            self._aliases[alias] = device.id
        for key in {*match.pci, *(key for variant in variants for key in variant.pci)}:
            if key.exact:
                self._pci.setdefault((key.vendor, key.first), []).append((key, device))
            else:
                self._pci_ranges.setdefault(key.vendor, []).append((key, device))
        _index(self._usb, match.usb, device)
        _index(self._modules, (*match.module, *(m for v in variants for m in v.module)), device)
        _index(self._boards, (*match.board, *(b for v in variants for b in v.board)), device)
        _index(self._socs, match.soc, device)
        _index(self._nvml, (*match.nvml, *(n for v in variants for n in v.nvml)), device)
        for node in match.node:
            self._nodes.setdefault(node.compatible, []).append((node, device))
        self._engine_nodes.update(key.compatible for engine in device.engines for key in engine.node)
        if match.cpu is not None:
            self._cpus.append((match.cpu, device))


def _matches(key: PciKey, device: CatalogDevice, pci: PciId) -> bool:
    if not pci.fits(key) or device.kind != "gpu":
        return pci.fits(key)
    return pci.pci_class in DISPLAY_CLASSES or (pci.pci_class is None and key.exact)


def _index(index: dict[str, list[CatalogDevice]], keys: Iterable[str], device: CatalogDevice) -> None:
    for key in dict.fromkeys(keys):
        index.setdefault(key, []).append(device)


def _unique(devices: Iterable[CatalogDevice]) -> list[CatalogDevice]:
    return list({device.id: device for device in devices}.values())
