"""`fairlead catalog`: the catalog of devices."""

import argparse
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from fairlead.cli.output.listing import sorted_by
from fairlead.cli.output.show import show, show_list
from fairlead.cli.output.table import Cell, Column, Fit
from fairlead.cli.shell import options as shared
from fairlead.errors import SettingsError
from fairlead.units import format_bytes, format_number, format_ops, pluralize

if TYPE_CHECKING:
    from fairlead.catalog.device import CatalogDevice, DeviceMatch, Driver, Variant

Amount = TypeVar("Amount", int, float)
_HEAD = (
    Column("ID", Fit.KEEP),
    *map(Column, ("NAME", "VENDOR", "KIND", "PEAK", "MEMORY", "POWER")),
    Column("FAMILY", wide=True),
    Column("BANDWIDTH", wide=True),
    Column("ALIASES", wide=True),
)


def add(commands: Any) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "catalog",
        help="list, show or check the catalog of devices",
        description="The catalog is data: list it, show one device, or check it with your own files added.",
    )
    verbs = command.add_subparsers(title="verbs", dest="verb", metavar="VERB", required=True)
    listing = verbs.add_parser("list", help="list every device")
    listing.add_argument("--kind", metavar="KIND", help="only this kind: cpu gpu tpu npu vpu dsp fpga")
    listing.add_argument("--vendor", metavar="NAME", help="only this vendor")
    listing.set_defaults(run=run_list)
    showing = verbs.add_parser("show", help="show every field of one device")
    showing.add_argument("device", metavar="DEVICE", help="a catalog id or alias, such as jetson-nano")
    showing.set_defaults(run=run_show)
    linting = verbs.add_parser("lint", help="check the catalog: schema, overlapping keys, dangling names")
    linting.set_defaults(run=run_lint)
    for verb in (listing, showing, linting):
        shared.add_catalog(verb)
    shared.add_list(listing, _HEAD)
    for verb in (showing, linting):
        shared.add_output(verb)


def run_list(options: argparse.Namespace) -> int:
    """List every device."""
    from fairlead.catalog.device import KINDS

    if options.kind not in (None, *KINDS):
        raise SettingsError(f"--kind {options.kind}: no such kind", f"known: {', '.join(KINDS)}")
    known = shared.catalog_of(options).devices.values()
    vendors = {device.vendor.lower(): device.vendor for device in known if device.vendor}
    vendor = options.vendor.lower() if options.vendor else None
    if vendor not in (None, *vendors):
        hint = f"known: {', '.join(sorted(vendors.values()))}"
        raise SettingsError(f"--vendor {options.vendor}: no such vendor", hint)
    devices = [
        device
        for device in known
        if options.kind in (None, device.kind) and vendor in (None, device.vendor.lower())
    ]
    devices = sorted_by(devices, options.sort_by, _HEAD, _row, to_json)
    if options.output in ("json", "yaml"):
        show([to_json(device) for device in devices], options.output)
        return 0
    if not options.sort_by:
        devices.sort(key=lambda device: (device.kind, device.id))
    rows = [_row(device) for device in devices]
    show_list(_HEAD, rows, options.output, headers=not options.no_headers, color=options.color)
    return 0


def run_show(options: argparse.Namespace) -> int:
    """Show one device."""
    device = shared.catalog_of(options).get(options.device)
    show(to_json(device), "yaml" if options.output == "table" else options.output)
    return 0


def run_lint(options: argparse.Namespace) -> int:
    """Check the catalog."""
    from fairlead.catalog import lint

    catalog = shared.catalog_of(options)
    faults = lint(catalog)
    if options.output != "table":
        show({"devices": len(catalog.devices), "faults": faults}, options.output)
    else:
        for fault in faults:
            print(fault)
        print(f"{pluralize(len(catalog.devices), 'device')}, {pluralize(len(faults), 'fault')}")
    return 1 if faults else 0


def to_json(device: "CatalogDevice") -> dict[str, Any]:
    """Return a catalog row as a document."""
    return {
        "id": device.id,
        "name": device.name,
        "vendor": device.vendor,
        "kind": device.kind,
        "family": device.family,
        "aliases": list(device.aliases),
        "generic": device.generic,
        "shareable": device.shareable,
        "peak_ops": _rounded(device.peak),
        "ops_per_core_cycle": dict(device.per_core_cycle),
        "clock_hz": device.clock,
        "memory_bytes": device.memory,
        "memory_bytes_per_second": device.bandwidth,
        "unified_memory": device.unified,
        "power_w": device.power,
        "power_min_w": device.power_min,
        "link": {"bus": device.link.bus, "full_bits_per_second": device.link.full} if device.link else None,
        "drivers": [_driver(driver) for driver in device.drivers],
        "engines": [{"name": e.name, "kind": e.kind, "count": e.count} for e in device.engines],
        "match": _match(device.match),
        "variants": [_variant(variant) for variant in device.variants],
        "unverified": list(device.unverified),
        "sources": list(device.sources),
        "note": device.note,
        "origin": device.origin,
    }


def _match(match: "DeviceMatch") -> dict[str, Any]:
    keys: dict[str, Any] = {
        "pci": [str(key) for key in match.pci],
        "usb": list(match.usb),
        "module": list(match.module),
        "board": list(match.board),
        "soc": list(match.soc),
        "node": [str(key) for key in match.node],
        "platform": list(match.platform),
        "cpu": str(match.cpu) if match.cpu else None,
        "nvml": list(match.nvml),
        "shares": list(match.shares),
    }
    return {key: value for key, value in keys.items() if value}


def _driver(driver: "Driver") -> dict[str, Any]:
    return {
        "name": driver.name or "user space",
        "class": driver.sysfs_class,
        "nodes": list(driver.nodes),
        "hint": driver.hint,
    }


def _variant(variant: "Variant") -> dict[str, Any]:
    marks = [*variant.module, *variant.board, *(str(key) for key in variant.pci)]
    return {
        "name": variant.name,
        "memory_bytes": variant.memory,
        "peak_ops": _rounded(variant.peak),
        "power_w": variant.power,
        "match": marks,
    }


def _rounded(rates: Mapping[str, float]) -> dict[str, int]:
    return {precision: round(rate) for precision, rate in rates.items()}


def _row(device: "CatalogDevice") -> tuple[str | Cell, ...]:
    best = next(
        iter(sorted(device.peak, key=lambda p: (p.endswith("sparse"), p != "int8", p != "fp16"))), None
    )
    doubt = "?" if "peak" in device.unverified or f"peak.{best}" in device.unverified else ""
    return (
        device.id,
        device.name,
        device.vendor or "-",
        device.kind,
        Cell(f"{format_ops(device.peak[best])} {best}{doubt}", device.peak[best]) if best else "-",
        Cell("host RAM") if device.unified else _amount_cell(device.memory, format_bytes),
        _amount_cell(device.power, lambda watts: f"{watts:g} W"),
        device.family or "-",
        _amount_cell(device.bandwidth, lambda rate: f"{format_number(rate / 1e9)} GB/s"),
        ", ".join(device.aliases) or "-",
    )


def _amount_cell(amount: Amount | None, text: Callable[[Amount], str]) -> Cell:
    return Cell(text(amount), amount) if amount else Cell("-")
