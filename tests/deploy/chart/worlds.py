"""Two nodes on a real API server, an agent's account under the chart's policies, and its tokens."""

import asyncio
import copy
import json
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from fairlead.cluster.client import Client
from fairlead.cluster.config.types import AuthInfo, ClusterConfig
from fairlead.cluster.kinds import CRDS, LEASES, NODES, PODS, RESOURCE_SLICES, SERVICE_ACCOUNTS, Kind
from fairlead.errors import ClusterError, FairleadError, NotFoundError
from tests.deploy.chart.charts import Chart, Document, Values
from tests.labs import LABEL, RealApi, open_namespace, wipe_namespace

ACCOUNT = "fairlead-agent"
KINDS = {
    "ClusterRole": Kind.of("rbac.authorization.k8s.io", "v1", "clusterroles", namespaced=False),
    "ClusterRoleBinding": Kind.of("rbac.authorization.k8s.io", "v1", "clusterrolebindings", namespaced=False),
    "ConfigMap": Kind.of("", "v1", "configmaps", namespaced=True),
    "CustomResourceDefinition": CRDS.raw(),
    "DaemonSet": Kind.of("apps", "v1", "daemonsets", namespaced=True),
    "Deployment": Kind.of("apps", "v1", "deployments", namespaced=True),
    "DeviceClass": Kind.of("resource.k8s.io", "v1", "deviceclasses", namespaced=False),
    "Job": Kind.of("batch", "v1", "jobs", namespaced=True),
    "Lease": LEASES.raw(),
    "MutatingAdmissionPolicy": Kind.of(
        "admissionregistration.k8s.io", "v1", "mutatingadmissionpolicies", namespaced=False
    ),
    "MutatingAdmissionPolicyBinding": Kind.of(
        "admissionregistration.k8s.io", "v1", "mutatingadmissionpolicybindings", namespaced=False
    ),
    "Namespace": Kind.of("", "v1", "namespaces", namespaced=False),
    "NetworkPolicy": Kind.of("networking.k8s.io", "v1", "networkpolicies", namespaced=True),
    "PodDisruptionBudget": Kind.of("policy", "v1", "poddisruptionbudgets", namespaced=True),
    "Role": Kind.of("rbac.authorization.k8s.io", "v1", "roles", namespaced=True),
    "RoleBinding": Kind.of("rbac.authorization.k8s.io", "v1", "rolebindings", namespaced=True),
    "Secret": Kind.of("", "v1", "secrets", namespaced=True),
    "Service": Kind.of("", "v1", "services", namespaced=True),
    "ServiceAccount": SERVICE_ACCOUNTS.raw(),
    "ValidatingAdmissionPolicy": Kind.of(
        "admissionregistration.k8s.io", "v1", "validatingadmissionpolicies", namespaced=False
    ),
    "ValidatingAdmissionPolicyBinding": Kind.of(
        "admissionregistration.k8s.io", "v1", "validatingadmissionpolicybindings", namespaced=False
    ),
    "ValidatingWebhookConfiguration": Kind.of(
        "admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", namespaced=False
    ),
}
"""Every kind of the chart that a plain Kubernetes has."""
GUARD_KINDS = (
    "ServiceAccount",
    "ClusterRole",
    "ClusterRoleBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
)
GENEROUS = [
    {"apiGroups": [""], "resources": ["nodes", "nodes/status", "nodes/proxy"], "verbs": ["*"]},
    {"apiGroups": ["resource.k8s.io"], "resources": ["resourceslices"], "verbs": ["*"]},
    {"apiGroups": ["fairlead.dev"], "resources": ["modelprofiles"], "verbs": ["*"]},
]
"""Rules that a careless administrator may add to the role: the policies must protect without it."""
PATIENCE = 60.0
"""Seconds within which an API server must enforce a policy; it takes about one."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The API server's response: its error, or nothing on success."""

    error: str = ""

    @property
    def done(self) -> bool:
        """Whether the request succeeded."""
        return not self.error


