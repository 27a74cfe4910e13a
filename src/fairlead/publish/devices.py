"""A node's accelerators as its annotation lists them: all of them, whether held or free.

A slice lists what claims can still get, so it shrinks and grows with every pod, and without claims there is
none. A scheduler that counts for itself needs a list that does not change: this annotation.
"""

from collections.abc import Collection
from typing import Final

from fairlead.annotations import AnnotatedAccelerator, devices_text
from fairlead.host import printable
from fairlead.inventory import Inventory
from fairlead.publish.labels import model_name
from fairlead.publish.parts import divisible, mebibytes

_LONGEST_REASON: Final = 200


def devices(inventory: Inventory, by_units: Collection[str]) -> str:
    """Return the annotation; the device plugin offers the memory of the accelerators `by_units`."""
    return devices_text(
        AnnotatedAccelerator(
            acc.id,
            model_name(acc),
            acc.vendor,
            mebibytes(acc),
            healthy=acc.state.allocatable,
            shareable=divisible(acc),
            unified=acc.unified_memory,
            reason="" if acc.state.allocatable else printable(acc.reason)[:_LONGEST_REASON],
            by_units=acc.id in by_units,
        )
        for acc in sorted(inventory.accelerators, key=lambda each: each.id)
        if acc.kind != "cpu" and not acc.mig_instances
    )
