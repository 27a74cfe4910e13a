"""From the kubelet's books to who holds what."""

from collections.abc import Iterable
from dataclasses import dataclass

from fairlead.inventory import Inventory
from fairlead.offer import DRIVER, Holder, Holding
from fairlead.publish.parts import MEMORY_RESOURCES, MemoryUnit, group_units

Row = tuple[str, str, str, str, Iterable[str]]
"""Namespace, pod, container, resource and unit ids, as the kubelet lists them."""


@dataclass(frozen=True, slots=True)
class KubeletHoldings:
    """What the kubelet's books say of our resources."""

    holdings: tuple[Holding, ...] = ()
    strays: int = 0
    """Units that are held of accelerators which are not here (any more)."""


def kubelet_holdings(rows: Iterable[Row], inventory: Inventory) -> KubeletHoldings:
    """Return who holds what; resources of others are passed over.

    A kubelet may list a container's units in several rows, one for each part of the machine.
    """
    heaps: dict[tuple[Holder, MemoryUnit], list[str]] = {}
    for namespace, pod, container, resource, ids in rows:
        if resource.startswith(f"{DRIVER}/"):
            unit = MEMORY_RESOURCES.get(resource, MemoryUnit.MIB)
            heaps.setdefault((Holder(namespace, pod, container), unit), []).extend(ids)
    holdings: list[Holding] = []
    strays = 0
    for (holder, unit), ids in heaps.items():
        meaning = group_units(ids, inventory)
        holdings += [part.holding(holder, unit) for part in meaning.parts]
        strays += len(meaning.strays)
    return KubeletHoldings(tuple(holdings), strays)
