"""From the kubelet's pod resources to holdings."""

from collections.abc import Iterable
from dataclasses import dataclass

from fairlead.inventory import Inventory
from fairlead.offer import DRIVER, Holder, Holding
from fairlead.publish.parts import MEMORY_RESOURCES, MemoryUnit, group_units

Row = tuple[str, str, str, str, Iterable[str]]
"""Namespace, pod, container, resource and unit ids, as the kubelet lists them."""


@dataclass(frozen=True, slots=True)
class KubeletHoldings:
    """What containers hold of our resources, from the kubelet's pod resources."""

    holdings: tuple[Holding, ...] = ()
    strays: int = 0
    """The number of held units whose accelerator is not on this node (any more)."""


def kubelet_holdings(rows: Iterable[Row], inventory: Inventory) -> KubeletHoldings:
    """Return the holdings of our resources; other resources are skipped.

    A kubelet may list a container's units in several rows, one for each NUMA node.
    """
    ids_by_holder: dict[tuple[Holder, MemoryUnit], list[str]] = {}
    for namespace, pod, container, resource, ids in rows:
        if resource.startswith(f"{DRIVER}/"):
            unit = MEMORY_RESOURCES.get(resource, MemoryUnit.MIB)
            ids_by_holder.setdefault((Holder(namespace, pod, container), unit), []).extend(ids)
    holdings: list[Holding] = []
    strays = 0
    for (holder, unit), ids in ids_by_holder.items():
        parsed = group_units(ids, inventory)
        holdings += [part.holding(holder, unit) for part in parsed.parts]
        strays += len(parsed.strays)
    return KubeletHoldings(tuple(holdings), strays)
