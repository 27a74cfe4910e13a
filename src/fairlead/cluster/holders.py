"""Pods and claims that hold devices of fairlead's driver, and how to release them: an uninstall waits.

While a pod holds a claim of the driver, its kubelet needs the node's agent to end the pod: without the agent
the pod stays in Terminating, and its CDI file on the node. So agents may go only after the last holder.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from fairlead.cluster.api import ClusterClient
from fairlead.cluster.kinds import NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Kind
from fairlead.cluster.meta import Object, ObjectPart
from fairlead.cluster.objects import Allocation, Consumer, Node, Pod
from fairlead.errors import ConflictError, InvalidError, MissingApiError, NotFoundError
from fairlead.keys import PREFIX, RETRACTING
from fairlead.offer import DRIVER

_LIST_INTERVAL: Final = 1.0
"""Seconds between two lists."""
_ENDED_PHASES: Final = ("Succeeded", "Failed")
_MAX_ATTEMPTS: Final = 5
"""Attempts to change a taint while other writers change theirs."""


class HeldClaimStatus(ObjectPart, frozen=True):
    """The devices allocated to a claim, and the pods that it is reserved for."""

    allocation: Allocation = Allocation()
    reserved_for: tuple[Consumer, ...] = ()


class HeldClaim(Object, frozen=True):
    """A claim, reduced to the devices that it holds."""

    status: HeldClaimStatus = HeldClaimStatus()

    @property
    def ours(self) -> bool:
        """Whether the claim holds a device of fairlead's driver."""
        return any(result.driver == DRIVER for result in self.status.allocation.devices.results)


CLAIMS: Final = Kind(
    RESOURCE_CLAIMS.group,
    RESOURCE_CLAIMS.version,
    RESOURCE_CLAIMS.plural,
    True,
    HeldClaim,
    RESOURCE_CLAIMS.name,
)


