"""The page of a real API server: a pod that cannot be placed, why, and what would help, as it happens."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from playwright.sync_api import expect

from fairlead.catalog import load
from fairlead.cluster.client import Client
from fairlead.cluster.kinds import NODES, PODS, RESOURCE_SLICES
from fairlead.errors import NotFoundError
from fairlead.serve.dashboard.cluster.source import ClusterSettings, ClusterSource
from fairlead.serve.dashboard.cluster.why import OURS
from fairlead.usage.source import SourceName, UsageSettings
from tests.browser.conftest import launched
from tests.browser.screen import AXE, open_screen
from tests.labs import LABEL, RealCluster
from tests.serve.dashboard.served import Served, served

pytestmark = pytest.mark.xdist_group("browser")
SOON = 2000
"""Milliseconds from a change of the cluster to the screen."""
MEMORY = 24 * 1024
"""MiB of the node's accelerator, which nothing else of the lab has."""


def pod(mebibytes: int) -> dict[str, Any]:
    """Return a pod that asks for memory of an accelerator, placed by our scheduler; none runs here."""
    amounts = {"limits": {"fairlead.dev/gpu-mem": str(mebibytes)}, "requests": {"cpu": "10m"}}
    container = {"name": "c", "image": "none", "resources": amounts}
    return {"spec": {"schedulerName": OURS, "containers": [container]}}


async def make_node(client: Client, name: str, home: str) -> None:
    """Create a node with one accelerator."""
    meta = {"name": name, "labels": {LABEL: home}}
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "20", "fairlead.dev/gpu-mem": str(MEMORY)}
    ready = [{"type": "Ready", "status": "True"}]
    await client.create(NODES, {"metadata": meta})
    await client.patch(NODES.raw(), name, {"spec": {"taints": None}})  # a new node is tainted: not ready
    await client.patch_status(NODES.raw(), name, {"status": {"allocatable": amounts, "conditions": ready}})
    device = {
        "name": "gpu-0",
        "attributes": {"model": {"string": "l4"}, "vendor": {"string": "NVIDIA"}},
        "capacity": {"memory": {"value": f"{MEMORY}Mi"}},
        "allowMultipleAllocations": True,
    }
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "fairlead.dev", "nodeName": name, "pool": pool, "devices": [device]}
    await client.create(RESOURCE_SLICES.raw(), {"metadata": dict(meta), "spec": spec})


def run(cluster: RealCluster, work: Callable[[Client], Awaitable[Any]]) -> Any:
    """Run requests in a thread of their own: the browser's loop runs in the caller's."""

    async def inside() -> Any:
        async with Client.connect(cluster.config) as client:
            return await work(client)

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, inside()).result()


@contextmanager
def live(cluster: RealCluster) -> Iterator[Served]:
    """Serve the cluster with a node of ours as long as the context lasts."""
    name = f"node-{cluster.namespace}"

    async def clean(client: Client) -> None:
        for kind in (NODES, RESOURCE_SLICES):
            with suppress(NotFoundError):
                await client.delete(kind, name)

    run(cluster, lambda client: make_node(client, name, cluster.namespace))
    try:
        source = ClusterSource(cluster.config, load(), ClusterSettings(UsageSettings(SourceName.NONE)))
        with served(source) as server:
            while server.get("/readyz").status != 200:
                pass
            yield server
    finally:
        run(cluster, clean)


def test_a_pod_that_cannot_be_placed_is_explained_as_it_happens(real_cluster: RealCluster) -> None:
    with live(real_cluster) as server, ThreadPoolExecutor(1) as thread:
        thread.submit(look, real_cluster, server).result()


def look(cluster: RealCluster, server: Served) -> None:
    """Create a pod that is too large, read why it waits, and delete it."""
    own = cluster.namespace
    body = {"metadata": {"name": "large", "namespace": own}, **pod(2 * MEMORY)}
    with launched() as browser, open_screen(browser, server.port) as screen:
        page = screen.page
        expect(screen.heading("Queue")).to_be_visible()
        page.get_by_role("searchbox").fill(f"namespace:{own}")
        run(cluster, lambda client: client.create(PODS, body, own))
        expect(screen.row("large")).to_have_count(1, timeout=SOON)
        screen.go(f"queue/{own}%2Flarge")
        detail = page.get_by_label("Detail")
        expect(detail.locator("[data-role=smallest]")).to_contain_text("24 GiB")
        expect(detail.get_by_role("row", name="lacks memory (need 48 GiB")).to_be_visible()
        assert not AXE.is_file() or screen.faults() == []
        run(cluster, lambda client: client.delete(PODS, "large", own))
        expect(screen.row("large")).to_have_count(0, timeout=SOON)
        screen.go(f"fleet/node-{own}%2Fgpu-0")
        expect(detail.get_by_role("heading", level=2)).to_contain_text("L4")
        assert screen.errors == []
