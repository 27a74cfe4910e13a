"""The chart's scheduler: its role allows exactly its requests, on a real API server."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from fairlead.cache.types import CLAIMS, SCHEDULED
from fairlead.catalog import Catalog
from fairlead.cluster.client import Client
from fairlead.cluster.config.types import ClusterConfig
from fairlead.cluster.kinds import EVENTS, Kind
from fairlead.doctor.rights import (
    ADMISSION_RULES,
    AGENT_POD_RULES,
    AGENT_RULES,
    LEASE_RULES,
    READ_RULES,
    SCHEDULER_RULES,
)
from fairlead.errors import AccessError, NotFoundError
from fairlead.manifest.types.storage import STORAGE_CLASSES, VOLUME_CLAIMS, VOLUMES, WAIT_FOR_FIRST_CONSUMER
from fairlead.placement import Placement
from fairlead.request import Request
from fairlead.serve.machine.requests import ApiRequest
from fairlead.serve.scheduler.bind import writes
from fairlead.serve.scheduler.driver import Scheduler
from fairlead.share import DeviceShare
from fairlead.units import Bytes
from tests.deploy.chart.charts import OPTIONS, PEERS, Chart, Document, containers, one
from tests.deploy.chart.deciders import (
    RecordingTransport,
    allowed_as_shipped,
    record_requests,
    until_priority,
)
from tests.deploy.chart.test_roles import Verbs, allowed
from tests.labs import RealCluster
from tests.serve.scheduler.replica import settings
from tests.serve.scheduler.world import GIB, World, bound, open_world

SELDOM: Verbs = {
    # Served only if gangs are enabled, or if the chart's kind is installed.
    ("patch", "podgroups/status.scheduling.k8s.io"),
    ("watch", "podgroups.scheduling.k8s.io"),
    ("watch", "workloads.scheduling.k8s.io"),
    ("watch", "modelprofiles.fairlead.dev"),
    # On a server without streaming lists.
    ("list", "nodes"),
    # If the response to a binding was lost; if a pod was deleted while it was bound.
    ("get", "pods"),
    ("get", "resourceclaims.resource.k8s.io"),
    # By measured use: see tests/serve/scheduler/use/test_real.py.
    *((verb, "configmaps") for verb in ("get", "create", "update")),
}
"""Requests that the scenario below need not make."""
PRIORITIES = Kind.of("scheduling.k8s.io", "v1", "priorityclasses", namespaced=False, name="PriorityClass")


@asynccontextmanager
async def running(
    config: ClusterConfig, catalog: Catalog, namespace: str
) -> AsyncIterator[RecordingTransport]:
    """Run a replica with the chart's account, inside the test."""
    stop = asyncio.Event()
    async with record_requests(config) as (client, recorder):
        scheduler = Scheduler(client, catalog, settings("one", namespace), print)
        task = asyncio.create_task(scheduler.run(stop))
        try:
            yield recorder
        finally:
            stop.set()
            await task


def test_the_role_is_what_the_scheduler_calls(
    real_cluster: RealCluster, chart: Chart, catalog: Catalog
) -> None:
    async def scenario(config: ClusterConfig) -> RecordingTransport:
        async with open_world(real_cluster, 1) as world:
            await _leave_half_done(world)
            async with running(config, catalog, world.namespace) as recorder:
                await _exercise(world)
            return recorder

    with allowed_as_shipped(real_cluster, chart, webhook=True) as config:
        recorder = asyncio.run(scenario(config))
    documents = chart.render({"scheduler.enabled": True})
    role = allowed(one(documents, "ClusterRole", "fairlead-scheduler"))
    role |= allowed(one(documents, "Role", "fairlead-scheduler"))
    # No request has this path: the API server checks the permission when an allocation is written.
    calls = recorder.calls | {("patch", "resourceclaims/binding.resource.k8s.io")}
    assert recorder.forbidden == []
    assert calls - SELDOM == role - SELDOM
    assert role >= SELDOM


async def _leave_half_done(world: World) -> None:
    """Write what a leader has written that is killed between two writes."""
    await world.pod("half", mib=4096)
    (pod,) = await world.pods()
    share = DeviceShare("pci-0000-00-00-0", Bytes(4 * GIB))
    plan = writes.BindingPlan(pod, Placement(Request("half"), world.nodes[0], (share,)), own_claim=True)
    await _send(world, writes.set_claim_status(plan))
    await _send(world, writes.create_claim(pod, plan.placement.shares))
    (claim,) = await world.claims()
    await _send(world, writes.allocate(plan, claim, {writes.REQUEST: plan.placement.shares}))


async def _send(world: World, write: ApiRequest) -> None:
    body = json.dumps(write.body).encode()
    await world.client.request(write.method, write.path, body=body, content_type=write.content_type)


