"""The chart's operator: its role allows exactly its requests, on a real API server."""

import asyncio
import copy
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from fairlead import __version__
from fairlead.augmentobjects.controller import IMAGE as STORE_IMAGE
from fairlead.augmentobjects.controller import AugmentationController
from fairlead.augmentobjects.names import AUGMENTATIONS
from fairlead.cluster.client import Client
from fairlead.cluster.config.types import AuthInfo, ClusterConfig
from fairlead.cluster.kinds import CONFIG_MAPS, CRDS, EVENTS, NODES
from fairlead.compat.times import UTC
from fairlead.errors import AccessError, AlreadyExistsError, ClusterError, NotFoundError
from fairlead.ownedobjects.issuer import AuthorityIssuer
from fairlead.ownedobjects.kinds import PODS, VOLUME_CLAIMS
from fairlead.pipelineobjects.controller import IMAGE, PipelineController
from fairlead.pipelineobjects.names import PIPELINES
from fairlead.pipelineobjects.pods import wanted_pods
from fairlead.pipelineobjects.resource import read_resource
from fairlead.reconcile import Observed, Reconciled, ResourceController
from fairlead.serve.operator.driver import OperatorReplica
from fairlead.serve.operator.kinds import client_kind
from fairlead.settings.leader import LeaderElectionConfig
from fairlead.settings.operator import OperatorSettings
from tests.augmentobjects.worlds import STORAGE_ALONE, augmentation
from tests.augmentobjects.worlds import Cluster as AugmentationWorld
from tests.deploy.chart.charts import Chart, Document, containers, one
from tests.deploy.chart.deciders import RecordingTransport, record_requests, token_of
from tests.deploy.chart.test_roles import Verbs, allowed
from tests.deploy.chart.worlds import KINDS
from tests.labs import LABEL, RealCluster
from tests.pipelineobjects.planned import SPEC, planned_pipeline
from tests.pipelineobjects.worlds import lose, node, pipeline

ACCOUNT = "fairlead-operator"
RIGHTS = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
GROUP = "roles.test.fairlead.dev"
"""Stands for fairlead.dev: other tests have pipelines on this server, which are not for the operator here."""
RESOURCE = replace(PIPELINES, api_version=f"{GROUP}/v1alpha1")
KIND = client_kind(RESOURCE)
AUGMENTATION = client_kind(replace(AUGMENTATIONS, api_version=f"{GROUP}/v1alpha1"))
REAL: tuple[ResourceController, ...] = (
    PipelineController(AuthorityIssuer()),
    AugmentationController(AuthorityIssuer()),
)
CHECKED: Verbs = {
    # of an object that a patch creates
    *(("create", client_kind(kind).resource) for controller in REAL for kind in controller.owns),
    # where an admission plugin protects owners
    *(("update", f"{plural}/finalizers.{GROUP}") for plural in ("pipelines", "augmentations")),
    ("patch", "events"),  # of an event that comes again
}
"""Permissions that the API server checks without a request of this kind, or that this test does not need."""


class InAnotherGroup:
    """A controller, for the same kind in the group of this test."""

    def __init__(self, real: ResourceController) -> None:
        self._real = real
        self.resource = replace(real.resource, api_version=f"{GROUP}/v1alpha1")
        self.owns = real.owns
        self.watches = real.watches

    def reconcile(self, observed: Observed) -> Reconciled:
        """Return what the real controller does."""
        return self._real.reconcile(observed)


def definitions(chart: Chart, namespace: str) -> Iterator[Document]:
    """Yield the definitions of the kinds, which the chart creates with the operator."""
    documents = chart.render({"operator.enabled": True})
    for kind in (KIND, AUGMENTATION):
        real = one(documents, "CustomResourceDefinition", f"{kind.plural}.fairlead.dev")
        metadata = {"name": kind.resource, "labels": {LABEL: namespace}}
        yield {**real, "metadata": metadata, "spec": {**real["spec"], "group": GROUP}}


def rights(documents: list[Document], namespace: str) -> Iterator[Document]:
    """Yield the operator's account and roles; cluster-wide ones get the namespace as suffix."""
    for original in documents:
        component = original["metadata"]["labels"].get("app.kubernetes.io/component")
        if component != "operator" or original["kind"] not in RIGHTS:
            continue
        document = copy.deepcopy(original)
        if document["kind"].startswith("Cluster"):
            document["metadata"]["name"] += f"-{namespace}"
        if document.get("roleRef", {}).get("kind") == "ClusterRole":
            document["roleRef"]["name"] += f"-{namespace}"
        for rule in document.get("rules", ()):
            if rule["apiGroups"] == ["fairlead.dev"]:
                rule["apiGroups"] = [GROUP]
        yield document


