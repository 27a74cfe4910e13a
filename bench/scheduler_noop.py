"""A scheduler without decisions: each pod goes to the next node. Its rate bounds the other schedulers."""

import asyncio
import itertools
import sys
from collections.abc import Iterator
from contextlib import suppress

from bench.scheduler_lab import IN_FLIGHT
from fairlead.cache.types import PODS as SEEN
from fairlead.cache.types import LivePod
from fairlead.cluster.client import Client
from fairlead.cluster.config import kubeconfig
from fairlead.cluster.kinds import NODES, PODS
from fairlead.errors import ClusterError

NAME = "nothing"


async def _bind(client: Client, pods: "asyncio.Queue[LivePod]", nodes: Iterator[str]) -> None:
    while True:
        meta = (await pods.get()).metadata
        with suppress(ClusterError):
            await client.bind(meta.namespace, meta.name, meta.uid, next(nodes))


async def main(config: str) -> None:
    """Bind pods until interrupted."""
    pods: asyncio.Queue[LivePod] = asyncio.Queue()
    async with Client.connect(kubeconfig.load(config), connections=IN_FLIGHT) as client:
        nodes = itertools.cycle([item.metadata.name for item in (await client.list(NODES)).items])
        workers = [asyncio.create_task(_bind(client, pods, nodes)) for _ in range(IN_FLIGHT)]
        version = (await client.list(PODS)).resource_version
        print("ready", file=sys.stderr, flush=True)
        async for event in client.watch(SEEN, resource_version=version):
            if event.type == "ADDED" and event.object.waits_for(NAME):
                pods.put_nowait(event.object)
        await asyncio.wait(workers, timeout=0)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main(sys.argv[1]))
