"""What the agent writes to the API server: its node's labels and annotations, and slices for claims.

A watch event only says that something may differ. Before a write the reconciler reads the live object, so
that it never writes on the basis of a stale copy, and never writes what is there already.
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
from fairlead.keys import ALLOCATED, BY_USE, DEVICES, DIGEST, PLACEMENT_FORMAT
from fairlead.offer import DRIVER, Form, Holding
from fairlead.placement import PLACEMENTS
from fairlead.publish import labels, slices
from fairlead.publish.devices import devices
from fairlead.publish.node_patch import node_patch
from fairlead.settings.publishing import PublishConfig

_RETRY: Final = 10.0
_PARTING: Final = 2.0
"""Seconds for the last patch when the agent stops."""
_WRITTEN: Final = ("labels", "annotation", "slice")
MANAGER: Final = "fairlead-agent"
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class PublishedFacts:
    """What the reconciler publishes beside the accelerators themselves."""

    held: Iterable[Holding]
    """All holdings; they bound what claims can still get."""
    reported: Iterable[Holding]
    """The holdings that the kubelet and prepared claims confirm; the annotation lists them."""
    by_units: Collection[str] | None = None
    """The accelerators whose memory is offered in units; None while nothing is registered yet."""
    hands_over: bool = False
    """Whether the agent gives pods the accelerators that their binding's annotation names."""


