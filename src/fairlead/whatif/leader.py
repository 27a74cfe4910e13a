"""Ask the scheduler of a live cluster about a pod: its Lease names the leader and its address.

If the leader is a pod, the request goes through the API server's proxy, so it works wherever kubectl does. If
the leader is not a pod, or the user may not use the proxy, the request goes directly to its address.

The request carries the pod's uid, which the API server shows to every user that may read the pod. It carries
no credential of the user: the API server strips it from proxied requests, and a Lease may name any address.
"""

import json
from dataclasses import dataclass
from typing import Any, Final

from fairlead import keys
from fairlead.cluster.client import Client
from fairlead.cluster.kinds import LEASES
from fairlead.cluster.objects import Lease
from fairlead.errors import AccessError, NotFoundError
from fairlead.manifest.types.live import LivePod
from fairlead.whatif.document import missing_fields
from fairlead.whatif.pod_program import NoAnswer, PodProgram

LEASE: Final = "fairlead-scheduler"


@dataclass(frozen=True, slots=True)
class Leader:
    """The leading replica, and where it serves explanations."""

    holder: str
    scheduler: str
    address: str
    pod: str
    """`namespace/name:port`; empty if the leader is not a pod."""

    @classmethod
    def of(cls, lease: Lease) -> "Leader":
        """Read the leader from a Lease."""
        annotations = lease.metadata.annotations
        return cls(
            lease.spec.holder_identity,
            annotations.get(keys.LEADS_FOR, ""),
            annotations.get(keys.LEADER_ADDRESS, ""),
            annotations.get(keys.LEADER_POD, ""),
        )


async def find_leader(client: Client, namespace: str | None, scheduler: str) -> Leader | NoAnswer:
    """Return the leader of a scheduler; without a namespace, its Lease may be in any namespace."""
    try:
        leases = await _leases(client, namespace)
    except AccessError as error:
        return NoAnswer(f"the scheduler's Lease cannot be read: {error}")
    leaders = [leader for leader in map(Leader.of, leases) if leader.scheduler == scheduler]
    if not leaders:
        return NoAnswer(f"no fairlead scheduler is named {scheduler!r} in this cluster")
    active = [leader for leader in leaders if leader.holder]
    return active[0] if active else NoAnswer("no replica of the scheduler is the leader now")


async def _leases(client: Client, namespace: str | None) -> list[Lease]:
    if namespace is None:
        # From the server's cache: there is one Lease for each node, and leaders change rarely.
        listed = await client.list(LEASES, fields=f"metadata.name={LEASE}", resource_version="0")
        return list(listed.items)
    try:
        return [await client.get(LEASES, LEASE, namespace)]
    except NotFoundError:
        return []


async def ask_leader(client: Client, leader: Leader, pod: LivePod) -> dict[str, Any] | NoAnswer:
    """Return the leader's answer about a pod."""
    if not leader.pod and not leader.address:
        return NoAnswer("the leader's Lease names no address")
    path = f"explain/{pod.metadata.namespace}/{pod.metadata.name}/{pod.metadata.uid}"
    answer = await PodProgram("the leader", leader.pod, leader.address).read(client, path)
    return answer if isinstance(answer, NoAnswer) else _read(answer, leader)


def _read(body: bytes, leader: Leader) -> dict[str, Any] | NoAnswer:
    """Return an answer, if it is the leader's: the address may belong to another machine here."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict) or answer.get("leader") != leader.holder:
        return NoAnswer("the process at the leader's address is not the leader")
    if answer.get("state") == "unknown":
        return NoAnswer("the scheduler does not know the pod yet")
    if missing := missing_fields(answer):
        return NoAnswer(f"the leader, of another version, does not report {missing[0]}")
    return answer
