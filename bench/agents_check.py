"""The expected labels, annotations and slices of every node, and differences of the API server's objects."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fairlead.annotations import allocated_text
from fairlead.cluster.client import Client
from fairlead.cluster.kinds import NODES, RESOURCE_SLICES
from fairlead.inventory import Inventory
from fairlead.keys import ALLOCATED, PREFIX, PUBLISHED
from fairlead.offer import DRIVER
from fairlead.publish.labels import RESTRICTED, labels, restricted_labels
from fairlead.publish.slices import slices
from fairlead.units import parse_quantity

Document = Mapping[str, Any]
FOREIGN = "example.org/"
"""The prefix of every key of the other writer."""
_OURS = PREFIX, RESTRICTED


@dataclass(slots=True)
class ExpectedNode:
    """The expected state of a node: what its agent publishes, and the last values of the other writer."""

    inventory: Inventory
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)

    def entries(self) -> dict[str, dict[str, str]]:
        """Return labels and annotations, without those of Kubernetes."""
        ours = {**labels(self.inventory), **restricted_labels(self.inventory)}
        published = {PUBLISHED: ",".join(sorted(ours)), ALLOCATED: allocated_text(())}
        return {"labels": {**ours, **self.labels}, "annotations": {**published, **self.annotations}}


async def faults(client: Client, wanted: Mapping[str, ExpectedNode], *, foreign: bool) -> list[str]:
    """Return the differences from the expected state; `foreign`: also in the keys of the other writer."""
    nodes = {each.metadata.name: each.document() for each in (await client.list(NODES.raw())).items}
    mine: dict[str, list[Document]] = {name: [] for name in wanted}
    for item in (await client.list(RESOURCE_SLICES.raw())).items:
        document = item.document()
        mine.setdefault(document["spec"].get("nodeName", "no node"), []).append(document)
    differences = [f"{name}: slices of a node that has no agent" for name in mine.keys() - wanted.keys()]
    prefixes = (*_OURS, FOREIGN) if foreign else _OURS
    for name, expected in wanted.items():
        node = nodes[name]
        differences += [f"{name}: {fault}" for fault in _node_faults(node, expected, prefixes)]
        differences += [f"{name}: {fault}" for fault in _slice_faults(mine[name], node, expected)]
    return differences


def _node_faults(node: Document, expected: ExpectedNode, prefixes: tuple[str, ...]) -> Iterator[str]:
    for kind, entries in expected.entries().items():
        there = node["metadata"].get(kind, {})
        for key in sorted(key for key in there.keys() | entries.keys() if key.startswith(prefixes)):
            if there.get(key) != entries.get(key):
                yield f"{kind}: {key} is {there.get(key)!r}, not {entries.get(key)!r}"


def _slice_faults(listed: Iterable[Document], node: Document, expected: ExpectedNode) -> Iterator[str]:
    name, uid = node["metadata"]["name"], node["metadata"]["uid"]
    there = {each["metadata"]["name"]: each for each in listed}
    should = {slice_["metadata"]["name"]: slice_ for slice_ in slices(name, uid, expected.inventory, (), 0)}
    for key in sorted(there.keys() ^ should.keys()):
        yield f"slice {key} is {'missing' if key in should else 'one too many'}"
    for key in sorted(there.keys() & should.keys()):
        spec, owners = there[key]["spec"], there[key]["metadata"]["ownerReferences"]
        if (spec["driver"], spec["pool"]["name"], owners[0]["uid"]) != (DRIVER, name, uid):
            yield f"slice {key} is not of this node and driver"
        if list(map(_device_facts, spec["devices"])) != list(
            map(_device_facts, should[key]["spec"]["devices"])
        ):
            yield f"slice {key} has other devices"
    if len({each["spec"]["pool"]["generation"] for each in there.values()}) > 1:
        yield "its slices are of several generations"


def _device_facts(device: Document) -> tuple[object, ...]:
    """Return the compared fields of a device; the server may write 1024Mi as 1Gi."""
    memory = parse_quantity(device.get("capacity", {}).get("memory", {}).get("value", "0"))
    return device["name"], device["attributes"], memory, device.get("allowMultipleAllocations")
