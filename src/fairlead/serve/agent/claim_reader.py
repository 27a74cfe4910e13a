"""What the scheduler allotted to a claim, as the claim's status says it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fairlead.cluster.api import ClusterClient
from fairlead.cluster.kinds import RESOURCE_CLAIMS
from fairlead.errors import KubeletError, NotFoundError
from fairlead.kubelet.claims import KubeletClaim
from fairlead.offer import DRIVER
from fairlead.units import parse_quantity


@dataclass(frozen=True, slots=True)
class ClaimDevice:
    """One device of ours that a claim got."""

    request: str
    """The request it serves; of one with alternatives, the part before the slash."""
    pool: str
    device: str
    mebibytes: int = 0
    """How much of its memory; 0 for all of it."""
    share: str = ""
    admin: bool = False
    """A claim that only looks: it has the device beside whoever holds it."""


class ClaimReader:
    """Reads claims from the API server."""

    def __init__(self, cluster: ClusterClient) -> None:
        self._cluster = cluster

    async def read(self, claim: KubeletClaim, node: str) -> list[ClaimDevice]:
        """Return what a claim was allotted on this node; KubeletError where that is nothing to go by."""
        try:
            found = await self._cluster.get(RESOURCE_CLAIMS, claim.name, claim.namespace)
        except NotFoundError:
            raise KubeletError(f"claim {claim.namespace}/{claim.name} is gone") from None
        if found.metadata.uid != claim.uid:
            raise KubeletError(f"claim {claim.namespace}/{claim.name} is another one by now")
        return claim_devices(found.document(), node)


def claim_devices(document: dict[str, Any], node: str) -> list[ClaimDevice]:
    """Return our devices of a claim that are on this node."""
    allocation = (document.get("status") or {}).get("allocation") or {}
    results: Sequence[dict[str, Any]] = (allocation.get("devices") or {}).get("results") or ()
    mine = [row for row in results if row.get("driver") == DRIVER]
    if not mine:
        raise KubeletError("the claim has no device of ours allocated: was it deallocated meanwhile?")
    elsewhere = [row for row in mine if row.get("pool") != node]
    if elsewhere:
        raise KubeletError(
            f"the claim's device {elsewhere[0].get('device')} is on {elsewhere[0].get('pool')}"
        )
    return [_allotment(row) for row in mine]


def _allotment(row: dict[str, Any]) -> ClaimDevice:
    amount = (row.get("consumedCapacity") or {}).get("memory")
    return ClaimDevice(
        request=str(row.get("request", "")).partition("/")[0],
        pool=str(row.get("pool", "")),
        device=str(row.get("device", "")),
        mebibytes=-(-parse_quantity(str(amount)) >> 20) if amount is not None else 0,
        share=str(row.get("shareID") or ""),
        admin=bool(row.get("adminAccess")),
    )
