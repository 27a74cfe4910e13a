"""Names that people write for devices: of one device, or of a whole family, vendor or kind. Pure."""

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Final

from fairlead.catalog.device import KINDS, CatalogDevice, Variant
from fairlead.errors import CatalogError
from fairlead.units import pluralize

_BETWEEN: Final = re.compile(r"[^a-z0-9.+]+")
_EXAMPLES: Final = 5


def normalize_name(name: str) -> str:
    """Return a name in the form of ids: `NVIDIA A100-SXM4-80GB` is `nvidia-a100-sxm4-80gb`."""
    return _BETWEEN.sub("-", name.lower()).strip("-")


def find_by_name(devices: Iterable[CatalogDevice], name: str) -> list[CatalogDevice]:
    """Return the devices of this id or alias, in any case; else those of this product name.

    Else the device whose name has these words in another order, if there is one: `Jetson Nano Orin`.
    """
    wanted, by_product, by_words = normalize_name(name), [], []
    for device in devices:
        ids = [normalize_name(each) for each in (device.id, *device.aliases)]
        if wanted in ids:
            return [device]
        products = _products(device)
        if wanted and wanted in products:
            by_product.append(device)
        elif _has_words(device, wanted, (*ids, *products)):
            by_words.append(device)
    return by_product or (by_words if len(by_words) == 1 else [])


def find_variant(device: CatalogDevice, name: str) -> Variant | None:
    """Return the SKU of this product name; None if the name is that of the whole device."""
    wanted = normalize_name(name)
    if wanted in map(normalize_name, (device.id, *device.aliases, device.name)):
        return None
    variants = [
        variant for variant in device.variants if wanted in _spellings(device, (variant.name, *variant.nvml))
    ]
    return variants[0] if len(variants) == 1 else None


def find_group(devices: Iterable[CatalogDevice], name: str) -> list[CatalogDevice]:
    """Return every device of this family, vendor or kind; else those whose names start with this word."""
    wanted, rows = normalize_name(name), tuple(devices)
    if not wanted:
        return []
    members = [
        row for row in rows if wanted in (row.kind, normalize_name(row.family), normalize_name(row.vendor))
    ]
    return members or [row for row in rows if any(known.startswith(f"{wanted}-") for known in _names(row))]


def unknown_name_error(devices: Iterable[CatalogDevice], name: str, *, groups: bool) -> CatalogError:
    """Return the error for an unknown name: it lists similar names, or the members of the group."""
    rows = tuple(devices)
    members = [row.id for row in find_group(rows, name) if not row.generic]
    if members:
        more = ", ..." if len(members) > _EXAMPLES else ""
        hint = f"name one: {', '.join(members[:_EXAMPLES])}{more}"
        return CatalogError(
            f"{name!r} is a group of {pluralize(len(members), 'device')} of the catalog", hint
        )
    pool = {known: None for row in rows for known in (row.id, *row.aliases)}
    if groups:
        pool |= {
            normalize_name(known): None
            for row in rows
            for known in (row.family, row.vendor, row.kind)
            if known
        }
    similar = get_close_matches(name.lower(), pool, 3, 0.5)
    hint = f"did you mean {', '.join(similar)}?" if similar else "see: fairlead catalog list"
    return CatalogError(f"no device {name!r} in the catalog", hint)


def _has_words(device: CatalogDevice, wanted: str, names: Iterable[str]) -> bool:
    """Say whether a name has the words of one of a device's names, with or without the vendor."""
    vendor = normalize_name(device.vendor)
    words, without = sorted(wanted.split("-")), sorted(word for word in wanted.split("-") if word != vendor)
    return len(without) > 1 and any(sorted(each.split("-")) in (words, without) for each in names)


def _products(device: CatalogDevice) -> set[str]:
    """Return the product names of a device and its SKUs, as vendors and drivers write them."""
    nvml = (*device.match.nvml, *(name for variant in device.variants for name in variant.nvml))
    return _spellings(device, (device.name, *nvml, *(variant.name for variant in device.variants)))


def _spellings(device: CatalogDevice, names: Iterable[str]) -> set[str]:
    """Return names in the form of ids, with and without the vendor as prefix; `gpu` alone is a kind."""
    whole = {normalize_name(name) for name in names}
    return (whole | {name.removeprefix(f"{normalize_name(device.vendor)}-") for name in whole}) - set(KINDS)


def _names(device: CatalogDevice) -> Iterator[str]:
    yield device.id
    yield normalize_name(device.family)
    yield from _spellings(device, (device.name,))
