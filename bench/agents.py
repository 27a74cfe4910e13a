"""Let 500 simulated agents label 500 nodes through a real API server, while others write to the same nodes.

A lab with nodes that kwok plays gets the shipped roles, admission policies and DaemonSet. Every pod of the
DaemonSet lends its bound token to one agent: the real code that publishes, without a kubelet under it. All
start at once. Meanwhile somebody else changes labels and annotations of his own on the same nodes, undoes
some of ours, and accelerators come and go. What is there in the end is judged by what the API server says.
"""

import argparse
import asyncio
import json
import os
import platform
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from bench.agents_check import FOREIGN, Wanted, faults
from bench.labs import ACCOUNT, HOUSE, MANIFESTS, NAMESPACE, WRITES, apply, counted, look, machines, started
from fairlead.catalog import load
from fairlead.cluster import kubeconfig
from fairlead.cluster.client import Client
from fairlead.cluster.config import Config, Login
from fairlead.cluster.kinds import NODES, PODS, RESOURCE_SLICES, SERVICE_ACCOUNTS
from fairlead.errors import AccessError, ClusterError, ConflictError, InvalidError, NotFoundError
from fairlead.lab.dummy import manifests
from fairlead.lab.fleet import plain
from fairlead.lab.state import Profile
from fairlead.lab.up import Wish
from fairlead.publish.labels import PREFIX

PATIENCE = 120.0
WRITERS, HANDS = 8, 0.2
"""How many write at once, and which part of what they write undoes what agents published."""
Roles = list[dict[str, Any]]
Report = dict[str, Any]
HEAD = ("STAGE", "TIME", "LABELS", "SLICES", "REQUESTS", "FAILED", "WRITE P50", "P99", "CPU PER AGENT")


def bare_fleet(count: int) -> tuple[dict[str, Any], ...]:
    """Return nodes that nobody has labelled yet."""
    found = manifests(plain(count), load())
    for node in found:
        labels = node["metadata"]["labels"]
        node["metadata"]["labels"] = {key: labels[key] for key in labels if not key.startswith(PREFIX)}
    return tuple(found)


async def bound_tokens(client: Client, count: int) -> dict[str, str]:
    """Wait for the DaemonSet's pods; return, for each node, a token that is bound to its pod."""
    until = time.monotonic() + PATIENCE
    while True:
        pods = (await client.list(PODS, NAMESPACE, labels="app.kubernetes.io/component=agent")).items
        placed = [pod for pod in pods if pod.spec.node_name and pod.status.phase == "Running"]
        if len(placed) == count:
            break
        if time.monotonic() > until:
            raise SystemExit(f"only {len(placed)} of {count} pods of the DaemonSet run")
        await asyncio.sleep(1)

    async def token(name: str, uid: str) -> str:
        spec = {"expirationSeconds": 3600, "boundObjectRef": {"kind": "Pod", "name": name, "uid": uid}}
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        path = SERVICE_ACCOUNTS.path(NAMESPACE, ACCOUNT, "token")
        answer = json.loads(await client.request("POST", path, body=json.dumps(body).encode()))
        return str(answer["status"]["token"])

    made = await asyncio.gather(*(token(pod.metadata.name, pod.metadata.uid) for pod in placed))
    return {pod.spec.node_name: each for pod, each in zip(placed, made, strict=True)}


async def await_guards(config: Config, tokens: Mapping[str, str]) -> None:
    """Wait until the policies stand: an agent may label its own node and not its neighbour's."""
    (mine, token), (other, _) = list(tokens.items())[:2]
    patch = json.dumps({"metadata": {"labels": {f"{PREFIX}arch": "none"}}}).encode()
    until = time.monotonic() + PATIENCE
    async with Client.connect(replace(config, login=Login(token=token))) as agent:

        async def refusal(node: str) -> str:
            try:
                await agent.request(
                    "PATCH",
                    f"{NODES.path()}/{node}",
                    query={"dryRun": "All"},
                    body=patch,
                    content_type="application/merge-patch+json",
                )
            except (AccessError, InvalidError) as error:
                return str(error)
            return ""

        while "own-node" not in await refusal(other) or await refusal(mine):
            if time.monotonic() > until:
                raise SystemExit("the admission policies do not stand")
            await asyncio.sleep(0.2)


def cast(tokens: Mapping[str, str], dice: random.Random) -> tuple[dict[str, Wanted], Roles]:
    """Give each node a machine to replay; on every fifth, accelerators will come or go."""
    catalog, names = load(), machines()
    found = {name: look(name, catalog) for name in names}
    wanted, roles = {}, []
    for number, (node, token) in enumerate(sorted(tokens.items())):
        machine = names[number % len(names)]
        later = dice.choice(names) if number % 5 == 0 else machine
        restarts = number % 10 == 0
        wanted[node] = Wanted(found[machine])
        roles.append(
            {"node": node, "token": token, "machine": machine, "later": later, "restarts": restarts}
        )
    return wanted, roles


class Worker:
    """The process of the agents."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    async def tell(self, line: str) -> Report:
        """Give an order and return what was counted so far."""
        return await asyncio.to_thread(self._tell, line)

    def _tell(self, line: str) -> Report:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        found: Report = json.loads(self._process.stdout.readline())
        return found


@contextmanager
def working(config: Config, roles: Roles) -> Iterator[Worker]:
    """Run the agents' process."""
    command = [sys.executable, "-m", "bench.agents_worker"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, cwd=HOUSE, text=True, **pipes) as process:
        worker = Worker(process)
        worker._tell(json.dumps({"server": config.server, "ca": config.ca.decode(), "roles": roles}))
        try:
            yield worker
        finally:
            assert process.stdin is not None
            process.stdin.close()


