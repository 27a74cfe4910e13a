"""The dashboard of a real API server: rows, live changes, explanations, and who sees what of them."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import yaml

from fairlead.catalog import load
from fairlead.cluster.client import Client
from fairlead.cluster.config.types import ClusterConfig
from fairlead.cluster.kinds import NAMESPACES, NODES, PODS, RESOURCE_SLICES, SERVICE_ACCOUNTS, Kind
from fairlead.errors import NotFoundError
from fairlead.serve.dashboard.cluster.actions import config_for
from fairlead.serve.dashboard.cluster.source import ClusterSettings, ClusterSource
from fairlead.serve.dashboard.cluster.viewers import ReviewedAccess
from fairlead.usage.source import SourceName, UsageSettings
from tests.labs import LABEL, RealCluster
from tests.serve.dashboard.served import Answered, Events, Served, served

_RBAC = "rbac.authorization.k8s.io"
ROLES = Kind.of(_RBAC, "v1", "clusterroles", namespaced=False, name="ClusterRole")
CLUSTER_BINDINGS = Kind.of(_RBAC, "v1", "clusterrolebindings", namespaced=False, name="ClusterRoleBinding")
BINDINGS = Kind.of(_RBAC, "v1", "rolebindings", namespaced=True, name="RoleBinding")
LIST = ["get", "list", "watch"]
SECRETIVE = "zanzibar"
"""A word in every name of the other tenant."""


@dataclass
class World:
    """Two tenants, a node, and the tokens of people."""

    own: str
    other: str
    node: str
    tokens: dict[str, str]


async def _apply(
    client: Client, kind: Kind[Any], name: str, body: dict[str, Any], namespace: str = ""
) -> None:
    meta = {"name": name, **({"namespace": namespace} if namespace else {}), **body.pop("metadata", {})}
    await client.create(kind, {"metadata": meta, **body}, namespace or None)


def _pod(name: str, **spec: Any) -> dict[str, Any]:
    amounts = {"limits": {"fairlead.dev/gpu-mem": "1024"}, "requests": {"cpu": "10m"}}
    container = {"name": "c", "image": "none", "resources": amounts}
    return {"spec": {"schedulerName": "nobody", "containers": [container], **spec}}


def _slice(node: str) -> dict[str, Any]:
    """Return what a node's slice offers: one accelerator, which can be shared."""
    device = {
        "name": "gpu-0",
        "attributes": {"model": {"string": "t4"}, "vendor": {"string": "NVIDIA"}},
        "capacity": {"memory": {"value": "8Gi"}},
        "allowMultipleAllocations": True,
    }
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    return {"driver": "fairlead.dev", "nodeName": node, "pool": pool, "devices": [device]}


def shipped_rules() -> list[Any]:
    """Return the rules of the role that the chart gives to the dashboard."""
    text = (Path(__file__).parents[3] / "deploy/manifests/dashboard.yaml").read_text(encoding="utf-8")
    (role,) = [each for each in yaml.safe_load_all(text) if each["kind"] == "ClusterRole"]
    rules: list[Any] = role["rules"]
    return rules


async def _person(client: Client, namespace: str, name: str) -> str:
    await _apply(client, SERVICE_ACCOUNTS, name, {}, namespace)
    path = f"{SERVICE_ACCOUNTS.path(namespace, name)}/token"
    answer = await client.request("POST", path, body=b'{"spec":{"expirationSeconds":3600}}')
    return str(json.loads(answer)["status"]["token"])


def _subject(namespace: str, name: str) -> list[dict[str, str]]:
    return [{"kind": "ServiceAccount", "namespace": namespace, "name": name}]


async def _bind(client: Client, kind: Kind[Any], namespace: str, role: str, person: str, home: str) -> None:
    ref = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role}
    labels = {"labels": {LABEL: home}}
    body = {"metadata": labels, "roleRef": ref, "subjects": _subject(home, person)}
    await _apply(client, kind, f"{person}-{role}-{home}", body, namespace)


