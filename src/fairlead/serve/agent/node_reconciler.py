"""What the agent writes to the API server: labels and an annotation on its node, and slices for claims.

Watches only say that something may be amiss. Before a write the truth is read anew, so that nothing is
written on the word of a copy that lags behind, and nothing is written that is there already.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from fairlead.annotations import allocated_text
from fairlead.cluster.api import ClusterClient
from fairlead.cluster.kinds import NODES, RESOURCE_SLICES, Kind
from fairlead.cluster.meta import Object
from fairlead.cluster.objects import Node, ResourceSlice
from fairlead.cluster.watch.informer import Informer
from fairlead.compat.aio import timeout
from fairlead.errors import FairleadError
from fairlead.inventory import Inventory
from fairlead.keys import ALLOCATED, DEVICES, DIGEST, PLACEMENT_FORMAT
from fairlead.offer import DRIVER, Holding
from fairlead.placement import PLACEMENTS
from fairlead.publish import labels, slices
from fairlead.publish.devices import devices
from fairlead.publish.node_patch import node_patch
from fairlead.settings.publishing import PublishConfig

_RETRY: Final = 10.0
_PARTING: Final = 2.0
"""Seconds for the last word to the API server."""
_WRITTEN: Final = ("labels", "annotation", "slice")
MANAGER: Final = "fairlead-agent"
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class PublishedFacts:
    """What there is to tell beside the accelerators themselves."""

    held: Iterable[Holding]
    """Bounds what claims can still have."""
    reported: Iterable[Holding]
    """What the kubelet said of it, and is told on."""
    by_units: Collection[str] | None = None
    """The accelerators whose memory is offered in units; None: the kubelet was shown nothing yet."""
    hands_over: bool = False
    """Whether pods get the accelerators that their bindings note."""


class NodeReconciler:
    """Keeps the API server's picture of this node's accelerators true."""

    def __init__(
        self, terms: PublishConfig, cluster: ClusterClient, due: asyncio.Event, say: Callable[[str], None]
    ) -> None:
        self._terms = terms
        self._cluster = cluster
        self._due = due
        self._say = say
        self._nodes: dict[str, Node] = {}
        self._slices: dict[str, ResourceSlice] = {}
        self._seen: set[str] = set()
        """Of which kinds a whole list was taken in."""
        self._mine = f"spec.nodeName={terms.node},spec.driver={DRIVER}"
        self._made: dict[str, int] = {}
        """By slice, the generation that our last write gave it: another one is somebody else's work."""
        self._told = False
        self._trouble = ""
        self.written = Counter(dict.fromkeys(_WRITTEN, 0))
        self.failed = Counter(dict.fromkeys((*_WRITTEN, "read"), 0))

    def open(self, stack: AsyncExitStack) -> None:
        """Begin to follow what is published, without waiting: the API server may be away."""
        node = f"metadata.name={self._terms.node}"
        tasks = [asyncio.create_task(self._follow(NODES, node, self._nodes))]
        if "claims" in self._terms.targets:
            tasks.append(asyncio.create_task(self._follow(RESOURCE_SLICES, self._mine, self._slices)))
        for task in tasks:
            stack.callback(task.cancel)

    @property
    def kubelet(self) -> str:
        """The version of this node's kubelet; empty while it is not known."""
        node = self._nodes.get(self._terms.node)
        return node.status.node_info.kubelet_version if node else ""

    def problem(self) -> str:
        """Return why not everything is told yet."""
        return "" if self._told else self._trouble or "the API server has not been told yet"

    async def reconcile(self, inventory: Inventory, told: PublishedFacts, *, claims: bool) -> None:
        """Write what differs; slices only once the kubelet knows the driver, or it would delete them."""
        if NODES.plural not in self._seen:
            return
        node = await self._show_node(inventory, told)
        if claims and RESOURCE_SLICES.plural in self._seen:
            await self._show_slices(node, inventory, told.held)
        self._told = True

    async def withdraw(self) -> None:
        """Promise schedulers nothing while nobody is here to keep it; what else was told stays true."""
        node = self._nodes.get(self._terms.node)
        if node is not None and PLACEMENT_FORMAT in node.metadata.annotations:
            patch = {"metadata": {"annotations": {PLACEMENT_FORMAT: None}}}
            with suppress(FairleadError, TimeoutError):
                async with timeout(_PARTING):
                    await self._cluster.patch(NODES, self._terms.node, patch, field_manager=MANAGER)

    async def _show_node(self, inventory: Inventory, told: PublishedFacts) -> Node:
        node = self._nodes.get(self._terms.node)
        if node is not None and self._patch_of(node, inventory, told) is None:
            return node
        node = await self._counted("read", self._cluster.get(NODES, self._terms.node))
        patch = self._patch_of(node, inventory, told)
        if patch is None:
            return node
        kind = "labels" if "labels" in patch["metadata"] else "annotation"
        return await self._counted(
            kind, self._cluster.patch(NODES, node.metadata.name, patch, field_manager=MANAGER)
        )

    def _patch_of(self, node: Node, inventory: Inventory, told: PublishedFacts) -> dict[str, Any] | None:
        wanted: dict[str, str] = {}
        if "labels" in self._terms.targets:
            wanted = {**labels.labels(inventory), **labels.restricted_labels(inventory)}
            wanted |= labels.legacy_labels(inventory) if self._terms.legacy_labels else {}
        notes: dict[str, str | None] = {}
        if self._terms.forms:
            before, units = node.metadata.annotations.get(DEVICES), told.by_units
            listed = before if units is None else devices(inventory, units)
            notes = {ALLOCATED: allocated_text(told.reported), DEVICES: listed}
        notes |= {PLACEMENT_FORMAT: str(PLACEMENTS.newest)} if told.hands_over else {}
        return node_patch(node.metadata.labels, node.metadata.annotations, wanted, notes)

    async def _show_slices(self, node: Node, inventory: Inventory, held: Iterable[Holding]) -> None:
        wanted = slices.slices(node.metadata.name, node.metadata.uid, inventory, held, 0)
        if self._same(wanted, self._slices.values()):
            return
        listed = await self._counted("read", self._cluster.list(RESOURCE_SLICES, fields=self._mine))
        live = {each.metadata.name: each for each in listed.items}
        if self._same(wanted, live.values()):
            return
        generation = 1 + max((each.spec.pool.generation for each in live.values()), default=0)
        for body in slices.slices(node.metadata.name, node.metadata.uid, inventory, held, generation):
            name = body["metadata"]["name"]
            put = await self._counted("slice", self._put(body, live.pop(name, None)))
            self._made[name] = put.metadata.generation
        for extra in live.values():
            await self._counted("slice", self._cluster.delete(RESOURCE_SLICES, extra.metadata.name))

    def _same(self, wanted: Sequence[dict[str, Any]], live: Iterable[ResourceSlice]) -> bool:
        """Whether the slices that are there say what is wanted; the server may have added defaults."""
        there = {}
        for each in live:
            changed = self._made.get(each.metadata.name, each.metadata.generation) != each.metadata.generation
            there[each.metadata.name] = "" if changed else each.metadata.annotations.get(DIGEST)
        return there == {body["metadata"]["name"]: body["metadata"]["annotations"][DIGEST] for body in wanted}

    async def _put(self, body: dict[str, Any], live: ResourceSlice | None) -> Object:
        kind = RESOURCE_SLICES.raw()
        if live is None:
            return await self._cluster.create(kind, body, field_manager=MANAGER)
        metadata = {**body["metadata"], "resourceVersion": live.metadata.resource_version}
        return await self._cluster.update(kind, {**body, "metadata": metadata}, field_manager=MANAGER)

    async def _counted(self, what: str, asking: Awaitable[V]) -> V:
        try:
            answer = await asking
        except FairleadError as error:
            self.failed[what] += 1
            self._trouble = str(error)
            raise
        if what in self.written:
            self.written[what] += 1
        return answer

    async def _follow(self, kind: Kind[Any], fields: str, copy: dict[str, Any]) -> None:
        """Keep a copy, whatever happens; every change of what is looked at here rings the bell."""
        while True:
            try:
                async with Informer(self._cluster, kind, fields=fields) as informer:
                    await informer.ready()
                    copy.clear()
                    copy.update({name: each for (_, name), each in informer.objects.items()})
                    self._seen.add(kind.plural)
                    self._due.set()
                    async for change in informer.changes():
                        if _take(copy, change.object, gone=change.type == "deleted"):
                            self._due.set()
            except FairleadError as error:
                if str(error) != self._trouble:
                    self._say(f"cannot follow {kind}: {error}{f'; {error.hint}' if error.hint else ''}")
                self._trouble = str(error)
            await asyncio.sleep(_RETRY * random.uniform(0.8, 1.2))  # noqa: S311 - spreads load


def _take(copy: dict[str, Any], item: Object, *, gone: bool) -> bool:
    """Take a change in; say whether it is more than a heartbeat, with which a kubelet changes its node."""
    before = copy.pop(item.metadata.name, None)
    if gone:
        return before is not None
    copy[item.metadata.name] = item
    return before is None or _looked_at(before) != _looked_at(item)


def _looked_at(item: Object) -> tuple[object, ...]:
    said = item.metadata
    return said.uid, said.labels, said.annotations, said.generation