@asynccontextmanager
async def installed(
    room: RealCluster, crds: Iterator[Document], documents: list[Document]
) -> AsyncIterator[ClusterConfig]:
    """Create the account and its permissions; yield its configuration, and remove them afterwards."""
    async with room.connect() as client:
        for crd in crds:
            await _create_kind(client, crd)
        for document in documents:
            await client.create(KINDS[document["kind"]], document)
        try:
            token = await token_of(client, room.namespace, ACCOUNT)
            config = replace(room.config, login=AuthInfo(token=token), user=ACCOUNT)
            await _until_allowed(config)
            yield config
        finally:
            for document in documents:
                kind = KINDS[document["kind"]]
                with suppress(NotFoundError):
                    await client.delete(
                        kind, document["metadata"]["name"], room.namespace if kind.namespaced else None
                    )


async def _create_kind(client: Client, crd: Document) -> None:
    """Create the kind once that of the test before is gone, which the API server removes in its own time."""
    async with asyncio.timeout(300):
        while True:
            try:
                await client.create(CRDS.raw(), crd)
            except AlreadyExistsError:
                await asyncio.sleep(0.2)
            else:
                return


async def _until_allowed(config: ClusterConfig) -> None:
    """Wait until the API server has observed the role, and serves the kind."""
    async with asyncio.timeout(120), Client.connect(config) as client:
        while True:
            with suppress(ClusterError):
                await client.list(client_kind(PODS))
                await client.list(KIND)
                await client.list(AUGMENTATION)
                return
            await asyncio.sleep(0.1)


@asynccontextmanager
async def running(
    config: ClusterConfig, namespace: str
) -> AsyncIterator[tuple[OperatorReplica, RecordingTransport]]:
    """Run a replica with the chart's account, inside the test."""
    stop = asyncio.Event()
    lease = LeaderElectionConfig(namespace, "fairlead-operator", 4.0, 3.0, 0.3)
    async with record_requests(config) as (client, recorder):
        controllers = [InAnotherGroup(real) for real in REAL]
        operator = OperatorReplica(client, controllers, OperatorSettings("one", lease=lease), print)
        task = asyncio.create_task(operator.run(stop))
        try:
            yield operator, recorder
        finally:
            stop.set()
            await task


async def _create_and_change(client: Client, namespace: str) -> None:
    body = {**pipeline(namespace=namespace), "apiVersion": RESOURCE.api_version}
    await client.create(KIND, body, namespace)
    first = await _file(client, namespace, "")
    stages = copy.deepcopy(body["spec"]["stages"])
    stages[0]["options"]["rate"] = 20
    await client.patch(KIND, "count", {"spec": {"stages": stages}}, namespace)
    await _file(client, namespace, first)
    async with asyncio.timeout(120):  # the status is the last write of a pass
        while not _is_waiting((await client.get(KIND, "count", namespace)).document()):
            await asyncio.sleep(0.1)


async def _plan_around_a_lost_node(client: Client, namespace: str) -> None:
    """Let a stage be placed on a node, and leave it once that is lost."""
    for name, stage in (("pi", "edge"), ("big", "server")):
        body = node(f"{name}-{namespace}", **{LABEL: namespace, "stage": f"{stage}-{namespace}"})
        await client.create(NODES.raw(), {**body, "apiVersion": "v1", "kind": "Node"})
        await client.patch_status(NODES.raw(), body["metadata"]["name"], {"status": body["status"]})
    text = "\n".join(line for line in SPEC.splitlines() if "spare" not in line)
    for room, stage in (("lab", "edge"), ("rack", "server")):
        text = text.replace(f"room: {room}", f"stage: {stage}-{namespace}")
    body = planned_pipeline(text=text, namespace=namespace)
    body["metadata"]["name"] = "planned"
    await client.create(KIND, {**body, "apiVersion": RESOURCE.api_version}, namespace)
    await _until_detected_by(client, namespace, "server")
    lost = node("big", room="rack")
    lose(lost, datetime(2026, 1, 1, tzinfo=UTC))
    await client.patch_status(NODES.raw(), f"big-{namespace}", {"status": lost["status"]})
    await _until_detected_by(client, namespace, "edge")
    reason = f"detect moves from server to edge: node big-{namespace} is lost"
    async with asyncio.timeout(120):  # events follow the status
        while not any(
            each.message.startswith(reason) for each in (await client.list(EVENTS, namespace)).items
        ):
            await asyncio.sleep(0.1)
    await client.delete(KIND, "planned", namespace)
    async with asyncio.timeout(120):
        while len((await client.list(KIND, namespace)).items) > 1:
            await asyncio.sleep(0.1)


