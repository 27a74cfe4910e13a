"""Ask the scheduler of a live cluster about a pod: its Lease names the leader and its address.

If the leader is a pod, the request goes through the API server's proxy, so it works wherever kubectl does. If
the leader is not a pod, or the user may not use the proxy, the request goes directly to its address.

The request carries the pod's uid, which the API server shows to every user that may read the pod. It carries
no credential of the user: the API server strips it from proxied requests, and a Lease may name any address.
"""

import asyncio
import http.client
import json
from dataclasses import dataclass
from typing import Any, Final

from fairlead import keys
from fairlead.cluster.client import Client
from fairlead.cluster.kinds import LEASES, PODS
from fairlead.cluster.objects import Lease
from fairlead.compat.aio import timeout
from fairlead.errors import AccessError, ClusterError, NotFoundError
from fairlead.manifest.types.live import LivePod
from fairlead.whatif.document import missing_fields

LEASE: Final = "fairlead-scheduler"
_TIMEOUT: Final = 4.0
"""Seconds; the leader itself stops after two."""
_LIMIT: Final = 4 << 20
"""The most bytes of an answer."""


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


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """Why there is no answer from the leader."""

    reason: str


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
    page = f"explain/{pod.metadata.namespace}/{pod.metadata.name}/{pod.metadata.uid}"
    answer: bytes | NoAnswer = NoAnswer("the leader's Lease names no address")
    if leader.pod:
        answer = await _through_api_server(client, leader.pod, page)
    if isinstance(answer, NoAnswer) and leader.address:
        direct = await asyncio.to_thread(_directly, leader.address, page)
        answer = direct if isinstance(direct, bytes) or not leader.pod else answer
    return answer if isinstance(answer, NoAnswer) else _read(answer, leader)


async def _through_api_server(client: Client, pod: str, page: str) -> bytes | NoAnswer:
    namespace, _, name = pod.partition("/")
    path = f"{PODS.path(namespace)}/{name}/proxy/{page}"
    try:
        async with timeout(_TIMEOUT):
            return await client.request("GET", path)
    except AccessError:
        return NoAnswer(f"asking the leader {pod} needs the right to get pods/proxy in {namespace}")
    except TimeoutError:
        return NoAnswer(f"the leader {pod} did not answer within {_TIMEOUT:.0f} s")
    except ClusterError as error:
        return NoAnswer(f"the leader {pod} could not be reached: {error}")


def _directly(address: str, page: str) -> bytes | NoAnswer:
    try:
        connection = http.client.HTTPConnection(address, timeout=_TIMEOUT)
        try:
            connection.request("GET", f"/{page}")
            answer = connection.getresponse()
            body = answer.read(_LIMIT)
        finally:
            connection.close()
    except (OSError, ValueError, http.client.HTTPException) as error:
        return NoAnswer(f"the leader at {address} could not be reached: {error}")
    if answer.status != http.HTTPStatus.OK:
        return NoAnswer(f"the leader at {address} answered: {body[:200].decode(errors='replace').strip()}")
    return body


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
