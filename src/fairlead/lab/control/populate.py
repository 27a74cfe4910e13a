"""Ask a lab's API server for what a cluster should hold: nodes, many at once, and the name server."""

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from fairlead.cluster.client import Client
from fairlead.cluster.config.types import AuthInfo, ClusterConfig
from fairlead.cluster.http.codec import encode_plain
from fairlead.cluster.kinds import NODES, PODS, SERVICE_ACCOUNTS
from fairlead.cluster.objects import Condition, Node
from fairlead.compat.times import parse_iso
from fairlead.errors import AlreadyExistsError, ClusterError, NotFoundError

IN_FLIGHT: Final = 64
"""Requests under way at once; more only wait in the API server instead of here."""
_NOT_READY: Final = "node.kubernetes.io/"

ProgressCallback = Callable[[int, int], None]


def admin_config(keys: Path, server: str) -> ClusterConfig:
    """Return the lab's administrator."""
    login = AuthInfo((keys / "admin.crt").read_bytes(), (keys / "admin.key").read_bytes())
    return ClusterConfig(server, source=str(keys), ca=(keys / "ca.crt").read_bytes(), login=login)


def create_nodes(
    where: ClusterConfig, manifests: Sequence[Mapping[str, Any]], tell: ProgressCallback
) -> None:
    """Create every node, many at once."""
    asyncio.run(_create_nodes(where, manifests, tell))


async def _create_nodes(
    where: ClusterConfig, manifests: Sequence[Mapping[str, Any]], tell: ProgressCallback
) -> None:
    waiting, done = iter(manifests), 0

    async def worker(client: Client) -> None:
        nonlocal done
        for manifest in waiting:
            await client.request("POST", NODES.path(), body=encode_plain(manifest))
            done += 1
            tell(done, len(manifests))

    async with Client.connect(where, connections=IN_FLIGHT) as client:
        tasks = [asyncio.create_task(worker(client)) for _ in range(min(IN_FLIGHT, len(manifests)))]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:  # the first that fails ends the others
                task.cancel()


def count_ready_nodes(where: ClusterConfig) -> int:
    """Return how many nodes would take a pod."""

    async def ask() -> int:
        async with Client.connect(where) as client:
            # "0": what the server has at hand; a node that is missing from it is counted the next time.
            listing = await client.list(NODES, limit=0, resource_version="0")
            return sum(_takes_pods(node) for node in listing.items)

    return asyncio.run(ask())


def is_kubelet_ready(where: ClusterConfig, node: str, since: float) -> bool:
    """Say whether a kubelet has said, `since` then, that it takes pods, and knows those that it has."""

    async def ask() -> bool:
        async with Client.connect(where) as client:
            path = f"{NODES.path()}/{node}"
            found = json.loads(await client.request("GET", path))
            if not any(_said(each, "Ready", since) for each in found["status"].get("conditions", ())):
                return False
            assigned = await client.list(PODS, fields=f"spec.nodeName={node}")
            try:
                known = json.loads(await client.request("GET", f"{path}/proxy/pods"))["items"] or ()
            except ClusterError:  # the API server does not reach it yet
                return False
        names = {pod["metadata"]["uid"] for pod in known}
        return all(pod.metadata.uid in names for pod in assigned.items)

    return asyncio.run(ask())


def _said(condition: Mapping[str, str], kind: str, since: float) -> bool:
    moment = parse_iso(condition["lastHeartbeatTime"]).timestamp()
    # The API counts in whole seconds.
    return condition["type"] == kind and condition["status"] == "True" and moment >= int(since)


def _takes_pods(node: Node) -> bool:
    return _holds(node.status.conditions, "Ready") and not any(
        taint.key.startswith(_NOT_READY) for taint in node.spec.taints
    )


def _holds(conditions: Iterable[Condition], kind: str) -> bool:
    return any(each.type == kind and each.status == "True" for each in conditions)


def has_default_service_account(where: ClusterConfig) -> bool:
    """Say whether the controllers have made what pods need: a service account."""

    async def ask() -> bool:
        async with Client.connect(where) as client:
            try:
                await client.get(SERVICE_ACCOUNTS, "default", "default")
            except NotFoundError:
                return False
            return True

    return asyncio.run(ask())


def create_objects(where: ClusterConfig, objects: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
    """Create objects at their paths; those that are there already stay as they are."""

    async def ask() -> None:
        async with Client.connect(where) as client:
            for path, body in objects:
                try:
                    await client.request("POST", path, body=encode_plain(body))
                except AlreadyExistsError:
                    continue

    asyncio.run(ask())


def is_pod_ready(where: ClusterConfig, namespace: str, labels: str) -> bool:
    """Say whether a pod of these labels is ready."""

    async def ask() -> bool:
        async with Client.connect(where) as client:
            listing = await client.list(PODS, namespace, labels=labels)
            return any(_holds(pod.status.conditions, "Ready") for pod in listing.items)

    return asyncio.run(ask())
