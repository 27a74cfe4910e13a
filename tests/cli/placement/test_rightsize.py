"""`fairlead rightsize`: documents and exit codes, and a size that is written to a real Deployment."""

import asyncio
import json
import os
import pty
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairlead.cli.main import build_parser
from fairlead.cli.placement.rightsize import WINDOW
from fairlead.cluster.kinds import PODS, Kind
from fairlead.rightsize.owners import OWNERS
from fairlead.rightsize.report import AdviceOptions
from fairlead.units import parse_duration
from tests.cli.examples import Run
from tests.labs import RealCluster
from tests.rightsize.worlds import container, everything, pod

GIB = 1 << 30
KEY = "fairlead.dev/gpu-mem"
HASH = {"pod-template-hash": "5d4f"}
DEPLOYMENTS: Kind[Any] = OWNERS["Deployment"]
TOP = ["bound", "window_seconds", "recommendations", "unmatched_series", "saving"]
ROW = [
    "namespace",
    "kind",
    "workload",
    "container",
    "pods",
    "accelerators_per_pod",
    "request",
    "requested_bytes",
    "samples",
    "peak_bytes",
    "p99_bytes",
    "mean_bytes",
    "busy_ratio",
    "recommended_bytes",
    "risk_per_day",
    "saving_bytes",
    "saving_accelerators",
    "verdict",
    "reason",
]
SAVING = ["bytes", "accelerators_requested", "accelerators_recommended", "accelerators", "packing"]


