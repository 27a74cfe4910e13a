"""What 500 nodes should carry, and where they differ from it: judged by what the API server says alone."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fairlead.cluster.client import Client
from fairlead.cluster.kinds import NODES, RESOURCE_SLICES
from fairlead.inventory import Inventory
from fairlead.offer import DRIVER
from fairlead.publish.labels import PREFIX, RESTRICTED, labels, restricted_labels
from fairlead.publish.ledger import allocated
from fairlead.publish.notice import ALLOCATED, PUBLISHED
from fairlead.publish.slices import slices
from fairlead.units import parse_quantity

Document = Mapping[str, Any]
FOREIGN = "example.org/"
"""The prefix of everything that somebody else writes."""


@dataclass(slots=True)
class Wanted:
    """What a node should carry: what its agent publishes, and what somebody else wrote last."""

    inventory: Inventory
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)

    def all_labels(self) -> dict[str, str]:
        """Return its labels, without those that are Kubernetes' own."""
        return {**labels(self.inventory), **restricted_labels(self.inventory), **self.labels}

    def all_annotations(self) -> dict[str, str]:
        """Return its annotations, without those that are Kubernetes' own."""
        ours = sorted({**labels(self.inventory), **restricted_labels(self.inventory)})
        return {PUBLISHED: ",".join(ours), ALLOCATED: allocated(()), **self.annotations}


async def faults(client: Client, wanted: Mapping[str, Wanted]) -> list[str]:
    """Return where the cluster is not as it should be."""
    nodes = {each.metadata.name: each.document() for each in (await client.list(NODES.raw())).items}
    found = [each.document() for each in (await client.list(RESOURCE_SLICES.raw())).items]
    mine: dict[str, list[Document]] = {name: [] for name in wanted}
    for each in found:
        mine.setdefault(each["spec"].get("nodeName", "no node"), []).append(each)
    said = [f"{name}: a slice of a node that has none" for name in mine.keys() - wanted.keys()]
    for name, wish in wanted.items():
        node = nodes.get(name, {"metadata": {}})
        said += [f"{name}: {fault}" for fault in (*_of_node(node, wish), *_of_slices(mine[name], node, wish))]
    return said


def _of_node(node: Document, wish: Wanted) -> Iterator[str]:
    prefixes = (PREFIX, RESTRICTED, FOREIGN)
    for kind, should in (("labels", wish.all_labels()), ("annotations", wish.all_annotations())):
        there = {
            key: value
            for key, value in node["metadata"].get(kind, {}).items()
            if key.startswith(prefixes)
        }
        for key in sorted(there.keys() | should.keys()):
            if there.get(key) != should.get(key):
                yield f"{kind}: {key} is {there.get(key)!r}, not {should.get(key)!r}"


def _of_slices(found: Iterable[Document], node: Document, wish: Wanted) -> Iterator[str]:
    name, uid = node["metadata"].get("name", ""), node["metadata"].get("uid", "")
    there = {each["metadata"]["name"]: each for each in found}
    should = {each["metadata"]["name"]: each for each in slices(name, uid, wish.inventory, (), 0)}
    for key in sorted(there.keys() ^ should.keys()):
        yield f"slice {key} is {'missing' if key in should else 'one too many'}"
    for key in there.keys() & should.keys():
        spec, metadata = there[key]["spec"], there[key]["metadata"]
        if [_told(each) for each in spec["devices"]] != [_told(each) for each in should[key]["spec"]["devices"]]:
            yield f"slice {key} tells of other devices"
        if (spec["driver"], spec["pool"]["name"]) != (DRIVER, name):
            yield f"slice {key} is in pool {spec['pool']['name']} of {spec['driver']}"
        if [owner["uid"] for owner in metadata["ownerReferences"]] != [uid]:
            yield f"slice {key} is not the node's own"
    if len({each["spec"]["pool"]["generation"] for each in there.values()}) > 1:
        yield "slices are of several generations"


def _told(device: Document) -> tuple[Any, ...]:
    """Return what a device says; the server writes 1024Mi as 1Gi."""
    memory = device.get("capacity", {}).get("memory", {}).get("value", "0")
    return device["name"], device["attributes"], parse_quantity(memory), device.get("allowMultipleAllocations")
