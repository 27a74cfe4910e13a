"""`fairlead retract`: everything that agents published is removed, and nothing else."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from fairlead.cli.cluster.retract import empty_resources
from fairlead.cli.main import main
from fairlead.cluster.client import Client
from fairlead.cluster.kinds import NODES, RESOURCE_SLICES
from fairlead.keys import ALLOCATED, PUBLISHED, RETRACTING
from tests.labs import LABEL, RealCluster


def test_nothing_is_removed_without_yes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["retract"]) == 2
    error = capsys.readouterr().err
    assert "--dry-run" in error
    assert "--yes" in error


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["--force"], "--dry-run"),
        (["--force", "--yes", "some-node"], "leave the names of nodes out"),
        (["--check", "some-node"], "leave the names of nodes out"),
        (["--check", "--wait", "soon"], "--wait soon: not a duration"),
    ],
)
def test_an_invalid_command_releases_nothing(
    words: list[str], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["retract", *words]) == 2
    assert hint in capsys.readouterr().err


@pytest.mark.parametrize(
    ("amounts", "empty"),
    [
        ({"cpu": "0", "fairlead.dev/t4": "0", "fairlead.dev/gpu-mem": "8"}, {"fairlead.dev/t4"}),
        ({"nvidia.com/gpu": "0"}, set()),
    ],
)
def test_only_empty_resources_of_fairlead_are_removed(amounts: dict[str, str], empty: set[str]) -> None:
    assert empty_resources(amounts) == empty


def test_everything_published_is_removed_and_nothing_else(
    real_cluster: RealCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    name = real_cluster.namespace
    asyncio.run(_publish(real_cluster))
    where = ["--kubeconfig", str(real_cluster.api.kubeconfig), name, "-o", "json"]
    gone = [{"node": name, "labels": 1, "annotations": 2, "resources": 1, "slices": 1}]
    assert main(["retract", "--dry-run", *where]) == 0
    assert json.loads(capsys.readouterr().out) == gone
    assert main(["retract", "--yes", *where]) == 0
    assert json.loads(capsys.readouterr().out) == gone
    left = asyncio.run(_remaining(real_cluster))
    assert left == {
        "labels": {LABEL: name, "zone": "a", "fairlead.dev/pool": "mine"},
        "annotations": {"note": "b"},
        "capacity": {"cpu": "4", "fairlead.dev/t4": "1"},
        "slices": [],
        "taints": {"mine"},
    }
    assert main(["retract", "--yes", *where]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_an_unknown_node_is_named(real_cluster: RealCluster, capsys: pytest.CaptureFixture[str]) -> None:
    where: Path = real_cluster.api.kubeconfig
    assert main(["retract", "--dry-run", "--kubeconfig", str(where), "no-such-node"]) == 1
    assert "no-such-node" in capsys.readouterr().err


async def _publish(real: RealCluster) -> None:
    name = real.namespace
    labels = {LABEL: name, "zone": "a", "fairlead.dev/pool": "mine", "fairlead.dev/arch": "arm64"}
    annotations = {"note": "b", PUBLISHED: "fairlead.dev/arch,fairlead.dev/gone", ALLOCATED: "{}"}
    amounts = {"cpu": "4", "fairlead.dev/t4": "1", "fairlead.dev/gpu-mem": "0"}
    async with real.connect() as client:
        meta = {"name": name, "labels": labels, "annotations": annotations}
        taints = [{"key": key, "effect": "NoSchedule"} for key in ("mine", RETRACTING)]
        await client.create(NODES, {"metadata": meta, "spec": {"taints": taints}})
        await client.patch_status(NODES, name, {"status": {"capacity": amounts, "allocatable": amounts}})
        spec = {
            "driver": "fairlead.dev",
            "nodeName": name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": [],
        }
        await client.create(RESOURCE_SLICES.raw(), {"metadata": {"name": f"{name}-0"}, "spec": spec})


async def _remaining(real: RealCluster) -> dict[str, Any]:
    async with Client.connect(real.config) as client:
        node = await client.get(NODES, real.namespace)
        slices = await client.list(RESOURCE_SLICES, fields=f"spec.nodeName={real.namespace}")
    ours = {key: value for key, value in node.metadata.annotations.items() if "kubernetes.io" not in key}
    labels = {key: value for key, value in node.metadata.labels.items() if "kubernetes.io" not in key}
    capacity = dict(node.status.capacity)
    taints = {taint.key for taint in node.spec.taints if "kubernetes.io" not in taint.key}
    return {
        "labels": labels,
        "annotations": ours,
        "capacity": capacity,
        "slices": list(slices.items),
        "taints": taints,
    }
