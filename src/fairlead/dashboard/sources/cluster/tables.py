"""ClusterTables: changes of objects in, rows on the board; only what changed is made again. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from fairlead.cache.cache import SchedulerCache
from fairlead.cache.translator import UnreadablePod
from fairlead.catalog import Catalog
from fairlead.cluster.meta import Raw
from fairlead.cluster.watch.changes import ObjectChange
from fairlead.dashboard.board import Board
from fairlead.dashboard.row_types import Row
from fairlead.dashboard.rows import UNMEASURED, DeviceNames, DeviceValues, device_rows
from fairlead.dashboard.sources.cluster.node_rows import live_node_row, unhealthy_reasons
from fairlead.dashboard.sources.cluster.pod_rows import pod_key, pod_row
from fairlead.manifest.types.kubernetes import Node
from fairlead.manifest.types.live import LivePod
from fairlead.request import Request
from fairlead.use import DeviceKey, UseReport

MOST_PLACES: Final = 500
"""Pods that wait, up to which each has its place in the queue: with more, one end would change all rows."""
_NO_USE: Final[Mapping[str, DeviceValues]] = {}


class ClusterTables:
    """The scheduler's cache of a cluster, and what of it the board does not show yet."""

    def __init__(self, board: Board, catalog: Catalog) -> None:
        self.cache = SchedulerCache(catalog, None)
        self._board = board
        self._names = DeviceNames(catalog)
        self._keys: dict[str, str] = {}
        """By uid: the key of a pod's row."""
        self._requests: dict[str, Request] = {}
        self._problems: dict[str, str] = {}
        """By uid of a pod that waits: what it requests, or why it cannot be read."""
        self._places: dict[str, int] = {}
        self._changed_pods: set[str] = set()
        self._changed_nodes: set[str] = set()
        self._use: dict[str, dict[str, DeviceValues]] = {}
        """By node and accelerator."""
        self._devices_of: dict[str, set[str]] = {}
        """By node: the keys of its accelerators' rows."""

    def on_event(self, change: ObjectChange[Any]) -> None:
        """Store a change of an object."""
        item = change.object
        if isinstance(item, Raw):
            return
        if isinstance(item, LivePod):
            self._on_pod(change, item)
        elif isinstance(item, Node):
            self._changed_nodes.add(item.metadata.name)
        self.cache.on_event(change)

    def _on_pod(self, change: ObjectChange[LivePod], pod: LivePod) -> None:
        self._changed_pods.add(pod.metadata.uid)
        self._changed_nodes.update({pod.spec.node_name} - {""})
        if change.new is not None:
            self._keys[pod.metadata.uid] = pod_key(pod)

    @property
    def dirty(self) -> bool:
        """Whether there may be something to show."""
        return bool(self._changed_pods or self._changed_nodes)

    def on_use(self, report: UseReport) -> None:
        """Store measured use; what a report does not hold stays as it was measured last."""
        holders: dict[tuple[str, str], dict[str, int]] = {}
        for key, sample in report.pods.items():
            if sample.memory is not None and (name := self._keys.get(key.pod_uid)) is not None:
                holders.setdefault((key.node, key.device), {})[name] = sample.memory
        for device, sample in report.devices.items():
            held = holders.pop((device.node, device.device), None)
            known = self._use.setdefault(device.node, {})
            before = known.get(device.device, UNMEASURED)
            values = replace(
                before, at=sample.at, memory_used=sample.memory, utilisation=sample.busy, holders=held
            )
            known[device.device] = values
            self._changed_nodes.add(device.node)

    def on_heat(self, at: float, device: DeviceKey, watts: float | None, celsius: float | None) -> None:
        """Store what an accelerator draws, and its temperature."""
        known = self._use.setdefault(device.node, {})
        before = known.get(device.device, UNMEASURED)
        known[device.device] = replace(before, at=max(at, before.at), watts=watts, celsius=celsius)
        self._changed_nodes.add(device.node)

    def refresh(self) -> None:
        """Show on the board what has changed."""
        delta = self.cache.sync()
        for pending in delta.pending:
            self._changed_pods.add(pending.id)
            self._problems.pop(pending.id, None)
            self._requests.pop(pending.id, None)
            if isinstance(pending, UnreadablePod):
                self._problems[pending.id] = pending.reason
            else:
                self._requests[pending.id] = pending
        nodes = self._changed_nodes | delta.nodes
        pods = self._changed_pods | {
            pod.metadata.uid for name in delta.nodes for pod in self.cache.pods_on(name)
        }
        pods |= self._moved_places()
        self._changed_nodes, self._changed_pods = set(), set()
        self._show_nodes(nodes)
        self._show_pods(pods)

    def _moved_places(self) -> set[str]:
        """Return the pods whose place in the queue changed."""
        waiting = [uid for uid in self._requests if self.cache.waits(uid)]
        if len(waiting) > MOST_PLACES:
            waiting = []
        order = sorted(waiting, key=self._queue_order)
        places = {uid: at + 1 for at, uid in enumerate(order)}
        moved = {
            uid for uid in places.keys() | self._places.keys() if places.get(uid) != self._places.get(uid)
        }
        self._places = places
        return moved

    def _queue_order(self, uid: str) -> tuple[int, str, str]:
        pod = self.cache.pod(uid)
        made = pod.metadata.creation_timestamp if pod is not None else ""
        return -self._requests[uid].priority, made, uid

    def _show_nodes(self, names: Iterable[str]) -> None:
        rows, gone = [], []
        devices: list[Row] = []
        for name in sorted(names):
            node = self.cache.node(name)
            if node is None:
                gone.append(name)
                self._use.pop(name, None)
                continue
            state = self.cache.cluster.node(name)
            problem = self.cache.read_errors.get(name)
            pods = self.cache.pods_on(name)
            rows.append(live_node_row(node, state, str(problem) if problem is not None else "", pods))
            if state is not None:
                placed = self.cache.cluster.placed_on(self.cache.cluster.row(name))
                use = self._use.get(name, _NO_USE)
                devices += device_rows(state, placed, self._names, use, unhealthy_reasons(node))
        self._board.apply("nodes", rows, gone)
        self._board.apply("devices", devices, self._gone_devices(set(names), {row.key for row in devices}))

    def _gone_devices(self, names: set[str], kept: set[str]) -> list[str]:
        """Return the keys of accelerators that these nodes had, and no longer have."""
        shown = self._devices_of
        gone = [key for name in names for key in shown.get(name, ()) if key not in kept]
        for name in names:
            shown.pop(name, None)
        for key in kept:
            shown.setdefault(key.partition("/")[0], set()).add(key)
        return gone

    def _show_pods(self, uids: Iterable[str]) -> None:
        rows, gone = [], []
        for uid in sorted(uids):
            pod = self.cache.pod(uid)
            if pod is None:
                if (key := self._keys.pop(uid, None)) is not None:
                    gone.append(key)
                self._requests.pop(uid, None)
                self._problems.pop(uid, None)
                continue
            placement = self.cache.cluster.placement(uid) if pod.spec.node_name else None
            problem = self._problems.get(uid, "")
            rows.append(pod_row(pod, self._requests.get(uid), placement, problem, self._places.get(uid)))
        shown = {row.key for row in rows}
        self._board.apply("workloads", rows, [key for key in gone if key not in shown])
