"""Kinds of ours on a real API server: what it refuses, what it stores, and an operator of a small world."""

import asyncio
import copy
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from fairlead.cluster.client import Client
from fairlead.cluster.kinds import Kind
from fairlead.errors import InvalidError, NotFoundError
from fairlead.reconcile import Manifest
from fairlead.serve.operator.plan import status_patch
from tests.kinds import define_kind
from tests.labs import RealCluster

Json = dict[str, Any]
Edit = Callable[[Json], Any]
STRICT = {"dryRun": "All", "fieldValidation": "Strict"}
PLURALS = {
    "PersistentVolumeClaim": ("", "v1", "persistentvolumeclaims"),
    "Secret": ("", "v1", "secrets"),
    "ConfigMap": ("", "v1", "configmaps"),
    "Service": ("", "v1", "services"),
    "NetworkPolicy": ("networking.k8s.io", "v1", "networkpolicies"),
    "Pod": ("", "v1", "pods"),
}


class SmallWorld(Protocol):
    """The world of one resource: its operator, and what kubelets and provisioners do."""

    resource: Json

    def live(self) -> Any:
        """Go on until nothing happens."""


def serving_kind(cluster: RealCluster, file: str, kind: Kind[Any]) -> Iterator[RealCluster]:
    """Yield a cluster that serves a kind, and delete its objects at the end."""
    define_kind(cluster.api, file, kind)
    yield cluster
    asyncio.run(_drop(cluster, kind))


async def _drop(cluster: RealCluster, kind: Kind[Any]) -> None:
    """Delete the objects of a namespace: an API server without controllers keeps them."""
    async with cluster.connect() as client:
        await client.delete_collection(kind, cluster.namespace)


async def try_create(client: Client, kind: Kind[Any], namespace: str, body: Manifest) -> Json:
    """Return an object as the server would store it."""
    data = json.dumps(body).encode()
    answer: Json = json.loads(await client.request("POST", kind.path(namespace), query=STRICT, body=data))
    return answer


def wrong_answers(
    cluster: RealCluster, kind: Kind[Any], resource: Json, cases: Mapping[str, tuple[Edit, str]]
) -> dict[str, str]:
    """Return the answers to edited specs that lack the text which each of them should have."""

    async def play() -> dict[str, str]:
        answers = {}
        async with cluster.connect() as client:
            for case, (edit, _) in cases.items():
                body = copy.deepcopy(resource)
                edit(body["spec"])
                try:
                    await try_create(client, kind, cluster.namespace, body)
                    answers[case] = "accepted"
                except InvalidError as error:
                    answers[case] = str(error)
        return answers

    answers = asyncio.run(play())
    return {case: answer for case, answer in answers.items() if cases[case][1] not in answer}


def as_stored(cluster: RealCluster, objects: Sequence[Manifest]) -> list[tuple[Manifest, Json]]:
    """Return objects, each with what the server would store."""

    async def play() -> list[tuple[Manifest, Json]]:
        async with cluster.connect() as client:
            pairs = []
            for each in objects:
                group, version, plural = PLURALS[each["kind"]]
                kind = Kind.of(group, version, plural, namespaced=True)
                pairs.append((each, await try_create(client, kind, cluster.namespace, each)))
            return pairs

    return asyncio.run(play())


def at(cluster: RealCluster) -> list[str]:
    """Return the options that name a cluster."""
    return ["--kubeconfig", str(cluster.api.kubeconfig), "-n", cluster.namespace]


@contextmanager
def operated(cluster: RealCluster, kind: Kind[Any], world_of: Callable[[Json], SmallWorld]) -> Iterator[None]:
    """Let the controller decide about every resource of a namespace; the rest is a small world."""
    ended = threading.Event()

    async def operate() -> None:
        worlds: dict[str, SmallWorld] = {}
        async with cluster.connect() as client:
            while not ended.is_set():
                for each in (await client.list(kind, cluster.namespace)).items:
                    world = worlds.setdefault(each.metadata.uid, world_of(each.document()))
                    world.resource = each.document()
                    before = copy.deepcopy(world.resource.get("status") or {})
                    world.live()
                    patch = {"status": status_patch(before, world.resource["status"]) or {}}
                    try:
                        await client.patch_status(kind, each.metadata.name, patch, cluster.namespace)
                    except NotFoundError:
                        continue
                await asyncio.sleep(0.05)

    thread = threading.Thread(target=lambda: asyncio.run(operate()), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
