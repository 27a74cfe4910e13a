"""The kind Pipeline and the objects of a Pipeline on a real API server."""

import asyncio
import copy
import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from fairlead.cluster.client import Client
from fairlead.cluster.kinds import CONFIG_MAPS, CRDS, PODS, Kind
from fairlead.errors import InvalidError
from tests.labs import RealCluster
from tests.ownedkinds import PLURALS, Edit, as_stored, serving_kind, try_create, wrong_answers
from tests.pipelineobjects.planned import planned_cluster, planned_pipeline
from tests.pipelineobjects.worlds import Cluster, Json, bring_back, covers, lose, pipeline

PIPELINES = Kind.of("fairlead.dev", "v1alpha1", "pipelines", namespaced=True, name="Pipeline")
PLAN = planned_pipeline()["spec"]["plan"]


@pytest.fixture
def served(real_cluster: RealCluster) -> Iterator[RealCluster]:
    """Return a cluster that serves the kind."""
    yield from serving_kind(real_cluster, "pipelines.yaml", PIPELINES)


def resource(cluster: RealCluster) -> Json:
    return pipeline(namespace=cluster.namespace)


def with_stage(index: int, **fields: Any) -> Edit:
    return lambda spec: spec["stages"][index].update(fields)


def with_scale(**bounds: Any) -> Edit:
    def edit(spec: Json) -> None:
        del spec["stages"][1]["replicas"]
        spec["stages"][1]["scale"] = bounds

    return edit


def with_host(**fields: Any) -> Edit:
    return lambda spec: spec["hosts"][0].update(fields)


def with_plan(**fields: Any) -> Edit:
    return lambda spec: spec.update(plan=copy.deepcopy(PLAN) | fields)


def with_profile(edit: Edit) -> Edit:
    def inside(spec: Json) -> None:
        with_plan()(spec)
        edit(spec["plan"]["profile"])

    return inside


def without_edges(spec: Json) -> None:
    del spec["edges"]
    spec["stages"].reverse()