@dataclass(frozen=True, slots=True, order=True)
class DeviceHolder:
    """A pod that holds devices of fairlead's driver, or a claim that holds some without a pod."""

    namespace: str
    pod: str
    """The pod's name; empty if the claim is reserved for no existing pod."""
    claims: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    node: str = ""
    made_by: str = ""
    """The controller of the pod: `ReplicaSet web-5d9c`."""

    def __str__(self) -> str:
        """Return the holder as messages name it."""
        if not self.pod:
            return f"claim {self.namespace}/{self.claims[0]} (no pod)"
        where = f" on {self.node}" if self.node else ""
        made = f", made by {self.made_by}" if self.made_by else ""
        return f"pod {self.namespace}/{self.pod}{where} ({self._held()}{made})"

    def _held(self) -> str:
        claims = [f"claim {name}" for name in self.claims]
        return ", ".join([*claims, *self.resources])

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the contract."""
        return {
            "namespace": self.namespace,
            "pod": self.pod,
            "claims": list(self.claims),
            "resources": list(self.resources),
            "node": self.node,
            "made_by": self.made_by,
        }


def find_holders(pods: Iterable[Pod], claims: Iterable[HeldClaim]) -> list[DeviceHolder]:
    """Return the pods that hold devices of the driver, by claim or by resource, and claims without a pod."""
    by_uid = {pod.metadata.uid: pod for pod in pods}
    claims_by_pod: dict[str, list[str]] = {}
    unused = []
    for claim in claims:
        if not claim.ours:
            continue
        users = [consumer.uid for consumer in claim.status.reserved_for if consumer.uid in by_uid]
        for uid in users:
            claims_by_pod.setdefault(uid, []).append(claim.metadata.name)
        if not users:
            unused.append(DeviceHolder(claim.metadata.namespace, "", (claim.metadata.name,)))
    candidates = [_holder(pod, claims_by_pod.get(uid, ())) for uid, pod in by_uid.items()]
    return sorted([*unused, *(holder for holder in candidates if holder.claims or holder.resources)])


def _holder(pod: Pod, claims: Iterable[str]) -> DeviceHolder:
    # A kubelet reports a pod as ended only after it unprepared the claims: an ended pod holds nothing.
    controller = next(
        (owner_reference for owner_reference in pod.metadata.owner_references if owner_reference.controller),
        None,
    )
    holds = pod.spec.node_name and pod.status.phase not in _ENDED_PHASES
    return DeviceHolder(
        pod.metadata.namespace,
        pod.metadata.name,
        tuple(sorted(claims)),
        tuple(sorted(_resources(pod))) if holds else (),
        pod.spec.node_name,
        f"{controller.kind} {controller.name}" if controller else "",
    )


def _resources(pod: Pod) -> set[str]:
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    amounts: list[Mapping[str, str]] = [
        part
        for container in containers
        for part in (container.resources.requests, container.resources.limits)
    ]
    return {name for part in amounts for name, amount in part.items() if _is_ours(name, amount)}


def _is_ours(name: str, amount: str) -> bool:
    return name.startswith(PREFIX) and str(amount) != "0"


async def list_holders(cluster: ClusterClient) -> list[DeviceHolder]:
    """Return the holders of a cluster."""
    claims: tuple[HeldClaim, ...] = ()
    with suppress(MissingApiError):  # before Kubernetes 1.34
        claims = (await cluster.list(CLAIMS)).items
    # Pods are listed second: a claim that is reserved for a pod then never looks like one without.
    return find_holders((await cluster.list(PODS)).items, claims)


async def wait_for_holders(
    cluster: ClusterClient,
    seconds: float,
    on_change: Callable[[list[DeviceHolder]], None] = lambda holders: None,
    on_list: Callable[[list[DeviceHolder]], Awaitable[None]] | None = None,
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> list[DeviceHolder]:
    """Wait until no holder is left, at most this many seconds; return the holders that are left.

    `on_change` is called when the holders change, `on_list` with every list.
    """
    before: list[DeviceHolder] = []
    while True:
        holders = await list_holders(cluster)
        if holders and holders != before:
            on_change(holders)
        if holders and on_list is not None:
            await on_list(holders)
        if not holders or seconds <= 0:
            return holders
        before = holders
        step = min(_LIST_INTERVAL, seconds)
        await pause(step)
        seconds -= step


async def taint_nodes(cluster: ClusterClient) -> list[str]:
    """Taint the nodes that offer devices of the driver: controllers replace their pods. Return the names."""
    slices: tuple[Any, ...] = ()
    with suppress(MissingApiError):  # before Kubernetes 1.34
        slices = (await cluster.list(RESOURCE_SLICES, fields=f"spec.driver={DRIVER}")).items
    offered = {slice_.spec.node_name for slice_ in slices}
    nodes = [
        node
        for node in (await cluster.list(NODES)).items
        if node.metadata.name in offered
        or any(_is_ours(name, amount) for name, amount in node.status.allocatable.items())
    ]
    for node in nodes:
        await _change_taint(cluster, node, _add_taint)
    return sorted(node.metadata.name for node in nodes)


async def untaint_node(cluster: ClusterClient, node: Node) -> None:
    """Remove the taint from a node that has it."""
    await _change_taint(cluster, node, _remove_taint)


async def _change_taint(
    cluster: ClusterClient, node: Node, change: Callable[[Node], list[dict[str, Any]]]
) -> None:
    """Change one taint of a node: the taints are one list that other writers change as well."""
    for _ in range(_MAX_ATTEMPTS):
        patch = change(node)
        if not patch:
            return
        try:
            await cluster.patch(NODES, node.metadata.name, patch, patch_type="json")
            return
        except NotFoundError:
            return
        except InvalidError:  # the taints have changed since the node was read
            node = await cluster.get(NODES, node.metadata.name)
    raise ConflictError(
        f"the taints of node {node.metadata.name} keep changing", "find what writes them, and try again"
    )


def _add_taint(node: Node) -> list[dict[str, Any]]:
    taint = {"key": RETRACTING, "effect": "NoSchedule"}
    if any(present.key == RETRACTING for present in node.spec.taints):
        return []
    if node.spec.taints:
        return [{"op": "add", "path": "/spec/taints/-", "value": taint}]
    return [
        {"op": "test", "path": "/spec/taints", "value": None},
        {"op": "add", "path": "/spec/taints", "value": [taint]},
    ]


def _remove_taint(node: Node) -> list[dict[str, Any]]:
    indices = [index for index, taint in enumerate(node.spec.taints) if taint.key == RETRACTING]
    if not indices:
        return []
    path = f"/spec/taints/{indices[0]}"
    return [{"op": "test", "path": f"{path}/key", "value": RETRACTING}, {"op": "remove", "path": path}]


async def release_holders(cluster: ClusterClient, holders: Iterable[DeviceHolder]) -> None:
    """Delete the pods that hold devices, and deallocate claims that are reserved for no pod.

    A claim that is reserved for a deleted pod is left to its controller, which knows more.
    """
    for holder in holders:
        with suppress(NotFoundError, ConflictError):  # deleted or changed: the next list shows it
            if holder.pod:
                await cluster.delete(PODS, holder.pod, holder.namespace)
                continue
            claim = await cluster.get(CLAIMS, holder.claims[0], holder.namespace)
            if not claim.status.reserved_for:
                precise = {"resourceVersion": claim.metadata.resource_version}
                free = {"metadata": precise, "status": {"allocation": None}}
                await cluster.patch_status(CLAIMS, claim.metadata.name, free, holder.namespace)
