"""Roles allow exactly the requests of the programs: an agent's are recorded on a real API server."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any, cast

import pytest

from fairlead.cluster.api import ClusterClient
from fairlead.cluster.client import Client
from fairlead.cluster.config.types import ClusterConfig
from fairlead.cluster.kinds import NODES, RESOURCE_SLICES, Kind
from fairlead.errors import KubeletError
from fairlead.inventory import Inventory
from fairlead.kubelet.claims import KubeletClaim
from fairlead.serve.agent.claim_reader import ClaimReader
from fairlead.serve.agent.node_reconciler import NodeReconciler, PublishedFacts
from fairlead.settings.publishing import PublishConfig
from tests.accelerators import accelerator, node
from tests.deploy.chart.charts import Chart, Document, one
from tests.deploy.chart.worlds import installed
from tests.labs import RealApi

Verbs = set[tuple[str, str]]
RETRACTS: Verbs = {
    ("list", "nodes"),
    ("patch", "nodes"),
    ("patch", "nodes/status"),
    ("list", "resourceslices.resource.k8s.io"),
    ("delete", "resourceslices.resource.k8s.io"),
    ("list", "modelprofiles.fairlead.dev"),
    ("delete", "customresourcedefinitions.apiextensions.k8s.io"),
}
"""The requests of `fairlead retract`; its own tests run it."""
STREAMLESS: Verbs = {("list", "nodes")}
"""Additional requests to a server without streaming lists, such as Kubernetes 1.30."""


class Recorder:
    """A cluster client that records its calls."""

    def __init__(self, cluster: ClusterClient) -> None:
        self._cluster = cluster
        self.calls: Verbs = set()

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        def call(kind: Kind[Any], *arguments: Any, **options: Any) -> Any:
            self.calls.add((verb, kind.resource))
            return getattr(self._cluster, verb)(kind, *arguments, **options)

        return call


def allowed(role: Document) -> Verbs:
    """Return the verbs and resources that a role allows."""
    return {
        (verb, f"{resource}.{group}" if group else resource)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_no_role_has_a_wildcard(chart: Chart) -> None:
    programs = ("scheduler", "extender", "analyser", "operator")
    everything = {f"{name}.enabled": True for name in programs}
    roles = [document for document in chart.render(everything) if document["kind"] in ("ClusterRole", "Role")]
    names = {"fairlead-agent", "fairlead-retract", "fairlead-profiles-view", "fairlead-profiles-edit"}
    names |= {"fairlead-pipelines-view", "fairlead-pipelines-edit"}
    names |= {"fairlead-augmentations-view", "fairlead-augmentations-edit"}
    names |= {"fairlead-scheduler", "fairlead-extender", "fairlead-agent-placements", "fairlead-analyser"}
    names |= {"fairlead-admission", "fairlead-holders", "fairlead-operator"}
    assert {role["metadata"]["name"] for role in roles} == names
    for role in roles:
        assert "*" not in str(role["rules"])
        assert all(
            rule.keys() - {"resourceNames"} == {"apiGroups", "resources", "verbs"} for rule in role["rules"]
        )


def test_agents_may_get_pods_where_pods_can_ask_to_be_limited(chart: Chart) -> None:
    roles = [
        allowed(one(chart.render(values), "ClusterRole", "fairlead-agent"))
        for values in ({}, {"limiter.enabled": True})
    ]
    assert roles[1] - roles[0] == {("get", "pods")}


def test_the_role_of_the_cleanup_is_what_it_calls(chart: Chart) -> None:
    assert allowed(one(chart.render({}), "ClusterRole", "fairlead-retract")) == RETRACTS


def test_the_check_before_an_uninstall_only_reads(chart: Chart) -> None:
    role = allowed(one(chart.render({}), "ClusterRole", "fairlead-holders"))
    assert role == {("list", "pods"), ("list", "resourceclaims.resource.k8s.io")}


def test_the_role_is_what_the_agent_calls(real_api: RealApi, chart: Chart) -> None:
    with installed(real_api, chart, {}) as world:
        calls = asyncio.run(_publish(world.login("a"), f"{world.namespace}-a", world.namespace))
    assert calls | STREAMLESS == allowed(one(chart.render({}), "ClusterRole", "fairlead-agent"))


async def _publish(config: ClusterConfig, name: str, namespace: str) -> Verbs:
    """Publish a node's accelerators as they appear, change and disappear; return the API calls."""
    async with asyncio.timeout(300), AsyncExitStack() as stack:
        client = await stack.enter_async_context(Client.connect(config))
        recorder = Recorder(client)
        cluster = cast("ClusterClient", recorder)
        reconciler = NodeReconciler(PublishConfig(name), cluster, asyncio.Event(), print)
        reconciler.open(stack)
        gpu = accelerator(kind="gpu", model="test-gpu", mebibytes=8192)
        tpu = accelerator("usb:1-1", kind="tpu", model="test-tpu")
        for inventory in (node(gpu), node(gpu, tpu), node()):
            await _publish_until_written(reconciler, inventory)
            count = len(inventory.accelerators)
            mine = f"spec.nodeName={name},spec.driver=fairlead.dev"
            slices = (await client.list(RESOURCE_SLICES, fields=mine)).items
            assert [len(item.spec.devices) for item in slices] == ([count] if count else [])
            labels = (await client.get(NODES, name)).metadata.labels
            assert ("fairlead.dev/test-gpu.count" in labels) == bool(count)
        with pytest.raises(KubeletError, match="does not exist any more"):
            await ClaimReader(cluster).read(KubeletClaim(namespace, "none", "0"), name)
        return recorder.calls


async def _publish_until_written(reconciler: NodeReconciler, inventory: Inventory) -> None:
    before = reconciler.written["slice"]
    while reconciler.written["slice"] == before:
        await reconciler.reconcile(inventory, PublishedFacts((), ()), claims=True)
        await asyncio.sleep(0.05)