class Stranger:
    """Somebody else who writes to the same nodes, in every way there is, and knows what he wrote last."""

    def __init__(self, client: Client, wanted: Mapping[str, Wanted], pace: float, dice: random.Random) -> None:
        self._client = client
        self._wanted = wanted
        self._pause = WRITERS / pace
        self._dice = dice
        self._number = 0
        self.meddles = False
        """Whether he also undoes what agents published."""
        self.done: Counter[str] = Counter()

    async def write(self) -> None:
        """Write until cancelled; each node is written to by one hand at a time."""
        names = list(self._wanted)
        async with asyncio.TaskGroup() as group:
            for hand in range(WRITERS):
                group.create_task(self._hand(names[hand::WRITERS]))

    async def _hand(self, names: Sequence[str]) -> None:
        while True:
            name, roll = self._dice.choice(names), self._dice.random()
            if self.meddles and roll < HANDS:
                await asyncio.shield(self._undo(name))
            elif roll < 0.6:
                await asyncio.shield(self._patch(name))
            else:
                await asyncio.shield(self._replace(name))
            await asyncio.sleep(self._pause * self._dice.uniform(0.5, 1.5))

    def _next(self, name: str) -> dict[str, dict[str, str]]:
        self._number += 1
        key, value = f"{FOREIGN}key-{self._dice.randrange(3)}", str(self._number)
        self._wanted[name].labels[key] = self._wanted[name].annotations[key] = value
        return {"labels": {key: value}, "annotations": {key: value}}

    async def _patch(self, name: str) -> None:
        await self._client.patch(NODES, name, {"metadata": self._next(name)}, field_manager="stranger")
        self.done["patches"] += 1

    async def _replace(self, name: str) -> None:
        """Read, change and write back the whole node, again where it has changed meanwhile."""
        change = self._next(name)
        while True:
            node = (await self._client.get(NODES.raw(), name)).document()
            for kind, entries in change.items():
                node["metadata"].setdefault(kind, {}).update(entries)
            try:
                await self._client.update(NODES.raw(), node, field_manager="stranger")
            except ConflictError:
                self.done["conflicts"] += 1
                continue
            self.done["updates"] += 1
            return

    async def _undo(self, name: str) -> None:
        """Delete or falsify one of the agent's labels, or delete its slice."""
        if self._dice.random() < 0.2:
            with suppress(NotFoundError):
                await self._client.delete(RESOURCE_SLICES, f"{name}-fairlead-0")
                self.done["slices deleted"] += 1
            return
        node = await self._client.get(NODES, name)
        ours = [key for key in node.metadata.labels if key.startswith(PREFIX)]
        if ours:
            change = {self._dice.choice(ours): self._dice.choice((None, "by-hand"))}
            await self._client.patch(NODES, name, {"metadata": {"labels": change}}, field_manager="stranger")
            self.done["labels undone"] += 1


@dataclass(frozen=True, slots=True)
class Stage:
    """What the agents did in one stage."""

    name: str
    seconds: float
    before: Report
    after: Report
    agents: int

    def grown(self, what: str) -> Counter[str]:
        """Return by how much something grew."""
        return Counter(self.after[what]) - Counter(self.before.get(what, {}))

    @property
    def writes(self) -> int:
        """How many writes succeeded."""
        return self.grown("written").total()

    def row(self) -> tuple[str, ...]:
        """Return it for a table."""
        written, took = self.grown("written"), list(Counter(self.after["took"]) - Counter(self.before["took"]))
        took.sort()
        p50, p99 = (f"{took[int(len(took) * part)] * 1e3:.0f} ms" if took else "-" for part in (0.5, 0.99))
        return (
            self.name,
            f"{self.seconds:.1f} s",
            str(written["labels"] + written["annotation"]),
            str(written["slice"]),
            str(self.grown("asked").total()),
            ", ".join(f"{count} x {what}" for what, count in self.grown("failed").items()) or "0",
            p50,
            p99,
            f"{(self.after['cpu'] - self.before['cpu']) / self.agents * 1e3:.1f} ms",
        )


async def settled(
    client: Client, wanted: Mapping[str, Wanted], worker: Worker, *, foreign: bool
) -> tuple[list[str], Report]:
    """Wait until all is as it should be, or has had time enough to be; return what is wrong."""
    until = time.monotonic() + PATIENCE
    while True:
        wrong = await faults(client, wanted, foreign=foreign)
        if not wrong or time.monotonic() > until:
            return wrong, await worker.tell("report")
        await asyncio.sleep(1)


async def node_writes(client: Client) -> int:
    """Return how many writes of nodes and slices the API server has seen; a node's heartbeats aside."""
    seen = await counted(client)
    return sum(
        count
        for asked, count in seen.items()
        if asked.verb in WRITES and not asked.sub and asked.resource in ("nodes", "resourceslices")
    )


async def play(config: Config, options: argparse.Namespace) -> int:
    """Go through all stages; return the exit code."""
    dice = random.Random(options.seed)
    async with Client.connect(config) as client:
        tokens = await bound_tokens(client, options.nodes)
        await await_guards(config, tokens)
        wanted, roles = cast(tokens, dice)
        with working(config, roles) as worker:
            stranger = Stranger(client, wanted, options.pace, dice)
            stages, wrong = await stormy(client, worker, stranger, wanted, roles, options)
            seen, before = await node_writes(client), await worker.tell("report")
            await asyncio.sleep(options.quiet)
            after = await worker.tell("report")
            seen = await node_writes(client) - seen
            stages.append(Stage("quiet", options.quiet, before, after, options.nodes))
    return verdict(stages, stranger.done, wrong, seen)
