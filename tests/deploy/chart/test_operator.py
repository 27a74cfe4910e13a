"""The chart's operator: its role allows exactly its requests, on a real API server."""

import asyncio
import copy
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest

from fairlead.cluster.client import Client
from fairlead.cluster.config.types import AuthInfo, ClusterConfig
from fairlead.cluster.kinds import CRDS, NODES
from fairlead.errors import AccessError, ClusterError, NotFoundError
from fairlead.reconcile import Announcement, Manifest, Observed, Reconciled, ResourceKind
from fairlead.serve.operator.driver import OperatorReplica
from fairlead.serve.operator.kinds import client_kind
from fairlead.settings.leader import LeaderElectionConfig
from fairlead.settings.operator import OperatorSettings
from tests.deploy.chart.charts import Chart, Document, containers, one
from tests.deploy.chart.deciders import RecordingTransport, record_requests, token_of
from tests.deploy.chart.test_roles import Verbs, allowed
from tests.deploy.chart.worlds import KINDS
from tests.labs import LABEL, RealCluster
from tests.serve.operator.widgets import definition

ACCOUNT = "fairlead-operator"
RIGHTS = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
GROUP = "roles.test.fairlead.dev"
"""Stands for fairlead.dev, and widgets for pipelines: other tests may have the real kind on this server."""
WIDGETS = ResourceKind(f"{GROUP}/v1", "Widget", "widgets")
OWNED = (
    ResourceKind("v1", "Pod", "pods"),
    ResourceKind("v1", "Service", "services"),
    ResourceKind("v1", "ConfigMap", "configmaps"),
    ResourceKind("v1", "Secret", "secrets"),
    ResourceKind("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies"),
    ResourceKind("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets"),
)
CHECKED: Verbs = {
    *(("create", client_kind(kind).resource) for kind in OWNED),  # of an object that a patch creates
    ("update", f"widgets/finalizers.{GROUP}"),  # where an admission plugin protects owners
    ("patch", "events"),  # of an event that comes again
}
"""Permissions that the API server checks without a request of this kind, or that this test does not need."""


class EveryKind:
    """Wants one object of each kind that the role allows; a label of the resource changes them."""

    resource = WIDGETS
    owns = OWNED
    watches = (ResourceKind("v1", "Node", "nodes", namespaced=False),)

    def reconcile(self, observed: Observed) -> Reconciled:
        """Return one object of each kind, and nothing of a deleted resource."""
        widget = observed.resource
        if widget["metadata"].get("deletionTimestamp"):
            return Reconciled(is_finished=not any(observed.owned.values()))
        labels = {"text": widget["spec"]["text"]}
        made = sum(map(len, observed.owned.values()))
        said = (Announcement("Normal", "Made", "objects"),)
        return Reconciled(tuple(_objects(labels)), {"made": made, **labels}, said)


def _objects(labels: dict[str, str]) -> Iterator[Manifest]:
    selector = {"matchLabels": {"none": "such"}}
    specs: dict[str, dict[str, Any]] = {
        "Pod": {"spec": {"containers": [{"name": "main", "image": "x"}]}},
        "Service": {"spec": {"clusterIP": "None", "selector": {"none": "such"}}},
        "ConfigMap": {"data": {"a": "b"}},
        "Secret": {"data": {"a": "Yg=="}},
        "NetworkPolicy": {"spec": {"podSelector": selector}},
        "PodDisruptionBudget": {"spec": {"maxUnavailable": 1, "selector": selector}},
    }
    for kind in OWNED:
        head = {"apiVersion": kind.api_version, "kind": kind.kind}
        yield {**head, "metadata": {"name": "every", "labels": labels}, **specs[kind.kind]}


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
                rule["resources"] = [each.replace("pipelines", "widgets") for each in rule["resources"]]
        yield document


@asynccontextmanager
async def installed(room: RealCluster, documents: list[Document]) -> AsyncIterator[ClusterConfig]:
    """Create the account and its permissions; yield its configuration, and remove them afterwards."""
    async with room.connect() as client:
        await client.create(CRDS.raw(), definition({LABEL: room.namespace}, GROUP))
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


async def _until_allowed(config: ClusterConfig) -> None:
    """Wait until the API server has observed the role, and serves the kind."""
    async with asyncio.timeout(120), Client.connect(config) as client:
        while True:
            with suppress(ClusterError):
                await client.list(NODES.raw(), limit=1)
                await client.list(client_kind(WIDGETS))
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
        operator = OperatorReplica(client, [EveryKind()], OperatorSettings("one", lease=lease), print)
        task = asyncio.create_task(operator.run(stop))
        try:
            yield operator, recorder
        finally:
            stop.set()
            await task


async def _create_and_change(client: Client, namespace: str) -> None:
    kind = client_kind(WIDGETS)
    body = {"apiVersion": WIDGETS.api_version, "kind": "Widget", "metadata": {"name": "every"}}
    await client.create(kind, {**body, "spec": {"text": "one"}}, namespace)
    for text in ("one", "two"):
        await client.patch(kind, "every", {"spec": {"text": text}}, namespace)
        async with asyncio.timeout(120):
            while True:
                status = (await client.get(kind, "every", namespace)).document().get("status")
                if status == {"made": len(OWNED), "text": text}:
                    break
                await asyncio.sleep(0.1)


async def _delete(client: Client, namespace: str) -> None:
    kind = client_kind(WIDGETS)
    await client.delete(kind, "every", namespace)
    async with asyncio.timeout(120):
        while (await client.list(kind, namespace)).items:
            await asyncio.sleep(0.1)


async def _until_reconciled(operator: OperatorReplica) -> None:
    """Wait until a replica has reconciled every resource once."""
    done = b'fairlead_operator_reconciles_total{kind="widgets",result="done"}'
    async with asyncio.timeout(120):
        while done not in operator.answer("/metrics").body:
            await asyncio.sleep(0.1)


def test_the_role_is_what_the_operator_calls_and_a_new_replica_changes_nothing(
    real_cluster: RealCluster, chart: Chart
) -> None:
    namespace = real_cluster.namespace
    documents = list(rights(chart.render({"operator.enabled": True}, namespace=namespace), namespace))

    async def scenario() -> Verbs:
        async with installed(real_cluster, documents) as config, real_cluster.connect() as client:
            async with running(config, namespace) as (_, first):
                await _create_and_change(client, namespace)
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
        ("DELETE", f"/apis/{GROUP}/v1/namespaces/{ns}/widgets/some"),
        ("POST", f"/api/v1/namespaces/{ns}/serviceaccounts"),
        ("POST", f"/apis/apps/v1/namespaces/{ns}/deployments"),
        ("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"),
    )

    async def scenario() -> None:
        async with installed(real_cluster, documents) as config, Client.connect(config) as client:
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
    assert pod["terminationGracePeriodSeconds"] > 20
    assert one(documents, "PodDisruptionBudget", ACCOUNT)["spec"]["maxUnavailable"] == 1
    account = one(documents, "ServiceAccount", ACCOUNT)
    assert account["automountServiceAccountToken"] is False


def test_it_is_off_by_default(chart: Chart) -> None:
    assert not [each for each in chart.render({}) if each["metadata"]["name"] == ACCOUNT]