class NodeReconciler:
    """Keeps this node's labels, annotations and slices equal to its accelerators."""

    def __init__(
        self, config: PublishConfig, cluster: ClusterClient, due: asyncio.Event, say: Callable[[str], None]
    ) -> None:
        self._config = config
        self._cluster = cluster
        self._due = due
        self._say = say
        self._nodes: dict[str, Node] = {}
        self._slices: dict[str, ResourceSlice] = {}
        self._listed: set[str] = set()
        """The kinds that have been listed once."""
        self._own_slices = f"spec.nodeName={config.node},spec.driver={DRIVER}"
        self._generations: dict[str, int] = {}
        """By slice, the generation of our last write: another generation is another client's write."""
        self._published = False
        self._last_error = ""
        self.written = Counter(dict.fromkeys(_WRITTEN, 0))
        self.failed = Counter(dict.fromkeys((*_WRITTEN, "read"), 0))

    def open(self, stack: AsyncExitStack) -> None:
        """Start the watches without waiting for them: the API server may be unavailable."""
        node = f"metadata.name={self._config.node}"
        tasks = [asyncio.create_task(self._follow(NODES, node, self._nodes))]
        if "claims" in self._config.targets:
            tasks.append(asyncio.create_task(self._follow(RESOURCE_SLICES, self._own_slices, self._slices)))
        for task in tasks:
            stack.callback(task.cancel)

    @property
    def kubelet(self) -> str:
        """The version of this node's kubelet; empty while it is unknown."""
        node = self._nodes.get(self._config.node)
        return node.status.node_info.kubelet_version if node else ""

    def problem(self) -> str:
        """Return why the node is not up to date yet; empty when it is."""
        return "" if self._published else self._last_error or "nothing is published to the API server yet"

    async def reconcile(self, inventory: Inventory, facts: PublishedFacts, *, claims: bool) -> None:
        """Write what differs; slices only once the driver is registered, or the kubelet would delete them."""
        if NODES.plural not in self._listed:
            return
        node = await self._reconcile_node(inventory, facts)
        if claims and RESOURCE_SLICES.plural in self._listed:
            await self._reconcile_slices(node, inventory, facts.held)
        self._published = True

    async def withdraw(self) -> None:
        """Remove the annotations that promise something: no agent keeps them now. The rest stays true."""
        node = self._nodes.get(self._config.node)
        promises = [key for key in (BY_USE, PLACEMENT_FORMAT) if node and key in node.metadata.annotations]
        if promises:
            patch = {"metadata": {"annotations": dict.fromkeys(promises)}}
            with suppress(FairleadError, TimeoutError):
                async with timeout(_PARTING):
                    await self._cluster.patch(NODES, self._config.node, patch, field_manager=MANAGER)

    async def _reconcile_node(self, inventory: Inventory, facts: PublishedFacts) -> Node:
        node = self._nodes.get(self._config.node)
        if node is not None and self._patch_of(node, inventory, facts) is None:
            return node
        node = await self._counted("read", self._cluster.get(NODES, self._config.node))
        patch = self._patch_of(node, inventory, facts)
        if patch is None:
            return node
        kind = "labels" if "labels" in patch["metadata"] else "annotation"
        return await self._counted(
            kind, self._cluster.patch(NODES, node.metadata.name, patch, field_manager=MANAGER)
        )

    def _patch_of(self, node: Node, inventory: Inventory, facts: PublishedFacts) -> dict[str, Any] | None:
        wanted: dict[str, str] = {}
        if "labels" in self._config.targets:
            wanted = {**labels.labels(inventory), **labels.restricted_labels(inventory)}
            wanted |= labels.legacy_labels(inventory) if self._config.legacy_labels else {}
        annotations: dict[str, str | None] = {}
        if self._config.forms:
            before, units = node.metadata.annotations.get(DEVICES), facts.by_units
            listed = before if units is None else devices(inventory, units)
            annotations = {ALLOCATED: allocated_text(facts.reported), DEVICES: listed}
        annotations |= {BY_USE: "1"} if Form.CLAIM in self._config.forms else {}
        annotations |= {PLACEMENT_FORMAT: str(PLACEMENTS.newest)} if facts.hands_over else {}
        return node_patch(node.metadata.labels, node.metadata.annotations, wanted, annotations)

    async def _reconcile_slices(self, node: Node, inventory: Inventory, held: Iterable[Holding]) -> None:
        wanted = slices.slices(node.metadata.name, node.metadata.uid, inventory, held, 0)
        if self._same(wanted, self._slices.values()):
            return
        listed = await self._counted("read", self._cluster.list(RESOURCE_SLICES, fields=self._own_slices))
        live = {each.metadata.name: each for each in listed.items}
        if self._same(wanted, live.values()):
            return
        generation = 1 + max((each.spec.pool.generation for each in live.values()), default=0)
        for body in slices.slices(node.metadata.name, node.metadata.uid, inventory, held, generation):
            name = body["metadata"]["name"]
            written = await self._counted("slice", self._put(body, live.pop(name, None)))
            self._generations[name] = written.metadata.generation
        for extra in live.values():
            await self._counted("slice", self._cluster.delete(RESOURCE_SLICES, extra.metadata.name))

    def _same(self, wanted: Sequence[dict[str, Any]], live: Iterable[ResourceSlice]) -> bool:
        """Whether the live slices have the wanted content; the server may have added defaults."""
        there = {}
        for each in live:
            changed = (
                self._generations.get(each.metadata.name, each.metadata.generation)
                != each.metadata.generation
            )
            there[each.metadata.name] = "" if changed else each.metadata.annotations.get(DIGEST)
        return there == {body["metadata"]["name"]: body["metadata"]["annotations"][DIGEST] for body in wanted}

    async def _put(self, body: dict[str, Any], live: ResourceSlice | None) -> Object:
        kind = RESOURCE_SLICES.raw()
        if live is None:
            return await self._cluster.create(kind, body, field_manager=MANAGER)
        metadata = {**body["metadata"], "resourceVersion": live.metadata.resource_version}
        return await self._cluster.update(kind, {**body, "metadata": metadata}, field_manager=MANAGER)

    async def _counted(self, what: str, request: Awaitable[V]) -> V:
        try:
            answer = await request
        except FairleadError as error:
            self.failed[what] += 1
            self._last_error = str(error)
            raise
        if what in self.written:
            self.written[what] += 1
        return answer

    async def _follow(self, kind: Kind[Any], fields: str, copy: dict[str, Any]) -> None:
        """Keep a copy up to date, across errors; a change that matters makes a publication due."""
        while True:
            try:
                async with Informer(self._cluster, kind, fields=fields) as informer:
                    await informer.wait_for_sync()
                    copy.clear()
                    copy.update({name: each for (_, name), each in informer.objects.items()})
                    self._listed.add(kind.plural)
                    self._due.set()
                    async for change in informer.changes():
                        if _apply(copy, change.object, gone=change.type == "deleted"):
                            self._due.set()
            except FairleadError as error:
                if str(error) != self._last_error:
                    self._say(f"cannot watch {kind}: {error}{f'; {error.hint}' if error.hint else ''}")
                self._last_error = str(error)
            await asyncio.sleep(_RETRY * random.uniform(0.8, 1.2))  # noqa: S311 - spreads load


def _apply(copy: dict[str, Any], item: Object, *, gone: bool) -> bool:
    """Apply a change; say whether it is more than a kubelet's heartbeat."""
    before = copy.pop(item.metadata.name, None)
    if gone:
        return before is not None
    copy[item.metadata.name] = item
    return before is None or _relevant(before) != _relevant(item)


def _relevant(item: Object) -> tuple[object, ...]:
    meta = item.metadata
    return meta.uid, meta.labels, meta.annotations, meta.generation
