"""The real allocations: the kubelet's pod-resources listing, with the amounts of claims."""

import asyncio
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from fairlead.annotations import Amounts, parse_allocated
from fairlead.errors import ClusterError, KubeletError
from fairlead.inventory import Inventory
from fairlead.keys import ALLOCATED
from fairlead.kubelet.podresources import PodResourcesListing, read_pod_resources
from fairlead.offer import Form, Holder, Holding
from fairlead.publish.parts import MEMORY_RESOURCES, Refusal, mebibytes, parse_units
from fairlead.units import parse_quantity
from tests.e2e.api import CLAIMS, Api, Document
from tests.e2e.install import Site

_PAUSE = 0.2


@dataclass(frozen=True, slots=True)
class KubeletAllocations:
    """All holdings at one moment; a holder's name is that of its pod."""

    holdings: tuple[Holding, ...]

    def of(self, namespace: str) -> dict[str, Holding]:
        """Return the holdings of a namespace's pods, one per pod."""
        return {
            holding.holder.name: holding for holding in self.holdings if holding.holder.namespace == namespace
        }


def read_allocations(site: Site, api: Api | None = None) -> KubeletAllocations:
    """Read the kubelet's pod-resources listing; the amount of a claim is in its status."""
    listing = asyncio.run(read_pod_resources(site.lab.kubelet / "pod-resources" / "kubelet.sock"))
    inventory = site.inventory()
    return KubeletAllocations((*_units(listing, inventory), *_claims(listing, api or site.api)))


def conflicts(allocations: KubeletAllocations, inventory: Inventory) -> list[str]:
    """Return the accelerators that are allocated twice, or beyond their memory."""
    messages = []
    for acc in inventory.accelerators:
        holdings = [holding for holding in allocations.holdings if holding.accelerator == acc.id]
        whole = [holding for holding in holdings if not holding.mebibytes]
        units = [
            number
            for holding in holdings
            for first, last in holding.units
            for number in range(first, last + 1)
        ]
        if whole and len(holdings) > 1:
            messages.append(f"{acc.id} is held whole and by others: {_format(holdings)}")
        if len(units) != len(set(units)):
            messages.append(f"{acc.id}: the same units are held twice: {_format(holdings)}")
        if sum(holding.mebibytes for holding in holdings) > mebibytes(acc):
            messages.append(f"{acc.id} is over-allocated: {_format(holdings)}")
    return messages


def annotation_amounts(site: Site) -> Amounts:
    """Return the amounts in the node's annotation."""
    text = site.node()["metadata"].get("annotations", {}).get(ALLOCATED, '{"version":1,"accelerators":{}}')
    amounts = parse_allocated(text)
    assert amounts is not None, text
    return amounts


@contextmanager
def watch_conflicts(site: Site) -> Iterator[None]:
    """Poll the allocations, and fail if a device is ever allocated twice.

    A conflict in a single poll may be two moments in one: a pod that ends and one that starts.
    """
    stop, repeated, looks = threading.Event(), set[str](), [0]
    inventory = site.inventory()

    def look() -> None:
        api, last = Api(site.lab.config), set[str]()
        while not stop.wait(_PAUSE):
            try:
                now = set(conflicts(read_allocations(site, api), inventory))
            except (KubeletError, ClusterError):  # the kubelet is being restarted
                continue
            looks[0] += 1
            repeated.update(now & last)
            last = now
        api.close()

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
        seen, until = looks[0], time.monotonic() + 10
        while looks[0] < seen + 2 and time.monotonic() < until:
            time.sleep(_PAUSE)
    finally:
        stop.set()
        thread.join()
    assert not repeated, "\n".join(sorted(repeated))
    assert looks[0] >= 2, "no poll succeeded"


def _units(listing: PodResourcesListing, inventory: Inventory) -> Iterator[Holding]:
    for held in listing.devices:
        unit = MEMORY_RESOURCES.get(held.resource)
        parts = parse_units(held.ids, inventory, unit) if unit else parse_units(held.ids, inventory)
        assert not isinstance(parts, Refusal), parts
        for part in parts:
            holder = Holder(held.namespace, held.pod, held.container)
            yield part.holding(holder, unit) if unit else part.holding(holder)


def _claims(listing: PodResourcesListing, api: Api) -> Iterator[Holding]:
    for held in listing.claims:
        claim = api.get(f"{CLAIMS}/namespaces/{held.namespace}/resourceclaims/{held.claim}")
        amount = sum(_amount(row) for row in results(claim) if row["device"] == held.device)
        yield Holding(held.device, Form.CLAIM, Holder(held.namespace, held.pod), amount)


def results(claim: Document | None) -> Sequence[Document]:
    """Return the allocation results of a claim."""
    allocation = (claim or {}).get("status", {}).get("allocation", {})
    return list(allocation.get("devices", {}).get("results", ()))


def _amount(row: Document) -> int:
    return parse_quantity(row.get("consumedCapacity", {}).get("memory", "0")) >> 20


def _format(holdings: Sequence[Holding]) -> str:
    return ", ".join(
        f"{holding.form} {holding.holder.name} {holding.mebibytes} {holding.units}" for holding in holdings
    )
