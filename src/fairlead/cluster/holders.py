"""Pods and claims that hold devices of our driver, and how they are released: an uninstall waits for them.

While a pod holds a claim of ours, its kubelet needs the node's agent to end the pod: without the driver the
pod stays in Terminating, and its CDI file on the node. So agents may go only after the last holder.
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

_PAUSE: Final = 1.0
"""Seconds between two lists."""
_ENDED: Final = ("Succeeded", "Failed")
_TRIES: Final = 5
"""How often a taint is tried to be changed while others change theirs."""


class HeldClaimStatus(ObjectPart, frozen=True):
    """What a claim was given, and for which pods it is reserved."""

    allocation: Allocation = Allocation()
    reserved_for: tuple[Consumer, ...] = ()


class HeldClaim(Object, frozen=True):
    """A claim, as far as it holds devices."""

    status: HeldClaimStatus = HeldClaimStatus()

    @property
    def ours(self) -> bool:
        """Whether it holds a device of our driver."""
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
    """A pod that holds devices of ours, or a claim that holds some without a pod."""

    namespace: str
    pod: str
    """Its name; empty where a claim is reserved for no pod that exists."""
    claims: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    node: str = ""
    made_by: str = ""
    """The controller of the pod: `ReplicaSet web-5d9c`."""

    def __str__(self) -> str:
        """Return it for a sentence."""
        if not self.pod:
            return f"claim {self.namespace}/{self.claims[0]} (no pod)"
        where = f" on {self.node}" if self.node else ""
        made = f", made by {self.made_by}" if self.made_by else ""
        return f"pod {self.namespace}/{self.pod}{where} ({self._what()}{made})"

    def _what(self) -> str:
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
    """Return the pods that hold devices of ours, by claim or by resource, and the claims without a pod."""
    by_uid = {pod.metadata.uid: pod for pod in pods}
    named: dict[str, list[str]] = {}
    loose = []
    for claim in claims:
        if not claim.ours:
            continue
        users = [each.uid for each in claim.status.reserved_for if each.uid in by_uid]
        for uid in users:
            named.setdefault(uid, []).append(claim.metadata.name)
        if not users:
            loose.append(DeviceHolder(claim.metadata.namespace, "", (claim.metadata.name,)))
    found = [_holder(pod, named.get(uid, ())) for uid, pod in by_uid.items()]
    return sorted([*loose, *(each for each in found if each.claims or each.resources)])


def _holder(pod: Pod, claims: Iterable[str]) -> DeviceHolder:
    # A kubelet reports the end of a pod only after its claims were unprepared: what has ended holds nothing.
    maker = next(
        (owner_reference for owner_reference in pod.metadata.owner_references if owner_reference.controller),
        None,
    )
    holds = pod.spec.node_name and pod.status.phase not in _ENDED
    return DeviceHolder(
        pod.metadata.namespace,
        pod.metadata.name,
        tuple(sorted(claims)),
        tuple(sorted(_resources(pod))) if holds else (),
        pod.spec.node_name,
        f"{maker.kind} {maker.name}" if maker else "",
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
    # Pods come second: a claim that is reserved for a pod is then never taken for one without.
    return find_holders((await cluster.list(PODS)).items, claims)


async def wait_for_holders(
    cluster: ClusterClient,
    seconds: float,
    say: Callable[[list[DeviceHolder]], None] = lambda holders: None,
    look: Callable[[list[DeviceHolder]], Awaitable[None]] | None = None,
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> list[DeviceHolder]:
    """Return the holders that are left after so many seconds; none as soon as there is none.

    `say` is called when they change, `look` with every list.
    """
    before: list[DeviceHolder] = []
    while True:
        found = await list_holders(cluster)
        if found and found != before:
            say(found)
        if found and look is not None:
            await look(found)
        if not found or seconds <= 0:
            return found
        before = found
        step = min(_PAUSE, seconds)
        await pause(step)
        seconds -= step


async def taint_nodes(cluster: ClusterClient) -> list[str]:
    """Taint the nodes that offer devices of ours, and return their names: controllers replace their pods."""
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
        await _change(cluster, node, _tainted)
    return sorted(node.metadata.name for node in nodes)


async def untaint_node(cluster: ClusterClient, node: Node) -> None:
    """Take the taint off a node, where it has it."""
    await _change(cluster, node, _freed)


async def _change(cluster: ClusterClient, node: Node, change: Callable[[Node], list[dict[str, Any]]]) -> None:
    """Change one taint of a node: the list is one value, in which others write as well."""
    for _ in range(_TRIES):
        patch = change(node)
        if not patch:
            return
        try:
            await cluster.patch(NODES, node.metadata.name, patch, patch_type="json")
            return
        except NotFoundError:
            return
        except InvalidError:  # the taints are not as we saw them
            node = await cluster.get(NODES, node.metadata.name)
    raise ConflictError(
        f"the taints of node {node.metadata.name} change all the time", "see what writes them, and try again"
    )


def _tainted(node: Node) -> list[dict[str, Any]]:
    taint = {"key": RETRACTING, "effect": "NoSchedule"}
    if any(each.key == RETRACTING for each in node.spec.taints):
        return []
    if node.spec.taints:
        return [{"op": "add", "path": "/spec/taints/-", "value": taint}]
    return [
        {"op": "test", "path": "/spec/taints", "value": None},
        {"op": "add", "path": "/spec/taints", "value": [taint]},
    ]


def _freed(node: Node) -> list[dict[str, Any]]:
    found = [number for number, each in enumerate(node.spec.taints) if each.key == RETRACTING]
    if not found:
        return []
    place = f"/spec/taints/{found[0]}"
    return [{"op": "test", "path": f"{place}/key", "value": RETRACTING}, {"op": "remove", "path": place}]


async def release_holders(cluster: ClusterClient, found: Iterable[DeviceHolder]) -> None:
    """Delete the pods that hold something, and deallocate claims that are reserved for none.

    A claim that is reserved for a pod that is gone is left to its controller, which knows more.
    """
    for holder in found:
        with suppress(NotFoundError, ConflictError):  # gone or changed: the next list tells
            if holder.pod:
                await cluster.delete(PODS, holder.pod, holder.namespace)
                continue
            claim = await cluster.get(CLAIMS, holder.claims[0], holder.namespace)
            if not claim.status.reserved_for:
                precise = {"resourceVersion": claim.metadata.resource_version}
                free = {"metadata": precise, "status": {"allocation": None}}
                await cluster.patch_status(CLAIMS, claim.metadata.name, free, holder.namespace)