@dataclass(frozen=True, slots=True)
class World:
    """An agent's account under the policies, and two nodes: its own, `a`, and another agent's, `b`."""

    api: RealApi
    namespace: str
    tokens: Mapping[str, str] = field(repr=False)
    generous: bool
    """The role allows everything, so that the policies are the only protection."""

    def login(self, user: str) -> ClusterConfig:
        """Return the configuration of the agent of node `a` or `b`, or of its unbound token, `loose`."""
        return replace(self.api.config, login=AuthInfo(token=self.tokens[user]), user=user)

    def ask(
        self, user: str, method: str, path: str, body: object = None, patch_type: str = "merge-patch"
    ) -> Reply:
        """Send a request as the agent of node `a` or `b`, or with the `loose` token; `{a}` is a node."""
        data = None if body is None else self._fill_in(json.dumps(body)).encode()
        kind = f"application/{patch_type}+{'yaml' if patch_type == 'apply-patch' else 'json'}"

        async def send() -> Reply:
            async with Client.connect(self.login(user)) as client:
                try:
                    await client.request(
                        method,
                        self._fill_in(path),
                        query={"fieldManager": "test", "force": "true"}
                        if patch_type == "apply-patch"
                        else None,
                        body=data,
                        content_type=kind if method == "PATCH" else "application/json",
                    )
                except ClusterError as error:
                    return Reply(str(error))
                return Reply()

        return asyncio.run(send())

    def state(self) -> dict[str, Any]:
        """Return the resource versions of the nodes and slices."""

        async def read() -> dict[str, Any]:
            async with Client.connect(self.api.config) as client:
                nodes = await client.list(NODES.raw(), labels=f"{LABEL}={self.namespace}")
                slices = await client.list(RESOURCE_SLICES.raw())
                items = [*nodes.items, *(item for item in slices.items if self._is_own(item.metadata.name))]
                return {item.metadata.name: item.metadata.resource_version for item in items}

        return asyncio.run(read())

    def fill(self, node: str, *, labels: int, annotations: int) -> None:
        """Give a node this number of foreign labels and of long foreign annotations."""
        text = "y" * 1024
        body = {
            "labels": {f"example.org/x{number}": "x" * 63 for number in range(labels)},
            "annotations": {f"example.org/y{number}": text for number in range(annotations)},
        }

        async def send() -> None:
            async with Client.connect(self.api.config) as client:
                await client.patch(NODES, self._fill_in(node), {"metadata": body})

        asyncio.run(send())

    def _is_own(self, name: str) -> bool:
        return name.startswith(self.namespace)

    def _fill_in(self, text: str) -> str:
        for name in ("a", "b"):
            text = text.replace(f"{{{name}}}", f"{self.namespace}-{name}")
        return text.replace("{ns}", self.namespace)


@contextmanager
def installed(api: RealApi, chart: Chart, values: Values, *, generous: bool = False) -> Iterator[World]:
    """Install the chart's account, role and policies in a fresh namespace; remove them afterwards."""
    namespace = f"test-{uuid.uuid4().hex[:10]}"
    documents = chart.render({"cleanup.enabled": False, **values}, namespace=namespace)
    guards = list(_guards(documents, namespace))
    if generous:
        name = f"{ACCOUNT}-{namespace}"
        role = next(guard for guard in guards if guard["metadata"]["name"] == name and "rules" in guard)
        role["rules"] += GENEROUS
    asyncio.run(open_namespace(api, namespace))
    try:
        world = World(api, namespace, asyncio.run(_set_up(api, namespace, guards)), generous)
        _await_guards(world)
        yield world
    finally:
        asyncio.run(_take_down(api, namespace, guards))


def _guards(documents: Iterable[Document], namespace: str) -> Iterator[Document]:
    """Yield account, role and policies; cluster-wide ones get the namespace in their name."""
    for original in documents:
        if original["kind"] not in GUARD_KINDS:
            continue
        document = copy.deepcopy(original)
        if "namespace" not in document["metadata"]:
            document["metadata"]["name"] += f"-{namespace}"
        for part, name in (("roleRef", "name"), ("spec", "policyName")):
            if name in document.get(part, {}):
                document[part][name] += f"-{namespace}"
        yield document


