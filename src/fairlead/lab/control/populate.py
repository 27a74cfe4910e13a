"""Create the objects of a lab's cluster, many nodes at once, and check which of them are ready."""

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
"""Concurrent requests; more only wait in the API server instead of here."""
_NOT_READY: Final = "node.kubernetes.io/"

ProgressCallback = Callable[[int, int], None]


def admin_config(keys: Path, server: str) -> ClusterConfig:
    """Return the configuration of the lab's administrator."""
    login = AuthInfo((keys / "admin.crt").read_bytes(), (keys / "admin.key").read_bytes())
    return ClusterConfig(server, source=str(keys), ca=(keys / "ca.crt").read_bytes(), login=login)


def create_nodes(
    config: ClusterConfig, manifests: Sequence[Mapping[str, Any]], report: ProgressCallback
) -> None:
    """Create every node, IN_FLIGHT of them at a time."""
    asyncio.run(_create_nodes(config, manifests, report))


async def _create_nodes(
    config: ClusterConfig, manifests: Sequence[Mapping[str, Any]], report: ProgressCallback
) -> None:
    pending, done = iter(manifests), 0

    async def worker(client: Client) -> None:
        nonlocal done
        for manifest in pending:
            await client.request("POST", NODES.path(), body=encode_plain(manifest))
            done += 1
            report(done, len(manifests))

    async with Client.connect(config, connections=IN_FLIGHT) as client:
        tasks = [asyncio.create_task(worker(client)) for _ in range(min(IN_FLIGHT, len(manifests)))]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:  # the first failure cancels the others
                task.cancel()


def count_ready_nodes(config: ClusterConfig) -> int:
    """Return the number of schedulable nodes."""

    async def ask() -> int:
        async with Client.connect(config) as client:
            # "0": from the API server's watch cache; a node that it still lacks is counted the next time.
            listing = await client.list(NODES, limit=0, resource_version="0")
            return sum(_is_schedulable(node) for node in listing.items)

    return asyncio.run(ask())


def is_kubelet_ready(config: ClusterConfig, node: str, since: float) -> bool:
    """Return whether a kubelet has reported Ready since then, and lists every pod of its node."""

    async def ask() -> bool:
        async with Client.connect(config) as client:
            path = f"{NODES.path()}/{node}"
            conditions = json.loads(await client.request("GET", path))["status"].get("conditions", ())
            if not any(_is_true_since(condition, "Ready", since) for condition in conditions):
                return False
            assigned = await client.list(PODS, fields=f"spec.nodeName={node}")
            try:
                kubelet_pods = json.loads(await client.request("GET", f"{path}/proxy/pods"))["items"] or ()
            except ClusterError:  # the API server does not reach the kubelet yet
                return False
        uids = {pod["metadata"]["uid"] for pod in kubelet_pods}
        return all(pod.metadata.uid in uids for pod in assigned.items)

    return asyncio.run(ask())


def _is_true_since(condition: Mapping[str, str], kind: str, since: float) -> bool:
    heartbeat = parse_iso(condition["lastHeartbeatTime"]).timestamp()
    # The API truncates times to whole seconds.
    return condition["type"] == kind and condition["status"] == "True" and heartbeat >= int(since)


def _is_schedulable(node: Node) -> bool:
    return _is_true(node.status.conditions, "Ready") and not any(
        taint.key.startswith(_NOT_READY) for taint in node.spec.taints
    )


def _is_true(conditions: Iterable[Condition], kind: str) -> bool:
    return any(condition.type == kind and condition.status == "True" for condition in conditions)


def has_default_service_account(config: ClusterConfig) -> bool:
    """Return whether the controllers have created the service account that pods need."""

    async def ask() -> bool:
        async with Client.connect(config) as client:
            try:
                await client.get(SERVICE_ACCOUNTS, "default", "default")
            except NotFoundError:
                return False
            return True

    return asyncio.run(ask())


def create_objects(config: ClusterConfig, objects: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
    """Create objects at their paths; existing ones stay as they are."""

    async def ask() -> None:
        async with Client.connect(config) as client:
            for path, body in objects:
                try:
                    await client.request("POST", path, body=encode_plain(body))
                except AlreadyExistsError:
                    continue

    asyncio.run(ask())


def is_pod_ready(config: ClusterConfig, namespace: str, labels: str) -> bool:
    """Return whether a pod with these labels is ready."""

    async def ask() -> bool:
        async with Client.connect(config) as client:
            listing = await client.list(PODS, namespace, labels=labels)
            return any(_is_true(pod.status.conditions, "Ready") for pod in listing.items)

    return asyncio.run(ask())
