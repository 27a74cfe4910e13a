"""The kind Augmentation and the objects of an Augmentation on a real API server."""

import asyncio
import copy
from collections.abc import Iterator

import pytest

from fairlead.cluster.kinds import CRDS, Kind
from fairlead.errors import InvalidError
from tests.augmentobjects.worlds import Cluster, Json, augmentation
from tests.labs import RealCluster
from tests.ownedkinds import Edit, as_stored, serving_kind, wrong_answers
from tests.pipelineobjects.worlds import covers

AUGMENTATIONS = Kind.of("fairlead.dev", "v1alpha1", "augmentations", namespaced=True, name="Augmentation")
REFUSED: dict[str, tuple[Edit, str]] = {
    "no device": (lambda spec: spec.pop("device"), "spec.device: Required value"),
    "no storage": (lambda spec: spec.pop("storage"), "spec.storage: Required value"),
    "a size of 0": (
        lambda spec: spec["storage"].update(size="0"),
        "write an amount above zero, such as 10Gi",
    ),
    "less than nothing": (lambda spec: spec["storage"].update(size="-1Gi"), "write an amount above zero"),
    "no amount": (lambda spec: spec["storage"].update(size="much"), "write an amount above zero"),
    "a fast tier larger than all": (
        lambda spec: spec["storage"].update(fast="3Gi"),
        "fast must be less than size",
    ),
    "two classes for one tier": (
        lambda spec: spec["storage"].update(classes=["a", "b"]),
        "a second class is for a second tier",
    ),
    "no memory of an accelerator": (
        lambda spec: spec["application"]["accelerator"].update(memory="0Mi"),
        "write an amount above zero",
    ),
    "root": (lambda spec: spec["application"].update(user=0), "spec.application.user"),
    "a node port inside": (
        lambda spec: spec.update(service={"type": "ClusterIP", "nodePort": 30443}),
        "a ClusterIP service has no nodePort",
    ),
    "an unknown key": (
        lambda spec: spec["storage"].update(sized="1Gi"),
        'unknown field "spec.storage.sized"',
    ),
}
CHANGES: dict[str, tuple[Edit, str]] = {
    "another device": (lambda spec: spec.update(device="other"), "device cannot be changed"),
    "a second tier": (
        lambda spec: spec["storage"].update(fast="1Gi"),
        "a fast tier cannot be added or removed",
    ),
    "another class": (lambda spec: spec["storage"].update(classes=["b"]), "classes cannot be changed"),
    "another access mode": (
        lambda spec: spec["storage"].update(accessMode="ReadWriteMany"),
        "accessMode cannot be changed",
    ),
}


@pytest.fixture
def served(real_cluster: RealCluster) -> Iterator[RealCluster]:
    """Return a cluster that serves the kind."""
    yield from serving_kind(real_cluster, "augmentations.yaml", AUGMENTATIONS)


def resource(cluster: RealCluster) -> Json:
    return augmentation(namespace=cluster.namespace)


def test_the_server_refuses_what_the_schema_forbids(served: RealCluster) -> None:
    assert wrong_answers(served, AUGMENTATIONS, resource(served), REFUSED) == {}


def test_the_server_refuses_changes_that_would_part_with_the_data(served: RealCluster) -> None:
    async def play() -> dict[str, str]:
        answers = {}
        async with served.connect() as client:
            made = (await client.create(AUGMENTATIONS, resource(served), served.namespace)).document()
            for case, (edit, _) in CHANGES.items():
                spec = copy.deepcopy(made["spec"])
                edit(spec)
                try:
                    await client.patch(AUGMENTATIONS, "cam", {"spec": spec}, served.namespace)
                    answers[case] = "accepted"
                except InvalidError as error:
                    answers[case] = str(error)
            grown = {"spec": {"storage": {"size": "3Gi"}}}
            await client.patch(AUGMENTATIONS, "cam", grown, served.namespace)
        return answers

    answers = asyncio.run(play())
    assert {case: answer for case, answer in answers.items() if CHANGES[case][1] not in answer} == {}


@pytest.mark.parametrize("text", ["", "storage: {size: 4Gi, fast: 1Gi, classes: [quick, slow]}"])
def test_every_object_is_accepted_and_comes_back_as_it_was_asked_for(served: RealCluster, text: str) -> None:
    """An operator that compares what it wants with what is stored finds nothing to change."""
    body = resource(served)
    body["spec"] |= {"storage": {"size": "4Gi", "fast": "1Gi", "classes": ["quick", "slow"]}} if text else {}
    world = Cluster(body)
    world.live()
    wanted = world.reconcile().objects

    pairs = as_stored(served, wanted)
    assert len(pairs) == (11 if text else 10)
    for sent, stored in pairs:
        assert covers(stored, sent), (sent, stored)


def test_the_status_is_stored_whole(served: RealCluster) -> None:
    async def play() -> None:
        async with served.connect() as client:
            made = await client.create(AUGMENTATIONS, resource(served), served.namespace)
            world = Cluster(made.document())
            world.live()
            status = {"status": world.resource["status"]}
            await client.patch_status(AUGMENTATIONS, "cam", status, served.namespace)
            stored = (await client.get(AUGMENTATIONS, "cam", served.namespace)).document()
            assert covers(stored["status"], world.resource["status"])

    asyncio.run(play())


def test_the_kind_is_structural(served: RealCluster) -> None:
    async def play() -> None:
        async with served.connect() as client:
            definition = await client.get(CRDS, AUGMENTATIONS.resource)
            state = {item.type: item.status for item in definition.status.conditions}
            assert state["Established"] == state["NamesAccepted"] == "True"
            assert state.get("NonStructuralSchema", "False") == "False"

    asyncio.run(play())
