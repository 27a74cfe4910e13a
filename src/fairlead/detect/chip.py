"""Find an entry of the root `compatible` that names a chip more precisely than the catalog's SoC entry.

A tree lists an older, compatible chip as a fallback: `qcom,qcm6490-idp qcom,sc7280`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fairlead.catalog import Catalog, CatalogDevice

_NUMBER: Final = re.compile(r"[0-9]+")
_LEAST_DIGITS: Final = 3
"""Digits of a chip's number; the numbers of boards and revisions have fewer."""


@dataclass(frozen=True, slots=True)
class CloserChip:
    """An entry before the SoC's that names another chip."""

    entry: str
    device: CatalogDevice | None
    """The catalog's row of that chip; None if it has none."""


def find_closer_chip(
    compatible: Sequence[str], soc: str, device: CatalogDevice, catalog: Catalog
) -> CloserChip | None:
    """Return the entry that names another chip of the same vendor than `soc` does; None if they agree."""
    maker, _, fallback = soc.partition(",")
    for entry in compatible[: compatible.index(soc)]:
        vendor, _, rest = entry.partition(",")
        if vendor != maker:
            continue
        chip = rest.partition("-")[0]
        rows = catalog.by_soc(f"{vendor},{chip}")
        if any(row.id == device.id for row in (*rows, *catalog.by_board(entry))):
            return None
        if len(rows) == 1:
            return CloserChip(entry, rows[0])
        if _is_another(chip, fallback, device):
            return CloserChip(entry, None)
    return None


def _is_another(chip: str, fallback: str, device: CatalogDevice) -> bool:
    """Return whether two names are numbers of one scheme, and not two names of the same chip."""
    if chip.startswith(fallback) or fallback.startswith(chip):
        return False
    if any(chip in name.split("-") for name in (device.id, *device.aliases)):
        return False
    digits, known = _last_number(chip), _last_number(fallback)
    return len(digits) == len(known) >= _LEAST_DIGITS


def _last_number(name: str) -> str:
    numbers: list[str] = _NUMBER.findall(name)
    return numbers[-1] if numbers else ""