REFUSED: dict[str, tuple[Edit, str]] = {
    "no stages": (lambda spec: spec.pop("stages"), "spec.stages: Required value"),
    "a stage twice": (
        lambda spec: spec["stages"].append({"name": "log", "sink": "null"}),
        'Duplicate value: {"name":"log"}',
    ),
    "two roles": (with_stage(0, sink="null"), "a stage has exactly one of source, run, exec and sink"),
    "no role": (
        lambda spec: spec["stages"].append({"name": "x"}),
        "a stage has exactly one of source, run, exec and sink",
    ),
    "no source": (
        lambda spec: spec["stages"][0].update(run=spec["stages"][0].pop("source")),
        "a pipeline needs a stage with source and a stage with sink",
    ),
    "replicas of a source": (with_stage(0, replicas=2), "a source or a sink has no replicas"),
    "too many replicas": (with_stage(1, replicas=65), "spec.stages[1].replicas"),
    "a text as a number": (with_stage(1, replicas="two"), "spec.stages[1].replicas"),
    "bounds of a source": (with_stage(0, scale={"max": 2}), "a source or a sink has no scale"),
    "a number and bounds": (with_stage(1, scale={"max": 4}), "state one of them"),
    "bounds without a most": (with_scale(min=2), "spec.stages[1].scale.max: Required value"),
    "bounds the wrong way": (with_scale(min=3, max=2), "max is at least min"),
    "bounds with a time that is none": (with_scale(max=2, up_after="5"), "spec.stages[1].scale.up_after"),
    "bounds with an unknown key": (with_scale(max=2, most=3), 'unknown field "spec.stages[1].scale.most"'),
    "a canary that is not rolled back": (
        lambda spec: spec.update(update={"rollback": False, "canary": {"percent": 10}}),
        "rollback must not be false",
    ),
    "a canary of most frames": (
        lambda spec: spec.update(update={"canary": {"percent": 51}}),
        "spec.update.canary.percent",
    ),
    "a canary without a share": (
        lambda spec: spec.update(update={"canary": {"duration": "1m"}}),
        "spec.update.canary.percent: Required value",
    ),
    "an unknown key of a stage": (with_stage(1, replica=2), 'unknown field "spec.stages[1].replica"'),
    "an unknown key": (lambda spec: spec.update(stage=[]), 'unknown field "spec.stage"'),
    "an edge to nothing": (
        lambda spec: spec["edges"].append({"from": "blur", "to": "lgo"}),
        "from and to of an edge must be names of stages",
    ),
    "a stage behind itself": (
        lambda spec: spec["edges"].append({"from": "blur", "to": "blur"}),
        "a stage cannot follow itself",
    ),
    "an edge twice": (
        lambda spec: spec["edges"].append({"from": "blur", "to": "log"}),
        'Duplicate value: {"from":"blur","to":"log"}',
    ),
    "a source with an input": (
        lambda spec: spec["edges"].append({"from": "blur", "to": "camera"}),
        "a source has no input",
    ),
    "a sink with an output": (
        lambda spec: spec["edges"].append({"from": "log", "to": "blur"}),
        "a sink has no output",
    ),
    "a chain from its end": (without_edges, "the first is a source, the last a sink"),
    "a policy that does not exist": (
        lambda spec: spec["edges"][0].update(policy="drop"),
        "spec.edges[0].policy",
    ),
    "a host that is not there": (
        with_stage(0, host="egde"),
        "host of a stage must be the name of one of hosts",
    ),
    "a host twice": (
        lambda spec: spec["hosts"].append({"name": "edge"}),
        'Duplicate value: {"name":"edge"}',
    ),
    "a host named local": (with_host(name="local"), "local is the coordinator's pod"),
    "a host with a long name": (with_host(name="x" * 21), "spec.hosts[0].name"),
    "a share of more than all": (
        with_host(accelerator={"memory": "1Gi", "compute": 101}),
        "spec.hosts[0].accelerator.compute",
    ),
    "a claim of another namespace": (with_host(dataClaim="other/data"), "spec.hosts[0].dataClaim"),
    "a Secret of another namespace": (with_host(tlsSecret="other/tls"), "spec.hosts[0].tlsSecret"),
    "code of another namespace": (
        lambda spec: spec["files"].update(configMap="other/code"),
        "spec.files.configMap",
    ),
    "a plan without hosts to choose from": (
        lambda spec: (
            with_plan()(spec),
            spec.pop("hosts"),
            [stage.pop("host", None) for stage in spec["stages"]],
        ),
        "a plan chooses among hosts: add hosts, or remove plan",
    ),
    "an objective that does not exist": (with_plan(objective="speed"), "spec.plan.objective"),
    "a latency without a unit": (with_plan(maxLatency="200"), "spec.plan.maxLatency"),
    "an unknown key of a plan": (with_plan(latency="1s"), 'unknown field "spec.plan.latency"'),
    "a profile without stages": (
        with_profile(lambda profile: profile.pop("stages")),
        "spec.plan.profile.stages: Required value",
    ),
    "a time below zero": (
        with_profile(lambda profile: profile["stages"][1]["costs"]["edge"].update(seconds=-1)),
        "spec.plan.profile.stages[1].costs.edge.seconds",
    ),
    "a link that carries nothing": (
        with_profile(lambda profile: profile["links"][0].update(bytes_per_s=0)),
        "spec.plan.profile.links[0].bytes_per_s",
    ),
    "an unknown key of a profile": (
        with_profile(lambda profile: profile["machines"][0].update(address="10.0.0.5")),
        'unknown field "spec.plan.profile.machines[0].address"',
    ),
    "no duration of the observation": (
        lambda spec: spec.update(update={"observe": "soon"}),
        "spec.update.observe",
    ),
    "a path out of the folder": (
        lambda spec: spec["files"]["items"][0].update(path="a/../../b"),
        "path is relative, without '..'",
    ),
}


def test_the_server_refuses_what_the_schema_forbids(served: RealCluster) -> None:
    assert wrong_answers(served, PIPELINES, resource(served), REFUSED) == {}


