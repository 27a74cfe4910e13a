"""The devices that a scheduler allocated to a claim, read from the claim's status."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fairlead.cluster.api import ClusterClient
from fairlead.cluster.kinds import PODS, RESOURCE_CLAIMS
from fairlead.cluster.objects import Pod
from fairlead.errors import AccessError, KubeletError, NotFoundError
from fairlead.keys import BY_USE
from fairlead.kubelet.claims import KubeletClaim
from fairlead.offer import DRIVER
from fairlead.publish.memory_limit import MemoryLimit
from fairlead.serve.agent.admission import memory_limit
from fairlead.serve.agent.pod_limiter import LimiterRequest, limiter_request
from fairlead.units import parse_quantity


@dataclass(frozen=True, slots=True)
class ClaimDevice:
    """One of our devices that a claim was allocated."""

    request: str
    """The claim's request that it serves; of a request with alternatives, the part before the slash."""
    pool: str
    device: str
    mebibytes: int = 0
    """The amount of its memory in MiB; 0 for all of it."""
    share: str = ""
    admin: bool = False
    """A claim with admin access, which uses the device beside its holder."""
    by_use: bool = False
    """Our scheduler placed the claim by measured use: claims may sum to more than the device has."""


@dataclass(frozen=True, slots=True)
class AllocatedClaim:
    """A claim's devices on this node, and how the pod that it is reserved for is limited."""

    devices: tuple[ClaimDevice, ...]
    limit: MemoryLimit | None = None
    limiter: LimiterRequest | None = None
    """What the pod asks of the limiter; None: nothing."""


class ClaimReader:
    """Reads claims from the API server."""

    def __init__(self, cluster: ClusterClient, *, hami: bool = False) -> None:
        self._cluster = cluster
        self._hami = hami

    async def read(self, claim: KubeletClaim, node: str) -> AllocatedClaim:
        """Return what a claim has on this node; KubeletError where its allocation cannot be used."""
        try:
            live = await self._cluster.get(RESOURCE_CLAIMS, claim.name, claim.namespace)
        except NotFoundError:
            raise KubeletError(f"claim {claim.namespace}/{claim.name} does not exist any more") from None
        if live.metadata.uid != claim.uid:
            raise KubeletError(
                f"claim {claim.namespace}/{claim.name} has been replaced by another of this name"
            )
        document = live.document()
        devices = tuple(claim_devices(document, node))
        pod = await self._pod(claim.namespace, claim_pods(document))
        limit = memory_limit(pod) if pod else None
        return AllocatedClaim(devices, limit, limiter_request(pod, limit, hami=self._hami) if pod else None)

    async def _pod(self, namespace: str, pods: Sequence[tuple[str, str]]) -> Pod | None:
        """Return the claim's pod; None where pods share the claim, or may not be read."""
        if len(pods) != 1:
            return None
        ((name, uid),) = pods
        try:
            pod = await self._cluster.get(PODS, name, namespace)
        except (AccessError, NotFoundError):
            return None
        return pod if pod.metadata.uid == uid else None


def claim_pods(document: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the names and uids of the pods that a claim is reserved for."""
    consumers: Sequence[dict[str, Any]] = (document.get("status") or {}).get("reservedFor") or ()
    return [
        (str(row.get("name", "")), str(row.get("uid", "")))
        for row in consumers
        if row.get("resource") == "pods"
    ]


def claim_devices(document: dict[str, Any], node: str) -> list[ClaimDevice]:
    """Return our devices of a claim that are on this node."""
    allocation = (document.get("status") or {}).get("allocation") or {}
    results: Sequence[dict[str, Any]] = (allocation.get("devices") or {}).get("results") or ()
    own = [row for row in results if row.get("driver") == DRIVER]
    if not own:
        raise KubeletError("no device of ours is allocated to the claim: was it deallocated meanwhile?")
    elsewhere = [row for row in own if row.get("pool") != node]
    if elsewhere:
        raise KubeletError(
            f"the claim's device {elsewhere[0].get('device')} is on {elsewhere[0].get('pool')}"
        )
    by_use = ((document.get("metadata") or {}).get("annotations") or {}).get(BY_USE) == "1"
    return [_claim_device(row, by_use=by_use) for row in own]


def _claim_device(row: dict[str, Any], *, by_use: bool) -> ClaimDevice:
    amount = (row.get("consumedCapacity") or {}).get("memory")
    return ClaimDevice(
        request=str(row.get("request", "")).partition("/")[0],
        pool=str(row.get("pool", "")),
        device=str(row.get("device", "")),
        mebibytes=-(-parse_quantity(str(amount)) >> 20) if amount is not None else 0,
        share=str(row.get("shareID") or ""),
        admin=bool(row.get("adminAccess")),
        by_use=by_use,
    )
