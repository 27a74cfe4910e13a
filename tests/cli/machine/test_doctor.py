"""`fairlead doctor` as a command: its output, its exit codes, and its errors without a cluster."""

import argparse
import asyncio
import json
from pathlib import Path

import pytest

from fairlead.cli.machine import doctor
from fairlead.cluster.kinds import NODES, RESOURCE_SLICES
from fairlead.doctor.examine import CHECKS
from fairlead.doctor.finding import Finding, Severity
from fairlead.errors import ClusterUnavailableError, KubeconfigError
from tests.labs import LABEL, RealCluster

FIELDS = ["check", "verdict", "text", "todo"]


def run(*words: str) -> int:
    parser = argparse.ArgumentParser()
    doctor.add(parser.add_subparsers())
    options = parser.parse_args(["doctor", *words])
    return int(options.run(options))


def test_the_advice_is_below_its_finding() -> None:
    found = [
        Finding("api", Severity.OK, "all is well"),
        Finding("lease", Severity.FAIL, "no replica leads", "look"),
    ]
    assert str(doctor.table(found)).splitlines() == [
        "CHECK        FINDING",
        "api    ok    all is well",
        "lease  fail  no replica leads",
        "               look",
    ]


def test_a_machine_needs_no_cluster(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code = run("--here", "-o", "json", "--kubeconfig", str(tmp_path / "none"))
    found = json.loads(capsys.readouterr().out)
    of_devices = {"accelerators", "unknown", "nvml", "device-nodes", "jobs"}
    of_a_node = {"kubelet", "swap", "memory-cgroup", "clock", "kernel-modules"}
    # If a kubelet has run here, its certificate is checked too.
    assert {each["check"] for each in found} - {"certificate"} == of_devices | of_a_node
    assert all(list(each) == FIELDS for each in found)
    assert code == any(each["verdict"] == "fail" for each in found)


def test_an_unavailable_cluster_and_a_missing_kubeconfig(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError):
        run("--kubeconfig", str(tmp_path))
    config = tmp_path / "config"
    config.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\n"
        "clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}]\n"
        "contexts: [{name: a, context: {cluster: a, user: a}}]\nusers: [{name: a, user: {}}]\n"
    )
    with pytest.raises(ClusterUnavailableError):
        run("--kubeconfig", str(config))


def test_a_real_cluster(real_cluster: RealCluster, capsys: pytest.CaptureFixture[str]) -> None:
    async def create_a_slice_without_a_node() -> None:
        gone = f"{real_cluster.namespace}-gone"
        pool = {"name": gone, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "fairlead.dev", "nodeName": gone, "pool": pool, "devices": [{"name": "gpu"}]}
        meta = {"name": gone, "labels": {LABEL: real_cluster.namespace}}
        async with real_cluster.connect() as client:
            await client.create(NODES, {"metadata": {"name": f"{gone}-not", "labels": meta["labels"]}})
            await client.create(RESOURCE_SLICES.raw(), {"metadata": meta, "spec": spec})

    async def clean() -> None:
        async with real_cluster.connect() as client:
            await client.delete_collection(RESOURCE_SLICES, labels=f"{LABEL}={real_cluster.namespace}")

    asyncio.run(create_a_slice_without_a_node())
    try:
        run(
            "--kubeconfig",
            str(real_cluster.api.kubeconfig),
            "--scheduler",
            real_cluster.namespace,
            "-o",
            "json",
        )
    finally:
        asyncio.run(clean())
    found = json.loads(capsys.readouterr().out)
    assert list(dict.fromkeys(each["check"] for each in found)) == [check.name for check in CHECKS]
    findings = {each["check"]: each for each in found}
    assert findings["api"]["verdict"] == findings["clock"]["verdict"] == "ok"
    assert f"{real_cluster.namespace}-gone" in json.dumps(found)
    assert findings["slices"]["verdict"] == "warn"