@pytest.mark.parametrize("name", ["9lives", "Count", "a" * 41, "a.b"])
def test_a_name_that_no_service_can_have_is_refused(served: RealCluster, name: str) -> None:
    async def play() -> None:
        body = resource(served)
        body["metadata"]["name"] = name
        async with served.connect() as client:
            with pytest.raises(InvalidError, match=r"metadata\.name"):
                await try_create(client, PIPELINES, served.namespace, body)

    asyncio.run(play())


def largest_plan(stages: list[str], hosts: list[str]) -> Json:
    """Return a plan with a time of every stage on every host, and every link."""
    cost = {"seconds": 0.0123456789, "p10": None, "p90": 0.0123456789, "memory_bytes": 1 << 40}
    profile = {
        "version": 1,
        "pipeline": "count",
        "machines": [
            {"name": host, "cores": 8, "memory_bytes": 1 << 40, "machine_class": "x", "basis": "measured"}
            for host in hosts
        ],
        "links": [
            {"source": one, "target": two, "bytes_per_s": 123456789.123, "delay_s": 0.000123}
            for one in hosts
            for two in hosts
            if one != two
        ],
        "stages": [
            {"name": name, "rate": 1.0, "costs": dict.fromkeys(hosts, cost), "unknown": {}} for name in stages
        ],
        "edges": [],
        "notes": [],
    }
    return {"profile": profile}


def test_the_largest_spec_is_accepted(served: RealCluster) -> None:
    """Its rules stay within the cost that the server allows at run time."""
    middle = [
        {"name": f"stage-{index:057}", "run": "m:f", "host": f"host-{index % 32:015}"} for index in range(62)
    ]
    stages = [{"name": "a", "source": "numbers"}, *middle, {"name": "z", "sink": "null"}]
    names = [stage["name"] for stage in stages]
    edges = [{"from": "a", "to": each} for each in names[1:63]] + [
        {"from": each, "to": "z"} for each in names[1:63]
    ]
    spec: Json = {"stages": stages, "edges": edges}
    spec["hosts"] = [{"name": f"host-{index:015}"} for index in range(32)]
    spec["plan"] = largest_plan(names, [host["name"] for host in spec["hosts"]])

    async def play() -> None:
        async with served.connect() as client:
            await try_create(client, PIPELINES, served.namespace, {**resource(served), "spec": spec})

    asyncio.run(play())


def test_every_object_is_accepted_and_comes_back_as_it_was_asked_for(served: RealCluster) -> None:
    """An operator that compares what it wants with what is stored finds nothing to change."""
    world = Cluster(resource(served))
    decided = world.reconcile()

    pairs = as_stored(served, decided.objects)
    assert len(pairs) == 10
    for wanted, stored in pairs:
        assert covers(stored, wanted), (wanted, stored)


def test_the_status_is_stored_whole(served: RealCluster) -> None:
    async def play() -> None:
        async with served.connect() as client:
            made = await client.create(PIPELINES, resource(served), served.namespace)
            world = Cluster(made.document())
            world.live()
            for resource_now in (world.resource, _refused(world)):
                status = {"status": resource_now["status"]}
                await client.patch_status(PIPELINES, "count", status, served.namespace)
                stored = (await client.get(PIPELINES, "count", served.namespace)).document()
                assert covers(stored["status"], resource_now["status"])
            assert stored["metadata"]["generation"] == 1, "a status is no new spec"

    asyncio.run(play())


def test_a_plan_and_its_status_are_stored_whole(served: RealCluster) -> None:
    """Numbers come back as they were, so that a pass over a Pipeline that was read again changes nothing."""

    async def play() -> None:
        async with served.connect() as client:
            body = planned_pipeline(namespace=served.namespace)
            made = await client.create(PIPELINES, body, served.namespace)
            assert made.document()["spec"]["plan"] == body["spec"]["plan"]
            world = planned_cluster()
            world.resource = made.document()
            world.live()
            lose(world.nodes[1], world.now - timedelta(minutes=1))
            world.live()
            assert "unavailable" in world.resource["status"]["placement"]
            bring_back(world.nodes[1], world.now)
            world.live()
            assert "better" in world.resource["status"]["placement"]
            await client.patch_status(
                PIPELINES, "count", {"status": world.resource["status"]}, served.namespace
            )
            stored = (await client.get(PIPELINES, "count", served.namespace)).document()
            assert stored["status"]["placement"] == world.resource["status"]["placement"]
            world.resource = stored
            assert world.settle() == []

    asyncio.run(play())


