"""The scheduler with the chart's permissions: its account on a real API server, its token, its requests.

The account comes with the policies over its writes and those of others, and optionally the webhook, for one
namespace: other tests on the same server have their own schedulers. The schedulerName is the namespace.
"""

import asyncio
import copy
import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from dataclasses import replace
from typing import Any

from fairlead.cluster.client import Client
from fairlead.cluster.config.types import AuthInfo, ClusterConfig
from fairlead.cluster.http.api_errors import RequestInfo
from fairlead.cluster.http.request import HttpRequest
from fairlead.cluster.http.transport import LineBatches, Transport
from fairlead.cluster.kinds import PODS, SERVICE_ACCOUNTS
from fairlead.errors import AccessError, ClusterError, NotFoundError
from fairlead.keys import PLACEMENT
from fairlead.settings.admission import Rules
from tests.deploy.chart.charts import Chart, Document
from tests.deploy.chart.webhooks import configuration, serve_webhook
from tests.deploy.chart.worlds import KINDS
from tests.labs import RealCluster

ACCOUNT = "fairlead-scheduler"
REVIEWER = "fairlead-admission"
RIGHTS = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
POLICY = "fairlead-scheduler-placements"
CLAIM_POLICY = "fairlead-scheduler-claims"
_PATH = re.compile(
    r"/apis?(?:/(?P<group>[^/]+\.[^/]+|apps|policy))?/v[^/]+(?:/namespaces/[^/]+)?/(?P<plural>[^/]+)"
    r"(?:/(?P<name>[^/]+))?(?:/(?P<sub>[^/]+))?$"
)
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class RecordingTransport:
    """A transport that records requests, and those that are forbidden."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.config = transport.config
        self.calls: set[tuple[str, str]] = set()
        self.forbidden: list[str] = []

    async def send(self, request: HttpRequest, asked: RequestInfo) -> bytes:
        """Record a request and forward it."""
        self.calls.add(call_of(request))
        try:
            return await self._transport.send(request, asked)
        except AccessError as error:
            self.forbidden.append(str(error))
            raise

    @asynccontextmanager
    async def stream(
        self, request: HttpRequest, asked: RequestInfo, idle: float
    ) -> AsyncIterator[LineBatches]:
        """Record a watch and forward it."""
        self.calls.add(call_of(request))
        try:
            async with self._transport.stream(request, asked, idle) as batches:
                yield batches
        except AccessError as error:
            self.forbidden.append(str(error))
            raise


def call_of(request: HttpRequest) -> tuple[str, str]:
    """Return the verb and the resource of a request, in the form of roles."""
    match = _PATH.match(request.path)
    assert match, request.path
    resource = f"{match['plural']}/{match['sub']}" if match["sub"] else match["plural"]
    read_verb = "watch" if request.query.get("watch") else "get" if match["name"] else "list"
    verb = _VERBS.get(request.method, read_verb)
    return verb, f"{resource}.{match['group']}" if match["group"] else resource


@asynccontextmanager
async def record_requests(config: ClusterConfig) -> AsyncIterator[tuple[Client, RecordingTransport]]:
    """Open a client whose requests are recorded."""
    async with Transport.open(config) as transport:
        recorder = RecordingTransport(transport)
        yield Client(recorder), recorder  # type: ignore[arg-type]  # all that a client uses of a transport


def rights(documents: list[Document], namespace: str) -> Iterator[Document]:
    """Yield accounts and roles of scheduler and webhook; cluster-wide ones get the namespace as suffix."""
    for original in documents:
        ours = original["metadata"]["labels"].get("app.kubernetes.io/component") in ("scheduler", "admission")
        if not ours or original["kind"] not in RIGHTS:
            continue
        document = copy.deepcopy(original)
        if document["kind"].startswith("Cluster"):
            document["metadata"]["name"] += f"-{namespace}"
        if document.get("roleRef", {}).get("kind") == "ClusterRole":
            document["roleRef"]["name"] += f"-{namespace}"
        yield document


def policies(documents: list[Document], namespace: str) -> Iterator[Document]:
    """Yield the policies over the scheduler's writes, and their bindings, for one namespace."""
    for original in documents:
        if original["metadata"]["name"] in (POLICY, CLAIM_POLICY):
            document = copy.deepcopy(original)
            document["metadata"]["name"] += f"-{namespace}"
            if "policyName" in document["spec"]:
                document["spec"]["policyName"] += f"-{namespace}"
                here = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
                document["spec"]["matchResources"] = {"namespaceSelector": here}
            yield document


