"""Ask the scheduler of a live cluster about a pod: its Lease says who leads, and where to find it.

Through the API server where the leader is a pod: so it works wherever kubectl does. Directly, where it is
not, or where the API server may not be asked to pass something on.

The question carries the pod's uid, which the API server shows to whoever may read the pod. It carries no
credential of the user: the API server takes it off what it passes on, and a Lease may name any address.
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
_PATIENCE: Final = 4.0
"""Seconds; the leader itself gives up after two."""
_LIMIT: Final = 4 << 20
"""Bytes of an answer."""


@dataclass(frozen=True, slots=True)
class Leader:
    """The replica that decides, and where it can be asked."""

    holder: str
    scheduler: str
    address: str
    pod: str
    """`namespace/name:port`; empty where it is no pod."""

    @classmethod
    def of(cls, lease: Lease) -> "Leader":
        """Read a Lease."""
        notes = lease.metadata.annotations
        return cls(
            lease.spec.holder_identity,
            notes.get(keys.LEADS_FOR, ""),
            notes.get(keys.LEADER_ADDRESS, ""),
            notes.get(keys.LEADER_POD, ""),
        )


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """Why nobody answered."""

    reason: str


async def find_leader(client: Client, namespace: str | None, scheduler: str) -> Leader | NoAnswer:
    """Return who places the pods of a scheduler; without a namespace its Lease may be in any."""
    try:
        leases = await _leases(client, namespace)
    except AccessError as error:
        return NoAnswer(f"who leads cannot be seen: {error}")
    leaders = [each for each in map(Leader.of, leases) if each.scheduler == scheduler]
    if not leaders:
        return NoAnswer(f"no scheduler of ours is called {scheduler!r} here")
    led = [each for each in leaders if each.holder]
    return led[0] if led else NoAnswer("no replica of the scheduler leads at the moment")


async def _leases(client: Client, namespace: str | None) -> list[Lease]:
    if namespace is None:
        # As the server has them at hand: there is one for each node, and a leader leads for long.
        found = await client.list(LEASES, fields=f"metadata.name={LEASE}", resource_version="0")
        return list(found.items)
    try:
        return [await client.get(LEASES, LEASE, namespace)]
    except NotFoundError:
        return []


async def ask_leader(client: Client, leader: Leader, pod: LivePod) -> dict[str, Any] | NoAnswer:
    """Return what the leader says of a pod."""
    page = f"explain/{pod.metadata.namespace}/{pod.metadata.name}/{pod.metadata.uid}"
    found: bytes | NoAnswer = NoAnswer("the leader does not say where it can be asked")
    if leader.pod:
        found = await _through_the_server(client, leader.pod, page)
    if isinstance(found, NoAnswer) and leader.address:
        direct = await asyncio.to_thread(_directly, leader.address, page)
        found = direct if isinstance(direct, bytes) or not leader.pod else found
    return found if isinstance(found, NoAnswer) else _read(found, leader)


async def _through_the_server(client: Client, pod: str, page: str) -> bytes | NoAnswer:
    namespace, _, name = pod.partition("/")
    path = f"{PODS.path(namespace)}/{name}/proxy/{page}"
    try:
        async with timeout(_PATIENCE):
            return await client.request("GET", path)
    except AccessError:
        return NoAnswer(f"asking the leader {pod} needs the right to get pods/proxy in {namespace}")
    except TimeoutError:
        return NoAnswer(f"the leader {pod} did not answer within {_PATIENCE:.0f} s")
    except ClusterError as error:
        return NoAnswer(f"the leader {pod} could not be asked: {error}")


def _directly(address: str, page: str) -> bytes | NoAnswer:
    try:
        connection = http.client.HTTPConnection(address, timeout=_PATIENCE)
        try:
            connection.request("GET", f"/{page}")
            answer = connection.getresponse()
            body = answer.read(_LIMIT)
        finally:
            connection.close()
    except (OSError, ValueError, http.client.HTTPException) as error:
        return NoAnswer(f"the leader at {address} could not be asked: {error}")
    if answer.status != http.HTTPStatus.OK:
        return NoAnswer(f"the leader at {address} says: {body[:200].decode(errors='replace').strip()}")
    return body


def _read(body: bytes, leader: Leader) -> dict[str, Any] | NoAnswer:
    """Return an answer, unless it is somebody else's: an address may mean another machine here."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict) or answer.get("leader") != leader.holder:
        return NoAnswer("who answers where the leader should be is not the leader")
    if answer.get("state") == "unknown":
        return NoAnswer("the scheduler does not know of it yet")
    if missing := missing_fields(answer):
        return NoAnswer(f"the leader, of another version, does not tell its {missing[0]}")
    return answer
