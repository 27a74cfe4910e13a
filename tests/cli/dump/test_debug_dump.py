"""`fairlead debug-dump` of a real API server and of this machine: no planted secret, and it replays."""

import asyncio
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from fairlead.cluster.kinds import EVENTS, PODS, Kind
from tests.cli.examples import Run
from tests.cli.local.records import ledger_at, running
from tests.labs import RealCluster

PLANTED = "pl4nted-Zq9vK2mLx8"
SECRETS = Kind.of("", "v1", "secrets", namespaced=True, name="Secret")
ANNOTATION = "fairlead.dev/never-a-key"


def contents(path: Path) -> dict[str, str]:
    with tarfile.open(path) as archive:
        found = {name: archive.extractfile(name) for name in archive.getnames()}
        return {name: part.read().decode() for name, part in found.items() if part is not None}


def planted_pod(namespace: str) -> dict[str, Any]:
    container = {
        "name": "app",
        "image": "example.org/app:1",
        "command": ["run", "--token", PLANTED, f"--url=https://me:{PLANTED}@store/"],
        "env": [{"name": "MODE", "value": PLANTED}],
        "resources": {"requests": {"cpu": "1"}},
    }
    meta = {
        "name": "planted",
        "namespace": namespace,
        "labels": {"app.kubernetes.io/name": "fairlead"},
        "annotations": {"other/config": PLANTED, ANNOTATION: f"password={PLANTED}"},
    }
    return {"metadata": meta, "spec": {"containers": [container], "schedulerName": "none-of-ours"}}


async def plant(cluster: RealCluster) -> None:
    space = cluster.namespace
    async with cluster.connect() as client:
        await client.create(
            SECRETS, {"metadata": {"name": "s", "namespace": space}, "stringData": {"a": PLANTED}}
        )
        pod = await client.create(PODS, planted_pod(space))
        about = {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": space,
            "name": "planted",
            "uid": pod.metadata.uid,
        }
        event = {
            "metadata": {"name": "planted.1", "namespace": space},
            "involvedObject": about,
            "message": f"cannot pull with {PLANTED}",
            "reason": "Failed",
            "type": "Warning",
        }
        await client.create(EVENTS.raw(), event)


def test_a_dump_of_a_cluster_has_no_planted_secret_and_replays(
    run: Run, real_cluster: RealCluster, tmp_path: Path
) -> None:
    asyncio.run(plant(real_cluster))
    path = tmp_path / "dump.tar.gz"
    where = ("--kubeconfig", str(real_cluster.api.kubeconfig))
    code, out, err = run("debug-dump", "--out", str(path), *where, "-o", "json")
    assert code == 0, err
    parts = contents(path)
    assert [name for name, text in parts.items() if PLANTED in text] == []
    assert "planted" in parts["objects/pods.json"]
    assert "cannot pull with [removed]" in parts["objects/events.json"]
    assert f'"{ANNOTATION}": "password=[removed]"' in parts["objects/pods.json"]
    assert {"snapshot.json", "versions.json", "doctor.json", "objects/leases.json"} <= parts.keys()
    assert json.loads(parts["index.json"])["removed"] == json.loads(out)["removed"] > 5
    assert path.stat().st_mode & 0o777 == 0o600
    one = ("explain", "--snapshot", str(path), f"{real_cluster.namespace}/planted", "-o", "json")
    (decision,) = json.loads(run(*one)[1])
    assert (decision["name"], decision["namespace"]) == ("planted", real_cluster.namespace)
    code, out, _ = run("schedule", "--snapshot", str(path), "-o", "json")
    assert code in (0, 1)
    assert "planted" in [each["name"] for each in json.loads(out)["decisions"]]
    code, _, err = run("explain", "--snapshot", str(path), "plantd")
    assert (code, "did you mean planted?" in err) == (2, True)


def test_a_dump_of_this_machine_has_jobs_and_no_secret(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRLEAD_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("CI_JOB_TOKEN", PLANTED)
    running(ledger_at(tmp_path / "state"), name=f"train-{PLANTED}")
    path = tmp_path / "here.tar.gz"
    code, out, err = run("debug-dump", "--here", "--out", str(path))
    assert code == 0, err
    parts = contents(path)
    assert [name for name, text in parts.items() if PLANTED in text] == []
    assert {"snapshot.json", "inventory.json", "jobs.json", "doctor.json", "versions.json"} < parts.keys()
    assert "names, labels and addresses are in it" in out
    assert run("schedule", "--snapshot", str(path))[1].strip() == "no pending workloads"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--here", "--out", "/none/x.tar.gz"), "--out /none/x.tar.gz: No such file or directory"),
        (("--log-lines", "-1"), "--log-lines -1: less than 0"),
    ],
)
def test_wrong_options_are_named_before_anything_is_read(
    run: Run, words: tuple[str, ...], message: str
) -> None:
    code, _, err = run("debug-dump", *words)
    assert (code, message in err) == (2, True)
