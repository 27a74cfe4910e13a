"""From a parsed TOML document to catalog rows."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from fairlead.catalog.device import (
    KINDS,
    PRECISIONS,
    CatalogDevice,
    CpuKey,
    DeviceMatch,
    Driver,
    HostLink,
    NodeKey,
    PciKey,
    SubEngine,
    UnlistedShape,
    Variant,
)
from fairlead.catalog.fields import CatalogFields
from fairlead.errors import CatalogError
from fairlead.units import Hertz, Ops, Watts, parse_bandwidth, parse_bitrate, parse_bytes

SCHEMA: Final = 1
RATES: Final = (*PRECISIONS, *(f"{precision}-sparse" for precision in PRECISIONS))
_ID: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_USB: Final = re.compile(r"[0-9a-f]{4}:[0-9a-f]{4}")
_MODULE: Final = re.compile(r"p[0-9]{4}-[0-9]{4}")
_HEX: Final = "([0-9a-f]{4})"
_PCI: Final = re.compile(rf"{_HEX}:{_HEX}(?:-{_HEX})?(?: rev ([0-9a-f]{{2}}))?(?: sub {_HEX}:{_HEX})?")


def parse_pci_key(text: str) -> PciKey:
    """Parse `1022:17f0 rev 10`, `1e52:401e sub 1e52:0018` or `10de:2200-223f`."""
    match = _PCI.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a PCI key; write it like 1e60:2864 or 1022:17f0 rev 10")
    vendor, first, last, revision, sub_vendor, sub_device = (
        int(x, 16) if x else None for x in match.groups()
    )
    assert vendor is not None
    assert first is not None
    subsystem = None if sub_vendor is None or sub_device is None else (sub_vendor, sub_device)
    return PciKey(vendor, first, first if last is None else last, revision, subsystem)


def parse_node_key(text: str) -> NodeKey:
    """Parse `rockchip,rk3588-rknpu` or `vivante,gc@npu`."""
    compatible, _, name = text.partition("@")
    return NodeKey(compatible, name or None)


def parse_document(
    document: Mapping[str, Any], origin: str
) -> tuple[list[CatalogDevice], list[UnlistedShape]]:
    """Return the devices and the shapes of one catalog file."""
    fields = CatalogFields(document, origin)
    if fields.number("schema") != SCHEMA:
        raise fields.wrong("schema", f"schema = {SCHEMA}, the only one this version reads")
    defaults = document.get("defaults", {})
    fields.table("defaults")
    devices = []
    for number, row in enumerate(fields.tables("device")):
        table = {**defaults, **document["device"][number]}
        name = table.get("id", f"#{number}")
        devices.append(_device(CatalogFields(table, f"{row.where} ({name})"), origin))
    shapes = [shape for row in fields.tables("shape") for shape in _shapes(row, decoy=False)]
    shapes += [shape for row in fields.tables("decoy") for shape in _shapes(row, decoy=True)]
    fields.finish()
    return devices, shapes


def _device(row: CatalogFields, origin: str) -> CatalogDevice:
    identity = _matching(row, "id", row.text("id"), _ID, "a kebab-case id")
    memory, power, clock = row.table("memory"), row.table("power"), row.table("clock")
    device = CatalogDevice(
        id=identity,
        name=row.text("name"),
        vendor=row.text("vendor"),
        kind=_one_of(row, "kind", KINDS),
        family=row.text("family", identity),
        match=_match(row.table("match")),
        aliases=tuple(_matching(row, "aliases", x, _ID, "kebab-case ids") for x in row.texts("aliases")),
        shareable=row.flag("shareable"),
        generic=row.flag("generic"),
        note=row.text("note", ""),
        unverified=row.texts("unverified"),
        sources=row.texts("sources"),
        peak=_peak(row, "peak"),
        per_core_cycle=row.rates("per_core_cycle", RATES),
        clock=_hertz(clock, "hz"),
        memory=memory.parsed("bytes", parse_bytes),
        bandwidth=memory.parsed("bandwidth", parse_bandwidth),
        unified=memory.flag("unified"),
        power=_watts(power, "max_w"),
        power_min=_watts(power, "min_w"),
        link=_link(row),
        drivers=tuple(_driver(item) for item in row.tables("driver")),
        engines=tuple(_engine(item) for item in row.tables("engine")),
        variants=tuple(_variant(item) for item in row.tables("variant")),
        origin=origin,
    )
    for table in (memory, power, clock, row):
        table.finish()
    return device


def _match(row: CatalogFields) -> DeviceMatch:
    cpu = row.table("cpu")
    match = DeviceMatch(
        pci=_pci_keys(row, row.texts("pci")),
        usb=tuple(_matching(row, "usb", x, _USB, "USB ids like 18d1:9302") for x in row.texts("usb")),
        module=_modules(row),
        board=row.texts("board"),
        soc=row.texts("soc"),
        node=tuple(parse_node_key(x) for x in row.texts("node")),
        platform=row.texts("platform"),
        cpu=CpuKey(cpu.text("arch"), frozenset(cpu.texts("flags"))) if cpu.names() else None,
        processor=row.texts("processor"),
        nvml=row.texts("nvml"),
        shares=row.texts("shares"),
        soc_certain=row.flag("soc_certain", True),
        needs_node=row.flag("needs_node"),
    )
    cpu.finish()
    row.finish()
    return match


def _driver(row: CatalogFields) -> Driver:
    driver = Driver(
        name=row.text("name", ""),
        sysfs_class=row.text("class", "") or None,
        nodes=row.texts("nodes"),
        userspace=row.flag("userspace"),
        hint=row.text("hint", ""),
    )
    row.finish()
    if not driver.name and not driver.userspace:
        raise row.wrong("name", "a kernel driver's name, or userspace = true")
    return driver


def _engine(row: CatalogFields) -> SubEngine:
    engine = SubEngine(
        name=row.text("name"),
        kind=_one_of(row, "kind", KINDS),
        count=round(row.number("count") or 1),
        node=tuple(parse_node_key(x) for x in row.texts("node")),
    )
    row.finish()
    return engine


def _variant(row: CatalogFields) -> Variant:
    engines = row.number("engines")
    variant = Variant(
        name=row.text("name"),
        module=_modules(row),
        board=row.texts("board"),
        pci=_pci_keys(row, row.texts("pci")),
        nvml=row.texts("nvml"),
        memory=row.parsed("memory", parse_bytes),
        peak=_peak(row, "peak"),
        power=_watts(row, "power"),
        engines=None if engines is None else round(engines),
        clock=_hertz(row, "clock_hz"),
        bandwidth=row.parsed("bandwidth", parse_bandwidth),
        mode=row.flag("mode"),
    )
    row.finish()
    return variant


def _shapes(row: CatalogFields, *, decoy: bool) -> list[UnlistedShape]:
    """Return one rule for each PCI key of a table, or one rule without a key."""
    shape = UnlistedShape(
        pci=None,
        classes=row.texts("class"),
        drivers=row.texts("driver"),
        usb=row.text("usb", "") or None,
        node=row.texts("node"),
        says=row.text("says"),
        decoy=decoy,
    )
    keys = _pci_keys(row, row.one_or_more("pci"))
    row.finish()
    return [replace(shape, pci=key) for key in keys] or [shape]


def _link(row: CatalogFields) -> HostLink | None:
    link = row.table("link")
    if not link.names():
        return None
    full = link.parsed("full", parse_bitrate)
    if full is None:
        raise CatalogError(f"{link.where}: full is missing", 'add full = "5Gb/s"')
    result = HostLink(_one_of(link, "bus", ("usb", "pcie")), full)
    link.finish()
    return result


def _peak(row: CatalogFields, key: str) -> dict[str, Ops]:
    return {precision: Ops(rate) for precision, rate in row.rates(key, RATES).items()}


def _pci_keys(row: CatalogFields, texts: tuple[str, ...]) -> tuple[PciKey, ...]:
    try:
        return tuple(parse_pci_key(text) for text in texts)
    except ValueError as error:
        raise CatalogError(f"{row.where}: pci: {error}") from None


def _modules(row: CatalogFields) -> tuple[str, ...]:
    return tuple(
        _matching(row, "module", x, _MODULE, "module ids like p3448-0000") for x in row.texts("module")
    )


def _watts(row: CatalogFields, key: str) -> Watts | None:
    value = row.number(key)
    return None if value is None else Watts(value)


def _hertz(row: CatalogFields, key: str) -> Hertz | None:
    value = row.number(key)
    return None if value is None else Hertz(value)


def _one_of(row: CatalogFields, key: str, allowed: tuple[str, ...]) -> str:
    value = row.text(key)
    if value not in allowed:
        raise CatalogError(f"{row.where}: unknown {key} {value!r}", f"known: {', '.join(allowed)}")
    return value


def _matching(row: CatalogFields, key: str, value: str, pattern: re.Pattern[str], what: str) -> str:
    if pattern.fullmatch(value) is None:
        raise CatalogError(f"{row.where}: {key}: expected {what}, found {value!r}")
    return value
