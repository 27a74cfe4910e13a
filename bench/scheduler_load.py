"""Create pods as fast as the API server accepts them, and record when each is created and bound.

A process of its own, the same for every scheduler. It reads the load from one line of JSON, prints
`{"made": N}` when all pods exist, and `{"created": {...}, "bound": {...}}` when all are bound or time is up.
"""

import asyncio
import json
import sys
import time
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any

import msgspec

from bench.scheduler_lab import IN_FLIGHT, SHARE, SHARE_MIB, for_each
from fairlead.cluster.client import Client
from fairlead.cluster.config import kubeconfig
from fairlead.cluster.kinds import PODS, Kind
from fairlead.cluster.meta import Object, ObjectPart
from fairlead.errors import ClusterError

NAMESPACE = "default"
ROUND = "bench.fairlead.dev/round"
"""The label that identifies the pods of one run."""
_MEMORY = "fairlead.dev/gpu-mem"
_ALIAS = "aliyun.com/gpu-mem"


class _Spec(ObjectPart, frozen=True):
    node_name: str = ""


class _Pod(Object, frozen=True):
    spec: _Spec = _Spec()


_BOUND = Kind("", "v1", "pods", True, _Pod, "Pod")


@dataclass(frozen=True, slots=True)
class Load:
    """The pods to create."""

    kubeconfig: str
    round: str
    kind: str
    """`plain`, `memory` (part of a GPU), `alias` (the same by gpushare's name) or `claim`."""
    scheduler: str
    pods: int
    limit: float
    """The most seconds from the last creation until all are bound."""


def pod(load: Load, number: int) -> dict[str, Any]:
    """Return one of the pods; they differ in name alone."""
    amounts = {
        "memory": {_MEMORY: str(SHARE_MIB)},
        "alias": {_ALIAS: str(SHARE_MIB)},
    }.get(load.kind, {})
    resources: dict[str, Any] = {"requests": {"cpu": "10m", "memory": "16Mi", **amounts}, "limits": amounts}
    spec: dict[str, Any] = {"schedulerName": load.scheduler, "automountServiceAccountToken": False}
    if load.kind == "claim":
        resources["claims"] = [{"name": "gpu"}]
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": SHARE}]
    spec["containers"] = [{"name": "main", "image": "none", "resources": resources}]
    meta = {"name": f"{load.round}-{number}", "namespace": NAMESPACE, "labels": {ROUND: load.round}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


class Watcher:
    """The time of the first event in which each pod of a round has a node."""

    def __init__(self, client: Client, load: Load) -> None:
        self._client = client
        self._load = load
        self.bound: dict[str, float] = {}
        self.all = asyncio.Event()

    async def follow(self) -> None:
        """Watch until cancelled; restart a watch that ends."""
        while True:
            with suppress(ClusterError):
                await self._watch()

    async def _watch(self) -> None:
        stream = self._client.watch(
            _BOUND,
            NAMESPACE,
            labels=f"{ROUND}={self._load.round}",
            fields="spec.nodeName!=",
            send_initial_events=True,
        )
        async with aclosing(stream) as events:
            async for event in events:
                if event.type == "ADDED":
                    self.bound.setdefault(event.object.metadata.name, time.monotonic())
                if len(self.bound) >= self._load.pods:
                    self.all.set()


async def make(client: Client, load: Load) -> dict[str, float]:
    """Create all pods; return the time of each creation."""
    created: dict[str, float] = {}
    path = PODS.path(NAMESPACE)

    async def one(number: int) -> None:
        body = pod(load, number)
        await client.request("POST", path, body=msgspec.json.encode(body))
        created[body["metadata"]["name"]] = time.monotonic()

    await for_each(range(load.pods), one)
    return created


async def main() -> None:
    """Create and watch the pods of the load on standard input."""
    load = Load(**json.loads(sys.stdin.readline()))
    async with Client.connect(kubeconfig.load(load.kubeconfig), connections=IN_FLIGHT) as client:
        watcher = Watcher(client, load)
        following = asyncio.create_task(watcher.follow())
        created = await make(client, load)
        print(json.dumps({"made": len(created)}), flush=True)
        with suppress(TimeoutError):
            await asyncio.wait_for(watcher.all.wait(), load.limit)
        following.cancel()
    print(json.dumps({"created": created, "bound": watcher.bound}), flush=True)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main())
