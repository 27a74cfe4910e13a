"""The devices that a scheduler allocated to a claim, read from the claim's status."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fairlead.cluster.api import ClusterClient
from fairlead.cluster.kinds import RESOURCE_CLAIMS
from fairlead.errors import KubeletError, NotFoundError
from fairlead.keys import BY_USE
from fairlead.kubelet.claims import KubeletClaim
from fairlead.offer import DRIVER
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


class ClaimReader:
    """Reads claims from the API server."""

    def __init__(self, cluster: ClusterClient) -> None:
        self._cluster = cluster

    async def read(self, claim: KubeletClaim, node: str) -> list[ClaimDevice]:
        """Return a claim's devices on this node; KubeletError where its allocation cannot be used."""
        try:
            live = await self._cluster.get(RESOURCE_CLAIMS, claim.name, claim.namespace)
        except NotFoundError:
            raise KubeletError(f"claim {claim.namespace}/{claim.name} does not exist any more") from None
        if live.metadata.uid != claim.uid:
            raise KubeletError(
                f"claim {claim.namespace}/{claim.name} has been replaced by another of this name"
            )
        return claim_devices(live.document(), node)


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