def test_replicas_that_follow_the_load_are_stored_whole(served: RealCluster) -> None:
    async def play() -> None:
        async with served.connect() as client:
            body = resource(served)
            with_scale(min=1, max=4, age="500ms", up_after="10s", down_after="2m")(body["spec"])
            body["spec"]["update"] = {"canary": {"percent": 10, "duration": "2m"}}
            made = (await client.create(PIPELINES, body, served.namespace)).document()
            assert made["spec"]["stages"] == body["spec"]["stages"]
            assert made["spec"]["update"] == body["spec"]["update"]
            world = Cluster(made)
            last = {"from": 1, "to": 3, "reason": "frames were 1.2s old for 30s"}
            said = {"stage": "blur", "replicas": 3, "min": 1, "max": 4, "changes": 1, "last": last}
            world.run.scaling = [said]
            world.pass_time(5)
            status = {"status": world.resource["status"]}
            await client.patch_status(PIPELINES, "count", status, served.namespace)
            stored = (await client.get(PIPELINES, "count", served.namespace)).document()
            assert stored["status"]["scaling"] == world.resource["status"]["scaling"]

    asyncio.run(play())


def _refused(world: Cluster) -> Json:
    world.resource = copy.deepcopy(world.resource)
    world.resource["spec"]["stages"][1]["host"] = "nowhere"
    world.live()
    return world.resource


def test_the_kind_is_structural(served: RealCluster) -> None:
    async def play() -> None:
        async with served.connect() as client:
            definition = await client.get(CRDS, PIPELINES.resource)
            state = {item.type: item.status for item in definition.status.conditions}
            assert state["Established"] == state["NamesAccepted"] == "True"
            assert state.get("NonStructuralSchema", "False") == "False"

    asyncio.run(play())


def test_an_update_makes_one_pod_and_changes_the_file_and_an_annotation(served: RealCluster) -> None:
    """The API server takes all of it, and the coordinator's pod stays the same object."""
    world = Cluster(resource(served))
    world.live()
    before = _bare(world)
    world.change(lambda spec: spec.update(image="image:2"))
    world.pass_time(15)
    after = _bare(world)
    assert {name for _, name in after.keys() - before.keys()} == {"count-server-b-decbe"}

    async def play() -> list[Json]:
        async with served.connect() as client:
            try:
                first = [await _apply(client, served.namespace, each) for each in before.values()]
                then = [await _apply(client, served.namespace, each) for each in after.values()]
            finally:
                for kind in (PODS, CONFIG_MAPS):
                    await client.delete_collection(kind, served.namespace)
        known = {each["metadata"]["name"]: each["metadata"]["uid"] for each in first}
        for each in then:
            assert known.get(each["metadata"]["name"], each["metadata"]["uid"]) == each["metadata"]["uid"]
        return then

    for stored in asyncio.run(play()):
        assert covers(stored, after[stored["kind"], stored["metadata"]["name"]])


def _bare(world: Cluster) -> dict[tuple[str, str], Json]:
    """Return the ConfigMap and the pods of a world without what others than the operator wrote."""
    kept = {key: copy.deepcopy(each) for key, each in world.objects.items() if key[0] in ("ConfigMap", "Pod")}
    for each in kept.values():
        each.pop("status", None)
        each["metadata"].pop("creationTimestamp")
        each.get("spec", {}).pop("nodeName", None)
    return kept


async def _apply(client: Client, namespace: str, body: Json) -> Json:
    """Apply an object as the operator does."""
    group, version, plural = PLURALS[body["kind"]]
    kind = Kind.of(group, version, plural, namespaced=True)
    query = {"fieldManager": "fairlead-operator", "force": "true", "fieldValidation": "Strict"}
    path = kind.path(namespace, body["metadata"]["name"])
    data = json.dumps(body).encode()
    answer = await client.request(
        "PATCH", path, query=query, body=data, content_type="application/apply-patch+yaml"
    )
    stored: Json = json.loads(answer)
    return stored
