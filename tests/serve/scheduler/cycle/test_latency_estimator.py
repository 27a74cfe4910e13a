"""Placement by prediction on a real API server: by the cluster's ModelProfiles."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from fairlead.analyze import analyze
from fairlead.catalog import Catalog
from fairlead.cluster.client import Client
from fairlead.keys import DIGEST
from fairlead.modelprofiles.analysed import analysed_profile
from fairlead.modelprofiles.store import store
from fairlead.modelprofiles.types import MODEL_PROFILES
from fairlead.zoo import KNOWN
from fairlead.zoo.onnxfile import write
from tests.labs import RealCluster
from tests.profiles import MADE, define
from tests.serve.scheduler.leader.mixed import mixed

EDGE = {"stick": ("coral-usb", 0), "board": ("jetson-tx2", 8)}
MODEL = "fairlead.dev/model"


@pytest.fixture
def profile_cluster(real_cluster: RealCluster) -> Iterator[RealCluster]:
    """Return a cluster that serves ModelProfiles; delete those named after its namespace at the end."""
    define(real_cluster.api)
    yield real_cluster

    async def inside() -> None:
        async with real_cluster.connect() as client:
            for item in (await client.list(MODEL_PROFILES)).items:
                if real_cluster.namespace in item.spec.model:
                    await client.delete(MODEL_PROFILES, item.metadata.name)

    asyncio.run(inside())


async def store_model(client: Client, folder: Path, model: str, name: str) -> str:
    """Store a model of the zoo as `fairlead profiles import --model` does, and return its digest."""
    path = folder / name
    write(KNOWN[model](1, "fp32"), str(path))
    profile = analysed_profile(analyze(str(path)), MADE, "test")
    await store(client, [profile], Random(1))
    return profile.metadata.labels[DIGEST]


def test_each_model_is_placed_where_it_is_predicted_to_be_fastest(
    profile_cluster: RealCluster, catalog: Catalog, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with mixed(profile_cluster, catalog, EDGE, "fastest") as world:
            light, heavy = f"light-{world.namespace}.onnx", f"heavy-{world.namespace}.onnx"
            await world.create_pod("light", {"cpu": "1"}, annotations={MODEL: light})
            assert f"the cluster knows no model {light!r}" in await world.pending_message("light")
            assert "fairlead profiles import --model" in await world.pending_message("light")
            await store_model(world.client, tmp_path, "mobilenet_v1", light)
            digest = await store_model(world.client, tmp_path, "resnet50", heavy)
            await world.create_pod("heavy", {"cpu": "1"}, annotations={MODEL: digest[:12]})
            assert await world.places("light", "heavy") == {"light": "stick", "heavy": "board"}
            assert '"memory_bytes":509208633' in await world.placement_annotation("heavy"), (
                "the estimated memory"
            )

    asyncio.run(scenario())


def test_a_latency_that_no_accelerator_keeps_is_reported_with_the_best_one(
    profile_cluster: RealCluster, catalog: Catalog, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with mixed(profile_cluster, catalog, EDGE) as world:
            name = f"slow-{world.namespace}"
            await store_model(world.client, tmp_path, "inception_v3", f"{name}.onnx")
            await world.create_pod(
                "a", {"cpu": "1"}, annotations={MODEL: name, "fairlead.dev/slo-latency": "1ms"}
            )
            message = await world.pending_message("a")
            assert "accelerators can take a" in message
            assert "are too slow (need 1 ms, best" in message or "are too slow (need 1.0 ms" in message, (
                message
            )

            await world.create_pod("b", {"cpu": "1"}, annotations={MODEL: f"slov-{world.namespace}"})
            message = await world.pending_message("b")
            assert f"the cluster knows no model 'slov-{world.namespace}'" in message
            assert name not in message, "a refusal names no model that the pod does not name"

    asyncio.run(scenario())