@pytest.fixture
def rightsize(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command, as a user without a history."""
    monkeypatch.setenv("FAIRLEAD_STATE", str(tmp_path / "state"))
    return partial(run, "rightsize")


def day_of(gib: float, pod_name: str = "web-5d4f-x7k2p", end: float = 86400.0) -> str:
    """Return a day of equal samples."""
    return "".join(f"{end - 86400 + at * 480},{int(gib * GIB)},shop,{pod_name},main\n" for at in range(181))


def write_series(folder: Path, *days: str) -> str:
    path = folder / "series.csv"
    path.write_text("timestamp,value,namespace,pod,container\n" + "".join(days))
    return str(path)


def write_objects(folder: Path, amount: str = "8192") -> str:
    path = folder / "objects.json"
    sized = container(**{KEY: amount})
    web = pod("web-5d4f-x7k2p", ("ReplicaSet", "web-5d4f"), sized, labels=HASH)
    path.write_text(json.dumps(everything(web, pod("train-x7k2p", ("Job", "train"), sized))))
    return str(path)


def test_the_document_is_frozen_and_the_same_in_yaml(rightsize: Run, tmp_path: Path) -> None:
    words = ("--series", write_series(tmp_path, day_of(1)), "--snapshot", write_objects(tmp_path))
    code, out, err = rightsize(*words, "-o", "json")
    document = json.loads(out)
    assert (code, err) == (1, "")
    assert list(document) == TOP
    assert list(document["saving"]) == SAVING
    assert [list(row) for row in document["recommendations"]] == [ROW, ROW]
    web, train = document["recommendations"]
    assert (web["kind"], web["workload"], web["container"]) == ("Deployment", "web", "main")
    assert (web["requested_bytes"], web["recommended_bytes"]) == (8 * GIB, 1425 << 20)
    assert (web["verdict"], train["verdict"], train["reason"]) == ("over-provisioned", "unknown", "no series")
    assert document["saving"]["accelerators_requested"] == 1
    assert yaml.safe_load(rightsize(*words, "-o", "yaml")[1]) == document


@pytest.mark.parametrize(
    ("gib", "amount", "code", "line"),
    [
        (1, "8192", 1, "over-provisioned"),
        (1, "1500", 0, "right"),
        (1, "1000", 1, "under-provisioned"),
    ],
)
def test_the_exit_code_says_whether_there_is_something_to_change(
    rightsize: Run, tmp_path: Path, gib: float, amount: str, code: int, line: str
) -> None:
    found, out, _ = rightsize(
        "--series",
        write_series(tmp_path, day_of(gib)),
        "--snapshot",
        write_objects(tmp_path, amount),
        "deploy/web",
    )
    head, row, _, summary = out.splitlines()
    assert found == code
    assert head.split()[0] == "WORKLOAD"
    assert row.split()[:2] == ["deployment", "shop/web"]
    assert line in row
    assert summary.startswith(f"{code} of 1 container should request another size")


def test_a_file_alone_needs_an_assumed_request(rightsize: Run, tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(
        "timestamp_anon,value,container_ip\n" + "".join(f"{at * 60},{GIB},aa\n" for at in range(1441))
    )
    code, out, _ = rightsize(
        "--series",
        str(path),
        "--assume-request",
        "3x",
        "--device-memory",
        "2GiB",
        "-o",
        "json",
        "--bound",
        "0.1",
    )
    (row,) = json.loads(out)["recommendations"]
    assert (code, row["workload"], row["request"]) == (1, "aa", {"form": "assumed", "key": ""})
    assert (row["requested_bytes"], row["samples"]) == (3 * GIB, 1441)
    code, out, _ = rightsize("--series", str(path), "--assume-request", "1200MiB")
    assert code == 0


def test_gaps_and_series_of_no_workload_are_counted(rightsize: Run, tmp_path: Path) -> None:
    days = (day_of(1), "86400,,shop,web-5d4f-x7k2p,gap\n", day_of(1, "other"))
    code, _, err = rightsize("--series", write_series(tmp_path, *days), "--snapshot", write_objects(tmp_path))
    assert code == 1
    assert "1 samples have no value, and do not count" in err
    assert "1 series belong to no container that requests an accelerator" in err
    words = ("--series", write_series(tmp_path, *days), "--snapshot", write_objects(tmp_path))
    assert "belong to no container" not in rightsize(*words, "-n", "other")[2], "that namespace has no series"


@pytest.mark.parametrize(
    ("words", "first", "hint"),
    [
        ((), "no series are named", "--prometheus"),
        (("--series", "x", "--bound", "2"), "--bound 2: not a probability", "0.01"),
        (("--series", "x", "--bound", "nan"), "--bound nan: not a probability", "0.01"),
        (("--series", "x", "--window", "1s"), "--window 1s: not a period from 1m to 2160h", "24h"),
        (("--series", "x", "--window", "soon"), "--window soon: not a period", "24h"),
        (("--series", "x", "--min-samples", "1"), "--min-samples 1: less than 2", "at least 2"),
        (("--series", "x.csv"), "x.csv: cannot be read: No such file or directory", "CSV"),
        (("--series", "x", "--yes"), "--dry-run and --yes go with --apply", "--apply"),
        (("--series", "x", "--apply", "--snapshot", "y"), "--apply needs the cluster itself", "--snapshot"),
        (
            ("--series", "x", "--assume-request", "1x", "--snapshot", "y"),
            "--assume-request goes with",
            "leave",
        ),
        (("--prometheus", "http://x", "--assume-request", "1x"), "--assume-request goes with", "leave"),
        (("--series", "x", "--device-memory", "1GiB"), "--device-memory goes with --assume-request", "leave"),
        (("--prometheus", "ftp://x"), "'ftp://x' is not the address of a Prometheus", "http://"),
        (("--undo", "web"), "'web' names no workload", "deployment/web"),
        (("--undo", "job/web"), "--undo job/web: fairlead changes no Job", "Deployment"),
    ],
)
def test_a_wrong_option_is_named_with_what_to_do(
    rightsize: Run, words: tuple[str, ...], first: str, hint: str
) -> None:
    code, out, err = rightsize(*words)
    assert (code, out) == (2, "")
    assert err.startswith(f"fairlead: {first}"), err
    assert hint in err.splitlines()[1]


def test_the_defaults_are_those_of_the_report() -> None:
    options = build_parser("rightsize").parse_args(["rightsize", "--series", "x"])
    usual = AdviceOptions(0.0)
    assert (float(options.bound), options.min_samples) == (usual.bound, usual.min_samples)
    assert options.window is None
    assert parse_duration(WINDOW) == usual.window


@pytest.mark.parametrize("text", ["0x", "-1x", "x", "12", "many"])
def test_a_wrong_assumption_is_refused(rightsize: Run, tmp_path: Path, text: str) -> None:
    code, _, err = rightsize("--series", write_series(tmp_path, day_of(1)), f"--assume-request={text}")
    assert code == 2
    assert "--assume-request" in err


def test_an_unknown_workload_and_a_prometheus_that_is_away(rightsize: Run, tmp_path: Path) -> None:
    words = ("--series", write_series(tmp_path, day_of(1)), "--snapshot", write_objects(tmp_path))
    code, _, err = rightsize(*words, "sts/web")
    assert (code, "no StatefulSet web requests accelerators" in err) == (2, True)
    code, _, err = rightsize("--prometheus", "http://127.0.0.1:1", "-A")
    assert (code, "127.0.0.1:1" in err) == (3, True)


def deployment(amount: str) -> dict[str, Any]:
    labels = {"app": "web"}
    sized = {"name": "main", "image": "none", "resources": {"limits": {KEY: amount, "cpu": "1"}}}
    logs = {"name": "logs", "image": "none"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [logs, sized], "schedulerName": "none"},
    }
    return {
        "metadata": {"name": "web", "annotations": {"team": "shop"}},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
    }


async def make(cluster: RealCluster) -> None:
    """Create a Deployment and, as its controller would, a pod of it; no controller runs in this lab."""
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "web-5d4f",
        "uid": "u",
        "controller": True,
    }
    metadata = {"name": "web-5d4f-x7k2p", "labels": HASH, "ownerReferences": [owner]}
    body = deployment("8192")
    async with cluster.connect() as client:
        await client.create(DEPLOYMENTS, body, cluster.namespace)
        spec = {**body["spec"]["template"]["spec"], "automountServiceAccountToken": False}
        await client.create(PODS.raw(), {"metadata": metadata, "spec": spec}, cluster.namespace)


def state(cluster: RealCluster) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the resources of the Deployment's container, and its own annotations."""

    async def read() -> dict[str, Any]:
        async with cluster.connect() as client:
            found: dict[str, Any] = (await client.get(DEPLOYMENTS, "web", cluster.namespace)).document()
            return found

    document = asyncio.run(read())
    main = [each for each in document["spec"]["template"]["spec"]["containers"] if each["name"] == "main"]
    return main[0]["resources"], document["metadata"]["annotations"]


def answer(text: str, *words: str) -> tuple[int, str]:
    """Run the command on a terminal where this answer is typed; return its exit code and its messages."""
    ours, theirs = pty.openpty()
    try:
        os.write(ours, f"{text}\n".encode())
        command = [sys.executable, "-m", "fairlead", "rightsize", *words]
        done = subprocess.run(
            command, stdin=theirs, stdout=subprocess.DEVNULL, stderr=theirs, timeout=120, check=False
        )
        return done.returncode, os.read(ours, 1 << 16).decode()
    finally:
        os.close(theirs)
        os.close(ours)


def test_a_size_is_applied_to_the_owner_and_undone(
    real_cluster: RealCluster, rightsize: Run, tmp_path: Path
) -> None:
    asyncio.run(make(real_cluster))
    before = state(real_cluster)
    day = day_of(1, end=time.time()).replace(",shop,", f",{real_cluster.namespace},")
    where = ("--kubeconfig", str(real_cluster.api.kubeconfig), "-n", real_cluster.namespace)
    words = ("--series", write_series(tmp_path, day), *where)
    code, out, err = rightsize(*words, "--apply", "--dry-run")
    assert (code, state(real_cluster)) == (1, before), err
    changed = [" ".join(line.split()) for line in out.splitlines() if line[:2] in ("+ ", "- ")]
    assert changed[1:] == [f'- {KEY}: "8192"', f'+ {KEY}: "1425"'], "after the annotation"
    code, _, err = rightsize(*words, "--apply")
    assert (code, "add --yes" in err, state(real_cluster)) == (2, True, before), "no terminal, no answer"

    code, out, err = rightsize(*words, "--apply", "--yes", "-o", "json")
    resources, annotations = state(real_cluster)
    assert code == 0, err
    assert [(each["status"], each["detail"]) for each in json.loads(out)["applied"]] == [("applied", "")]
    assert resources["limits"] == {KEY: "1425", "cpu": "1"}
    assert annotations["team"] == "shop"
    assert json.loads(annotations["fairlead.dev/rightsize-previous"])["sizes"][0]["previous"] == "8192"

    code, out, _ = rightsize(*words, "--apply", "--yes")
    assert (code, "wait until its pods are replaced" in out) == (1, True), "the pods still have the old size"
    code, shown = answer("n", "--undo", "deploy/web", *where)
    assert (code, state(real_cluster)) == (2, (resources, annotations)), shown
    assert "Their pods are restarted. [y/N]" in shown
    code, out, err = rightsize("--undo", "deploy/web", "--yes", *where)
    assert (code, state(real_cluster)) == (0, before), err
    code, out, _ = rightsize("--undo", "deploy/web", "--yes", *where)
    assert (code, "fairlead has not changed it" in out) == (1, True)