async def _exercise(world: World) -> None:
    """Create a plain pod, a share, a named claim, a pending pod, a preempting pod, and a volume."""
    await world.until(bound("half"))
    await world.pod("plain")
    exactly = {"deviceClassName": "fairlead.dev", "capacity": {"requests": {"memory": "4Gi"}}}
    request = {"name": "gpu", "exactly": exactly}
    body = {"metadata": {"name": "mine"}, "spec": {"devices": {"requests": [request]}}}
    await world.client.create(CLAIMS.raw(), body, world.namespace)
    await world.pod("claims", resourceClaims=[{"name": "gpu", "resourceClaimName": "mine"}])
    await world.until(bound("plain", "claims"))
    await world.pod("late", mib=4096)
    await world.until(
        lambda pods: any(pod.condition(SCHEDULED).message for pod in pods if not pod.spec.node_name)
    )
    async with _important(world.client, world.namespace) as name:
        await world.pod("first", mib=4096, priorityClassName=name)
        await world.until(lambda pods: any(pod.metadata.deletion_timestamp for pod in pods))
    async with _late_volumes(world.client, world.namespace) as name:
        await _with_volumes(world, name)
    assert (await world.client.list(EVENTS, world.namespace)).items


async def _with_volumes(world: World, storage: str) -> None:
    """Create a pod with one existing and one unprovisioned volume: it waits until it has both."""
    for name, size in (("kept", "1Gi"), ("made", "2Gi")):
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
        body = {"metadata": {"name": name}, "spec": {"storageClassName": storage, **spec}}
        await world.client.create(VOLUME_CLAIMS.raw(), body, world.namespace)
    claims = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in ("kept", "made")]
    await world.pod("keeps", volumes=claims)
    async with asyncio.timeout(300):
        while not await _is_selected(world, storage):
            await asyncio.sleep(0.1)


async def _is_selected(world: World, volume: str) -> bool:
    """Return whether the volume is bound to the one claim, and the other has its selected node."""
    claim = await world.client.get(VOLUME_CLAIMS, "made", world.namespace)
    bound_volume = await world.client.get(VOLUMES, volume)
    return (bound_volume.claimed_by, claim.node) == ((world.namespace, "kept"), world.nodes[0])


@asynccontextmanager
async def _late_volumes(client: Client, namespace: str) -> AsyncIterator[str]:
    """Create a class with WaitForFirstConsumer that has no provisioner here, and a free volume of it."""
    name = f"late-{namespace}"
    fields = {"provisioner": "none.example.org", "volumeBindingMode": WAIT_FOR_FIRST_CONSUMER}
    spec = {
        "storageClassName": name,
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "hostPath": {"path": "/mnt"},
    }
    await client.create(STORAGE_CLASSES.raw(), {"metadata": {"name": name}, **fields})
    await client.create(VOLUMES.raw(), {"metadata": {"name": name}, "spec": spec})
    await client.patch_status(VOLUMES, name, {"status": {"phase": "Available"}})
    try:
        yield name
    finally:
        for kind in (STORAGE_CLASSES, VOLUMES):
            with suppress(NotFoundError):
                await client.delete(kind, name)


@asynccontextmanager
async def _important(client: Client, namespace: str) -> AsyncIterator[str]:
    name = f"important-{namespace}"
    await client.create(PRIORITIES, {"metadata": {"name": name}, "value": 1000})
    await until_priority(client, namespace, name)
    try:
        yield name
    finally:
        with suppress(NotFoundError):
            await client.delete(PRIORITIES, name)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases/another"),
        ("GET", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"),
        ("GET", "/api/v1/namespaces/{ns}/secrets"),
        ("DELETE", "/api/v1/namespaces/{ns}/pods/some"),
        ("PATCH", "/api/v1/nodes/some"),
        ("DELETE", "/api/v1/persistentvolumes/some"),
        ("PATCH", "/api/v1/namespaces/{ns}/persistentvolumeclaims/some/status"),
        ("DELETE", "/api/v1/namespaces/{ns}/persistentvolumeclaims/some"),
        ("PATCH", "/apis/storage.k8s.io/v1/storageclasses/some"),
        ("POST", "/api/v1/namespaces/{ns}/pods"),
        ("PUT", "/api/v1/namespaces/{ns}/configmaps/another"),
        ("GET", "/api/v1/namespaces/{ns}/configmaps"),
    ],
)
def test_other_requests_are_forbidden(
    method: str, path: str, real_cluster: RealCluster, chart: Chart
) -> None:
    async def ask(config: ClusterConfig) -> None:
        address, body = path.replace("{ns}", real_cluster.namespace), None if method == "GET" else b"{}"
        async with Client.connect(config) as client:
            with pytest.raises(AccessError):
                await client.request(method, address, body=body)

    with allowed_as_shipped(real_cluster, chart) as config:
        asyncio.run(ask(config))


