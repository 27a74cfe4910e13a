"""The setup of 500 simulated agents: nodes, tokens, admission policies, and machines to replay."""

import asyncio
import json
import random
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bench.agents_check import ExpectedNode
from bench.labs import ACCOUNT, NAMESPACE, detect_machine, machines
from fairlead.catalog import load
from fairlead.cluster.client import Client
from fairlead.cluster.config.types import AuthInfo, ClusterConfig
from fairlead.cluster.kinds import NODES, PODS, SERVICE_ACCOUNTS
from fairlead.errors import AccessError, InvalidError
from fairlead.keys import PREFIX
from fairlead.lab.control.fleet import plain_fleet
from fairlead.lab.control.kwok_nodes import manifests

PATIENCE = 180.0
Roles = list[dict[str, Any]]
"""For each agent, the fields of AgentRole in agents_worker.py."""


def bare_fleet(count: int) -> tuple[dict[str, Any], ...]:
    """Return nodes without labels of fairlead."""
    nodes = manifests(plain_fleet(count), load())
    for node in nodes:
        labels = node["metadata"]["labels"]
        node["metadata"]["labels"] = {key: labels[key] for key in labels if not key.startswith(PREFIX)}
    return tuple(nodes)


async def bound_tokens(client: Client, count: int) -> dict[str, str]:
    """Wait for the DaemonSet's pods; return, for each node, a token that is bound to its pod."""
    until = time.monotonic() + PATIENCE
    while True:
        pods = (await client.list(PODS, NAMESPACE, labels="app.kubernetes.io/component=agent")).items
        placed = [pod for pod in pods if pod.spec.node_name]
        if len(placed) == count:
            break
        if time.monotonic() > until:
            raise SystemExit(f"only {len(placed)} of {count} pods of the DaemonSet have a node")
        await asyncio.sleep(1)
    tokens = await asyncio.gather(*(_token(client, pod.metadata.name, pod.metadata.uid) for pod in placed))
    return {pod.spec.node_name: token for pod, token in zip(placed, tokens, strict=True)}


async def _token(client: Client, pod: str, uid: str) -> str:
    """Return a token as a kubelet gets it for a pod."""
    bound = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid}
    spec = {"expirationSeconds": 3600, "boundObjectRef": bound}
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    path = SERVICE_ACCOUNTS.path(NAMESPACE, ACCOUNT, "token")
    answer = json.loads(await client.request("POST", path, body=json.dumps(body).encode()))
    return str(answer["status"]["token"])


async def wait_for_policies(config: ClusterConfig, tokens: Mapping[str, str]) -> None:
    """Wait until the policies are enforced: an agent may label its own node and not another's."""
    (mine, token), (other, _) = list(tokens.items())[:2]
    until = time.monotonic() + PATIENCE
    async with Client.connect(replace(config, login=AuthInfo(token=token))) as agent:
        while await _refusal(agent, mine) or "own-node" not in await _refusal(agent, other):
            if time.monotonic() > until:
                raise SystemExit("the admission policies are not enforced")
            await asyncio.sleep(0.2)


async def _refusal(agent: Client, node: str) -> str:
    """Return why an agent may not label a node; empty if it may."""
    patch = json.dumps({"metadata": {"labels": {f"{PREFIX}arch": "none"}}}).encode()
    path, content_type = NODES.path(name=node), "application/merge-patch+json"
    try:
        await agent.request("PATCH", path, query={"dryRun": "All"}, body=patch, content_type=content_type)
    except (AccessError, InvalidError) as error:
        return str(error)
    return ""


def assign_machines(tokens: Mapping[str, str], dice: random.Random) -> tuple[dict[str, ExpectedNode], Roles]:
    """Assign each node a machine to replay, and every fifth node another machine for later."""
    catalog, names = load(), machines()
    inventories = {name: detect_machine(name, catalog) for name in names}
    wanted, roles = {}, []
    for number, (node, token) in enumerate(sorted(tokens.items())):
        machine = names[number % len(names)]
        later = dice.choice(names) if number % 5 == 0 else machine
        wanted[node] = ExpectedNode(inventories[machine])
        role = {"node": node, "token": token, "machine": machine, "later": later}
        roles.append({**role, "restarts": number % 10 == 0})
    return wanted, roles