def slice_of(node: str, **changes: Any) -> Document:
    """Return a slice as an agent creates it, with changed fields."""
    spec = {
        "driver": "fairlead.dev",
        "nodeName": node,
        "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "gpu-0", "attributes": {"kind": {"string": "gpu"}}}],
        **changes,
    }
    clean = {key: value for key, value in spec.items() if value is not None}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {}, "spec": clean}


def named(name: str, document: Document, **metadata: Any) -> Document:
    """Return a document with a name."""
    return {**document, "metadata": {"name": name, **metadata}}


async def _set_up(api: RealApi, namespace: str, guards: list[Document]) -> dict[str, str]:
    async with Client.connect(api.config) as client:
        for guard in guards:
            await client.create(KINDS[guard["kind"]], guard)
        tokens = {"loose": await _token(client, namespace, None)}
        for short in ("a", "b"):
            node = f"{namespace}-{short}"
            metadata = {
                "labels": {LABEL: namespace, "example.org/owner": "edge", "gpu.model": "by-hand"},
                "annotations": {"example.org/note": "keep"},
            }
            await client.create(NODES, {"metadata": {"name": node, **metadata}})
            pod = {
                "metadata": {"name": short},
                "spec": {
                    "nodeName": node,
                    "serviceAccountName": ACCOUNT,
                    "automountServiceAccountToken": False,
                    "containers": [{"name": "agent", "image": "none"}],
                },
            }
            created = await client.create(PODS, pod, namespace)
            tokens[short] = await _token(client, namespace, {"name": short, "uid": created.metadata.uid})
        slices = RESOURCE_SLICES.raw()
        own, other = f"{namespace}-a", f"{namespace}-b"
        await client.create(slices, named(f"{other}-fairlead-0", slice_of(other)))
        await client.create(slices, named(f"{own}-other-driver", slice_of(own, driver="gpu.example.org")))
        every = slice_of(own, nodeName=None, allNodes=True)
        await client.create(slices, named(f"{namespace}-everywhere", every))
        return tokens


async def _token(client: Client, namespace: str, pod: Mapping[str, str] | None) -> str:
    spec: dict[str, Any] = {"expirationSeconds": 3600}
    if pod is not None:
        spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Pod", **pod}
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    path = SERVICE_ACCOUNTS.path(namespace, ACCOUNT, "token")
    response = await client.request("POST", path, body=json.dumps(body).encode())
    return str(json.loads(response)["status"]["token"])


def _await_guards(world: World) -> None:
    """Wait until the API server has observed the role, and until both policies deny."""
    label = {"metadata": {"labels": {"fairlead.dev/ready": "yes"}}}
    strange = named("{ns}-probe", slice_of("{a}", driver="gpu.example.org"))
    slices = "/apis/resource.k8s.io/v1/resourceslices?dryRun=All"
    _until(lambda: world.ask("a", "PATCH", "/api/v1/nodes/{a}?dryRun=All", label).done)
    _until(lambda: "own-node" in world.ask("a", "PATCH", "/api/v1/nodes/{b}?dryRun=All", label).error)
    _until(lambda: "slice-driver" in world.ask("a", "POST", slices, strange).error)


def _until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "the API server does not enforce the policies"
        time.sleep(0.1)


async def _take_down(api: RealApi, namespace: str, guards: list[Document]) -> None:
    async with Client.connect(api.config) as client:
        for guard in guards:
            with suppress(NotFoundError):
                await client.delete(KINDS[guard["kind"]], guard["metadata"]["name"], namespace)
        for item in (await client.list(RESOURCE_SLICES)).items:
            if item.metadata.name.startswith(namespace):
                with suppress(FairleadError):
                    await client.delete(RESOURCE_SLICES, item.metadata.name)
    await wipe_namespace(api, namespace)
