"""`fairlead snapshot` of a real API server: it contains what decides a placement, and nothing else."""

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from fairlead.cluster.kinds import NODES, PODS, RESOURCE_SLICES
from tests.labs import LABEL, RealCluster

RUN = (sys.executable, "-c", "from fairlead.cli.main import run; run()")
SECRET = "hunter2-in-the-environment"


def fairlead(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*RUN, *words], capture_output=True, text=True, timeout=300, check=False)


def pod(cluster: RealCluster, name: str, node: str) -> dict[str, Any]:
    """Return a pod that requests 2 GiB of a GPU and has a secret."""
    container = {
        "name": "main",
        "image": "registry.example/secret-image",
        "resources": {"limits": {"fairlead.dev/gpu-mem": "2048"}},
        "env": [{"name": "PASSWORD", "value": SECRET}],
    }
    spec = {"containers": [container], "schedulerName": "none", "automountServiceAccountToken": False}
    return {
        "metadata": {"name": name, "namespace": cluster.namespace, "annotations": {"note": SECRET}},
        "spec": {**spec, **({"nodeName": node} if node else {"nodeSelector": {LABEL: cluster.namespace}})},
    }


def slice_of(cluster: RealCluster, node: str) -> dict[str, Any]:
    device = {
        "name": "pci-0000-3b-00-0",
        "attributes": {
            "model": {"string": "t4"},
            "vendor": {"string": "NVIDIA"},
            "shareable": {"bool": True},
        },
        "capacity": {"memory": {"value": "15Gi"}},
    }
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    return {
        "metadata": {"name": f"{node}-fairlead-0", "labels": {LABEL: cluster.namespace}},
        "spec": {"driver": "fairlead.dev", "nodeName": node, "pool": pool, "devices": [device]},
    }


async def make(cluster: RealCluster, node: str) -> None:
    """Create a node with a GPU, a pod on it, and a pending pod."""
    has = {"cpu": "8", "memory": "16Gi", "pods": "110", "fairlead.dev/gpu-mem": "15360"}
    async with cluster.connect() as client:
        await client.create(NODES, {"metadata": {"name": node, "labels": {LABEL: cluster.namespace}}})
        await client.patch_status(NODES, node, {"status": {"capacity": has, "allocatable": has}})
        await client.create(RESOURCE_SLICES.raw(), slice_of(cluster, node))
        for name, where in (("runs", node), ("waits", "")):
            await client.create(PODS.raw(), pod(cluster, name, where), cluster.namespace)


def test_schedule_reads_a_snapshot(real_cluster: RealCluster, tmp_path: Path) -> None:
    node = f"{real_cluster.namespace}-gpu"
    asyncio.run(make(real_cluster, node))
    file = tmp_path / "cluster.json"
    done = fairlead("snapshot", "--kubeconfig", str(real_cluster.api.kubeconfig), "--out", str(file))
    assert done.returncode == 0, done.stderr
    # Other tests have nodes on the same server.
    assert re.search(r"\b[1-9][0-9]* accelerators?", done.stderr), done.stderr
    text = file.read_text()
    assert SECRET not in text
    assert "secret-image" not in text
    document = json.loads(text)
    (mine,) = [each for each in document["nodes"] if each["name"] == node]
    assert mine["devices"][0]["model"] == "t4"
    (runs,) = [each for each in document["pods"] if each["namespace"] == real_cluster.namespace]
    assert runs["shares"] == [{"device": "pci-0000-3b-00-0", "memory_bytes": 2 << 30}]
    asked = fairlead("schedule", "--cluster", str(file), "-o", "yaml")
    decisions = yaml.safe_load(asked.stdout)["decisions"]
    (waits,) = [decision for decision in decisions if decision["namespace"] == real_cluster.namespace]
    # The node has no kubelet, and the server taints it: the refusal names the taint.
    assert "node.kubernetes.io/not-ready" in waits["sentence"]


def test_the_table(real_cluster: RealCluster) -> None:
    node = f"{real_cluster.namespace}-gpu"
    asyncio.run(make(real_cluster, node))
    out = fairlead("snapshot", "--kubeconfig", str(real_cluster.api.kubeconfig), "-o", "table").stdout
    (row,) = [line.split() for line in out.splitlines() if line.startswith(node)]
    assert row[1:] == ["8", "16", "GiB", "1", "x", "t4", "15", "GiB", "1"]


def test_a_missing_kubeconfig_is_reported(tmp_path: Path) -> None:
    done = fairlead("snapshot", "--kubeconfig", str(tmp_path / "none"))
    assert done.returncode == 2
    assert done.stderr.startswith("fairlead: ")
