"""The scheduler as the chart lets it: its account on a real API server, its token, and what it asks for.

Beside the account stand the policies that guard what it and others write, and on demand the webhook, for one
namespace: others on the same server have schedulers of their own. The namespace's name is its schedulerName.
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
from tests.deploy.chart.webhooks import answering, configuration
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


class Noted:
    """A transport that notes what is asked, and what is forbidden."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.config = transport.config
        self.calls: set[tuple[str, str]] = set()
        self.forbidden: list[str] = []

    async def send(self, request: HttpRequest, asked: RequestInfo) -> bytes:
        """Note a question and pass it on."""
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
        """Note a watch and pass it on."""
        self.calls.add(call_of(request))
        try:
            async with self._transport.stream(request, asked, idle) as batches:
                yield batches
        except AccessError as error:
            self.forbidden.append(str(error))
            raise


def call_of(request: HttpRequest) -> tuple[str, str]:
    """Return a request as roles name it: a verb, and a resource."""
    hit = _PATH.match(request.path)
    assert hit, request.path
    resource = f"{hit['plural']}/{hit['sub']}" if hit["sub"] else hit["plural"]
    reading = "watch" if request.query.get("watch") else "get" if hit["name"] else "list"
    verb = _VERBS.get(request.method, reading)
    return verb, f"{resource}.{hit['group']}" if hit["group"] else resource


@asynccontextmanager
async def noted(config: ClusterConfig) -> AsyncIterator[tuple[Client, Noted]]:
    """Open a client whose questions are noted."""
    async with Transport.open(config) as transport:
        notes = Noted(transport)
        yield Client(notes), notes  # type: ignore[arg-type]  # it has all of a transport that a client uses


def rights(documents: list[Document], namespace: str) -> Iterator[Document]:
    """Yield accounts and roles of scheduler and webhook; what all share is named after the namespace."""
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


def guard(documents: list[Document], namespace: str) -> Iterator[Document]:
    """Yield the policies over what the scheduler writes, and their bindings, for one namespace."""
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
    """Give the account its rights in a namespace, for a while; yield the cluster as that account sees it."""
    values = {"scheduler.enabled": True, "scheduler.name": room.namespace}
    documents = chart.render(values, namespace=room.namespace)
    given = [*rights(documents, room.namespace), *guard(documents, room.namespace)]
    token = asyncio.run(_given(room, given))
    config = replace(room.config, login=AuthInfo(token=token), user=ACCOUNT)
    try:
        with _reviewed(room, documents, config) if webhook else nullcontext():
            yield config
    finally:
        asyncio.run(_taken(room, given))


@contextmanager
def _reviewed(room: RealCluster, documents: list[Document], config: ClusterConfig) -> Iterator[None]:
    """Have the API server ask the webhook, which runs as its own account."""
    rules = Rules(f"system:serviceaccount:{room.namespace}:{ACCOUNT}", room.namespace)

    async def token() -> str:
        async with room.connect() as client:
            return await token_of(client, room.namespace, REVIEWER)

    reviewer = replace(room.config, login=AuthInfo(token=asyncio.run(token())), user=REVIEWER)
    with answering(reviewer, rules) as (url, trusted):
        document = configuration(documents, room.namespace, url, trusted)
        asyncio.run(_put(room, document, config))
        try:
            yield
        finally:
            asyncio.run(_taken(room, [document]))


async def _put(room: RealCluster, document: Document, config: ClusterConfig) -> None:
    """Make the configuration, and wait until a binding of no pod is refused by it."""
    async with room.connect() as client:
        await client.create(KINDS[document["kind"]], document)
    body = {"metadata": {"name": "probe"}, "target": {"kind": "Node", "name": "none"}}
    path = PODS.path(room.namespace, "probe", "binding")
    async with asyncio.timeout(60), Client.connect(config) as client:
        while True:
            try:
                await client.request("POST", path, query={"dryRun": "All"}, body=json.dumps(body).encode())
            except ClusterError as error:
                if "fairlead-scheduler/pod-uid" in str(error):
                    return
            await asyncio.sleep(0.1)


async def _given(room: RealCluster, documents: list[Document]) -> str:
    async with room.connect() as client:
        for document in documents:
            await client.create(KINDS[document["kind"]], document)
        token = await token_of(client, room.namespace, ACCOUNT)
        await _until_guarded(client, room.namespace)
    await _until_known(replace(room.config, login=AuthInfo(token=token), user=ACCOUNT))
    return token


async def token_of(client: Client, namespace: str, account: str) -> str:
    """Return a token of an account."""
    body: dict[str, Any] = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
    body["spec"] = {"expirationSeconds": 3600}
    path = SERVICE_ACCOUNTS.path(namespace, account, "token")
    answer = await client.request("POST", path, body=json.dumps(body).encode())
    return str(json.loads(answer)["status"]["token"])


async def _until_guarded(client: Client, namespace: str) -> None:
    """Wait until the server has learnt of the policy, which even an administrator meets."""
    meta = {"name": "probe", "annotations": {PLACEMENT: "[]"}}
    probe = {"metadata": meta, "spec": {"containers": [{"name": "main", "image": "x"}]}}
    path, body = PODS.path(namespace), json.dumps(probe).encode()
    async with asyncio.timeout(60):
        while True:
            try:
                await client.request("POST", path, query={"dryRun": "All"}, body=body)
            except ClusterError as error:
                if "fairlead-scheduler/placement" in str(error):
                    return
            await asyncio.sleep(0.1)


async def _until_known(config: ClusterConfig) -> None:
    """Wait until the server has learnt of the role."""
    async with asyncio.timeout(60), Client.connect(config) as client:
        while True:
            with suppress(ClusterError):
                await client.request("GET", "/apis/resource.k8s.io/v1/deviceclasses", query={"limit": "1"})
                return
            await asyncio.sleep(0.1)


async def until_priority(client: Client, namespace: str, name: str) -> None:
    """Wait until the server has learnt of a priority class: a pod that names it is refused before."""
    spec = {"priorityClassName": name, "containers": [{"name": "main", "image": "x"}]}
    path, body = PODS.path(namespace), json.dumps({"metadata": {"name": "probe"}, "spec": spec}).encode()
    async with asyncio.timeout(60):
        while True:
            with suppress(AccessError):
                await client.request("POST", path, query={"dryRun": "All"}, body=body)
                return
            await asyncio.sleep(0.1)


async def _taken(room: RealCluster, documents: list[Document]) -> None:
    async with room.connect() as client:
        for document in documents:
            with suppress(NotFoundError):
                kind = KINDS[document["kind"]]
                where = room.namespace if kind.namespaced else None
                await client.delete(kind, document["metadata"]["name"], where)