@contextmanager
def allowed_as_shipped(room: RealCluster, chart: Chart, *, webhook: bool = False) -> Iterator[ClusterConfig]:
    """Create the account and its permissions in a namespace; yield its configuration, then remove them."""
    values = {"scheduler.enabled": True, "scheduler.name": room.namespace}
    documents = chart.render(values, namespace=room.namespace)
    created = [*rights(documents, room.namespace), *policies(documents, room.namespace)]
    token = asyncio.run(_create(room, created))
    config = replace(room.config, login=AuthInfo(token=token), user=ACCOUNT)
    try:
        with _with_webhook(room, documents, config) if webhook else nullcontext():
            yield config
    finally:
        asyncio.run(_delete(room, created))


@contextmanager
def _with_webhook(room: RealCluster, documents: list[Document], config: ClusterConfig) -> Iterator[None]:
    """Register the webhook, which runs as its own account, at the API server."""
    rules = Rules(f"system:serviceaccount:{room.namespace}:{ACCOUNT}", room.namespace)

    async def token() -> str:
        async with room.connect() as client:
            return await token_of(client, room.namespace, REVIEWER)

    reviewer = replace(room.config, login=AuthInfo(token=asyncio.run(token())), user=REVIEWER)
    with serve_webhook(reviewer, rules) as (url, trusted):
        document = configuration(documents, room.namespace, url, trusted)
        asyncio.run(_register(room, document, config))
        try:
            yield
        finally:
            asyncio.run(_delete(room, [document]))


async def _register(room: RealCluster, document: Document, config: ClusterConfig) -> None:
    """Create the configuration, and wait until the webhook denies a binding of a missing pod."""
    async with room.connect() as client:
        await client.create(KINDS[document["kind"]], document)
    body = {"metadata": {"name": "probe"}, "target": {"kind": "Node", "name": "none"}}
    path = PODS.path(room.namespace, "probe", "binding")
    async with asyncio.timeout(300), Client.connect(config) as client:
        while True:
            try:
                await client.request("POST", path, query={"dryRun": "All"}, body=json.dumps(body).encode())
            except ClusterError as error:
                if "fairlead-scheduler/pod-uid" in str(error):
                    return
            await asyncio.sleep(0.1)


async def _create(room: RealCluster, documents: list[Document]) -> str:
    async with room.connect() as client:
        for document in documents:
            await client.create(KINDS[document["kind"]], document)
        token = await token_of(client, room.namespace, ACCOUNT)
        await _wait_for_policy(client, room.namespace)
    await _wait_for_role(replace(room.config, login=AuthInfo(token=token), user=ACCOUNT))
    return token


async def token_of(client: Client, namespace: str, account: str) -> str:
    """Return a token of an account."""
    body: dict[str, Any] = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
    body["spec"] = {"expirationSeconds": 3600}
    path = SERVICE_ACCOUNTS.path(namespace, account, "token")
    response = await client.request("POST", path, body=json.dumps(body).encode())
    return str(json.loads(response)["status"]["token"])


async def _wait_for_policy(client: Client, namespace: str) -> None:
    """Wait until the API server enforces the policy, which applies to administrators too."""
    meta = {"name": "probe", "annotations": {PLACEMENT: "[]"}}
    probe = {"metadata": meta, "spec": {"containers": [{"name": "main", "image": "x"}]}}
    path, body = PODS.path(namespace), json.dumps(probe).encode()
    async with asyncio.timeout(300):
        while True:
            try:
                await client.request("POST", path, query={"dryRun": "All"}, body=body)
            except ClusterError as error:
                if "fairlead-scheduler/placement" in str(error):
                    return
            await asyncio.sleep(0.1)


async def _wait_for_role(config: ClusterConfig) -> None:
    """Wait until the API server has observed the role."""
    async with asyncio.timeout(300), Client.connect(config) as client:
        while True:
            with suppress(ClusterError):
                await client.request("GET", "/apis/resource.k8s.io/v1/deviceclasses", query={"limit": "1"})
                return
            await asyncio.sleep(0.1)


async def until_priority(client: Client, namespace: str, name: str) -> None:
    """Wait until the API server has observed a priority class: before that it rejects a pod that names it."""
    spec = {"priorityClassName": name, "containers": [{"name": "main", "image": "x"}]}
    path, body = PODS.path(namespace), json.dumps({"metadata": {"name": "probe"}, "spec": spec}).encode()
    async with asyncio.timeout(300):
        while True:
            with suppress(AccessError):
                await client.request("POST", path, query={"dryRun": "All"}, body=body)
                return
            await asyncio.sleep(0.1)


async def _delete(room: RealCluster, documents: list[Document]) -> None:
    async with room.connect() as client:
        for document in documents:
            with suppress(NotFoundError):
                kind = KINDS[document["kind"]]
                namespace = room.namespace if kind.namespaced else None
                await client.delete(kind, document["metadata"]["name"], namespace)