async def _make(client: Client, own: str) -> World:
    other, node = f"{own}-{SECRETIVE}", f"node-{own}"
    labels = {"labels": {LABEL: own}}
    await _apply(client, NAMESPACES, other, {"metadata": {"labels": {LABEL: own}}})
    status = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "20", "fairlead.dev/gpu-mem": "8192"}}
    await _apply(client, NODES, node, {"metadata": dict(labels)})
    await client.patch_status(NODES.raw(), node, {"status": status})
    await _apply(client, RESOURCE_SLICES.raw(), node, {"metadata": dict(labels), "spec": _slice(node)})
    rules = {
        "sees-pods": [{"apiGroups": [""], "resources": ["pods"], "verbs": LIST}],
        "sees-nodes": [{"apiGroups": [""], "resources": ["nodes"], "verbs": LIST}],
        "ends-pods": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["delete"]}],
    }
    for name, rule in rules.items():
        await _apply(client, ROLES, f"{name}-{own}", {"metadata": dict(labels), "rules": rule})
    await _apply(client, ROLES, f"dashboard-{own}", {"metadata": dict(labels), "rules": shipped_rules()})
    tokens = {name: await _person(client, own, name) for name in ("ann", "ben", "cat", "dan", "dashboard")}
    await _bind(client, CLUSTER_BINDINGS, "", f"dashboard-{own}", "dashboard", own)
    await _bind(client, BINDINGS, own, f"sees-pods-{own}", "ann", own)
    await _bind(client, CLUSTER_BINDINGS, "", f"sees-nodes-{own}", "ann", own)
    await _bind(client, BINDINGS, own, f"sees-pods-{own}", "dan", own)
    await _bind(client, BINDINGS, own, f"ends-pods-{own}", "dan", own)
    for name in ("sees-pods", "sees-nodes"):
        await _bind(client, CLUSTER_BINDINGS, "", f"{name}-{own}", "cat", own)
    await _apply(client, PODS, "web", _pod("web"), own)
    await _apply(client, PODS, f"{SECRETIVE}-vault", _pod("vault", nodeName=node), other)
    await _apply(client, PODS, f"{SECRETIVE}-waits", _pod("waits"), other)
    return World(own, other, node, tokens)