def test_only_the_scheduler_may_read_quotas_and_volumes_and_patch_volumes(chart: Chart) -> None:
    expected = {
        *((verb, "persistentvolumeclaims") for verb in ("list", "watch", "patch")),
        *((verb, "persistentvolumes") for verb in ("list", "watch", "patch")),
        *((verb, "storageclasses.storage.k8s.io") for verb in ("list", "watch")),
        *((verb, "resourcequotas") for verb in ("list", "watch")),
    }
    documents = chart.render({"scheduler.enabled": True, "extender.enabled": True})
    for role in (document for document in documents if document["kind"] in ("ClusterRole", "Role")):
        of_volumes = {
            (verb, what)
            for verb, what in allowed(role)
            if what.startswith(("persistent", "storage", "resourcequotas"))
        }
        ours = (role["kind"], role["metadata"]["name"]) == ("ClusterRole", "fairlead-scheduler")
        assert of_volumes == (expected if ours else set()), role["metadata"]["name"]


def test_agents_may_read_pods_only_with_the_scheduler(chart: Chart) -> None:
    name = "fairlead-agent-placements"
    assert allowed(one(chart.render({"scheduler.enabled": True}), "ClusterRole", name)) == {("get", "pods")}
    assert name not in {document["metadata"]["name"] for document in chart.render({})}


def test_the_scheduler_creates_claims_only_if_the_cluster_has_them(chart: Chart) -> None:
    for flags, ours in (((), False), (("--kube-version=1.33.0",), True)):
        documents = chart.render({"scheduler.enabled": True}, *flags)
        pod = one(documents, "Deployment", "fairlead-scheduler")["spec"]["template"]["spec"]
        assert ("--no-own-claims" in containers(pod)["scheduler"]["args"]) == ours


def test_measured_use_is_set_by_values(chart: Chart) -> None:
    values = {
        "scheduler.enabled": True,
        "scheduler.policy": "fairlead-safe",
        "scheduler.usage.prometheus.url": "https://prometheus:9090",
        "scheduler.usage.prometheus.secretName": "access",
        "scheduler.usage.prometheus.token": True,
        "scheduler.usage.prometheus.ca": True,
    }
    for given, by_use in (({"scheduler.enabled": True}, False), (values, True)):
        documents = chart.render(given)
        pod = one(documents, "Deployment", "fairlead-scheduler")["spec"]["template"]["spec"]
        args = containers(pod)["scheduler"]["args"]
        assert {"--usage=auto", "--usage-period=15s", "--oom-bound=0.001"} <= set(args)
        assert ("--prometheus=https://prometheus:9090" in args) == by_use
        assert ("--prometheus-token-file=/etc/fairlead/usage/token" in args) == by_use
        assert ("--prometheus-ca-file=/etc/fairlead/usage/ca.crt" in args) == by_use
        mounted = {volume["name"]: volume.get("secret", {}).get("secretName") for volume in pod["volumes"]}
        assert mounted.get("usage") == ("access" if by_use else None)
        webhook = one(documents, "Deployment", "fairlead-admission")["spec"]["template"]["spec"]
        assert ("--guard" in containers(webhook)["admission"]["args"]) == by_use


def test_replicas_prefer_different_nodes_and_have_time_to_shut_down(chart: Chart) -> None:
    deployment = one(chart.render({"scheduler.enabled": True}), "Deployment", "fairlead-scheduler")["spec"]
    pod = deployment["template"]["spec"]
    assert deployment["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert pod["terminationGracePeriodSeconds"] > 20
    (term,) = pod["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert term["podAffinityTerm"]["labelSelector"] == deployment["selector"]


@pytest.mark.parametrize(
    ("way", "rules"),
    [
        ("scheduler", None),
        ("scheduler without clients", []),
        ("scheduler for few", [{"from": PEERS, "ports": [{"port": "http", "protocol": "TCP"}]}]),
    ],
)
def test_the_network_policy_restricts_its_port(way: str, rules: list[Document] | None, chart: Chart) -> None:
    specs = [
        document["spec"]
        for document in chart.render(OPTIONS[way])
        if (document["kind"], document["metadata"]["name"]) == ("NetworkPolicy", "fairlead-scheduler")
    ]
    # Without a rule no source is allowed; a rule without a peer would allow every source.
    assert [spec["ingress"] for spec in specs] == ([] if rules is None else [rules])


def test_the_doctor_checks_the_same_permissions(chart: Chart) -> None:
    documents = chart.render({"scheduler.enabled": True, "extender.enabled": True})
    optional = {"modelprofiles.fairlead.dev"}
    optional |= {f"{plural}.scheduling.k8s.io" for plural in ("podgroups", "podgroups/status", "workloads")}
    for name, expected in (
        ("scheduler", SCHEDULER_RULES),
        ("extender", READ_RULES),
        ("admission", ADMISSION_RULES),
    ):
        role = allowed(one(documents, "ClusterRole", f"fairlead-{name}"))
        assert {rule for rule in role if rule[1] not in optional} == set(expected)
    assert allowed(one(documents, "Role", "fairlead-scheduler")) == set(LEASE_RULES)
    assert allowed(one(documents, "ClusterRole", "fairlead-agent")) >= set(AGENT_RULES)
    assert allowed(one(documents, "ClusterRole", "fairlead-agent-placements")) == set(AGENT_POD_RULES)