async def _until_detected_by(client: Client, namespace: str, host: str) -> None:
    async with asyncio.timeout(120):
        while True:
            status = (await client.get(KIND, "planned", namespace)).document().get("status") or {}
            if {"stage": "detect", "host": host} in (status.get("plan") or ()):
                return
            await asyncio.sleep(0.1)


async def _lend_and_take_back(client: Client, namespace: str) -> None:
    """Let an augmentation be made, and deleted with its data."""
    body = {**augmentation(STORAGE_ALONE, namespace=namespace), "apiVersion": AUGMENTATION.api_version}
    body["spec"]["deleteData"] = True
    await client.create(AUGMENTATION, body, namespace)
    async with asyncio.timeout(120):
        while not (await client.get(AUGMENTATION, "cam", namespace)).document().get("status"):
            await asyncio.sleep(0.1)
    await client.delete(AUGMENTATION, "cam", namespace)
    claims = client_kind(VOLUME_CLAIMS)
    async with asyncio.timeout(120):
        while (await client.list(AUGMENTATION, namespace)).items:
            for each in (await client.list(claims, namespace)).items:
                if each.metadata.deletion_timestamp:  # no controller of volumes runs here
                    free = {"metadata": {"finalizers": None}}
                    await client.patch(claims, each.metadata.name, free, namespace)
            await asyncio.sleep(0.1)


def _is_waiting(found: dict[str, Any]) -> bool:
    """Return whether the status says of the present spec that every pod is made, and none is ready."""
    status = found.get("status") or {}
    is_present = status.get("observedGeneration") == found["metadata"]["generation"]
    reasons = {each["type"]: each["reason"] for each in status.get("conditions") or ()}
    return is_present and len(status.get("hosts") or ()) == 3 and reasons.get("Progressing") == "Waiting"


async def _file(client: Client, namespace: str, before: str) -> str:
    """Wait until the file of the run is another, and every pod is there; return it."""
    async with asyncio.timeout(120):
        while True:
            maps = {
                each.metadata.name: each for each in (await client.list(CONFIG_MAPS.raw(), namespace)).items
            }
            data = maps["count-file"].document()["data"] if "count-file" in maps else {}
            file = str(data.get("pipeline.yaml", before))
            if file != before and len((await client.list(client_kind(PODS), namespace)).items) == 3:
                return file
            await asyncio.sleep(0.1)


async def _delete(client: Client, namespace: str) -> None:
    await client.delete(KIND, "count", namespace)
    async with asyncio.timeout(120):
        while (await client.list(KIND, namespace)).items:
            await asyncio.sleep(0.1)


async def _until_reconciled(operator: OperatorReplica) -> None:
    """Wait until a replica has reconciled every resource once."""
    done = b'fairlead_operator_reconciles_total{kind="pipelines",result="done"}'
    async with asyncio.timeout(120):
        while done not in operator.answer("/metrics").body:
            await asyncio.sleep(0.1)


def test_the_role_is_what_the_operator_calls_and_a_new_replica_changes_nothing(
    real_cluster: RealCluster, chart: Chart
) -> None:
    namespace = real_cluster.namespace
    documents = list(rights(chart.render({"operator.enabled": True}, namespace=namespace), namespace))

    async def scenario() -> Verbs:
        async with (
            installed(real_cluster, definitions(chart, real_cluster.namespace), documents) as config,
            real_cluster.connect() as client,
        ):
            async with running(config, namespace) as (_, first):
                await _create_and_change(client, namespace)
                await _plan_around_a_lost_node(client, namespace)
                await _lend_and_take_back(client, namespace)
            async with running(config, namespace) as (operator, second):
                await _until_reconciled(operator)
                assert not [what for verb, what in second.calls if verb in ("patch", "delete")]
                await _delete(client, namespace)
        assert [*first.forbidden, *second.forbidden] == []
        return first.calls | second.calls

    calls = asyncio.run(scenario())
    roles = [allowed(each) for each in documents if each["kind"] in ("ClusterRole", "Role")]
    role: Verbs = set().union(*roles)
    assert calls <= role
    assert role - calls == CHECKED


