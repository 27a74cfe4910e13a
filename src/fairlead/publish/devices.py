"""A node's accelerators as its annotation lists them: all that there are, whoever holds what of them.

A slice says what claims can still have, so it shrinks and grows with every pod, and without claims there is
none. A scheduler that counts for itself needs what does not change: this.
"""

import json
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from fairlead.host import printable
from fairlead.inventory import Inventory
from fairlead.publish.labels import model_name
from fairlead.publish.parts import divisible, mebibytes

_LONGEST_REASON: Final = 200


@dataclass(frozen=True, slots=True)
class Listed:
    """One accelerator of a node's list."""

    id: str
    model: str
    """The catalog id, or what it may be."""
    vendor: str
    mebibytes: int
    healthy: bool = True
    shareable: bool = False
    unified: bool = False
    reason: str = ""
    """Why it is not healthy."""
    by_units: bool = False
    """Whether its memory is offered in units of an extended resource; a node can bear only so many."""


def devices(inventory: Inventory, by_units: Collection[str]) -> str:
    """Return the annotation; `by_units` are the accelerators whose memory the device plugin offers.

    [{"id":"pci-0000-3b-00-0","model":"t4","vendor":"NVIDIA","memory_mib":15360,"shareable":true,"by_units":true}]
    """
    rows: list[dict[str, Any]] = []
    for acc in sorted(inventory.accelerators, key=lambda each: each.id):
        if acc.kind != "cpu":
            row = {"id": acc.id, "model": model_name(acc), "vendor": acc.vendor, "memory_mib": mebibytes(acc)}
            flags = {
                "shareable": divisible(acc),
                "unified": acc.unified_memory,
                "by_units": acc.id in by_units,
                "unhealthy": not acc.state.allocatable,
            }
            why = {} if acc.state.allocatable else {"reason": printable(acc.reason)[:_LONGEST_REASON]}
            rows.append({**row, **{name: True for name, said in flags.items() if said}, **why})
    return json.dumps(rows, separators=(",", ":"))


@lru_cache(maxsize=4096)
def parse_devices(text: str) -> tuple[Listed, ...] | None:
    """Return what an annotation says; None for one that no agent wrote."""
    try:
        return tuple(_listed(row) for row in json.loads(text))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _listed(row: dict[str, Any]) -> Listed:
    size = row["memory_mib"]
    if type(size) is not int or not 0 <= size < 1 << 43:
        raise ValueError(f"{size!r} is no amount of memory")
    return Listed(
        str(row["id"]),
        str(row["model"]),
        str(row["vendor"]),
        size,
        healthy=row.get("unhealthy") is not True,
        reason=str(row.get("reason", "")),
        shareable=row.get("shareable") is True,
        unified=row.get("unified") is True,
        by_units=row.get("by_units") is True,
    )