async def _say(client: Client, namespace: str, pod: str, message: str) -> None:
    """Say as a scheduler why a pod waits."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    await client.patch_status(PODS.raw(), pod, {"status": {"conditions": [condition]}}, namespace)


@asynccontextmanager
async def _cleaned(client: Client, world: World) -> AsyncIterator[None]:
    try:
        yield
    finally:
        left = ((NODES, world.node), (NAMESPACES, world.other), (RESOURCE_SLICES, world.node))
        for kind, name in left:
            with suppress(NotFoundError):
                await client.delete(kind, name)


@contextmanager
def _served(config: ClusterConfig, actions: tuple[str, ...] = ()) -> Iterator[Served]:
    settings = ClusterSettings(UsageSettings(SourceName.NONE), lease="kube-system", with_tokens=True)
    source = ClusterSource(config, load(), settings)
    access = ReviewedAccess(lambda: source.client, source.namespaces, actions)
    with served(source, access) as server:
        while server.get("/readyz").status != 200:
            pass
        yield server


def _everything(server: Served, world: World, token: str) -> dict[str, Answered]:
    """Return every answer that a person can get."""
    paths = ["/api/v1/about", "/api/v1/openapi.json"]
    about = server.get("/api/v1/about", token=token).json
    for table in about["tables"]:
        paths.append(f"/api/v1/tables/{table}")
    for namespace, pod in (
        (world.own, "web"),
        (world.other, f"{SECRETIVE}-vault"),
        (world.other, f"{SECRETIVE}-waits"),
    ):
        paths.append(f"/api/v1/workloads/{namespace}%2F{pod}/why")
    answers = {path: server.get(path, token=token) for path in paths}
    for device in server.get("/api/v1/tables/devices", token=token).json["rows"]:
        key = device["key"].replace("/", "%2F")
        answers[key] = server.get(f"/api/v1/devices/{key}/series", token=token)
    return answers


def _own_words(answer: Answered, path: str) -> str:
    """Return an answer without what the request itself said."""
    text = answer.body.decode()
    asked = unquote(path.partition("workloads/")[2]).removesuffix("/why")
    return text if answer.status == 200 else text.replace(asked, "")


def test_each_person_sees_what_the_api_server_lets_them_list(real_cluster: RealCluster) -> None:
    async def world_of(client: Client) -> World:
        made = await _make(client, real_cluster.namespace)
        await _say(client, made.own, "web", f"evict {made.other}/{SECRETIVE}-vault, of {made.other}, first")
        return made

    def run(work: Any) -> Any:
        async def inside() -> Any:
            async with Client.connect(real_cluster.config) as client:
                return await work(client)

        return asyncio.run(inside())

    world: World = run(world_of)
    with ExitStack() as stack:
        stack.callback(lambda: run(lambda client: _clean(client, world)))
        config = config_for(real_cluster.config, world.tokens["dashboard"])
        server = stack.enter_context(_served(config, ("cancel", "drain", "rightsize")))
        _check_rows(server, world)
        _check_other_tenants(server, world)
        _check_no_rights(server, world)
        _check_stream(server, world, run)
        _check_actions(server, world, run)


async def _clean(client: Client, world: World) -> None:
    async with _cleaned(client, world):
        pass


def _check_rows(server: Served, world: World) -> None:
    token = world.tokens["cat"]
    rows = {
        row["key"]: row for row in server.get("/api/v1/tables/workloads?limit=5000", token=token).json["rows"]
    }
    assert rows[f"{world.own}/web"]["why"].startswith("evict ")
    assert rows[f"{world.other}/{SECRETIVE}-vault"]["node"] == world.node
    about = server.get("/api/v1/about", token=token).json
    assert about["viewer"]["namespaces"] == ["*"]
    assert about["viewer"]["actions"] == []
    assert about["stale"] == [], "its role is enough"


def _check_other_tenants(server: Served, world: World) -> None:
    """Search all answers of a viewer of one namespace for words of the other one."""
    token = world.tokens["ann"]
    about = server.get("/api/v1/about", token=token).json
    assert about["viewer"]["namespaces"] == [world.own]
    workloads = server.get("/api/v1/tables/workloads", token=token).json
    assert {row["namespace"] for row in workloads["rows"]} == {world.own}
    assert workloads["total"] == len(workloads["rows"]) == about["tables"]["workloads"]["rows"]
    assert server.get(f"/api/v1/workloads/{world.other}%2F{SECRETIVE}-vault/why", token=token).status == 404
    answers = _everything(server, world, token)
    for path, answer in answers.items():
        assert SECRETIVE not in _own_words(answer, path), path
    why = answers[f"/api/v1/workloads/{world.own}%2Fweb/why"].json
    assert why["summary"] == "evict other, of other, first"
    devices = server.get("/api/v1/tables/devices?limit=5000", token=token).json["rows"]
    shares = [share for row in devices if row["node"] == world.node for share in row["shares"]]
    assert [(share["holder"], share["name"]) for share in shares] == [(None, "other")] * len(shares)
    assert shares, "the other tenant's pod holds a share"


def _check_no_rights(server: Served, world: World) -> None:
    about = server.get("/api/v1/about", token=world.tokens["ben"]).json
    assert about["viewer"]["namespaces"] == []
    assert {table["rows"] for table in about["tables"].values()} == {0}
    assert server.get("/api/v1/about", token="not-a-token-of-anybody").status == 401


def _check_stream(server: Served, world: World, run: Any) -> None:
    """A change arrives; one of the other tenant does not."""
    with closing(Events(server, "?tables=workloads", token=world.tokens["ann"])) as events:
        assert events.next()[0] == "hello"
        run(lambda client: _say(client, world.other, f"{SECRETIVE}-waits", f"{SECRETIVE} again"))
        run(lambda client: _say(client, world.own, "web", "no node fits"))
        name, _, data = events.next()
        assert (name, [row["why"] for row in data["put"]]) == ("change", ["no node fits"])


def _act(server: Served, action: str, token: str, **body: str) -> Answered:
    content = json.dumps(body).encode()
    return server.get(
        f"/api/v1/actions/{action}", "POST", content, token=token, Content_Type="application/json"
    )


def _check_actions(server: Served, world: World, run: Any) -> None:
    own, vault = f"{world.own}/web", f"{world.other}/{SECRETIVE}-vault"
    for person in ("ann", "ben", "cat"):
        for action, body in (("cancel", {"workload": own}), ("drain", {"node": world.node})):
            assert _act(server, action, world.tokens[person], **body).status == 403, person
    assert server.get("/api/v1/about", token=world.tokens["dan"]).json["viewer"]["actions"] == ["cancel"]
    assert _act(server, "cancel", world.tokens["dan"], workload=vault).status == 404
    answer = _act(server, "cancel", world.tokens["dan"], workload=own)
    assert (answer.status, answer.json) == (200, {"done": f"{own} is being deleted"})

    async def is_gone(client: Client) -> bool:
        try:
            return bool((await client.get(PODS, "web", world.own)).metadata.deletion_timestamp)
        except NotFoundError:
            return True

    assert run(is_gone)