def test_other_requests_are_forbidden(real_cluster: RealCluster, chart: Chart) -> None:
    documents = list(
        rights(
            chart.render({"operator.enabled": True}, namespace=real_cluster.namespace), real_cluster.namespace
        )
    )
    ns = real_cluster.namespace
    requests = (
        ("PUT", f"/apis/coordination.k8s.io/v1/namespaces/{ns}/leases/another"),
        ("GET", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/fairlead-operator"),
        ("DELETE", f"/api/v1/namespaces/{ns}/pods"),
        ("POST", f"/api/v1/namespaces/{ns}/pods/some/binding"),
        ("POST", f"/api/v1/namespaces/{ns}/pods/some/eviction"),
        ("PATCH", "/api/v1/nodes/some"),
        ("DELETE", f"/apis/{GROUP}/v1alpha1/namespaces/{ns}/pipelines/some"),
        ("DELETE", f"/apis/{GROUP}/v1alpha1/namespaces/{ns}/augmentations/some"),
        ("DELETE", f"/api/v1/namespaces/{ns}/persistentvolumeclaims"),
        ("GET", "/api/v1/persistentvolumes"),
        ("POST", f"/api/v1/namespaces/{ns}/serviceaccounts"),
        ("POST", f"/apis/apps/v1/namespaces/{ns}/deployments"),
        ("GET", "/api/v1/nodes/some"),
        ("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"),
    )

    async def scenario() -> None:
        async with (
            installed(real_cluster, definitions(chart, real_cluster.namespace), documents) as config,
            Client.connect(config) as client,
        ):
            for method, path in requests:
                with pytest.raises(AccessError):
                    await client.request(method, path, body=None if method == "GET" else b"{}")

    asyncio.run(scenario())


def test_it_runs_without_root_on_a_read_only_file_system_and_has_time_to_shut_down(chart: Chart) -> None:
    documents = chart.render({"operator.enabled": True})
    pod = one(documents, "Deployment", ACCOUNT)["spec"]["template"]["spec"]
    (container,) = containers(pod).values()
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["capabilities"]["drop"] == ["ALL"]
    assert container["args"][:2] == ["serve", "operator"]
    assert container["image"] == f"localhost/fairlead-operator:{__version__}"
    assert f"--pipeline-image={IMAGE}" in container["args"]
    assert f"--store-image={STORE_IMAGE}" in container["args"]
    assert pod["terminationGracePeriodSeconds"] > 20
    assert one(documents, "PodDisruptionBudget", ACCOUNT)["spec"]["maxUnavailable"] == 1
    account = one(documents, "ServiceAccount", ACCOUNT)
    assert account["automountServiceAccountToken"] is False


def test_it_is_off_by_default(chart: Chart) -> None:
    assert not [each for each in chart.render({}) if each["metadata"]["name"] == ACCOUNT]


def test_prometheus_scrapes_the_operator_and_the_coordinators_of_pipelines(chart: Chart) -> None:
    documents = chart.render({"operator.enabled": True, "metrics.podMonitor": {"enabled": True}})
    monitors = {each["metadata"]["name"]: each["spec"] for each in documents if each["kind"] == "PodMonitor"}
    assert {"fairlead-operator", "fairlead-pipelines"} <= monitors.keys()
    spec = monitors["fairlead-pipelines"]
    pods = wanted_pods(read_resource(pipeline()), IMAGE)
    found = {
        host
        for host, pod in pods.items()
        if spec["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    }
    assert found == {"local"}
    (endpoint,) = spec["podMetricsEndpoints"]
    ports = pods["local"]["spec"]["containers"][0]["ports"]
    assert endpoint["port"] in {port["name"] for port in ports}
    assert spec["namespaceSelector"] == {"any": True}


def test_prometheus_scrapes_the_stores_of_augmentations(chart: Chart) -> None:
    documents = chart.render({"operator.enabled": True, "metrics.podMonitor": {"enabled": True}})
    (spec,) = [each["spec"] for each in documents if each["metadata"]["name"] == "fairlead-stores"]
    world = AugmentationWorld(augmentation())
    world.live()
    labels = spec["selector"]["matchLabels"].items()
    assert labels <= world.pod("store")["metadata"]["labels"].items()
    (endpoint,) = spec["podMetricsEndpoints"]

    def ports(part: str) -> set[str]:
        containers = world.pod(part)["spec"]["containers"]
        return {port["name"] for each in containers for port in each.get("ports", ())}

    assert endpoint["port"] in ports("store")
    assert endpoint["port"] not in ports("application")


def test_images_can_come_from_a_registry(chart: Chart) -> None:
    values = {
        "operator": {"enabled": True, "image": {"repository": "registry.example.org/o", "tag": "3"}},
        "pipelines.image": {"repository": "registry.example.org/p", "digest": f"sha256:{'0' * 64}"},
    }
    pod = one(chart.render(values), "Deployment", ACCOUNT)["spec"]["template"]["spec"]
    (container,) = containers(pod).values()
    assert container["image"] == "registry.example.org/o:3"
    assert f"--pipeline-image=registry.example.org/p@sha256:{'0' * 64}" in container["args"]
