"""What is really handed out: the kubelet's own books, beside what claims and processes say."""

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
class Truth:
    """Who holds what at one moment; a holder's name is that of its pod."""

    holdings: tuple[Holding, ...]

    def of(self, namespace: str) -> dict[str, Holding]:
        """Return what the pods of a namespace hold, one thing each."""
        return {
            holding.holder.name: holding for holding in self.holdings if holding.holder.namespace == namespace
        }


def truth(site: Site, api: Api | None = None) -> Truth:
    """Look into the kubelet's books; how much a claim has stands in the claim."""
    books = asyncio.run(read_pod_resources(site.lab.kubelet / "pod-resources" / "kubelet.sock"))
    inventory = site.inventory()
    return Truth((*_units(books, inventory), *_claims(books, api or site.api)))


def faults(found: Truth, inventory: Inventory) -> list[str]:
    """Return where two hold the same thing, or more is handed out than there is."""
    said = []
    for acc in inventory.accelerators:
        mine = [holding for holding in found.holdings if holding.accelerator == acc.id]
        alone = [each for each in mine if not each.mebibytes]
        units = [number for each in mine for first, last in each.units for number in range(first, last + 1)]
        if alone and len(mine) > 1:
            said.append(f"{acc.id} is held whole and by others: {_shown(mine)}")
        if len(units) != len(set(units)):
            said.append(f"{acc.id}: the same units are held twice: {_shown(mine)}")
        if sum(each.mebibytes for each in mine) > mebibytes(acc):
            said.append(f"{acc.id} is over-allocated: {_shown(mine)}")
    return said


def annotated(site: Site) -> Amounts:
    """Return what the node's annotation says."""
    text = site.node()["metadata"].get("annotations", {}).get(ALLOCATED, '{"version":1,"accelerators":{}}')
    found = parse_allocated(text)
    assert found is not None, text
    return found


@contextmanager
def watched(site: Site) -> Iterator[None]:
    """Look again and again, and fail where something is ever held twice.

    What is seen once only may be two moments in one look: a pod that goes and one that comes.
    """
    stop, found, looks = threading.Event(), set[str](), [0]
    inventory = site.inventory()

    def look() -> None:
        api, last = Api(site.lab.config), set[str]()
        while not stop.wait(_PAUSE):
            try:
                now = set(faults(truth(site, api), inventory))
            except (KubeletError, ClusterError):  # the kubelet is being restarted
                continue
            looks[0] += 1
            found.update(now & last)
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
    assert not found, "\n".join(sorted(found))
    assert looks[0] >= 2, "nobody looked"


def _units(books: PodResourcesListing, inventory: Inventory) -> Iterator[Holding]:
    for held in books.devices:
        unit = MEMORY_RESOURCES.get(held.resource)
        parts = parse_units(held.ids, inventory, unit) if unit else parse_units(held.ids, inventory)
        assert not isinstance(parts, Refusal), parts
        for part in parts:
            holder = Holder(held.namespace, held.pod, held.container)
            yield part.holding(holder, unit) if unit else part.holding(holder)


def _claims(books: PodResourcesListing, api: Api) -> Iterator[Holding]:
    for held in books.claims:
        claim = api.get(f"{CLAIMS}/namespaces/{held.namespace}/resourceclaims/{held.claim}")
        amount = sum(_amount(row) for row in results(claim) if row["device"] == held.device)
        yield Holding(held.device, Form.CLAIM, Holder(held.namespace, held.pod), amount)


def results(claim: Document | None) -> Sequence[Document]:
    """Return what a claim was allotted."""
    allocation = (claim or {}).get("status", {}).get("allocation", {})
    return list(allocation.get("devices", {}).get("results", ()))


def _amount(row: Document) -> int:
    return parse_quantity(row.get("consumedCapacity", {}).get("memory", "0")) >> 20


def _shown(holdings: Sequence[Holding]) -> str:
    return ", ".join(
        f"{holding.form} {holding.holder.name} {holding.mebibytes} {holding.units}" for holding in holdings
    )
