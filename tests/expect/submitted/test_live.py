"""Pending pods of a cluster that ask for the analysis of their model."""

import asyncio
import base64
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from fairlead.cluster.kinds import CONFIG_MAPS, PODS
from fairlead.compat.aio import timeout
from fairlead.expect.submitted.analyse import SearchStatus
from fairlead.expect.submitted.live import PENDING_PODS, PodAnalyser, analyse_listed, analyse_watched
from fairlead.keys import ANALYZE, MODEL
from fairlead.modelprofiles.store import list_profiles
from tests.expect.submitted.worlds import GPU, model
from tests.fakecluster.cluster import FakeCluster
from tests.modelprofiles.test_store import served

MADE = "2026-11-17T00:00:00+00:00"


def analyser(cluster: FakeCluster, lines: list[str], **roots: str) -> PodAnalyser:
    return PodAnalyser(cluster, roots, "n1", lambda: MADE, lines.append, Random(0))


async def submit(cluster: FakeCluster, name: str, asks: str | None = "auto", **spec: Any) -> None:
    """Create a pod that mounts the ConfigMap `models`."""
    main = {
        "name": "main",
        "image": "example/app",
        "args": ["/m/tiny.onnx"],
        "resources": GPU,
        "volumeMounts": [{"name": "v", "mountPath": "/m"}],
    }
    annotations = {ANALYZE: asks} if asks else {}
    body = {
        "metadata": {"name": name, "namespace": "default", "annotations": annotations},
        "spec": {"containers": [main], "volumes": [{"name": "v", "configMap": {"name": "models"}}], **spec},
    }
    await cluster.create(PODS.raw(), body, "default")


async def add_model(cluster: FakeCluster, folder: Path) -> None:
    data = {"tiny.onnx": base64.b64encode(model(folder)).decode()}
    body = {"metadata": {"name": "models", "namespace": "default"}, "binaryData": data}
    await cluster.create(CONFIG_MAPS, body, "default")


async def named(cluster: FakeCluster, pod: str) -> str:
    annotations = (await cluster.get(PODS, pod, "default")).metadata.annotations
    return annotations.get(MODEL, "")


def test_only_pending_pods_that_ask_get_the_annotation(tmp_path: Path) -> None:
    async def play() -> None:
        cluster = await served()
        lines: list[str] = []
        await add_model(cluster, tmp_path)
        await submit(cluster, "asks")
        await submit(cluster, "silent", None)
        await submit(cluster, "no", "no")
        await submit(cluster, "bound", nodeName="n1")
        (result,) = await analyse_listed(analyser(cluster, lines), None)
        assert result.status is SearchStatus.FOUND
        assert await named(cluster, "asks") == result.model
        assert [await named(cluster, name) for name in ("silent", "no", "bound")] == [""] * 3
        (profile,) = await list_profiles(cluster)
        assert (profile.spec.digest, profile.spec.node, profile.spec.made) == (result.model, "n1", MADE)
        assert await analyse_listed(analyser(cluster, lines), None) == []
        assert lines == [f"pod default/asks: {result.sentence()}"]

    asyncio.run(play())


def test_a_pod_without_a_readable_model_stays_as_it_is(tmp_path: Path) -> None:
    async def play() -> None:
        cluster = await served()
        lines: list[str] = []
        await submit(cluster, "asks")
        host = [{"name": "v", "hostPath": {"path": str(tmp_path)}}]
        model(tmp_path)
        await submit(cluster, "host", volumes=host)
        own = analyser(cluster, lines, v=str(tmp_path))
        for _ in range(2):
            results = await analyse_listed(own, None)
            assert [each.status for each in results] == [SearchStatus.MISSING] * 2
        assert len(lines) == 2, "the same line is not repeated"
        assert "ConfigMap default/models: neither" in lines[0]
        assert not await list_profiles(cluster)

    asyncio.run(play())


def test_the_gate_goes_away_with_the_answer(tmp_path: Path) -> None:
    async def play() -> None:
        cluster = await served()
        lines: list[str] = []
        gates = [{"name": ANALYZE}, {"name": "example.org/other"}]
        await submit(cluster, "missing", schedulingGates=gates)
        await submit(cluster, "silent", None, schedulingGates=gates)
        await analyse_listed(analyser(cluster, lines), None)
        await add_model(cluster, tmp_path)
        await submit(cluster, "found", schedulingGates=gates)
        await analyse_listed(analyser(cluster, lines), None)
        pods = {pod.metadata.name: pod for pod in (await cluster.list(PENDING_PODS)).items}
        left = {name: [gate.name for gate in pod.spec.scheduling_gates] for name, pod in pods.items()}
        assert left == {
            "missing": ["example.org/other"],
            "silent": [gate["name"] for gate in gates],
            "found": ["example.org/other"],
        }
        assert await named(cluster, "found")

    asyncio.run(play())


def test_a_new_pod_is_analysed_while_the_program_runs(tmp_path: Path) -> None:
    async def play() -> None:
        cluster, stop = await served(), asyncio.Event()
        lines: list[str] = []
        await add_model(cluster, tmp_path)
        await submit(cluster, "early")
        running = asyncio.create_task(analyse_watched(analyser(cluster, lines), None, stop))
        await until(lambda: len(lines) == 1)
        await submit(cluster, "late")
        await until(lambda: len(lines) == 2)
        assert await named(cluster, "late") == await named(cluster, "early") != ""
        stop.set()
        await running

    asyncio.run(play())


async def until(condition: Callable[[], bool]) -> None:
    async with timeout(30):
        while not condition():
            await asyncio.sleep(0.01)
